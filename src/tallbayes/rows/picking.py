"""Rows by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Once

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Picked:
    """A task: the rows with these numbers, which ascend.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> MemoryRows(np.arange(8.0)[None], np.zeros(8)).reduce(Picked(np.array([2, 5]))).x
    array([[2., 5.]])
    """

    numbers: NDArray[np.intp]

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 0

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        start = arrays.block * LENGTH
        first, last = np.searchsorted(self.numbers, [start, start + arrays.size])
        return arrays.parts(self.numbers[first:last] - start)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Arrays:
        """See `Task`."""
        return Arrays.joined(parts, rows.strata, rows.groups)


@dataclass(frozen=True)
class NotBinary(Once):
    """A task: the number of the first row whose outcome is neither 0 nor 1, or None.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> MemoryRows(np.ones((1, 3)), [0.0, 1.0, 0.5]).reduce(NotBinary())
    2
    """

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        found = np.flatnonzero((arrays.y != 0) & (arrays.y != 1))[:1]
        return (arrays.block * LENGTH + found,)

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> int | None:
        """See `Task`."""
        return int(parts[0][0]) if parts[0].size else None
