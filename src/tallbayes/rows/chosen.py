"""Some rows of the data, chosen by their numbers: the same ones in whatever order rows lie.

The number of a row is its place, or where rows were sorted or would have been merged, what they keep as the stratum
NUMBER. A simple random sample without replacement has the rows whose numbers are smallest once they are scrambled: the
same key chooses the same rows of the same data, whatever model they are for.

Where events are rare, a simple random sample holds hardly any of them. `ByEvent` draws from rows with an event (an
outcome that is not zero) and from those without apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Once

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
            stop = min(arrays.size, start + LENGTH)
            every = numbers_of(arrays, start, stop)
            some = np.flatnonzero(self.has(every, arrays.y[start:stop]))
            numbers.append(every[some])
            rows.append(start + some)
        return np.concatenate(numbers), *arrays.parts(np.concatenate(rows))

    def has(self, numbers: Numbers, y: Array) -> NDArray[np.bool_]:
        """Which of the rows with these numbers and outcomes are among those that may be chosen."""
        raise NotImplementedError

    def kept(self, numbers: Numbers, y: Array) -> NDArray[np.intp]:
        """Which of those that may be are chosen, in the order of their numbers."""
        some = self.some(numbers, y)
        return np.asarray(some[np.argsort(numbers[some], kind="stable")])

    def some(self, numbers: Numbers, y: Array) -> NDArray[np.intp]:
        """The same in any order; all of them."""
        return np.arange(numbers.size)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Chosen:
        """See `Task`."""
        numbers, *others = parts
        every = Arrays.joined(tuple(others), rows.strata, rows.groups)
        order = self.kept(numbers, every.y)
        return Chosen(numbers[order], every.take(order))


@dataclass(frozen=True, eq=False)
class Listed(_ByNumber):
    """A task: the rows with these numbers, which ascend.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> MemoryRows(np.arange(8.0)[None], np.zeros(8)).reduce(Listed(np.array([2, 5]))).arrays.x
    array([[2., 5.]])
    """

    numbers: Numbers

    def has(self, numbers: Numbers, y: Array) -> NDArray[np.bool_]:
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

    def has(self, numbers: Numbers, y: Array) -> NDArray[np.bool_]:
        """See `_ByNumber`: a few more than are wanted."""
        return _below(numbers, self.size, self.rows, self.key)

    def some(self, numbers: Numbers, y: Array) -> NDArray[np.intp]:
        """See `_ByNumber`."""
        return _first(numbers, self.size, self.key)


@dataclass(frozen=True, eq=False)
class ByEvent(_ByNumber):
    """A task: so many of the rows without an event and with one, each a simple random sample.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> rows = MemoryRows(np.arange(1_000.0)[None], np.arange(1_000) % 100 == 0.0)
    >>> ByEvent.of(20, rows.reduce(Events()), key=1).sizes
    (10, 10)
    >>> int(rows.reduce(ByEvent((10, 10), (990, 10), key=1)).arrays.y.sum())
    10
    """

    sizes: tuple[int, int]
    rows: tuple[int, int]
    key: int

    @classmethod
    def of(cls, size: int, rows: tuple[int, int], key: int) -> ByEvent:
        """Half of them with an event and half without, as far as there are so many."""
        size = min(size, sum(rows))
        events = min(rows[1], max(size // 2, size - rows[0]))
        return cls((size - events, events), rows, key)

    def has(self, numbers: Numbers, y: Array) -> NDArray[np.bool_]:
        """See `_ByNumber`."""
        quiet, eventful = (
            _below(numbers, size, rows, self.key) for size, rows in zip(self.sizes, self.rows, strict=True)
        )
        return np.where(y != 0, eventful, quiet)

    def some(self, numbers: Numbers, y: Array) -> NDArray[np.intp]:
        """See `_ByNumber`."""
        each = [np.flatnonzero((y != 0) == event) for event in (False, True)]
        first = [own[_first(numbers[own], size, self.key)] for own, size in zip(each, self.sizes, strict=True)]
        return np.concatenate(first)


class Events(Once):
    """A task: how many rows have no event, and how many have one."""

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        return (np.array([[arrays.size, np.count_nonzero(arrays.y)]]),)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> tuple[int, int]:
        """See `Task`."""
        every, events = parts[0].sum(axis=0).tolist()
        return every - events, events


def _below(numbers: Numbers, size: int, rows: int, key: int) -> NDArray[np.bool_]:
    """Which of `rows` rows may be among the `size` whose scrambled numbers are smallest: hardly more than these."""
    share = (size + SPARE * size**0.5 + SPARE) / max(rows, 1)
    if share >= 1:
        return np.ones(numbers.size, bool)
    return scrambled(numbers, key) < np.uint64(share * 2.0**64)


def _first(numbers: Numbers, size: int, key: int) -> NDArray[np.intp]:
    """The places of the `size` rows whose scrambled numbers are smallest."""
    return np.argsort(scrambled(numbers, key), kind="stable")[:size]


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
