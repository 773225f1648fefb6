"""Positive outcomes with the log link: Gamma with mean e^eta and a given shape; a shape of 1 is exponential.

The variance is mean^2 / shape, and the log-likelihood  -shape (eta + y e^-eta)  and a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tallbayes.data.options import check_number
from tallbayes.families.checks import Check, Positive
from tallbayes.families.expressed import Expressed
from tallbayes.families.usual import Usual

Array = NDArray[np.float64]

SHAPES = (1e-9, 1e9)  # a row says nothing below, and fixes its mean to nine digits above


@dataclass(frozen=True)
class Gamma(Usual):
    """Positive outcomes with mean e^eta and variance mean^2 / shape; by default the shape is 1, which is exponential.

    >>> Gamma(4.0).variance(np.array([2.0]))
    array([1.])
    """

    shape: float = 1.0
    name: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        check_number("shape", self.shape, above=0, size=SHAPES)
        object.__setattr__(self, "shape", float(self.shape))

    @property
    def tag(self) -> Expressed:
        """The log-likelihood of a row."""
        return Expressed("-shape * (eta + y * exp(-eta))", (("shape", self.shape),))

    def checking(self, name: str) -> Check:
        """A check of outcomes of this name, which refuses those that this family cannot have."""
        return Positive(name)

    def mean(self, eta: Array) -> Array:
        """Expected outcome."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(eta))

    def variance(self, mean: Array) -> Array:
        """Variance of an outcome with this mean."""
        return mean**2 / self.shape

    def constant(self, y: Array) -> Array:
        """What the log-likelihood of outcomes y leaves out, since it does not depend on the linear predictor."""
        shape = self.shape
        return np.asarray(shape * np.log(shape) + (shape - 1) * np.log(y) - gammaln(shape))

    def simulate(self, rng: np.random.Generator, eta: Array, trials: Array | None = None) -> Array:
        """Draw outcomes."""
        return rng.gamma(self.shape, self.mean(eta) / self.shape)
