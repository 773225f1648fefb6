"""Counts that vary more than Poisson counts: negative binomial with mean exposure * e^eta and a given shape.

The variance is mean + mean^2 / shape, and the log-likelihood  y eta - (y + shape) log(shape + e^eta)  and a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tallbayes.data.options import check_number
from tallbayes.families.checks import Check, Counts
from tallbayes.families.exposure import Exposed
from tallbayes.families.expressed import Expressed

Array = NDArray[np.float64]

# Beyond the largest, counts are Poisson to many digits, and (y + shape) log(shape + e^eta) loses those that matter.
SHAPES = (1e-9, 1e9)


@dataclass(frozen=True)
class NegativeBinomial(Exposed):
    """Counts with mean exposure * e^eta and variance mean + mean^2 / shape; `exposure` is a column's name, or None.

    >>> NegativeBinomial(2.0).variance(np.array([1.0, 4.0]))
    array([ 1.5, 12. ])
    """

    shape: float
    exposure: str | None = None
    name: ClassVar[str] = "negative_binomial"

    def __post_init__(self) -> None:
        check_number("shape", self.shape, above=0, size=SHAPES)
        object.__setattr__(self, "shape", float(self.shape))
        self.check_exposure()

    @property
    def tag(self) -> Expressed:
        """The log-likelihood of a row."""
        return Expressed("y * eta - (y + shape) * log(shape + exp(eta))", (("shape", self.shape),))

    def checking(self, name: str) -> Check:
        """A check of outcomes of this name, which refuses those that this family cannot have."""
        return Counts(name)

    def mean(self, eta: Array) -> Array:
        """Expected count."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(eta))

    def variance(self, mean: Array) -> Array:
        """Variance of a count with this mean."""
        return mean + mean**2 / self.shape

    def constant(self, y: Array) -> Array:
        """What the log-likelihood of outcomes y leaves out, since it does not depend on the linear predictor."""
        shape = self.shape
        return np.asarray(gammaln(y + shape) - gammaln(shape) - gammaln(y + 1) + shape * np.log(shape))

    def simulate(self, rng: np.random.Generator, eta: Array, trials: Array | None = None) -> Array:
        """Draw outcomes."""
        return rng.poisson(self.mean(eta) * rng.gamma(self.shape, 1 / self.shape, np.shape(eta))).astype(float)
