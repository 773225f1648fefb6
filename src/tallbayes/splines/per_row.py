"""The log-likelihood of single rows by splines; see `models/per_row.py`.

Bases differ from draw to draw, so that the points which stand for the draws are some of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Bernoulli
from tallbayes.models.per_row import log_density
from tallbayes.results.predict import evenly_spaced
from tallbayes.rows.arrays import Arrays
from tallbayes.splines.basis import Splines

Array = NDArray[np.float64]

POINTS = 20  # draws that stand for all


@dataclass(frozen=True, eq=False)
class SplineRows:
    """Draws of splines."""

    splines: Splines

    @property
    def points(self) -> SplinePoints:
        """See `PerRow`."""
        return SplinePoints(self.splines.some(evenly_spaced(POINTS, self.splines.sizes.size)))

    def of(self, arrays: Arrays) -> Array:
        """See `PerRow`."""
        return _values(self.splines, arrays.x, arrays.y)

    def outcomes(self, arrays: Arrays, rng: np.random.Generator) -> Array:
        """See `PerRow`."""
        return Bernoulli().simulate(rng, self.splines.each(arrays.x).T)


@dataclass(frozen=True, eq=False)
class SplinePoints:
    """Some of the draws; see `Points`."""

    splines: Splines

    @property
    def weights(self) -> Array:
        """See `Points`."""
        return np.full(self.looks, 1 / self.looks)

    @property
    def looks(self) -> int:
        """See `Points`."""
        return self.splines.sizes.size

    def of(self, arrays: Arrays, start: int, stop: int) -> Array:
        """See `Points`."""
        return _values(self.splines, arrays.x[:, start:stop], arrays.y[start:stop])


def _values(splines: Splines, x: Array, y: Array) -> Array:
    return log_density(Bernoulli(), y, np.ascontiguousarray(splines.each(x).T), None)
