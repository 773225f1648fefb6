"""Priors of single parameters that regressions have no use for; others are in `models/priors.py`, `groups/scale.py`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_number
from tallbayes.models.priors import SIZES

Array = NDArray[np.float64]


class ParameterPrior(Protocol):
    """A density of one number."""

    @property
    def support(self) -> tuple[float, float]:
        """Between which ends it is positive."""

    def log_density(self, at: Array) -> Array:
        """Log density of each number inside these ends."""


@dataclass(frozen=True)
class LogNormal:
    """Prior of a positive parameter whose logarithm is Normal.

    >>> LogNormal(0, 1).log_density(np.array([1.0])).round(2)
    array([-0.92])
    """

    mean: float = 0.0
    sd: float = 1.0
    support: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def __post_init__(self) -> None:
        check_number("the mean of a LogNormal prior", self.mean, size=SIZES)
        check_number("the sd of a LogNormal prior", self.sd, above=0, size=SIZES)

    def log_density(self, at: Array) -> Array:
        """Log density at positive numbers."""
        log = np.log(at)
        z = (log - self.mean) / self.sd
        return np.asarray(-0.5 * z * z - log - math.log(self.sd) - 0.5 * math.log(2 * math.pi))


@dataclass(frozen=True)
class Uniform:
    """Prior of a parameter between two ends, where all values are equally likely.

    >>> Uniform(0, 4).log_density(np.array([1.0])).round(2)
    array([-1.39])
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        check_number("the lower end of a Uniform prior", self.low, size=SIZES)
        check_number("the upper end of a Uniform prior", self.high, size=SIZES)
        if not self.low < self.high:
            raise ValueError(f"a Uniform prior needs two ends, the lower one first, not {self.low}, {self.high}")

    @property
    def support(self) -> tuple[float, float]:
        """See `ParameterPrior`."""
        return self.low, self.high

    def log_density(self, at: Array) -> Array:
        """Log density between the ends."""
        return np.full(np.shape(at), -math.log(self.high - self.low))
