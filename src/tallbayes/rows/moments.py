"""What each column of the design looks like: its mean and spread, how far it reaches, and whether it has two values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH, in_order
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Once

Array = NDArray[np.float64]

TINY = 1e-150  # what cannot be squared, or divided by, is no unit
WEIGHT, MEAN, SQUARES, LOW, HIGH, BETWEEN = range(6)  # what is known of a column in a block


class Moments(NamedTuple):
    """Of each column: weighted mean and sd, smallest and largest value, and whether there is no value between."""

    mean: Array
    sd: Array
    low: Array
    high: Array
    two: NDArray[np.bool_]

    @property
    def largest(self) -> Array:
        """The largest absolute value of each column."""
        return np.maximum(self.high, -self.low)

    @property
    def reach(self) -> Array:
        """How far a unit of each coefficient moves linear predictors apart; of those that move all alike, how far."""
        return np.where(self.high > self.low, self.high - self.low, self.largest)

    def moves(self, step: Array) -> Array:
        """How far a step of the coefficients moves linear predictors, by each of them.

        If there is an intercept, that is around the columns' means: a column far from zero, such as a year, moves with
        the intercept, and what the two do to the rows cancels.

        >>> found = Moments(*np.array([[1, 2000], [0, 1], [1, 1990], [1, 2010]]), np.zeros(2, bool))
        >>> found.moves(np.array([-200.0, 0.1]))
        array([0., 2.])
        """
        first = self.intercept
        if first < 0:
            return np.abs(step) * self.largest
        found = np.abs(step) * self.reach
        found[first] = abs(step @ self.mean)
        return found

    @property
    def unit(self) -> Array:
        """By how much a column usually differs: from one of its two values to the other, or by its sd; else one."""
        found = np.where(self.two, self.high - self.low, self.sd)
        return np.where((found > TINY) & (found < 1 / TINY), found, 1.0)

    @property
    def intercept(self) -> int:
        """The first column that is the same in all rows, and not zero; -1 if there is none."""
        constant = np.flatnonzero((self.low == self.high) & (self.low != 0))
        return int(constant[0]) if constant.size else -1


@dataclass(frozen=True)
class ColumnMoments(Once):
    """A task: the moments of all columns.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> found = MemoryRows([[1.0, 1.0, 1.0], [0.0, 0.0, 3.0]], [0.0, 1.0, 1.0]).reduce(ColumnMoments())
    >>> found.mean, found.sd.round(2), found.unit, found.intercept
    (array([1., 1.]), array([0.  , 1.41]), array([1., 3.]), 0)
    """

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        found = np.empty((arrays.blocks, arrays.columns, 6))
        arrays.over_blocks(_moments, arrays.x, arrays.weights, LENGTH, found)
        return (found,)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Moments:
        """See `Task`; the spread of blocks around their own means, and of these around the mean of all."""
        weight, mean, squares, low, high, between = parts[0].transpose(2, 0, 1)
        total = in_order(weight)
        with np.errstate(over="ignore", invalid="ignore"):  # columns too large to be squared have no sd
            center = in_order(weight * mean) / total
            spread = in_order(squares + weight * (mean - center) ** 2)
        least, most = low.min(0), high.max(0)
        ends = ((low == least) | (low == most)) & ((high == least) | (high == most)) & (between == 0)
        constant = least == most
        two = ends.all(0) & ~constant
        # The mean of equal numbers is that number, whatever rounding says.
        return Moments(
            np.where(constant, least, center), np.where(constant, 0.0, np.sqrt(spread / total)), least, most, two
        )


@compiled()
def _moments(x, weights, length, found, begin, end):
    for block in range(begin, end):
        start, stop = block * length, min(x.shape[1], (block + 1) * length)
        for j in range(x.shape[0]):
            column = x[j, start:stop]
            low, high, total, weight = column[0], column[0], 0.0, 0.0
            for i in range(column.size):
                low = column[i] if column[i] < low else low
                high = column[i] if column[i] > high else high
            if weights.size > 0:
                for i in range(column.size):
                    weight += weights[start + i]
                    total += weights[start + i] * column[i]
            else:
                weight = float(column.size)
                for i in range(column.size):
                    total += column[i]
            mean, squares, between = total / weight, 0.0, 0.0
            for i in range(column.size):
                own = weights[start + i] if weights.size > 0 else 1.0
                squares += own * (column[i] - mean) * (column[i] - mean)
                between += 1.0 if (column[i] > low) & (column[i] < high) else 0.0
            out = found[block, j]
            out[WEIGHT], out[MEAN], out[SQUARES] = weight, mean, squares
            out[LOW], out[HIGH], out[BETWEEN] = low, high, between
