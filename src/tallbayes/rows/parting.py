"""Rows on a disk are dealt to several stores, chunk by chunk.

All stores share the palettes of their columns. A store takes less than a chunk in memory until that is written; where
there are too many stores for that, some are written in one pass and others in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tallbayes.rows.arrays import Arrays
from tallbayes.rows.cutting import Chunks
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.palette import Palette
from tallbayes.rows.protocol import Split
from tallbayes.rows.room import Room
from tallbayes.rows.store import CHUNK_ROWS, Fields, Store

SHARE = 4  # of the memory for chunks that are not whole yet


def part_stores(
    pieces: Callable[[], Iterator[Arrays]], fields: Fields, parts: int, split: Split, room: Room
) -> list[Store]:
    """So many stores with the rows of all pieces, in their order."""
    palettes, stores = [Palette() for _ in range(fields.count)], list[Store]()
    at_once = max(1, room.memory // (SHARE * 8 * fields.count * CHUNK_ROWS))
    for first in range(0, parts, at_once):
        numbers = range(first, min(parts, first + at_once))
        with ExitStack() as files:
            writers = [_Part(fields, room, palettes, files) for _ in numbers]
            for arrays in pieces():
                for writer, part in zip(writers, split(arrays, numbers), strict=True):
                    writer.add(part)
            stores += [writer.finish() for writer in writers]
    values = tuple(palette.values for palette in palettes)
    return [replace(store, palettes=values) for store in stores]


class _Part:
    """A store on its way."""

    def __init__(self, fields: Fields, room: Room, palettes: Sequence[Palette], files: ExitStack) -> None:
        self._fields, self._alike = fields, True
        own = Fields.of(
            len(fields.x), fields.weights is not None, fields.offset is not None, tuple(fields.strata), fields.group, 0
        )
        self._groups, self._chunks = 0, Chunks(None, own, room, palettes)
        files.callback(self._chunks.close)

    def add(self, part: Arrays) -> None:
        """More rows."""
        fields = self._fields
        self._alike &= bool((part.weights == 1).all())
        self._groups = part.groups
        weights = None if fields.weights is None else part.weights
        offset = None if fields.offset is None else part.offset
        strata = {name: part.codes if name == fields.group else part.strata[name] for name in fields.strata}
        self._chunks.add(Columns(part.x, part.y, weights, offset, strata))

    def finish(self) -> Store:
        """The rows; without weights, if all of them are one."""
        store = self._chunks.finish()
        weights = None if self._alike else store.fields.weights
        return replace(store, fields=replace(store.fields, weights=weights, groups=self._groups))
