"""The log-likelihood of splines as a quadratic around one reference, whatever their bases.

Splines that fit many rows all lie close to each other. With eta_0 the reference's log-odds of a row, g = y - p and
w = p (1 - p) there, and h = B b - eta_0 what a spline with columns B and coefficients b adds to it,

    L*(b, B) = g'h - h'Wh / 2  =  r'b - b'A b / 2 + constant,    A = B'WB,   r = B'W eta_0 + B'g.

The first-order term B'g is that of all rows, from tables (`tables.py`); all that has W in it comes from some thousand
points, a row of each cell of the covariate space with the weight of all rows in the cell. Their error is a share of
h'Wh, which is about the number of bases, while B'g of the points would err by as much as outcomes are noise.
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

FEWEST, MOST, ROWS = 2_048, 8_192, 16  # points, and rows that each stands for in between


def points_for(rows: int) -> int:
    """So many points for so many rows; all of them where they are few.

    >>> points_for(1_000), points_for(40_000), points_for(10**6)
    (2048, 2500, 8192)
    """
    return min(MOST, max(FEWEST, rows // ROWS))


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
        self._codes = cut(arrays, units(arrays), min(points, arrays.size))
        self.boxes = Boxes(arrays, reference.knots, reference.degree)
        self._chosen = _one_of_each(self._codes, np.random.default_rng(seed))
        self._x = np.ascontiguousarray(arrays.x[:, self._chosen])

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
        arrays, size = self._arrays, self._chosen.size
        self._count(arrays.size, 1)
        slope, weights = arrays.empty(arrays.size), np.zeros(size)
        for start in range(0, arrays.size, LENGTH):
            part = slice(start, start + LENGTH)
            p = expit(eta[part])
            slope[part] = power * (arrays.y[part] - p)
            weights += np.bincount(self._codes[part], power * p * (1 - p), size)
        return Quadratic(self._x, weights, weights * eta[self._chosen], self.boxes.sums(slope))


def _one_of_each(codes: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.intp]:
    """A row of each cell, each with the same probability: the last of its rows that has the largest of their marks."""
    count = int(codes.max()) + 1
    best, found = np.full(count, -1.0), np.zeros(count, np.intp)
    for start in range(0, codes.size, LENGTH):
        own = codes[start : start + LENGTH]
        marks = rng.random(own.size)
        order = np.argsort(marks)
        last = np.full(count, -1)
        last[own[order]] = order  # of several in a cell, the one with the largest mark is written last
        there = np.flatnonzero(last >= 0)
        larger = there[marks[last[there]] > best[there]]
        best[larger], found[larger] = marks[last[larger]], start + last[larger]
    return found
