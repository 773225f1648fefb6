"""Rows that do not fit into memory are written to a store, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.disk import DiskRows
from tallbayes.rows.duplicates import Columns, Merged, pays
from tallbayes.rows.room import Room, telling_of_space
from tallbayes.rows.sorting import as_columns, sorted_by_group
from tallbayes.rows.store import CHUNK_ROWS, Fields, Store, StoreWriter


class DiskBuilder:
    """Takes the columns of rows piece by piece into a file: one that is given, or a scratch file."""

    def __init__(self, group: str | None, groups: int, room: Room, file: IO[bytes] | None = None) -> None:
        self._group, self._groups, self._room, self._file = group, groups, room, file
        self._chunks: _Chunks | None = None

    def add(self, part: Columns) -> None:
        """See `Builder`."""
        if part.weights is not None and not part.weights.all():
            part = part.take(np.flatnonzero(part.weights))
        if self._chunks is None:
            given = self._file if self._group is None else None  # it is for rows in their order
            self._chunks = self._start(part, given)
        self._chunks.add(part)

    def finish(self) -> DiskRows:
        """See `Builder`."""
        return DiskRows(self.store(), self._room)

    def store(self) -> Store:
        """All rows, sorted by group if there is one, with duplicates merged where that pays."""
        assert self._chunks is not None
        store = self._chunks.finish()
        if self._group is not None:
            store = self._again(sorted_by_group(store, self._room.memory))
        merged = _merged(store)
        return store if merged is None else self._again([merged])

    def _again(self, parts: Iterable[Columns]) -> Store:
        """Other rows in place of those that the file has."""
        chunks = None
        for part in parts:
            chunks = chunks or self._start(part, self._file)
            chunks.add(part)
        assert chunks is not None
        return chunks.finish()

    def _start(self, part: Columns, file: IO[bytes] | None) -> _Chunks:
        optional = part.weights is not None, part.offset is not None
        fields = Fields.of(len(part.x), *optional, tuple(part.strata), self._group, self._groups)
        return _Chunks(file, fields, self._room)


class _Chunks:
    """Cuts rows into chunks and writes them, to a scratch file unless one is given."""

    def __init__(self, file: IO[bytes] | None, fields: Fields, room: Room) -> None:
        self._room, self._scratch = room, file is None
        self._file = room.file() if file is None else file
        self._file.seek(0)
        self._file.truncate()
        self._writer = StoreWriter(self._file, fields)
        self._left: list[Columns] = []  # less than a chunk

    def add(self, part: Columns) -> None:
        """More rows."""
        rows = Columns.joined([*self._left, part])
        whole = rows.y.size - rows.y.size % CHUNK_ROWS
        with telling_of_space(self._room):
            for start in range(0, whole, CHUNK_ROWS):
                self._writer.add(_in_file(rows.part(start, start + CHUNK_ROWS)))
        self._left = [rows.part(whole, rows.y.size)] if whole < rows.y.size else []

    def finish(self) -> Store:
        """All rows; a scratch file is closed, and lives on as long as it is mapped."""
        with telling_of_space(self._room):
            for rest in self._left:
                self._writer.add(_in_file(rest))
            store = self._writer.finish()
        if self._scratch:
            self._file.close()
        return store


def _in_file(part: Columns) -> list[NDArray[np.float64]]:
    """Columns in the order of `Fields.of`."""
    optional = [one for one in (part.weights, part.offset) if one is not None]
    return [*part.x, part.y, *optional, *(levels.astype(float) for levels in part.strata.values())]


def _merged(store: Store) -> Columns | None:
    """Duplicates merged into weighted rows, if a sample shows that it pays."""
    if not pays(store.rows, lambda rows: Columns.joined(list(_taken(store, rows)))):
        return None
    merged = Merged(store.rows)
    for chunk in range(store.chunks):
        if not merged.add(as_columns(store.piece(chunk), np.arange(store.size(chunk)))):
            return None
    return merged.columns


def _taken(store: Store, rows: NDArray[np.intp]) -> Iterator[Columns]:
    """Some rows, in ascending order."""
    chunks = rows // CHUNK_ROWS
    for chunk in np.unique(chunks).tolist():
        yield as_columns(store.piece(chunk), rows[chunks == chunk] - chunk * CHUNK_ROWS)
