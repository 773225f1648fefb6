"""Drawn rows of all groups for all chains, in one pass: for rows that are not in memory.

How often a group's rows are asked for in a sweep is known about, so that a pass draws for many sweeps ahead: of each
group a number of rows that is fixed beforehand, each with probability in proportion to its weighted bound, whatever the
others are. A group may reach over several blocks of rows. For every row that is to be drawn, the block is drawn first,
in proportion to what blocks have of the group; then each block draws the rows that fell to it, with random numbers of
its own. So a pool does not depend on where blocks lie or on who looks at them.

A chain uses its rows in their order, each once. Where those of one group are used up, because a move went far, that
group's rows are read and drawn from anew; and where that has happened often, the chain gets a new pool, and what is
left of the old one is thrown away. Both look at how many rows were used, and never at those that were not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.groups.outside import fetch
from tallbayes.groups.remainders import GroupBounds, weighted
from tallbayes.groups.split import Drawn, Split, require_every_row
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.generators import of_block
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows, RowsAtHand
from tallbayes.rows.shared import Shared
from tallbayes.rows.tasks import Parts

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

MOST_BYTES = 1 << 27  # of a pool, for all chains together
MOST_SWEEPS = 1_000  # for which rows are drawn ahead
MARGIN, LEAST = 2.0, 2.0  # more rows of each group than expected: standard deviations, and rows
MOST_READ = 0.05  # share of all rows that a chain reads for single groups before it gets a new pool
MOST_POOLS = 2  # of which some chains have not asked for their rows


class Supply(NamedTuple):
    """The drawn rows of a chain, and what it had before."""

    drawn: Drawn
    pools: int = 0
    groups: int = 0  # whose rows were drawn anew, since the last pool
    read: int = 0  # rows that were read for these

    def copy(self) -> Supply:
        """With the same rows, of which the copy uses its own."""
        return self._replace(drawn=self.drawn._replace(next=self.drawn.next.copy()))


class _Layout(NamedTuple):
    """What blocks have of groups, in the order of rows: parts, of which a group has one or several side by side."""

    starts: Integers  # (k + 1,) where each group's rows begin
    of_blocks: Integers  # (blocks + 1,) where each block's parts begin
    of_groups: Integers  # (k + 1,) where each group's parts begin

    @classmethod
    def of(cls, starts: Integers) -> _Layout:
        """For groups whose rows begin there; see `Arrays.by_group`."""
        ends = np.append(np.arange(0, starts[-1], LENGTH), starts[-1])
        first, last = (starts.searchsorted(row, "right") - 1 for row in (ends[:-1], ends[1:] - 1))
        groups = np.concatenate([np.arange(low, high + 1) for low, high in zip(first, last, strict=True)])
        of_blocks = np.concatenate([[0], np.cumsum(last - first + 1)])
        return cls(starts, of_blocks, groups.searchsorted(np.arange(starts.size)))

    def rows(self, part: int, group: int) -> tuple[int, int]:
        """Where the rows of a part begin and end."""
        start = (int(self.of_blocks.searchsorted(part, "right")) - 1) * LENGTH
        return max(start, int(self.starts[group])), min(start + LENGTH, int(self.starts[group + 1]))


class _Wanted(NamedTuple):
    """What a chain is to get: the places of its rows that each part is to fill."""

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


class _Stretch:
    """Some rows that lie side by side, and the sums of weighted bounds over their parts, first..last, to each row."""

    def __init__(self, arrays: Arrays, bounds: GroupBounds, first: Integers, last: Integers, totals: Array) -> None:
        self._arrays, (self._eta, self._bound) = arrays, bounds.expanded(arrays)
        self._bound[np.isinf(self._bound)] = 0.0
        self._first, self._last, self._ends = first, last, np.empty(arrays.size)
        _cumulate(weighted(arrays, self._bound), first, last, self._ends)
        require_every_row(0, totals, self._ends[last])

    def find(self, parts: slice, counts: Integers, rng: np.random.Generator) -> Integers:
        """So many rows of each of some parts."""
        begins = np.concatenate([[0], np.cumsum(counts)])
        found = np.empty(begins[-1], np.intp)
        _find(self._ends, self._first[parts], self._last[parts], begins, rng.random(begins[-1]), found)
        return found

    def taken(self, chosen: Integers) -> tuple[Array, Array, Array, Array]:
        """Some rows (rows, p), their outcomes, linear predictors and bounds."""
        x = np.ascontiguousarray(self._arrays.x[:, chosen].T)
        return x, self._arrays.y[chosen], self._eta[chosen], self._bound[chosen]


def _write(drawn: Drawn, places: Integers, x: Array, y: Array, eta: Array, bound: Array) -> None:
    """Put rows to their places."""
    drawn.x[:, places] = x.T
    drawn.y[places], drawn.eta[places], drawn.bound[places] = y, eta, bound


@dataclass(frozen=True, eq=False)
class GroupLots:
    """A task: so many drawn rows of each part, for several chains."""

    bounds: GroupBounds
    layout: _Layout
    by_block: Array  # sums of the weighted bounds of each part
    counts: tuple[Integers, ...]  # (parts,) of each chain
    key: tuple[int, int]

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return self.bounds.looks

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        border = np.flatnonzero(np.diff(arrays.codes)) + 1
        first = np.union1d(border, np.arange(0, arrays.size, LENGTH))
        # Numbers of the parts; groups without rows may have some too, where nobody draws.
        block = first // LENGTH
        parts = self.layout.of_blocks[arrays.block + block] + arrays.codes[first] - arrays.codes[block * LENGTH]
        stretch = _Stretch(arrays, self.bounds, first, np.append(first[1:], arrays.size) - 1, self.by_block[parts])
        found: list[list[Integers]] = [[] for _ in self.counts]
        for number in range(arrays.blocks):
            rng = of_block(self.key, arrays.block + number)
            here = slice(*first.searchsorted([number * LENGTH, (number + 1) * LENGTH]))
            for counts, rows in zip(self.counts, found, strict=True):
                rows.append(stretch.find(here, counts[parts[here]], rng))
        return tuple(part for rows in found for part in stretch.taken(np.concatenate(rows)))

    def answer(self, parts: Parts, params: Array, rows: Rows) -> list[Parts]:
        """See `Task`: the rows of each chain, sorted by part."""
        return [parts[4 * chain : 4 * chain + 4] for chain in range(len(self.counts))]


class GroupUrn:
    """Gives chains drawn rows of all groups, a pool at a time; chains share the passes.

    `starts` (k + 1,) is where each group's rows begin, and `expected` (k,) the number of them that a sweep is expected
    to ask for.
    """

    def __init__(self, rows: RowsAtHand, bounds: GroupBounds, starts: Integers, split: Split, expected: Array) -> None:
        self._rows, self._bounds, self._layout = rows, bounds, _Layout.of(starts)
        self._by_block, self._totals, self._expected = split.by_block, split.totals, expected
        self._pools = Shared[Drawn](MOST_POOLS)

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

    def more(self, supply: Supply, group: int, key: int, chain: int, chains: int) -> Supply:
        """New rows for one of several chains that has used up those of a group."""
        size = int(np.diff(self._layout.starts)[group])
        if supply.pools and supply.read + size <= MOST_READ * self._rows.size:
            number = supply.groups * chains + chain
            self._draw_group(supply.drawn, group, (key, supply.pools - 1), number)
            return supply._replace(groups=supply.groups + 1, read=supply.read + size)
        return Supply(self.pool((key, supply.pools), chain, chains), supply.pools + 1)

    def pool(self, key: tuple[int, int], chain: int, chains: int) -> Drawn:
        """The rows that one of several chains gets of a pool; those of the others are kept until they ask for them."""
        return self._pools.of(key, chain, lambda: self._draw(key, chains))

    def _draw(self, key: tuple[int, int], chains: int) -> list[Drawn]:
        sizes, p = self._sizes(self.sweeps(chains)), self._rows.columns
        rng, drawn = self._generator(key, 0), [Drawn.room(p, sizes) for _ in range(chains)]
        wanted = [self._wanted(one, rng) for one in drawn]
        counts = tuple(np.diff(begins) for _, begins in wanted)
        found = self._rows.reduce(GroupLots(self._bounds, self._layout, self._by_block, counts, key))
        for one, (order, _), rows in zip(drawn, wanted, found, strict=True):
            _write(one, order, *rows)
        return drawn

    def _draw_group(self, drawn: Drawn, group: int, key: tuple[int, int], number: int) -> None:
        """Draw the rows of a group anew, and put them where those were that are used up."""
        rng, begin = self._generator(key, 1 + number), int(drawn.starts[group])
        parts = self._parts(group, int(drawn.starts[group + 1]) - begin, rng)
        for part in np.unique(parts).tolist():
            arrays, first, last = fetch(self._rows, *self._layout.rows(part, group))
            totals, ends = self._by_block[part : part + 1], (np.array([first]), np.array([last - 1]))
            stretch, places = _Stretch(arrays, self._bounds, *ends, totals), np.flatnonzero(parts == part)
            chosen = stretch.find(slice(None), np.array([places.size]), rng)
            _write(drawn, begin + places, *stretch.taken(chosen))
            self._rows.count(self._bounds.looks * arrays.size)
        drawn.next[group] = begin

    def _generator(self, key: tuple[int, int], number: int) -> np.random.Generator:
        return of_block(key, self._layout.of_blocks.size + number)  # no block has such a number

    def _wanted(self, drawn: Drawn, rng: np.random.Generator) -> _Wanted:
        """Which part each place is filled from."""
        begins, starts = self._layout.of_groups, drawn.starts
        parts = np.repeat(begins[:-1], np.diff(starts))
        for g in np.flatnonzero(np.diff(begins) > 1).tolist():
            parts[starts[g] : starts[g + 1]] = self._parts(g, int(starts[g + 1] - starts[g]), rng)
        order = parts.argsort(kind="stable")
        return _Wanted(order, parts[order].searchsorted(np.arange(begins[-1] + 1)))

    def _parts(self, group: int, size: int, rng: np.random.Generator) -> Integers:
        """Parts of a group, drawn in proportion to their sums."""
        begin, end = self._layout.of_groups[group : group + 2]
        ends = np.cumsum(self._by_block[begin:end])
        chosen = ends.searchsorted(rng.random(size) * ends[-1], "right")
        return np.asarray(begin + np.minimum(chosen, ends.searchsorted(ends[-1])))
