"""Drawn rows of all groups for all chains, in one pass: for rows that are not in memory.

How often a group's rows are asked for in a sweep is known about, so that a pass draws for many sweeps ahead: of each
group a number of rows that is fixed beforehand, each with probability in proportion to its weighted bound, whatever the
others are. A group may reach over several blocks of rows. For every row that is to be drawn, the block is drawn first,
in proportion to what blocks have of the group; then each block draws the rows that fell to it, with random numbers of
its own. So a pool does not depend on where blocks lie or on who looks at them.

A chain uses its rows in their order, each once. Where those of one group are used up, it gets a new pool, and what is
left of the other groups' rows is thrown away: that looks at how many rows were used, and never at what they are.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.groups.remainders import GroupBounds, weighted
from tallbayes.groups.split import Drawn, Split, require_every_row
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.generators import of_block
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Parts

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

MOST_BYTES = 1 << 27  # of a pool, for all chains together
MOST_SWEEPS = 1_000  # for which rows are drawn ahead
MARGIN, LEAST = 4.0, 4.0  # more rows of each group than expected: standard deviations, and rows
MOST_POOLS = 2  # of which some chains have not asked for their rows


class _Layout(NamedTuple):
    """What blocks have of groups, in the order of rows: parts, of which a group has one or several side by side."""

    groups: Integers  # (parts,)
    of_blocks: Integers  # (blocks + 1,) where each block's parts begin
    of_groups: Integers  # (k + 1,) where each group's parts begin

    @classmethod
    def of(cls, sizes: Integers) -> _Layout:
        """For groups of so many rows; see `Arrays.by_group`."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        ends = np.append(np.arange(0, starts[-1], LENGTH), starts[-1])
        first, last = (starts.searchsorted(row, "right") - 1 for row in (ends[:-1], ends[1:] - 1))
        groups = np.concatenate([np.arange(low, high + 1) for low, high in zip(first, last, strict=True)])
        of_blocks = np.concatenate([[0], np.cumsum(last - first + 1)])
        return cls(groups, of_blocks, groups.searchsorted(np.arange(sizes.size + 1)))


class _Wanted(NamedTuple):
    """What a chain is to get: room for its rows, and the places in it that each part is to fill."""

    drawn: Drawn
    order: Integers  # places, sorted by part
    begins: Integers  # (parts + 1,) where those of each part begin


@compiled()
def _cumulate(values, first, last, ends):
    """Sums of values from the first row of each part to each of its rows."""
    for part in range(first.size):
        total = 0.0
        for i in range(first[part], last[part] + 1):
            total += values[i]
            ends[i] = total


@compiled()
def _find(ends, first, last, begins, uniform, found):
    """For uniform numbers of each part, rows first..last of the part: in proportion to what each adds to its sum."""
    for part in range(first.size):
        for k in range(begins[part], begins[part + 1]):
            target, low, high = uniform[k] * ends[last[part]], first[part], last[part]
            while low < high:  # the first row that goes beyond it
                middle = (low + high) // 2
                if ends[middle] > target:
                    high = middle
                else:
                    low = middle + 1
            while low > first[part] and ends[low] == ends[low - 1]:  # where rounding went beyond the end
                low -= 1
            found[k] = low


@dataclass(frozen=True, eq=False)
class _Filling:
    """A task that writes drawn rows to the places where they are wanted: each place is written by one block."""

    bounds: GroupBounds
    layout: _Layout
    by_block: Array  # sums of the weighted bounds of each part
    wanted: tuple[_Wanted, ...]
    key: tuple[int, int]

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return self.bounds.looks

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        eta, bound = self.bounds.expanded(arrays)
        bound[np.isinf(bound)] = 0.0
        border = np.flatnonzero(np.diff(arrays.codes)) + 1
        first = np.union1d(border, np.arange(0, arrays.size, LENGTH))
        last, ends = np.append(first[1:], arrays.size) - 1, np.empty(arrays.size)
        _cumulate(weighted(arrays, bound), first, last, ends)
        parts = self._parts(arrays, first)
        require_every_row(0, self.by_block[parts], ends[last])
        found: list[list[Integers]] = [[np.empty(0, np.intp)] for _ in self.wanted]
        for block in range(arrays.blocks):
            rng = of_block(self.key, arrays.block + block)
            here = slice(*first.searchsorted([block * LENGTH, (block + 1) * LENGTH]))
            for wanted, rows in zip(self.wanted, found, strict=True):
                counts = wanted.begins[parts[here] + 1] - wanted.begins[parts[here]]
                begins = np.concatenate([[0], np.cumsum(counts)])
                rows.append(np.empty(begins[-1], np.intp))
                _find(ends, first[here], last[here], begins, rng.random(begins[-1]), rows[-1])
        for wanted, rows in zip(self.wanted, found, strict=True):
            chosen, drawn = np.concatenate(rows), wanted.drawn
            places = wanted.order[wanted.begins[parts[0]] : wanted.begins[parts[-1] + 1]]
            drawn.x[:, places] = arrays.x[:, chosen]
            for out, values in ((drawn.y, arrays.y), (drawn.eta, eta), (drawn.bound, bound)):
                out[places] = values[chosen]
        return ()

    def _parts(self, arrays: Arrays, first: Integers) -> Integers:
        """The numbers of the parts that begin at some rows; groups without rows have parts too, where nobody draws."""
        block = first // LENGTH
        begins = arrays.codes[block * LENGTH]
        return self.layout.of_blocks[arrays.block + block] + arrays.codes[first] - begins

    def answer(self, parts: Parts, params: Array, rows: Rows) -> None:
        """See `Task`."""


class GroupUrn:
    """Gives chains drawn rows of all groups, a pool at a time; chains share the passes.

    `expected` are the rows of each group that a sweep is expected to ask for.
    """

    def __init__(self, rows: Rows, bounds: GroupBounds, sizes: Integers, split: Split, expected: Array) -> None:
        self._rows, self._bounds, self._layout = rows, bounds, _Layout.of(sizes)
        self._by_block, self._totals, self._expected = split.by_block, split.totals, expected
        self._lock, self._pools = threading.Lock(), dict[tuple[int, int], dict[int, Drawn]]()

    def sweeps(self, chains: int) -> int:
        """For how many sweeps ahead a pool is drawn."""
        row = 8 * (self._rows.columns + 3) * chains
        low, high = 1, MOST_SWEEPS
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if row * self._sizes(middle).sum() <= MOST_BYTES else (low, middle - 1)
        return low

    def _sizes(self, sweeps: int) -> Integers:
        """Rows of each group for so many sweeps of a chain."""
        mean = sweeps * self._expected
        return np.where(self._totals > 0, np.ceil(mean + MARGIN * np.sqrt(mean) + LEAST), 0).astype(np.intp)

    def pool(self, key: tuple[int, int], chain: int, chains: int) -> Drawn:
        """The rows that one of several chains gets of a pool; those of the others are kept until they ask for them."""
        with self._lock:
            if chain not in self._pools.get(key, {}):
                self._pools[key] = dict(enumerate(self._draw(key, chains)))
                if len(self._pools) > MOST_POOLS:
                    del self._pools[next(iter(self._pools))]
            found = self._pools[key].pop(chain)
            if not self._pools[key]:
                del self._pools[key]
        return found

    def _draw(self, key: tuple[int, int], chains: int) -> list[Drawn]:
        sizes, p = self._sizes(self.sweeps(chains)), self._rows.columns
        rng = of_block(key, self._layout.of_blocks.size)  # no block has this number
        wanted = tuple(self._wanted(Drawn.room(p, sizes), rng) for _ in range(chains))
        self._rows.reduce(_Filling(self._bounds, self._layout, self._by_block, wanted, key))
        return [one.drawn for one in wanted]

    def _wanted(self, drawn: Drawn, rng: np.random.Generator) -> _Wanted:
        """Which part each place is filled from: for a group that has several, drawn in proportion to their sums."""
        begins, starts = self._layout.of_groups, drawn.starts
        parts = np.repeat(begins[:-1], np.diff(starts))
        for g in np.flatnonzero(np.diff(begins) > 1).tolist():
            ends = np.cumsum(self._by_block[begins[g] : begins[g + 1]])
            uniform = rng.random(starts[g + 1] - starts[g])
            chosen = ends.searchsorted(uniform * ends[-1], "right")
            parts[starts[g] : starts[g + 1]] += np.minimum(chosen, ends.searchsorted(ends[-1]))
        order = parts.argsort(kind="stable")
        return _Wanted(drawn, order, parts[order].searchsorted(np.arange(self._layout.groups.size + 1)))
