"""Rows that do not fit into memory are written to a store, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

import numpy as np

from tallbayes.rows.cutting import Chunks
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.duplicates import Columns, Merged, pays
from tallbayes.rows.passes import in_order
from tallbayes.rows.room import Room
from tallbayes.rows.sorting import as_columns, sorted_by_group, taken_from
from tallbayes.rows.store import Fields, Store


class DiskBuilder:
    """Takes the columns of rows piece by piece into a file: one that is given, or a scratch file."""

    def __init__(
        self, group: str | None, groups: int, room: Room, file: IO[bytes] | None = None, merge: bool = True
    ) -> None:
        self._group, self._groups, self._room, self._file, self._merge = group, groups, room, file, merge
        self._chunks: Chunks | None = None

    def add(self, part: Columns) -> None:
        """See `Builder`."""
        part = part.heard()
        if self._chunks is None:
            given = self._file if self._group is None else None  # it is for rows in their order
            self._chunks = self._start(part, given)
        self._chunks.add(part)

    def close(self) -> None:
        """See `Builder`."""
        if self._chunks is not None:
            self._chunks.close()

    def finish(self) -> DiskRows:
        """See `Builder`."""
        return DiskRows(self.store(), self._room)

    def store(self) -> Store:
        """All rows, sorted by group if there is one, with duplicates merged where that pays."""
        assert self._chunks is not None
        store = self._chunks.finish()
        if self._group is not None:
            store = self._again(sorted_by_group(store, self._room.memory))
        merged = _merged(store) if self._merge else None
        return store if merged is None else self._again([merged])

    def _again(self, parts: Iterable[Columns]) -> Store:
        """Other rows in place of those that the file has."""
        chunks = None
        for part in parts:
            chunks = chunks or self._start(part, self._file)
            chunks.add(part)
        assert chunks is not None
        return chunks.finish()

    def _start(self, part: Columns, file: IO[bytes] | None) -> Chunks:
        optional = part.weights is not None, part.offset is not None
        fields = Fields.of(len(part.x), *optional, tuple(part.strata), self._group, self._groups)
        return Chunks(file, fields, self._room)


def _merged(store: Store) -> Columns | None:
    """Duplicates merged into weighted rows, if a sample shows that it pays."""
    if not pays(store.rows, lambda rows: Columns.joined(list(taken_from(store, rows)))):
        return None
    merged = Merged(store.rows, float(in_order(store.totals)[0]))
    for chunk in range(store.chunks):
        if not merged.add(as_columns(store.piece(chunk), np.arange(store.size(chunk)))):
            return None
    return merged.columns
