"""Rows on a disk: passes go through the chunks of a store, and what has to be at hand is mapped from scratch files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Concatenate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.once import once
from tallbayes.data.progress import passing
from tallbayes.rows.arrays import NONE, Arrays, vectors
from tallbayes.rows.door import kept
from tallbayes.rows.in_parts import InParts
from tallbayes.rows.memory import NOTHING, MemoryRows
from tallbayes.rows.parting import part_stores
from tallbayes.rows.protocol import Count, Found, Given, Split, Sums, Task
from tallbayes.rows.room import Room
from tallbayes.rows.store import CHUNK_ROWS, Fields, Store
from tallbayes.rows.tasks import Parts
from tallbayes.rows.threads import in_turns

Array = NDArray[np.float64]

RUNS = 32  # of chunks that a thread goes through at a time, at least where there are so many chunks


class DiskRows(InParts):
    """Rows in a store: decoded a chunk at a time, and what tasks say of the chunks is joined in their order."""

    def __init__(self, store: Store, room: Room) -> None:
        super().__init__()
        self.store, self._room, self._own = store, room, threading.local()

    def _like(self, store: Store) -> DiskRows:
        """Other rows: those that are looked at in one thread one after the other share its room."""
        rows = DiskRows(store, self._room)
        rows._own = self._own
        return rows

    @property
    def size(self) -> int:
        """See `Rows`."""
        return self.store.rows

    @property
    def fields(self) -> Fields:
        """See `InParts`."""
        return self.store.fields

    @property
    def totals(self) -> Array:
        """See `InParts`."""
        return self.store.totals

    def parts(self, *questions: tuple[Task[Any], ArrayLike | None]) -> list[tuple[Task[Any], Array, Parts]]:
        """See `InParts`."""
        tasks = [task for task, _ in questions]
        given = [NOTHING if params is None else vectors(params, self.width) for _, params in questions]
        chunks = self.store.chunks
        at_a_time = max(1, chunks // RUNS)
        runs = -(-chunks // at_a_time)
        said: list[list[list[Parts]]] = [[[] for _ in range(runs)] for _ in tasks]
        sums = [isinstance(task, Sums) for task in tasks]
        with passing("pass over all rows", self.size) as done:

            def look(run: int) -> None:
                for chunk in range(run * at_a_time, min(chunks, (run + 1) * at_a_time)):
                    arrays = self._piece(chunk)
                    for task, params, parts, adds_up in zip(tasks, given, said, sums, strict=True):
                        parts[run].append(task.over(arrays, params))
                        if adds_up:
                            parts[run] = [tuple(sum(each) for each in zip(*parts[run], strict=True))]
                    done(arrays.size)

            in_turns(look, runs)
        self.count(self.size * sum(task.looks(params) for task, params in zip(tasks, given, strict=True)), 1)
        joined = (tuple(np.concatenate(part) for part in zip(*chain(*parts), strict=True)) for parts in said)
        return list(zip(tasks, given, joined, strict=True))

    def _piece(self, chunk: int) -> Arrays:
        """The rows of a chunk, in room that each thread has and uses again: tasks answer with copies."""
        if getattr(self._own, "room", None) is None or self._own.room.size < self.columns * CHUNK_ROWS:
            self._own.room = np.empty(self.columns * CHUNK_ROWS)
        return self.store.piece(chunk, self._own.room)

    def run(self, start: int, stop: int) -> Arrays:
        """See `RowsAtHand`."""
        return self.store.run(start, stop)

    def keep(
        self, make: Callable[Concatenate[Arrays, Count, Given], Found], *given: Given.args, **named: Given.kwargs
    ) -> Found:
        """See `RowsAtHand`."""
        return make(self._at_hand.arrays, self.count, *given, **named)

    def parted(self, parts: int, split: Split) -> list[DiskRows]:
        """See `RowsAtHand`: each part has a store of its own."""

        def pieces() -> Iterator[Arrays]:
            with passing("dealing rows", self.size) as done:
                for chunk in range(self.store.chunks):
                    yield (arrays := self._piece(chunk))
                    done(arrays.size)
            self.count(self.size, 1)

        return [self._like(store) for store in part_stores(pieces, self.store.fields, parts, split, self._room)]

    def without(self, columns: Sequence[int]) -> DiskRows:
        """The rows without some columns of the design."""
        return self._like(self.store.with_columns(kept(self.columns, columns)))

    @once
    def _at_hand(self) -> MemoryRows:
        """All rows as arrays that are mapped from scratch files, for what needs any row at any time."""
        rows = MemoryRows.of(replace(self._laid_out(self._room.scratch).arrays, room=self._room))
        vars(rows.arrays)["outcomes"] = self.outcomes  # which arrays in memory add up themselves
        rows.count = self.count  # type: ignore[method-assign]
        return rows

    def loaded(self) -> MemoryRows:
        """The same rows in memory; what was counted of them goes on."""
        rows = self._laid_out(np.empty)
        rows.count(self.touched, self.passes)
        return rows

    def _laid_out(self, scratch: Callable[..., NDArray[Any]]) -> MemoryRows:
        """All rows in arrays that such a function makes."""
        store, size, fields = self.store, self.size, self.store.fields
        x, y = scratch((self.columns, size)), scratch((size,))
        weights = NONE if fields.weights is None else scratch((size,))
        offset = NONE if fields.offset is None else scratch((size,))
        strata = {name: scratch((size,), np.int64) for name in fields.strata}
        codes = np.empty(0, np.int32) if fields.group is None else scratch((size,), np.int32)

        def fill(chunk: int) -> None:
            part, arrays = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS), self._piece(chunk)
            x[:, part], y[part] = arrays.x, arrays.y
            for whole, own in ((weights, arrays.weights), (offset, arrays.offset), (codes, arrays.codes)):
                if whole.size:
                    whole[part] = own
            for name, levels in strata.items():
                levels[part] = arrays.strata[name]

        in_turns(fill, store.chunks)
        return MemoryRows.of(Arrays(x, y, weights, offset, strata, codes, self.groups))
