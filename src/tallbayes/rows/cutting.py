"""Rows are cut into the chunks of a store, however they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.duplicates import Columns
from tallbayes.rows.palette import Palette
from tallbayes.rows.room import Room, telling_of_space
from tallbayes.rows.store import CHUNK_ROWS, Fields, Store, StoreWriter


class Chunks:
    """Takes rows in parts of any length, and writes them to a file: one that is given, or a scratch file.

    >>> room = Room.of()
    >>> chunks = Chunks(None, Fields.of(1, False, False, (), None, 0), room)
    >>> for value in (0.0, 1.0):
    ...     chunks.add(Columns(np.full((1, 3), value), np.zeros(3), None, None, {}))
    >>> chunks.finish().piece(0).x
    array([[0., 0., 0., 1., 1., 1.]])
    """

    def __init__(
        self, file: IO[bytes] | None, fields: Fields, room: Room, palettes: Sequence[Palette] | None = None
    ) -> None:
        self._room, self._scratch = room, file is None
        self._file = room.file() if file is None else file
        self._file.seek(0)
        self._file.truncate()
        self._writer = StoreWriter(self._file, fields, palettes)
        self._left: list[Columns] = []  # less than a chunk
        self._rows = 0  # of these

    def add(self, part: Columns) -> None:
        """More rows."""
        self._left.append(part)
        self._rows += part.y.size
        if self._rows < CHUNK_ROWS:
            return
        rows, whole = Columns.joined(self._left), self._rows - self._rows % CHUNK_ROWS
        with self._writing():
            for start in range(0, whole, CHUNK_ROWS):
                self._writer.add(_in_file(rows.part(start, start + CHUNK_ROWS)))
        self._left, self._rows = [rows.take(np.arange(whole, self._rows))], self._rows - whole

    def finish(self) -> Store:
        """All rows; a scratch file is closed, and lives on as long as it is mapped."""
        with self._writing():
            if self._rows:
                self._writer.add(_in_file(Columns.joined(self._left)))
            store = self._writer.finish()
        self.close()
        return store

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with telling_of_space(self._room):
                yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close a scratch file, whole or not."""
        if self._scratch:
            with suppress(OSError):  # there was no space for what it still had to write
                self._file.close()


def _in_file(part: Columns) -> list[NDArray[np.float64]]:
    """Columns in the order of `Fields.of`."""
    optional = [one for one in (part.weights, part.offset) if one is not None]
    return [*part.x, part.y, *optional, *(levels.astype(float) for levels in part.strata.values())]
