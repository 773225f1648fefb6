"""A fixed subsample of rows without replacement, with probabilities in proportion to a measure, in one pass.

Each row gets the priority u / m, with u uniform and m its measure, and those with the smallest priorities are taken.
Given the smallest priority t of the others, a row was taken with probability min(1, t m): rows with t m >= 1 for
certain, and the others in proportion to m, as many as there are. With equal measures that is simple random sampling.
Blocks have random numbers of their own, and the rows with the smallest priorities of all are among those with the
smallest priorities of each part: it does not matter where rows lie.

Reference: N. Duffield, C. Lund and M. Thorup (2007), "Priority sampling for estimation of arbitrary subset sums".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays, together
from tallbayes.rows.generators import of_block
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Measure, Rows

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

ALL = 2**62  # more rows than there are


def scattered(rows: int, most: int, rng: np.random.Generator) -> Integers:
    """At most so many of the rows, in ascending order, each with the same probability.

    One is drawn from each of equal stretches. Every so-many-th row would be quicker to take, but data has periods: a
    pattern that repeats with the rows could hide from it altogether.

    >>> scattered(10, 5, np.random.default_rng(1)).size, scattered(3, 5, np.random.default_rng(1)).tolist()
    (5, [0, 1, 2])
    """
    if rows <= most:
        return np.arange(rows)
    places = (np.arange(most) + rng.random(most)) * (rows / most)
    return np.minimum(places.astype(np.intp), rows - 1)


@dataclass(frozen=True)
class Subsample:
    """A task: so many rows of each stratum, weighted so that their sums estimate the sums over all rows.

    `size` is one number, or one per level of the stratum `by` (a level that is not named is taken whole). With `cases`,
    rows with an outcome above zero are all taken besides.
    """

    size: int | Mapping[int, int]
    key: int
    by: str | None
    measure: Measure | None
    cases: bool

    def __post_init__(self) -> None:
        """Refuse sizes of strata without a stratum."""
        if self.by is None and isinstance(self.size, Mapping):
            raise TypeError("sizes by stratum need the stratum's column: sample(size, rng, by=...)")

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 0 if self.measure is None else self.measure.looks

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`: of each level the rows with the smallest priorities, one more than are wanted; and totals."""
        measure = arrays.own if self.measure is None else arrays.own * self.measure.of(arrays)
        strata = np.zeros(arrays.size, np.intp) if self.by is None else arrays.stratum(self.by)
        certain = arrays.y > 0 if self.cases else np.zeros(arrays.size, bool)
        priority, levels, totals = np.empty(arrays.size), [], []
        with np.errstate(divide="ignore", over="ignore"):
            for block, start in enumerate(range(0, arrays.size, LENGTH)):
                part = slice(start, start + LENGTH)
                uniform = 1 - of_block((self.key, 0), arrays.block + block).random(measure[part].size)
                priority[part] = uniform / measure[part]
                free = np.flatnonzero(~certain[part])
                here, index = _levels(strata[part][free])
                levels.append(here)
                totals.append(np.bincount(index, measure[part][free], here.size))
        priority[certain] = 0.0
        free = np.flatnonzero(~certain & (measure > 0))
        rows = np.sort(np.concatenate([np.flatnonzero(certain), free[self._first(strata[free], priority[free])]]))
        numbers = arrays.block * LENGTH + rows
        found = strata[rows].astype(np.intp), numbers, priority[rows], measure[rows], certain[rows]
        return np.concatenate(levels), np.concatenate(totals), *found, *arrays.parts(rows)

    def _first(self, strata: Integers, priority: Array) -> Integers:
        """Of each level the rows with the smallest priorities, one more than are wanted: few of many, and unsorted."""
        order = together(strata)
        ends = np.flatnonzero(np.diff(strata[order], prepend=-1, append=-1))
        found = [order[:0]]
        for start, stop in pairwise(ends.tolist()):
            members, wanted = order[start:stop], self._wanted(int(strata[order[start]]))
            if members.size > wanted:
                members = members[np.argpartition(priority[members], wanted)[: wanted + 1]]
            found.append(members)
        return np.concatenate(found)

    def _wanted(self, level: int) -> int:
        return self.size.get(level, ALL) if isinstance(self.size, Mapping) else self.size

    def _ranked(self, strata: Integers, priority: Array) -> tuple[Integers, Integers, Integers]:
        """Rows by level and priority, the rank of each among those of its level, and how many are wanted of these."""
        order = np.lexsort([priority, strata])
        levels, starts, index = np.unique(strata[order], return_index=True, return_inverse=True)
        wanted = np.array([self._wanted(level) for level in levels.tolist()], dtype=np.intp)
        return order, np.arange(order.size) - starts[index], wanted[index]

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Arrays:
        """See `Task`: rows keep their order."""
        levels, totals, strata, numbers, priority, measure, certain, *others = parts
        scale = np.where(certain, 1.0, 0.0)  # zero: not taken
        free = np.flatnonzero(~certain)
        order, rank, wanted = self._ranked(strata[free], priority[free])
        order = free[order]
        names, place = np.unique(strata[order], return_inverse=True)
        limit, left, many = np.full(names.size, np.inf), np.zeros(names.size), np.zeros(names.size)
        limit[place[rank == wanted]] = priority[order[rank == wanted]]
        taken, place = order[rank < wanted], place[rank < wanted]
        with np.errstate(invalid="ignore"):
            sure = ~(limit[place] * measure[taken] < 1)
        some = totals > 0  # of the others there is no row to take
        np.add.at(left, np.searchsorted(names, levels[some]), totals[some])
        np.subtract.at(left, place[sure], measure[taken[sure]])
        np.add.at(many, place[~sure], 1.0)
        scale[taken[sure]] = 1.0
        scale[taken[~sure]] = left[place[~sure]] / (many[place[~sure]] * measure[taken[~sure]])
        chosen = np.flatnonzero(scale)
        chosen = chosen[np.argsort(numbers[chosen])]
        picked = tuple(part[chosen] if part.size else part for part in others)
        part = Arrays.joined(picked, rows.strata, rows.groups)
        return part.reweighted(part.own * scale[chosen])


def _levels(strata: Integers) -> tuple[Integers, Integers]:
    """The levels of some rows, and the place of each row's level among them."""
    if strata.size and (strata == strata[0]).all():
        return strata[:1], np.zeros(strata.size, np.intp)
    return np.unique(strata, return_inverse=True)
