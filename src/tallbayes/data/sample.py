"""Rows that stand for all rows, taken from pieces by a rule that looks at the number of a row alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SAMPLE = 1 << 18  # rows; data with no more of them are taken whole
SEED = np.uint64(0x9E3779B97F4A7C15)

Numbers = NDArray[np.int64]


class Rows(NamedTuple):
    """Some rows of a piece: their numbers among all rows, and their columns."""

    numbers: Numbers
    columns: Mapping[str, Any]

    def take(self, chosen: Any) -> Rows:
        """Some of them."""
        return Rows(self.numbers[chosen], {name: values[chosen] for name, values in self.columns.items()})


class Sample:
    """The rows whose numbers have the smallest hashes, `most` of them, and rows that must be among them.

    Which rows these are does not depend on how the data come in pieces.

    >>> sample = Sample(most=3)
    >>> for start in (0, 4):
    ...     sample.add(Rows(np.arange(start, start + 4), {"x": np.arange(start, start + 4) / 2}))
    >>> [rows.numbers.tolist() for rows in sample.rows()]
    [[2], [4, 6]]
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = SAMPLE if most is None else most
        self._parts: list[tuple[Rows, NDArray[np.uint64]]] = []
        self._count, self._bound = 0, np.uint64(2**64 - 1)
        self._musts: dict[Any, tuple[float, Rows]] = {}

    def add(self, rows: Rows) -> None:
        """Take what belongs to the sample so far."""
        hashes = _hashes(rows.numbers)
        if not (below := hashes <= self._bound).all():
            rows, hashes = rows.take(below), hashes[below]
        if not hashes.size:
            return
        self._parts.append((rows, hashes))
        self._count += hashes.size
        if self._count > 2 * self.most:  # rarely, since fewer and fewer rows are taken
            self._prune()

    def _prune(self) -> None:
        every = np.concatenate([hashes for _, hashes in self._parts])
        self._bound = np.partition(every, self.most - 1)[self.most - 1]
        self._parts = [(part.take(keep), h[keep]) for part, h in self._parts if (keep := h <= self._bound).any()]
        self._count = self.most

    def then(self, later: Sample) -> None:
        """Take what a sample of later rows has."""
        self._bound = min(self._bound, later._bound)
        self._parts += later._parts
        self._count += later._count
        if self._count > 2 * self.most:
            self._prune()
        for reason, (rank, row) in later._musts.items():
            self.must(reason, rank, row)

    def must(self, reason: Any, rank: float, row: Rows) -> None:
        """A row that has to be there, unless another with the same reason ranks higher."""
        if reason not in self._musts or self._musts[reason][0] < rank:
            self._musts[reason] = rank, row

    def rows(self) -> list[Rows]:
        """All of them in order, each once."""
        if self._count > self.most:
            self._prune()
        parts = [part for part, _ in self._parts]
        there = set(np.concatenate([part.numbers for part in parts]).tolist()) if self._musts else set()
        for _, row in self._musts.values():
            if row.numbers[0] not in there:
                there.add(row.numbers[0])
                parts.append(row)
        return sorted(parts, key=lambda part: part.numbers[0])


def _hashes(numbers: Numbers) -> NDArray[np.uint64]:
    """Numbers that look random, all different for different row numbers (the finaliser of splitmix64)."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * SEED
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
