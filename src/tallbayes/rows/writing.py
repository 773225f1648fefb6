"""Rows that do not fit into memory are written to a store, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.cutting import Chunks
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.duplicates import Columns, Merged, pays
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import Room
from tallbayes.rows.sorting import as_columns, sorted_by_group
from tallbayes.rows.store import CHUNK_ROWS, Fields, Store


class DiskBuilder:
    """Takes the columns of rows piece by piece, in order, and gives the rows (see `Builder`).

    They are written to `file` if one is given, so that they can be found again, else to a scratch file.
    """

    def __init__(self, group: str | None, groups: int, room: Room, file: IO[bytes] | None = None) -> None:
        self._group, self._groups, self._room, self._file = group, groups, room, file
        self._writer: Chunks | None = None

    def add(self, part: Columns) -> None:
        """Take the rows of the next piece."""
        if part.weights is not None and not part.weights.all():
            part = part.take(np.flatnonzero(part.weights))
        if self._writer is None:
            sorted_later = self._group is not None
            own = self._room.file() if self._file is None or sorted_later else self._file
            self._writer = Chunks(own, self._fields(part), self._room)
        self._writer.add(part)

    def _fields(self, part: Columns) -> Fields:
        optional = part.weights is not None, part.offset is not None
        return Fields.of(len(part.x), *optional, tuple(part.strata), self._group, self._groups)

    def finish(self) -> RowsAtHand:
        """The rows: sorted by group if there is one, with duplicates merged where that pays."""
        assert self._writer is not None
        store = self._writer.finish()
        if self._group is not None:
            store = self._in_order(store)
        merged = _merged(store)
        return DiskRows(store, self._room) if merged is None else MemoryRows(*merged, self._group, self._groups)

    def _in_order(self, store: Store) -> Store:
        writer = Chunks(self._room.file() if self._file is None else self._file, store.fields, self._room)
        for part in sorted_by_group(store, self._room.memory):
            writer.add(part)
        return writer.finish()


def _merged(store: Store) -> Columns | None:
    """Duplicates merged into weighted rows, if a sample shows that it pays."""
    if not pays(store.rows, lambda rows: Columns.joined(list(_taken(store, rows)))):
        return None
    merged = Merged(store.rows)
    for part in _pieces(store, range(store.chunks)):
        if not merged.add(part):
            return None
    return merged.columns


def _taken(store: Store, rows: NDArray[np.intp]) -> Iterator[Columns]:
    """Some rows, in ascending order."""
    chunks = rows // CHUNK_ROWS
    for chunk in np.unique(chunks).tolist():
        yield as_columns(store.piece(chunk), rows[chunks == chunk] - chunk * CHUNK_ROWS)


def _pieces(store: Store, chunks: Iterable[int]) -> Iterator[Columns]:
    for chunk in chunks:
        yield as_columns(store.piece(chunk), np.arange(store.size(chunk)))
