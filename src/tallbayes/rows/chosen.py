"""Some rows of the data, chosen by their numbers: the same ones in whatever order rows lie.

The number of a row is its place, or where rows were sorted or would have been merged, what they keep as the stratum
NUMBER. A simple random sample without replacement has the rows whose numbers are smallest once they are scrambled: the
same key chooses the same rows of the same data, whatever model they are for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

NUMBER = "number of the row"  # a stratum that rows have if it is asked for
SPARE = 8.0  # standard deviations of the number of rows below a threshold: so few there are never


class Chosen(NamedTuple):
    """Rows and their numbers, which ascend."""

    numbers: Numbers
    arrays: Arrays


@dataclass(frozen=True, eq=False)
class _ByNumber:
    """What tasks that choose rows have in common."""

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 0

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        numbers, rows = [np.empty(0, np.int64)], [np.empty(0, np.intp)]
        for start in range(0, arrays.size, LENGTH):
            every = numbers_of(arrays, start, min(arrays.size, start + LENGTH))
            some = np.flatnonzero(self.has(every))
            numbers.append(every[some])
            rows.append(start + some)
        return np.concatenate(numbers), *arrays.parts(np.concatenate(rows))

    def has(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Which of the rows with these numbers are among those that may be chosen."""
        raise NotImplementedError

    def kept(self, numbers: Numbers) -> NDArray[np.intp]:
        """Which of those that may be are chosen, in the order of their numbers."""
        return np.argsort(numbers, kind="stable")

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Chosen:
        """See `Task`."""
        numbers, *others = parts
        order = self.kept(numbers)
        picked = tuple(part[order] if part.size else part for part in others)
        return Chosen(numbers[order], Arrays.joined(picked, rows.strata, rows.groups))


@dataclass(frozen=True, eq=False)
class Listed(_ByNumber):
    """A task: the rows with these numbers, which ascend.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> MemoryRows(np.arange(8.0)[None], np.zeros(8)).reduce(Listed(np.array([2, 5]))).arrays.x
    array([[2., 5.]])
    """

    numbers: Numbers

    def has(self, numbers: Numbers) -> NDArray[np.bool_]:
        """See `_ByNumber`."""
        return np.isin(numbers, self.numbers, assume_unique=True)


@dataclass(frozen=True, eq=False)
class AtRandom(_ByNumber):
    """A task: so many of `rows` rows, all of them if there are no more.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> MemoryRows(np.arange(1_000.0)[None], np.zeros(1_000)).reduce(AtRandom(3, 1_000, key=1)).numbers.size
    3
    """

    size: int
    rows: int
    key: int

    def has(self, numbers: Numbers) -> NDArray[np.bool_]:
        """See `_ByNumber`: a few more than are wanted."""
        share = (self.size + SPARE * self.size**0.5 + SPARE) / self.rows
        if share >= 1:
            return np.ones(numbers.size, bool)
        return scrambled(numbers, self.key) < np.uint64(share * 2.0**64)

    def kept(self, numbers: Numbers) -> NDArray[np.intp]:
        """See `_ByNumber`."""
        first = np.argsort(scrambled(numbers, self.key), kind="stable")[: self.size]
        return np.asarray(first[np.argsort(numbers[first])])


def numbers_of(arrays: Arrays, start: int, stop: int) -> Numbers:
    """The numbers of the rows start..stop."""
    kept, first = arrays.strata.get(NUMBER), arrays.block * LENGTH
    return np.arange(first + start, first + stop) if kept is None else kept[start:stop]


def scrambled(numbers: Numbers, key: int) -> NDArray[np.uint64]:
    """A random 64-bit number for each number, the same for the same key: the finaliser of SplitMix64, twice.

    Reference: G. L. Steele, D. Lea and C. H. Flood (2014), "Fast splittable pseudorandom number generators".

    >>> scrambled(np.arange(3), 1).tolist() == scrambled(np.arange(3), 1).tolist()
    True
    >>> len(set((scrambled(np.arange(10_000), 1) % np.uint64(2**40)).tolist()))
    10000
    """
    mixed = np.random.SeedSequence(key).generate_state(2, np.uint64)
    found = numbers.astype(np.uint64)
    for word in mixed:
        found = (found + word) * np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found = found ^ (found >> np.uint64(31))
    return found
