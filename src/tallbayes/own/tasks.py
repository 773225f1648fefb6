"""Questions to all rows about a user's own log-likelihood; see `rows/tasks.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.own.function import Derivatives, RowFunction
from tallbayes.rows.arrays import Arrays, totals_of
from tallbayes.rows.generators import of_block
from tallbayes.rows.passes import LENGTH, in_order
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import DEFENSIVE, Parts

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OwnLogLikelihood:
    """The log-likelihood at each of some parameter vectors `x` (k, width)."""

    function: RowFunction
    x: Array

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return len(self.x)

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        values = np.empty((arrays.blocks, len(self.x)))
        arrays.over_blocks(self._blocks, arrays, values, looks=len(self.x))
        return (values,)

    def _blocks(self, arrays: Arrays, values: Array, begin: int, end: int) -> None:
        for block in range(begin, end):
            start, stop = _ends(arrays, block)
            for vector, x in enumerate(self.x):
                found = self.function.values(x, arrays, start, stop)
                if arrays.weights.size:
                    found = found * arrays.weights[start:stop]
                values[block, vector] = found.sum()

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Array:
        """See `Task`."""
        return in_order(parts[0])


@dataclass(frozen=True, eq=False)
class OwnDerivatives:
    """Log-likelihood, gradient and minus the curvature at one parameter vector `x` (width,)."""

    function: RowFunction
    x: Array

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 1

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        p = self.x.size
        found = np.empty(arrays.blocks), np.empty((arrays.blocks, p)), np.empty((arrays.blocks, p, p))
        arrays.over_blocks(self._blocks, arrays, found)
        return found

    def _blocks(self, arrays: Arrays, found: tuple[Array, ...], begin: int, end: int) -> None:
        for block in range(begin, end):
            sums = self.function.sums(self.x, arrays, *_ends(arrays, block))
            found[0][block], found[1][block], found[2][block] = sums

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Derivatives:
        """See `Task`."""
        value, gradient, curvature = (in_order(part) for part in parts)
        return Derivatives(float(value), gradient, curvature)


@dataclass(frozen=True, eq=False)
class Size:
    """A measure: the size of each row's log-likelihood at `x`, and for every row a part of the mean size."""

    function: RowFunction
    x: Array
    mean: float
    looks = 1

    def of(self, arrays: Arrays) -> Array:
        """See `Measure`."""
        found = np.empty(arrays.size)
        for block in range(arrays.blocks):
            start, stop = _ends(arrays, block)
            found[start:stop] = np.abs(self.function.values(self.x, arrays, start, stop))
        return np.asarray(found + DEFENSIVE * self.mean)


class BlockWeights:
    """A task: the total weight of each block."""

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 0

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        return (totals_of(arrays.y, arrays.weights if arrays.weights.size else None)[:, 0],)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Array:
        """See `Task`."""
        return np.asarray(parts[0])


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """A task: rows drawn with replacement in proportion to their weights, so many of each block, in random order."""

    counts: NDArray[np.int64]  # of all blocks
    key: int

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 0

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        chosen, own = [np.empty(0, np.intp)], arrays.own
        for block, start in enumerate(range(0, arrays.size, LENGTH)):
            number = arrays.block + block
            weights = own[start : start + LENGTH]
            uniform = of_block((self.key, 1), number).random(int(self.counts[number]))
            below = np.cumsum(weights)
            places = np.searchsorted(below, uniform * below[-1], side="right")
            chosen.append(start + np.minimum(places, weights.size - 1))
        return arrays.parts(np.concatenate(chosen))

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Arrays:
        """See `Task`."""
        found = Arrays.joined(parts, rows.strata, rows.groups)
        return found.take(np.random.default_rng(self.key).permutation(found.size))


class Drawn(NamedTuple):
    """Rows that were drawn, each with its value and derivatives at the mode in u; see `subsampling.py`."""

    rows: Arrays
    value: Array  # (m,)
    first: Array  # (m, width)
    second: Array  # (m, width, width)

    def take(self, chosen: Any) -> Drawn:
        """Some of them, in this order."""
        return Drawn(self.rows.take(chosen), self.value[chosen], self.first[chosen], self.second[chosen])


def _ends(arrays: Arrays, block: int) -> tuple[int, int]:
    return block * LENGTH, min(arrays.size, (block + 1) * LENGTH)
