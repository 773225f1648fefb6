"""A regression with Gaussian outcomes, whose standard deviation is a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.once import once
from tallbayes.data.timing import Phases
from tallbayes.gaussian.fit import GaussianFit
from tallbayes.gaussian.kernel import GaussianKernel
from tallbayes.gaussian.sums import LOST, Sums, check_errors
from tallbayes.groups.scale import HalfNormal, ScalePrior, check_scale, given_scale_prior
from tallbayes.models.cautions import warn_of_pull
from tallbayes.models.collinear import refuse_collinear
from tallbayes.models.glm import GLM
from tallbayes.models.model import Result, Sampled, Variables
from tallbayes.models.per_row import Regression
from tallbayes.models.priors import GivenPrior, rounded
from tallbayes.rows.calibration import by_predictor
from tallbayes.sampling.seeds import Seed

Array = NDArray[np.float64]

SD_SCALE = 5.0  # of the default prior of the errors' sd, in sds of the outcomes


@dataclass(frozen=True)
class GaussianSetup:
    """Makes the one kernel that there is for Gaussian outcomes; see `sampling/setup.py`."""

    model: GaussianModel
    seed: Seed
    phases: Phases

    def auto(self) -> GaussianKernel:
        """Sums instead of rows."""
        model = self.model
        refuse_collinear(model.coefficients, model.moments.largest, model.first.at_zero.curvature[0])
        with self.phases("mode"):
            sums = model.sums
        check_errors(-2 * float(model.first.at_zero.value[0]), sums.residual, sums.weight, len(model.coefficients))
        variance = max(sums.residual / max(sums.weight, 1.0), np.finfo(float).tiny)
        warn_of_pull(model.coefficients, sums.curvature / variance, model.prior.gradient(sums.least), [])
        return GaussianKernel(model)

    def thinned(self) -> NoReturn:
        """Refuse."""
        _refuse("thinned")

    def metropolis(self, proposal: str | None) -> NoReturn:
        """Refuse."""
        _refuse("mh")

    def two_stage(self, surrogate: Any, proposal: str | None, subchain: int | None) -> NoReturn:
        """Refuse."""
        _refuse("two-stage")

    def subsampling(self, estimator: Any) -> NoReturn:
        """Refuse."""
        _refuse("subsampling")

    def consensus(self, how: Any) -> NoReturn:
        """Refuse."""
        _refuse("consensus")


def _refuse(method: str) -> NoReturn:
    raise ValueError(
        f"method={method!r} is not for Gaussian outcomes, which need no rows once these are summed up; leave it out"
    )


class GaussianModel(GLM):
    """A regression of an outcome with Normal errors on the columns of a formula; arguments are those of `tb.GLM`.

    `sd_prior` is that of the errors' standard deviation: half-Normal with five times the sd of the outcomes, unless
    given.

    >>> model = GaussianModel("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0.1, 1.2, 1.9, 3.1]})
    >>> model.sums.least.round(2)
    array([0.12, 0.97])
    """

    gaussian = True
    setup: Any = GaussianSetup

    def __init__(self, formula: Any, data: Any, prior: Any = None, sd_prior: Any = None, **given: Any):
        super().__init__(formula, data, "gaussian", prior, **given)
        self.sd_prior = self._chosen(sd_prior)

    @classmethod
    def from_arrays(  # type: ignore[override]
        cls,
        X: ArrayLike,
        y: ArrayLike,
        prior: GivenPrior | None = None,
        sd_prior: ScalePrior | None = None,
        *,
        coefficients: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        collinear: str = "refuse",
    ) -> GaussianModel:
        """The model of a design matrix X (rows, columns) that you made yourself, intercept included.

        >>> GaussianModel.from_arrays([[1.0], [1.0], [1.0]], [3.0, 4.0, 6.0]).names
        ('x0', 'sd')
        """
        self = cls.__new__(cls)
        self._from_arrays(X, y, "gaussian", prior, coefficients, weights, offset, collinear=collinear)
        self.sd_prior = self._chosen(sd_prior)
        return self

    def _chosen(self, sd_prior: ScalePrior | str | None) -> ScalePrior:
        """The prior of the sd that was given, or the usual one."""
        chosen = given_scale_prior("sd_prior", sd_prior) or self._usual_sd_prior
        check_scale("sd_prior", chosen, self._outcome_scale[1])
        return chosen

    @property
    def _usual_sd_prior(self) -> ScalePrior:
        """On the scale of the outcomes."""
        return HalfNormal(SD_SCALE * self._outcome_scale[1])

    @once
    def sums(self) -> Sums:
        """All that the rows say: from the first pass, and another one if large outcomes would cost residuals digits."""
        weight, at_zero = self.rows.total_weight, self.first.at_zero
        found = Sums.at(np.zeros(len(self.coefficients)), weight, at_zero)
        if -2 * float(at_zero.value[0]) > LOST * found.residual:
            found = Sums.at(found.least, weight, self.derivatives(found.least))
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that is sampled, in the order of a parameter vector."""
        return (*super().names, "sd")

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""
        return self.rows.width + 1

    def described_prior(self) -> dict[str, str]:
        """The prior of each parameter in words, by its name."""
        (value,) = vars(self.sd_prior).values()
        return super().described_prior() | {"sd": f"{type(self.sd_prior).__name__}({rounded(value)})"}

    @property
    def default_priors(self) -> list[str]:
        """See `GLM.default_priors`."""
        return [*super().default_priors, *(["sd"] if self.sd_prior == self._usual_sd_prior else [])]

    def variables(self, theta: Array) -> Variables:
        """Posterior variables and their coordinates, from draws (chain, draw, parameter)."""
        found, coordinates = super().variables(theta[..., :-1])
        return found | {"sd": (("chain", "draw"), theta[..., -1])}, coordinates

    def per_row(self, drawn: Mapping[str, Array]) -> Regression:
        """See `GLM.per_row`."""
        return replace(super().per_row(drawn), sd=drawn["sd"])

    def result(self, run: Sampled) -> Result:
        """The draws by name, predictions held against outcomes, and what is needed to predict."""
        with run.phases("calibration"):
            theta = run.theta[..., :-1].mean((0, 1))
            cells = by_predictor(self.rows, theta, look=self.first.look, farthest=np.inf)
            return self._result(GaussianFit.kind, run, cells)
