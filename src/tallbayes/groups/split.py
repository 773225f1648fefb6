"""Rows that are drawn, and rows that are always evaluated: together they are all that have anything to say."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled, small
from tallbayes.families.terms import chunk_derivatives
from tallbayes.groups.alias import tables
from tallbayes.groups.remainders import GroupBounds, GroupExpansion, weighted
from tallbayes.rows.arrays import NONE, Arrays
from tallbayes.rows.passes import CHUNK, joined_groups, piece
from tallbayes.rows.protocol import Count, Rows
from tallbayes.rows.tasks import Parts
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

APART = 1 << 20  # bytes
ROUNDED = 1e-9  # relative difference of two sums over all rows that is due to rounding


class Drawn(NamedTuple):
    """Rows that are drawn in proportion to their weighted bounds, each group by itself.

    All rows are here, with an alias table for each group; or, without tables, rows that have been drawn already, of
    which each is used once.
    """

    x: Array  # (p, rows)
    y: Array
    weights: Array
    eta: Array  # linear predictor where the rows are expanded
    bound: Array  # c, for unit weight; 0 for rows that are never drawn
    table: Array  # (rows, 2), or (0, 2)
    starts: Integers  # (k + 1,) where each group's rows begin
    next: Integers  # (k,) the first of them that is not used yet; (0,) where there are tables

    @classmethod
    def room(cls, p: int, sizes: Integers) -> Drawn:
        """For so many drawn rows of each group."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rows = int(starts[-1])
        size = 8 * (p + 3) * rows
        # Much memory lies apart, so that the system gets it back at once when nobody needs the rows any more.
        space = np.frombuffer(mmap.mmap(-1, size)) if size > APART else np.empty(size // 8)
        x, (y, eta, bound) = space[: p * rows].reshape(p, rows), space[p * rows :].reshape(3, rows)
        return cls(x, y, NONE, eta, bound, np.empty((0, 2)), starts, starts[:-1].copy())


class Always(NamedTuple):
    """Rows that are always evaluated: their log-likelihood minus its expansion is their remainder."""

    x: Array  # (p, m)
    y: Array  # (m,)
    weights: Array
    eta: Array  # (m,) linear predictor where the rows are expanded
    first: Array  # (m,) slope of the weighted log-likelihood there; of a canonical family without what is linear
    second: Array  # (m,) minus its second derivative
    values: Array  # (k,) its sum over each group's rows
    starts: Integers  # (k + 1,)

    @classmethod
    def of(cls, arrays: Arrays, expansion: GroupExpansion) -> Always:
        """These rows."""
        (first, second), values = np.empty((2, arrays.size)), np.empty(arrays.groups)
        eta, _ = expansion.of(arrays)
        _derivatives(expansion.family.terms, arrays.y, eta, arrays.weights, arrays.starts, first, second, values)
        return cls(arrays.x, arrays.y, arrays.weights, eta, first, second, values, arrays.starts)


@compiled()
def _derivatives(terms, y, eta, weights, starts, first, second, values):
    """Derivatives of each row's log-likelihood, and the sum of it over each group's rows."""
    small()
    for g in range(values.size):
        values[g] = 0.0
        for low in range(starts[g], starts[g + 1], CHUNK):
            high = low + CHUNK if low + CHUNK < starts[g + 1] else starts[g + 1]
            values[g] += chunk_derivatives(
                terms, y[low:high], eta[low:high], piece(weights, low, high), first[low:high], second[low:high]
            )  # fmt: skip


class Split(NamedTuple):
    """What is drawn and what is always evaluated."""

    by_block: Array  # (parts,) sums of the weighted bounds that can be drawn, as blocks have them of groups
    totals: Array  # (k,) the same by group
    rows: int  # that can be drawn
    always: Arrays


@dataclass(frozen=True, eq=False)
class Splits:
    """A task: rows with a finite measure can be drawn, and the others must always be evaluated."""

    bounds: GroupBounds

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return self.bounds.looks

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        measure = self.bounds.of(arrays)
        always = np.flatnonzero(np.isinf(measure))
        measure[always] = 0.0
        left = weighted(arrays, measure)
        return np.array([np.count_nonzero(left)]), *arrays.group_sums(left), *arrays.parts(always)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Split:
        """See `Task`."""
        counts, numbers, sums, *always = parts
        totals = joined_groups(rows.groups, numbers, sums)[0]
        return Split(sums[:, 0], totals, int(counts.sum()), Arrays.joined(tuple(always), rows.strata, rows.groups))


def with_tables(arrays: Arrays, count: Count, bounds: GroupBounds, split: Split) -> Drawn:
    """Rows in memory, with alias tables; raises unless they are those that the split has found."""
    eta, left = bounds.expanded(arrays)
    left[np.isinf(left)] = 0.0
    count(bounds.looks * arrays.size, 1)
    table, totals, weights = np.empty((left.size, 2)), np.empty(arrays.groups), weighted(arrays, left)
    over_blocks(tables, totals.size, weights, arrays.starts, table, totals, evaluations=left.size)
    require_every_row(split.rows - int(np.count_nonzero(weights)), split.totals, totals)
    return Drawn(arrays.x, arrays.y, arrays.weights, eta, left, table, arrays.starts, np.empty(0, np.intp))


def require_every_row(missing: int, totals: Array, found: Array) -> None:
    """Raise unless all rows that can be drawn are there.

    A row that is not would drop out of the posterior in silence. `missing` are rows that the kernel lacks, `totals` the
    sums of the weighted bounds to draw from, and `found` what the kernel has.
    """
    if missing or not (np.abs(totals - found) <= ROUNDED * found).all():
        raise FloatingPointError(
            f"{missing} rows would be left out (bounds of {totals.sum():.9g} to draw from, not {found.sum():.9g}); "
            "please report this"
        )
