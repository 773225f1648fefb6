"""The log-likelihood of single rows by a user's own function; see `models/per_row.py`.

Nothing is known of it but its values. The points that stand for the draws are at the mean of u, in which chains move,
plus and minus k^(1/2) times each of the k columns of a root of the covariance: they have the same mean and covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.own.function import RowFunction
from tallbayes.own.parameters import Parameters
from tallbayes.rows.arrays import Arrays

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OwnRows:
    """Draws x (draw, width) of the parameters."""

    function: RowFunction
    parameters: Parameters
    x: Array

    @property
    def points(self) -> OwnPoints:
        """See `PerRow`."""
        u = self.parameters.free(self.x)
        center = u.mean(0)
        _, lengths, axes = np.linalg.svd((u - center) / len(u) ** 0.5, full_matrices=False)
        steps = lengths.size**0.5 * lengths[:, None] * axes
        return OwnPoints(self.function, self.parameters.natural(np.concatenate([center + steps, center - steps])))

    def of(self, arrays: Arrays) -> Array:
        """See `PerRow`."""
        return _values(self.function, self.x, arrays, 0, arrays.size)

    def outcomes(self, arrays: Arrays, rng: np.random.Generator) -> Array:
        """Raise an error: a log-likelihood alone cannot draw outcomes."""
        raise ValueError("a tb.Model says how likely outcomes are, not how to draw them; draw them from fit.posterior")


@dataclass(frozen=True, eq=False)
class OwnPoints:
    """Points x (point, width); see `Points`."""

    function: RowFunction
    x: Array

    @property
    def weights(self) -> Array:
        """See `Points`."""
        return np.full(len(self.x), 1 / len(self.x))

    @property
    def looks(self) -> int:
        """See `Points`."""
        return len(self.x)

    def of(self, arrays: Arrays, start: int, stop: int) -> Array:
        """See `Points`."""
        return _values(self.function, self.x, arrays, start, stop)


def _values(function: RowFunction, x: Array, arrays: Arrays, start: int, stop: int) -> Array:
    found = np.empty((stop - start, len(x)))
    for place, one in enumerate(x):
        found[:, place] = function.values(one, arrays, start, stop)
    return found
