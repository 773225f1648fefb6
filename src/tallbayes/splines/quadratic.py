"""The log-likelihood of splines as a quadratic around one reference, whatever their bases.

Splines that fit many rows all lie close to each other. With eta_0 the reference's log-odds of a row, g = y - p and
w = p (1 - p) there, and h = B b - eta_0 what a spline with columns B and coefficients b adds to it,

    L*(b, B) = g'h - h'Wh / 2  =  r'b - b'A b / 2 + constant,    A = B'WB,   r = B'W eta_0 + B'g.

The first-order term B'g is that of all rows, from tables (`tables.py`); all that has W in it comes from some thousand
points. These are rows at even steps of a measure, along an order in which near rows are close to each other: with
weights of one over it, h'Wh is met on average, whatever h is. A third of the measure is w, a third w times a squared
distance from the middle, since bases are largest far out, and a third is the same for all rows: otherwise a basis that
is not zero where w is small might have no point, and nothing would hold its coefficient. The error is a share of h'Wh,
which is about the number of bases, while B'g of the points would err by as much as outcomes are noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tallbayes.families.addresses import COLUMN, MATRIX, struct
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Count
from tallbayes.splines.basis import Reference, Splines, mean_spline
from tallbayes.splines.partition import cut, units
from tallbayes.splines.tables import SUMS, Boxes, Sums

Array = NDArray[np.float64]

# Points: at least, one for so many rows up to a number of them, and one for each variable up to a larger number, since
# with many variables there are many bases to choose from, among which those that points see too little of stand out.
FEWEST, ROWS, BY_ROWS, VARIABLE, BY_VARIABLES = 2_048, 16, 8_192, 512, 16_384


def points_for(rows: int, variables: int) -> int:
    """So many points for so many rows and variables.

    >>> points_for(1_000, 4), points_for(40_000, 4), points_for(40_000, 20), points_for(10**6, 4)
    (2048, 2500, 10240, 8192)
    """
    return max(FEWEST, min(BY_ROWS, rows // ROWS), min(BY_VARIABLES, VARIABLE * variables))


class Quadratic(NamedTuple):
    """L* at a reference."""

    x: Array  # (d, points)
    weights: Array  # (points,) w, summed over the rows of a cell
    pull: Array  # (points,) w eta_0
    first: Sums  # of g


QUADRATIC = struct(Quadratic, MATRIX, COLUMN, COLUMN, SUMS)


class Expansion:
    """What does not depend on the reference: cells, the row of each that is its point, and boxes; lives with the rows.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> rows = MemoryRows(np.arange(6.0)[None], [0.0, 0.0, 1.0, 0.0, 1.0, 1.0])
    >>> reference = Reference.of(rows.arrays.x, 6, 1, 1, lines=0.0)
    >>> at = rows.keep(Expansion, reference, 6, 0).at(Splines(np.array([0]), np.zeros((1, 1)), np.zeros((1, 0, 12))))
    >>> at.weights.sum(), at.first.total
    (np.float64(1.5), 0.0)
    """

    def __init__(self, arrays: Arrays, count: Count, reference: Reference, points: int, seed: int) -> None:
        count(2 * arrays.size, 2)
        self._arrays, self._count, self.touched = arrays, count, 0  # points that moves looked at
        self._size, self._unit = min(points, arrays.size), units(arrays)
        self._center = reference.x.mean(1)
        _, self._order = cut(arrays, self._unit, self._size)
        self.boxes = Boxes(arrays, reference.knots, reference.degree)
        self._offset = float(np.random.default_rng(seed).random())

    def at(self, reference: Splines, power: float = 1.0) -> Quadratic:
        """The likelihood to some power, around the mean of some splines."""
        return self.around(self.log_odds(reference), power)

    def log_odds(self, reference: Splines) -> Array:
        """The mean of some splines on each row."""
        self._count(self._arrays.size * reference.sizes.size, 1)
        return mean_spline(self._arrays, reference)

    def log_likelihood(self, eta: Array) -> float:
        """Of all rows, with these log-odds."""
        self._count(eta.size, 1)
        total, y = 0.0, self._arrays.y
        for start in range(0, eta.size, LENGTH):
            part = slice(start, start + LENGTH)
            total += float((y[part] * eta[part] - np.logaddexp(0.0, eta[part])).sum())
        return total

    def halfway(self, one: Array, other: Array) -> Array:
        """The mean of two log-odds of all rows."""
        out = self._arrays.empty(self._arrays.size)
        for start in range(0, out.size, LENGTH):
            part = slice(start, start + LENGTH)
            out[part] = 0.5 * (one[part] + other[part])
        return out

    def around(self, eta: Array, power: float = 1.0) -> Quadratic:
        """The likelihood to some power, around these log-odds of all rows."""
        arrays = self._arrays
        self._count(arrays.size, 1)
        slope, weights, away = (arrays.empty(arrays.size) for _ in range(3))
        for start in range(0, arrays.size, LENGTH):
            part = slice(start, start + LENGTH)
            p = expit(eta[part])
            slope[part], weights[part] = power * (arrays.y[part] - p), p * (1 - p)
            squares = ((arrays.x[:, part] - self._center[:, None]) * self._unit[:, None]) ** 2
            away[part] = weights[part] * squares.sum(0)
        measure = weights / weights.sum() + away / away.sum() + 1 / arrays.size
        chosen, share = along(measure, self._order, self._size, self._offset)
        found, x = power * weights[chosen] * share, np.ascontiguousarray(arrays.x[:, chosen])
        return Quadratic(x, found, found * eta[chosen], self.boxes.sums(slope))


def along(measure: Array, order: NDArray[np.int64], size: int, offset: float) -> tuple[NDArray[np.int64], Array]:
    """Rows at even steps of their measure, in some order, and one over how often each is expected; all if so many.

    >>> along(np.array([1.0, 1.0, 2.0, 0.0]), np.array([2, 0, 1, 3]), 2, 0.5)
    (array([2, 0]), array([1., 2.]))
    """
    if size >= order.size:
        return order, np.ones(order.size)
    ends = np.cumsum(measure[order])
    step = ends[-1] / size
    chosen = order[np.searchsorted(ends, step * (np.arange(size) + offset))]
    return chosen, step / measure[chosen]
