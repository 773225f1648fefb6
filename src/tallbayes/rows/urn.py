"""Rows drawn with replacement, with probabilities in proportion to a measure: a pool of them in one pass.

Every block of rows gives a Poisson number of its rows, whose mean is a common rate times the block's total, each row of
it with probability in proportion to its measure, and each with a random mark. That is a Poisson process on all rows:
sorted by their marks, the rows it gives are independent draws, and so are the first few of them. Nothing is known of
other blocks while a block is looked at, and each has random numbers of its own, so that the pool does not depend on
where blocks lie or on who looks at them; and nothing has to be kept of each row.

A row with an infinite measure is given apart, once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays
from tallbayes.rows.generators import of_block
from tallbayes.rows.passes import LENGTH, in_order
from tallbayes.rows.protocol import Measure, Rows
from tallbayes.rows.shared import Shared

Array = NDArray[np.float64]

MOST_BYTES = 1 << 25  # of a pool
MOST_POOLS = 8  # of which some chains have not asked for their rows
MARGIN = 4.0  # standard deviations by which more rows are asked for than are needed


class Pool(NamedTuple):
    """Drawn rows, each contiguous in memory, in the order in which they were drawn."""

    x: Array  # (size, p)
    y: Array  # (size,)
    eta: Array  # (size,) linear predictor where the rows are expanded
    bound: Array  # (size,) their measure, for unit weight

    @classmethod
    def empty(cls, p: int) -> Pool:
        """No rows."""
        return cls(np.empty((0, p)), np.empty(0), np.empty(0), np.empty(0))

    def some(self, first: int, last: int) -> Pool:
        """The rows first..last."""
        return Pool(*(part[first:last] for part in self))

    def then(self, other: Pool) -> Pool:
        """These rows, and after them those of another pool."""
        return Pool(*map(np.concatenate, zip(self, other, strict=True)))


def most_rows(p: int) -> int:
    """Of a pool, where rows have p columns."""
    return MOST_BYTES // (8 * (p + 3))


class Drawn(NamedTuple):
    """What a pass has drawn."""

    pool: Pool
    total: float  # of the weighted measure of all rows that can be drawn
    rows: int  # that can be drawn
    certain: Arrays  # rows whose measure is infinite


@dataclass(frozen=True)
class Lots:
    """A task: rows drawn in proportion to weight times measure, about `wanted` of them if the total is as expected.

    No more than `size` are kept. The same `key` gives the same rows.
    """

    measure: Measure
    theta: Array  # where linear predictors are wanted
    wanted: float
    expected: float  # total of weight times measure; zero: no rows are drawn
    size: int
    key: tuple[int, int]

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return self.measure.looks

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        values, none = self.measure.of(arrays), np.empty(0, np.intp)
        totals, counts = np.empty(arrays.blocks), np.empty(arrays.blocks, np.intp)
        certain, rows, marks = [none], [none], [np.empty(0)]
        for block in range(arrays.blocks):
            start = block * LENGTH
            weighted = values[start : start + LENGTH]
            if arrays.weights.size:
                weighted = weighted * arrays.weights[start : start + LENGTH]
            if not (finite := np.isfinite(weighted)).all():
                certain.append(start + np.flatnonzero(~finite))
                weighted = np.where(finite, weighted, 0.0)
            ends = np.cumsum(weighted)
            totals[block], counts[block] = ends[-1], np.count_nonzero(weighted)
            rng = of_block(self.key, arrays.block + block)
            mean = self.wanted * (float(ends[-1]) / self.expected) if self.expected > 0 else 0.0
            marks.append(_marks(rng, mean, self.size))
            places = ends.searchsorted(rng.random(marks[-1].size) * ends[-1], side="right")
            rows.append(start + np.minimum(places, ends.searchsorted(ends[-1])))  # where rounding went beyond the end
        chosen, mark = np.concatenate(rows), np.concatenate(marks)
        if chosen.size > self.size:
            first = np.sort(np.argpartition(mark, self.size)[: self.size])  # in the order of blocks, for equal marks
            chosen, mark = chosen[first], mark[first]
        x, apart = np.ascontiguousarray(np.take(arrays.x, chosen, axis=1).T), arrays.parts(np.concatenate(certain))
        offset = arrays.offset[chosen] if arrays.offset.size else np.zeros(chosen.size)
        return totals, counts, mark, x, arrays.y[chosen], offset, values[chosen], *apart

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Drawn:
        """See `Task`."""
        totals, counts, marks, x, y, eta, bound, *certain = parts
        order = np.argsort(marks, kind="stable")[: self.size]
        x, eta = x[order], eta[order]
        for j, at in enumerate(self.theta[: x.shape[1]].tolist()):
            eta += at * x[:, j]
        apart = Arrays.joined(tuple(certain), rows.strata, rows.groups)
        return Drawn(Pool(x, y[order], eta, bound[order]), float(in_order(totals)), int(counts.sum()), apart)


def _marks(rng: np.random.Generator, mean: float, most: int) -> Array:
    """The marks of a Poisson number of rows, between zero and one; where many more are expected, the first of them.

    A total that is not as expected would ask for any number of rows.
    """
    if mean <= most:
        return rng.random(rng.poisson(mean))
    found = np.cumsum(rng.standard_exponential(most)) / mean  # so far apart are the points of a Poisson process
    return np.asarray(found[found < 1])


class Kept:
    """A measure that is computed once: for rows in memory, which stay as they are."""

    def __init__(self, measure: Measure) -> None:
        self._measure, self._values = measure, dict[int, Array]()

    @property
    def looks(self) -> int:
        """See `Measure`."""
        return 0 if self._values else self._measure.looks

    def of(self, arrays: Arrays) -> Array:
        """See `Measure`."""
        if arrays.block not in self._values:
            self._values[arrays.block] = self._measure.of(arrays)
        return self._values[arrays.block]


class Urn:
    """Gives chains rows in proportion to weight times measure, a pool at a time; chains share the passes.

    `seen` are a few rows that chains do not get, for those who plan. The pass that finds them also draws the first
    pool, of `ahead` rows: it is for whoever first asks for a pool with the number 0, if that is about enough.
    """

    def __init__(
        self, rows: Rows, measure: Measure, theta: Array, expected: float, seen: int, seed: int, ahead: int = 0
    ) -> None:
        self.measure, self._rows = measure, rows
        self._lots = Lots(measure, np.array(theta, dtype=float), 0.0, 0.0, seen, (seed, 0))
        drawn, self.total, self.rows, self.certain = rows.reduce(self._asking(seen + ahead, expected))
        if not np.isfinite(self.total):
            raise ValueError("the weights with which rows are drawn must be finite")
        self.seen, self._first = drawn.some(0, seen), drawn.some(seen, seen + ahead)
        for number in count(1):
            if self.seen.y.size >= seen or not self.total > 0:
                break
            self.seen = self._draw(seen, (seed, number))  # the total was not as expected
        self._has_first: tuple[int, int] | None = None
        self._pools = Shared[Pool](MOST_POOLS)

    def _asking(self, size: int, total: float) -> Lots:
        return replace(self._lots, wanted=size + MARGIN * size**0.5 + 1, expected=total, size=size)

    def _draw(self, size: int, key: tuple[int, int]) -> Pool:
        return self._rows.reduce(replace(self._asking(size, self.total), key=key)).pool

    def pool(self, key: tuple[int, int], chain: int, chains: int, ahead: int) -> Pool:
        """The rows that one of several chains gets of a pool: about `ahead` of them, or fewer where they are wide.

        The key is that of all pools of some chains, and the number of this one. The same key gives the same rows.
        What is drawn for the other chains is kept until they ask for it. Who evaluates rows must count them.
        """
        if not self.total > 0:
            raise ValueError("no row has a positive weight, so none can be drawn")

        def every() -> list[Pool]:
            size = min(ahead * chains, max(chains, most_rows(self._lots.theta.size)))
            if self._has_first is None and key[1] == 0 and 2 * self._first.y.size >= size:
                self._has_first = key
            pool = self._first if self._has_first == key else self._draw(size, key)
            ends = [pool.y.size * part // chains for part in range(chains + 1)]
            return [pool.some(*pair) for pair in pairwise(ends)]

        return self._pools.of(key, chain, every)
