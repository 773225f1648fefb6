"""Duplicate rows merged into weighted ones, exactly, before `Rows` are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import totals_of
from tallbayes.rows.passes import in_order
from tallbayes.rows.subsample import scattered

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

STEP = 1 << 15  # rows that are merged at a time
MOST_NUMBERS = 1 << 24  # of distinct rows
BITS = 60  # of the total of all weights, in units in which they are counted
LOOK, PLACES = 20_000, 16  # rows looked at before deciding whether to merge duplicates, and in how many stretches


class Columns(NamedTuple):
    """What rows are made of: x (p, n), outcomes, and optional weights, offset and strata."""

    x: Array
    y: Array
    weights: Array | None
    offset: Array | None
    strata: Mapping[str, NDArray[Any]]

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Rows one below the other."""
        first, *others = parts
        if not others:
            return first
        return cls(
            np.concatenate([part.x for part in parts], axis=1),
            np.concatenate([part.y for part in parts]),
            None if first.weights is None else np.concatenate([part.weights for part in parts]),
            None if first.offset is None else np.concatenate([part.offset for part in parts]),
            {name: np.concatenate([part.strata[name] for part in parts]) for name in first.strata},
        )

    def take(self, chosen: Integers) -> Columns:
        """Some of the rows, in this order."""
        weights, offset = (None if part is None else part[chosen] for part in (self.weights, self.offset))
        strata = {name: codes[chosen] for name, codes in self.strata.items()}
        return Columns(np.take(self.x, chosen, axis=1), self.y[chosen], weights, offset, strata)

    def heard(self) -> Columns:
        """Those that say something: rows of weight zero do not."""
        if self.weights is None or self.weights.all():
            return self
        return self.take(np.flatnonzero(self.weights))

    def part(self, start: int, stop: int) -> Columns:
        """The rows start..stop, where they lie."""
        run = slice(start, stop)
        weights, offset = (None if part is None else part[run] for part in (self.weights, self.offset))
        strata = {name: codes[run] for name, codes in self.strata.items()}
        return Columns(self.x[:, run], self.y[run], weights, offset, strata)

    def without_duplicates(self) -> Columns:
        """Duplicates merged into weighted rows, if a sample shows that it pays; else these rows.

        >>> ones = np.ones(6)
        >>> Columns(np.array([ones, [0, 1, 0, 0, 1, 0]]), ones, None, None, {}).without_duplicates()[:3]
        (array([[1., 1.],
               [0., 1.]]), array([1., 1.]), array([4., 2.]))
        """
        size = self.y.size
        if not pays(size, self.take):
            return self
        merged = Merged(size, float(in_order(totals_of(self.y, self.weights))[0]))
        for start in range(0, size, STEP):
            if not merged.add(self.part(start, start + STEP)):
                return self
        return merged.columns

    def hashes(self) -> NDArray[np.uint64]:
        """A hash of each row's values."""
        hashes = np.zeros(self.y.size, np.uint64)
        for column in self.keys():
            values = np.ascontiguousarray(column)
            hashes ^= values.astype(float if values.dtype.kind == "f" else np.int64, copy=False).view(np.uint64)
            hashes *= np.uint64(0x9E3779B97F4A7C15)
            hashes ^= hashes >> np.uint64(29)
            hashes += np.uint64(0xBF58476D1CE4E5B9)
        return hashes

    def keys(self) -> list[NDArray[Any]]:
        """The columns in which duplicates agree."""
        offset = [] if self.offset is None else [self.offset]
        return [*self.x, self.y, *offset, *self.strata.values()]


def pays(size: int, take: Callable[[Integers], Columns]) -> bool:
    """Whether merging duplicates should pay, judged by some of so many rows."""
    return repeats(size, take(looked_at(size)))


def looked_at(size: int) -> Integers:
    """Some of so many rows, by which to judge: those of a few stretches, in ascending order."""
    rng = np.random.default_rng(size)
    if size <= PLACES * STEP:
        return scattered(size, LOOK, rng)
    stretches, places = scattered(size // STEP, PLACES, rng), scattered(PLACES * STEP, LOOK, rng)
    return np.asarray(stretches[places // STEP] * STEP + places % STEP)


def repeats(size: int, some: Columns) -> bool:
    """Whether some rows repeat so often that merging duplicates should pay.

    It does if at least every second row goes, and what is left is of moderate size whatever the number of rows.
    """
    seen = some.hashes()
    again = seen.size - np.unique(seen).size
    # With d equally likely distinct rows a sample of m has about m^2 / 2d repeats, and there are no fewer of them.
    return again > 0 and seen.size**2 / (2 * again) <= min(size, most_distinct(some))


def most_distinct(like: Columns) -> int:
    """How many distinct rows there may be for duplicates to be merged: rows may be too many to be held in memory."""
    return MOST_NUMBERS // len(like.keys())


class Merged:
    """Distinct rows with the weights of all their duplicates, in the order in which they first come.

    Exact: candidates are found by a hash and then compared value by value. Weights are counted in so small a unit, by
    the `total` of all, that sums are exact whatever their order, and do not depend on who has which rows. Whole weights
    are whole numbers of units.
    """

    def __init__(self, size: int, total: float) -> None:
        self._most, self._distinct = size // 2, list[Columns]()
        self._hashes, self._places = np.empty(0, np.uint64), np.empty(0, np.intp)
        self._unit = 2.0 ** (int(np.ceil(np.log2(max(total, 1.0)))) - BITS)
        self._units = np.empty(0, np.int64)

    @property
    def columns(self) -> Columns:
        """The distinct rows."""
        weights = np.asarray(self._units * self._unit, dtype=float)
        return Columns.joined(self._distinct)._replace(weights=None if (weights == 1).all() else weights)

    @property
    def counted(self) -> tuple[Columns, NDArray[np.int64]] | None:
        """The same and its weights in units, for another one with the same total; None without rows."""
        return (Columns.joined(self._distinct), self._units) if self._distinct else None

    def add(self, part: Columns, units: NDArray[np.int64] | None = None) -> bool:
        """More rows, whose weights may be in units; returns whether it still pays to merge them."""
        hashes, first, inverse = np.unique(part.hashes(), return_index=True, return_inverse=True)
        at = np.minimum(np.searchsorted(self._hashes, hashes), max(0, self._hashes.size - 1))
        known = self._hashes[at] == hashes if self._hashes.size else np.zeros(hashes.size, bool)
        new = np.flatnonzero(~known)
        new = new[np.argsort(first[new])]
        places = np.empty(hashes.size, np.intp)
        places[known], places[new] = self._places[at[known]], self._units.size + np.arange(new.size)
        self._distinct = [Columns.joined([*self._distinct, part.take(first[new])])]
        others = self._distinct[0].keys()
        same = all(bool((own == other[places[inverse]]).all()) for own, other in zip(part.keys(), others, strict=True))
        self._units = np.append(self._units, np.zeros(new.size, np.int64))
        np.add.at(self._units, places[inverse], self._in_units(part) if units is None else units)
        order = np.argsort(every := np.append(self._hashes, hashes[new]), kind="stable")
        self._hashes, self._places = every[order], np.append(self._places, places[new])[order]
        return same and self._units.size <= min(self._most, most_distinct(part))

    def _in_units(self, part: Columns) -> NDArray[np.int64]:
        if part.weights is None:
            return np.full(part.y.size, int(1 / self._unit))
        return np.rint(part.weights / self._unit).astype(np.int64)
