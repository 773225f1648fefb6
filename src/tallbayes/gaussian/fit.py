"""The posterior of a Gaussian regression, and predictions with and without noise."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tallbayes.data.pieces import Source
from tallbayes.gaussian.expected import GaussianDraws
from tallbayes.models.side_by_side import SideBySide
from tallbayes.results.expected import Draws
from tallbayes.results.fit import Fit
from tallbayes.results.predict import Effects

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


class GaussianFit(Fit):
    """A posterior sample of a regression with Normal errors: coefficients, and `sd`, the errors' standard deviation."""

    kind: ClassVar[str] = "gaussian"
    _noisy = False  # whether predictions are of new outcomes

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters: the coefficients, and the errors' sd."""
        return (*self.coefficients, "sd")

    @property
    def _draws(self) -> SideBySide:
        return SideBySide(self._values("beta", "coefficient"), self._values("sd")[..., None])

    def predict(
        self,
        new_data: Any,
        offset: ArrayLike | None = None,
        draws: int = 300,
        interval: float = 0.94,
        seed: int = 0,
        noise: bool = False,
    ) -> pd.DataFrame:
        """Posterior mean and interval of each row's expected outcome; with `noise`, the interval of a new outcome.

        See `Fit.predict` for the other arguments.
        """
        return Fit.predict(self._with(noise), new_data, offset, draws, interval, seed)

    def predict_to(
        self,
        new_data: Any,
        target: str | os.PathLike[str] | IO[bytes],
        keep: Sequence[str] = (),
        *,
        noise: bool = False,
        **how: Any,
    ) -> int:
        """Write what `predict` gives to a file; see `Fit.predict_to` for the other arguments."""
        return Fit.predict_to(self._with(noise), new_data, target, keep, **how)

    def _with(self, noise: bool) -> Self:
        """The same fit, which predicts new outcomes instead of expected ones."""
        fit = copy(self)
        fit._noisy = noise
        return fit

    def _some(self, draws: int, seed: int) -> Draws:
        return GaussianDraws(super()._some(draws, seed), np.concatenate(self._values("sd")[:, self._kept(draws)]))

    def _effects_of(self, chosen: NDArray[np.intp], seed: int) -> Callable[[Source], Effects] | None:
        effects = super()._effects_of(chosen, seed)
        if not self._noisy:
            return effects
        sd = self._values("sd")
        errors = errors_of(sd[divmod(chosen, sd.shape[1])], seed)
        return lambda source: Noise(errors, None if effects is None else effects(source))


def errors_of(sd: Array, seed: int) -> Array:
    """Errors of new outcomes, one for each draw of their sd.

    >>> errors_of(np.array([1.0, 1.0, 1.0]), 1).round(2)
    array([-0.97,  0.  ,  0.97])
    """
    errors = ndtri((np.arange(sd.size) + 0.5) / sd.size)  # evenly, so that few draws are enough
    return np.asarray(sd * np.random.default_rng(seed).permutation(errors))


class Noise:
    """Errors of new outcomes, one for each draw, on top of other effects if there are any; see `Effects`."""

    def __init__(self, errors: Array, effects: Effects | None) -> None:
        self._errors, self._effects = errors, effects

    def order(self, rows: int) -> NDArray[np.intp]:
        """See `Effects`."""
        return np.arange(rows) if self._effects is None else self._effects.order(rows)

    def of(self, rows: NDArray[np.intp]) -> Array:
        """See `Effects`."""
        if self._effects is None:
            return np.broadcast_to(self._errors, (rows.size, self._errors.size))
        return self._effects.of(rows) + self._errors
