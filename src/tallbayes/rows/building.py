"""Rows from the columns of one piece after the other."""

from __future__ import annotations

from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import together
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import ROOM, Room
from tallbayes.rows.writing import DiskBuilder

PER_ROW = 6  # numbers that are held of a row besides its columns: outcome, weight, offset, and what kernels keep


class Builder(Protocol):
    """Takes the columns of rows piece by piece, in order, and gives the rows.

    Those of weight zero say nothing, and are left out. Rows that come in groups are sorted by them.
    """

    def add(self, part: Columns) -> None:
        """Take the rows of the next piece."""

    def finish(self) -> RowsAtHand:
        """The rows: sorted by group if there is one, with duplicates merged where that pays."""

    def close(self) -> None:
        """Let go of the rows, if something went wrong."""


def builder(
    columns: int,
    most: int,
    group: str | None = None,
    groups: int = 0,
    room: Room = ROOM,
    file: IO[bytes] | None = None,
    merge: bool = True,
) -> Builder:
    """For `most` rows at most, in memory if there is room for them; in a file if one is given.

    `group` names the stratum that has the numbers of the rows' groups. `merge` says whether duplicates may become rows
    with weights.
    """
    if file is None and fits(columns, most, room):
        return MemoryBuilder(columns, most, group, groups, merge)
    return DiskBuilder(group, groups, room, file, merge)


def fits(columns: int, rows: int, room: Room) -> bool:
    """Whether there is room in memory for so many rows.

    >>> fits(7, 2_000_000, Room(10**9)), fits(7, 100_000_000, Room(10**9))
    (True, False)
    """
    return 8 * rows * (columns + PER_ROW) <= room.memory


class MemoryBuilder:
    """Takes the columns of rows piece by piece into memory that is taken once, for `most` rows at most.

    >>> builder = MemoryBuilder(columns=1, most=4)
    >>> builder.add(Columns(np.array([[1.0, 2.0]]), np.array([0.0, 1.0]), np.array([3.0, 0.0]), None, {}))
    >>> builder.add(Columns(np.array([[4.0]]), np.array([1.0]), np.array([2.0]), None, {}))
    >>> rows = builder.finish()
    >>> rows.size, rows.total_weight
    (2, 5.0)
    """

    def __init__(self, columns: int, most: int, group: str | None = None, groups: int = 0, merge: bool = True) -> None:
        self._columns, self._most, self._group, self._groups, self._merge = columns, most, group, groups, merge
        self._held: Columns | None = None
        self._size = 0

    def add(self, part: Columns) -> None:
        """See `Builder`."""
        part = part.heard()
        if self._held is None and part.y.size == self._most:  # all rows at once, which need not be copied
            self._held, self._size = part, self._most
            return
        if self._held is None:
            self._held = self._empty(part)
        begin, end = self._size, self._size + part.y.size
        self._held.x[:, begin:end] = part.x
        for held, given in zip(_per_row(self._held), _per_row(part), strict=True):
            held[begin:end] = given
        self._size = end

    def _empty(self, like: Columns) -> Columns:
        """Memory for all rows, taken once."""
        weights, offset = (None if given is None else np.empty(self._most) for given in (like.weights, like.offset))
        strata = {name: np.empty(self._most, np.int64) for name in like.strata}
        return Columns(np.empty((self._columns, self._most)), np.empty(self._most), weights, offset, strata)

    def close(self) -> None:
        """See `Builder`."""
        self._held = None

    def finish(self) -> RowsAtHand:
        """See `Builder`."""
        assert self._held is not None
        columns = _first(self._held, self._size)
        if self._group is not None:
            columns = columns.take(together(columns.strata[self._group]))
        self._held = None
        return MemoryRows(*(columns.without_duplicates() if self._merge else columns), self._group, self._groups)


def _per_row(columns: Columns) -> list[NDArray[Any]]:
    """All that columns have besides x."""
    parts = [columns.y, columns.weights, columns.offset, *columns.strata.values()]
    return [part for part in parts if part is not None]


def _first(columns: Columns, size: int) -> Columns:
    """So many of the rows, the first ones, in the memory that they lie in."""
    if size == columns.y.size:
        return columns
    flat, width = columns.x.reshape(-1), len(columns.x)
    for j in range(1, width):  # moved to the left, so that each column follows the one before
        flat[j * size : (j + 1) * size] = columns.x[j, :size]
    x = flat[: width * size].reshape(width, size)
    weights, offset = (None if part is None else part[:size] for part in (columns.weights, columns.offset))
    return Columns(x, columns.y[:size], weights, offset, {name: codes[:size] for name, codes in columns.strata.items()})
