"""The fit of a regression with a group term."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.pieces import Source
from tallbayes.groups.expected import GroupedCentre, GroupedDraws
from tallbayes.groups.predict import GroupEffects, NewGroups
from tallbayes.models.side_by_side import SideBySide
from tallbayes.results.datasets import Given, dataset
from tallbayes.results.expected import Centre, Draws, posterior_mean
from tallbayes.results.fit import Fit
from tallbayes.results.posterior import DRAWS
from tallbayes.results.predict import Effects

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

SHOWN = 20  # groups in a printed fit


class HierarchicalFit(Fit):
    """A posterior sample of a `Hierarchical` model, with a group term such as (1 | bank).

    The posterior also holds the effects `1|bank` (chain, draw, bank) and their standard deviation `1|bank_sigma`
    (chain, draw), and `groups` says of each bank its number of `rows`, the mean `outcome`, and the effect that its rows
    `alone` would give (NaN or infinite where they give none).

    >>> from tallbayes.groups.example import group_example
    >>> fit = group_example(3)
    >>> list(fit.posterior), fit.group
    (['beta', '1|bank', '1|bank_sigma'], 'bank')
    >>> fit.parameters
    ('Intercept', 'fico', '1|bank_sigma', '1|bank[b01]', '1|bank[b02]', '1|bank[b03]')
    >>> fit.predict({"fico": [0.0, 0.0], "bank": ["b01", "never seen"]}).shape
    (2, 3)
    >>> "constant_data" in fit.to_arviz()
    True
    """

    kind: ClassVar[str] = "hierarchical"
    datasets: ClassVar[dict[str, str]] = DRAWS | {"groups": "constant_data"}

    groups: xr.Dataset = dataset()

    def __init__(self, *, groups: Given, **parts: Any) -> None:
        super().__init__(**parts)
        self.groups = groups

    @property
    def group(self) -> str:  # type: ignore[override]
        """The column g of the group term (1 | g)."""
        return next(str(axis) for axis in self.posterior.dims if f"1|{axis}" in self.posterior)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters: the coefficients, then sd and effects of the groups."""
        levels = self.posterior[self.group].values.tolist()
        return (*self.main_parameters, *(f"1|{self.group}[{level}]" for level in levels))

    @property
    def main_parameters(self) -> tuple[str, ...]:
        """The coefficients and the sd of the groups."""
        return (*self.coefficients, f"1|{self.group}_sigma")

    @property
    def _draws(self) -> SideBySide:
        sigma, effects = self._drawn()
        return SideBySide(self._values("beta", "coefficient"), sigma[..., None], effects)

    def _drawn(self) -> tuple[Array, Array]:
        """Draws of the sd (chain, draw), and of the effects (chain, draw, group)."""
        return self._values(f"1|{self.group}_sigma"), self._values(f"1|{self.group}", self.group)

    def _effects_of(self, chosen: NDArray[np.intp], seed: int) -> Callable[[Source], Effects] | None:
        assert self.formula is not None
        sigma, theta = (values[divmod(chosen, values.shape[1])] for values in self._drawn())
        return partial(GroupEffects, self.formula, theta, NewGroups(sigma, seed))

    def _centre(self, offset: float | None) -> Centre:
        centre = super()._centre(offset)
        return GroupedCentre(**vars(centre), effects=posterior_mean(self._drawn()[1]))

    def _some(self, draws: int, seed: int) -> Draws:
        kept = self._kept(draws)
        sigma, effects = (np.concatenate(values[:, kept]) for values in self._drawn())
        effects = np.ascontiguousarray(effects.T)
        return GroupedDraws(**vars(self._linear(kept)), effects=effects, sigma=sigma, seed=seed)

    def _check(self) -> None:
        wrong = [name for name in ("rows", "outcome", "alone") if name not in self.groups]
        if wrong or self.groups.sizes.get(self.group) != self.posterior.sizes[self.group]:
            raise ValueError(f"what is known of each group of {self.group!r} does not fit the draws")

    def _pictures(self) -> dict[str, Callable[..., Figure]]:
        from tallbayes.groups.plots import caterpillar  # here, since pictures need fits

        return {"caterpillar": caterpillar}

    def _effects(self) -> list[str]:
        from tallbayes.groups.report import group_section  # here, since a report needs fits

        return [group_section(self)]

    @property
    def _shown(self) -> int:
        """Lines of the summary in a printed fit: without the groups that would make it too long to read."""
        return len(self.main_parameters) + SHOWN

    def _left_out(self) -> list[str]:
        """A line about the groups that `_rounded` does not show; none if it shows all."""
        more = self.posterior.sizes[self.group] - SHOWN
        return [f"... and {more:,} more of 1|{self.group}; fit.summary() has them all"] if more > 0 else []
