"""Rows in a file: columns in chunks of whole blocks, each as short as it can be without loss (`palette.py`).

A chunk's columns lie one behind the other, so that a pass reads the file from its beginning to its end.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import NONE, Arrays, totals_of
from tallbayes.rows.palette import Palette, look_up
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.threads import in_turns

Array = NDArray[np.float64]

BLOCKS = 2  # of a chunk: as many numbers as a processor's own cache holds
CHUNK_ROWS = BLOCKS * LENGTH
ALIGNED = 64  # bytes
KINDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 8: np.float64}  # by their width


@dataclass(frozen=True)
class Fields:
    """Which columns of a store are what: those of the design, the outcome, and others if there are any."""

    x: tuple[int, ...]
    y: int
    weights: int | None
    offset: int | None
    strata: Mapping[str, int]
    group: str | None
    groups: int

    @classmethod
    def of(
        cls, columns: int, weights: bool, offset: bool, strata: Sequence[str], group: str | None, groups: int
    ) -> Fields:
        """One behind the other."""
        others = iter(range(columns + 1, columns + 3 + len(strata)))
        return cls(
            tuple(range(columns)),
            columns,
            next(others) if weights else None,
            next(others) if offset else None,
            {name: next(others) for name in strata},
            group,
            groups,
        )

    @property
    def count(self) -> int:
        """Number of columns in the file."""
        return len(self.x) + 1 + (self.weights is not None) + (self.offset is not None) + len(self.strata)


class StoreWriter:
    """Appends rows to a file, chunk by chunk.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     writer = StoreWriter(file, Fields.of(2, False, False, (), None, 0))
    ...     writer.add([np.ones(3), np.array([0.5, 0.25, 0.5]), np.array([0.0, 1.0, 1.0])])
    ...     store = writer.finish()
    >>> store.piece(0).x
    array([[1.  , 1.  , 1.  ],
           [0.5 , 0.25, 0.5 ]])
    """

    def __init__(self, file: IO[bytes], fields: Fields, palettes: Sequence[Palette] | None = None) -> None:
        self._file, self._fields, self._rows = file, fields, 0
        self._palettes = [Palette() for _ in range(fields.count)] if palettes is None else palettes
        self._offsets: list[list[int]] = []
        self._totals: list[Array] = []
        self._widths: list[list[int]] = []
        self._end = 0

    def add(self, columns: Sequence[Array]) -> None:
        """The next chunk: all chunks but the last must have CHUNK_ROWS rows."""
        if self._rows % CHUNK_ROWS:
            raise ValueError("only the last chunk of a store may be shorter")
        rows, offsets, widths = columns[0].size, [], []
        encoded: list[NDArray[Any]] = [NONE] * len(columns)

        def encode(column: int) -> None:
            encoded[column] = self._palettes[column].encode(np.ascontiguousarray(columns[column], dtype=float))

        in_turns(encode, len(columns))
        for codes in encoded:
            same = codes.size < rows or (rows == 1 and codes.dtype != np.float64)
            offsets.append(self._end)
            widths.append(0 if same else codes.dtype.itemsize)
            if same:  # its code takes the place of where it lies
                offsets[-1] = int(codes[0])
                continue
            size = codes.nbytes
            self._file.write(codes.tobytes())
            self._file.write(bytes(-size % ALIGNED))
            self._end += size + -size % ALIGNED
        self._rows += rows
        weights = None if self._fields.weights is None else columns[self._fields.weights]
        self._totals.append(totals_of(columns[self._fields.y], weights))
        self._offsets.append(offsets)
        self._widths.append(widths)

    def finish(self) -> Store:
        """All that was added, mapped into memory; the file may be closed."""
        self._file.flush()
        index = np.array(self._offsets, np.int64), np.array(self._widths, np.uint8)
        palettes = tuple(palette.values for palette in self._palettes)
        totals = np.concatenate(self._totals)
        return Store(self._fields, self._rows, *index, palettes, totals, mapped(self._file, self._end))


def mapped(file: IO[bytes], size: int) -> NDArray[np.uint8]:
    """The bytes of a file, read when they are looked at."""
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)


@dataclass(frozen=True, eq=False)
class Store:
    """Rows in a file."""

    fields: Fields
    rows: int
    offsets: NDArray[np.int64]  # (chunks, columns) where a chunk's column lies; its code, if it has one value only
    widths: NDArray[np.uint8]  # (chunks, columns) bytes of a number; 0 if it has one value only
    palettes: tuple[Array, ...]  # of each column
    totals: Array  # (blocks, 2) sums of weights and of weighted outcomes
    content: NDArray[np.uint8]
    block: int = 0  # the number of its first block, where it is a part of all rows

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.offsets)

    def with_columns(self, places: Sequence[int]) -> Store:
        """The store with these columns of the design only."""
        return replace(self, fields=replace(self.fields, x=tuple(self.fields.x[place] for place in places)))

    def size(self, chunk: int) -> int:
        """Rows of a chunk."""
        return min(CHUNK_ROWS, self.rows - chunk * CHUNK_ROWS)

    def column(self, chunk: int, column: int, out: Array, first: int = 0) -> None:
        """A chunk of a column from its row `first` on, as many rows as `out` has, read into it."""
        at, width = int(self.offsets[chunk, column]), int(self.widths[chunk, column])
        if width == 0:
            out[:] = self.palettes[column][at]
            return
        at += width * first
        stored = self.content[at : at + width * out.size].view(KINDS[width])
        if width == 8:
            out[:] = stored
        else:
            look_up(stored, self.palettes[column], out)

    def piece(self, chunk: int, room: Array | None = None) -> Arrays:
        """The rows of a chunk as arrays in memory; those of the design lie in `room`, if some is given."""
        return self.run(chunk * CHUNK_ROWS, chunk * CHUNK_ROWS + self.size(chunk), room)

    def run(self, start: int, stop: int, room: Array | None = None) -> Arrays:
        """The rows start..stop; those of the design lie in `room`, if some is given."""
        size, fields = stop - start, self.fields
        p = len(fields.x)
        x = (np.empty(p * size) if room is None else room[: p * size]).reshape(p, size)

        def read(column: int | None, out: Array | None = None) -> Array:
            if column is None:
                return NONE
            out = np.empty(size) if out is None else out
            for low in range(start - start % CHUNK_ROWS, stop, CHUNK_ROWS):
                first, last = max(start, low), min(stop, low + CHUNK_ROWS)
                self.column(low // CHUNK_ROWS, column, out[first - start : last - start], first - low)
            return out

        for out, column in zip(x, fields.x, strict=True):
            read(column, out)

        strata = {name: read(column).astype(np.int64) for name, column in fields.strata.items()}
        codes = np.empty(0, np.int32) if fields.group is None else strata[fields.group].astype(np.int32)
        others = read(fields.y), read(fields.weights), read(fields.offset)
        return Arrays(x, *others, strata, codes, fields.groups, self.block + start // LENGTH)
