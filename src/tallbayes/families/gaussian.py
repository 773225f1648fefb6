"""Outcomes with Normal errors, whose standard deviation is estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.checks import Check, Numbers
from tallbayes.families.expressed import LEAST_SQUARES, Expressed
from tallbayes.families.usual import Usual

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Gaussian(Usual):
    """Outcomes with mean eta and Normal errors of one standard deviation, which is estimated too.

    >>> Gaussian().mean(np.array([1.5]))
    array([1.5])
    """

    name: ClassVar[str] = "gaussian"
    location: ClassVar[bool] = True
    signed: ClassVar[bool] = True

    @property
    def tag(self) -> Expressed:
        """The log-likelihood of a row, were the standard deviation one."""
        return LEAST_SQUARES

    def checking(self, name: str) -> Check:
        """A check of outcomes of this name, which refuses those that this family cannot have."""
        return Numbers(name)

    def mean(self, eta: Array) -> Array:
        """Expected outcome."""
        return np.asarray(eta, dtype=float)

    def variance(self, mean: Array) -> None:
        """Unknown: the mean does not determine it."""

    def simulate(self, rng: np.random.Generator, eta: Array, trials: Array | None = None) -> Array:
        """Draw outcomes, were the standard deviation one."""
        return rng.normal(eta)
