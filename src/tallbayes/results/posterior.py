"""What every fit is made of: draws, their names, the story of the run, and enough of the model to predict; no rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.once import once
from tallbayes.families import Bernoulli, Family
from tallbayes.models.model import Result
from tallbayes.models.side_by_side import Parameters
from tallbayes.results.datasets import Given, dataset, sizes
from tallbayes.rows.calibration import Calibration
from tallbayes.sampling import diagnostics
from tallbayes.sampling.diagnostics import Diagnostics

if TYPE_CHECKING:
    import xarray as xr

    from tallbayes.results.fit import Fit
    from tallbayes.results.more import Origin
    from tallbayes.sampling.journal import Standing

Array = NDArray[np.float64]

BERNOULLI = Bernoulli()
DRAWS = {"posterior": "posterior", "sample_stats": "sample_stats"}  # the datasets of every fit


class Posterior:
    """Draws of a posterior, and where they come from; `Fit` has all that is asked of them."""

    kind: ClassVar[str] = "regression"
    datasets: ClassVar[dict[str, str]] = DRAWS  # by argument, their names in a file
    called: ClassVar[str] = "coefficient"  # what its parameters are called
    group: str | None = None  # the column g of a group term (1 | g)
    groups: xr.Dataset | None = None  # what is known of each group, if there are any
    standing: Standing | None = None  # where its chains have stopped
    origin: Origin | None = None  # how it was made
    continued: bytes | None = None  # both as a file has them, where it was loaded (`continuation.py`)

    posterior: xr.Dataset = dataset()
    sample_stats: xr.Dataset = dataset()

    def __init__(
        self,
        *,
        posterior: Given,
        sample_stats: Given,
        stats: dict[str, Any],
        formula: Formula | None = None,
        family: Family = BERNOULLI,
        offset: str | None = None,
        has_offset: bool = False,
        calibration: Calibration | None = None,
        prior: dict[str, str] | None = None,
    ) -> None:
        lengths = sizes(posterior)
        if lengths["chain"] * lengths["draw"] == 0:
            raise ValueError("a fit needs at least one draw, but the posterior has none")
        self.posterior, self.sample_stats = posterior, sample_stats
        self.stats = stats
        self.formula = formula
        self.family = family
        self.offset = offset
        self.has_offset = has_offset or offset is not None
        self.prior = prior or {}
        self._calibration = calibration

    @classmethod
    def of(cls, result: Result) -> Self:
        """Make a fit of what a model returns."""
        variables, coordinates = result.posterior
        axes = ("chain", "draw")
        shape = np.shape(next(iter(variables.values()))[1])
        index = {axis: np.arange(size) for axis, size in zip(axes, shape, strict=False)}
        known = {name: (axes, values) for name, values in result.sample_stats.items()}
        draws: dict[str, Given] = {"posterior": (variables, index | coordinates), "sample_stats": (known, index)}
        self = cls(**draws, stats=result.stats, **result.others)
        if result.diagnostics is not None:
            self._diagnostics = result.diagnostics  # takes the place of what would be computed
        return self

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(str(name) for name in self.posterior["coefficient"].values)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters, in the order of `draws`.

        >>> from tallbayes.results.example import example
        >>> example().parameters
        ('Intercept', 'fico')
        """
        return self.coefficients

    @property
    def main_parameters(self) -> tuple[str, ...]:
        """The parameters that are shown where all would be too many."""
        return self.parameters

    @property
    def draws(self) -> Array:
        """All parameters as an array of shape (chain, draw, parameter)."""
        return np.ascontiguousarray(self._draws)

    @property
    def _draws(self) -> Parameters:
        """All parameters as the posterior has them: no copy of thousands of group effects is made."""
        return self._values("beta", "coefficient")

    def _values(self, name: str, *axis: str) -> Array:
        return np.asarray(self.posterior[name].transpose("chain", "draw", *axis).values)

    @property
    def minutes(self) -> float:
        """Minutes of sampling, without set-up and warm-up."""
        return float(self.stats["seconds"]["sampling"]) / 60

    @once
    def _diagnostics(self) -> Diagnostics:
        """Computed when first asked for, unless the run has looked at them."""
        return diagnostics.diagnose(self._draws)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: all but the user's data."""
        origin = self.origin
        return vars(self) | ({} if origin is None else {"origin": replace(origin, given={})})

    @property
    def _whole(self) -> Fit:
        """This fit: there are no others than `Fit` and what it is made of."""
        return cast("Fit", self)
