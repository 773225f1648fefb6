"""Rows on a disk: passes go through the chunks of a store, and what has to be at hand is mapped from scratch files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Concatenate, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.rows.arrays import NONE, Arrays, Outcomes, vectors
from tallbayes.rows.memory import NOTHING, MemoryRows
from tallbayes.rows.protocol import Count, Found, Given, Measure, Task
from tallbayes.rows.room import Room
from tallbayes.rows.store import CHUNK_ROWS, Store
from tallbayes.rows.subsample import Subsample
from tallbayes.rows.tasks import OutcomeSums
from tallbayes.rows.threads import in_turns
from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]


class DiskRows:
    """Rows in a store: decoded a chunk at a time, and what tasks say of the chunks is joined in their order."""

    in_memory = False

    def __init__(self, store: Store, room: Room) -> None:
        self._store, self._room, self.touched, self.passes = store, room, 0, 0
        self._counting, self._own = threading.Lock(), threading.local()

    @property
    def size(self) -> int:
        """See `Rows`."""
        return self._store.rows

    @property
    def columns(self) -> int:
        """See `Rows`."""
        return len(self._store.fields.x)

    @property
    def groups(self) -> int:
        """See `Rows`."""
        return self._store.fields.groups

    @property
    def width(self) -> int:
        """See `Rows`."""
        return self.columns + (self.groups + 1 if self.groups else 0)

    @property
    def strata(self) -> tuple[str, ...]:
        """See `Rows`."""
        return tuple(self._store.fields.strata)

    @cached_property
    def outcomes(self) -> Outcomes:
        """See `Rows`."""
        return self.reduce(OutcomeSums())

    @property
    def total_weight(self) -> float:
        """See `Rows`."""
        return self.outcomes.weight

    @property
    def mean_outcome(self) -> float:
        """See `Rows`."""
        return self.outcomes.total / self.outcomes.weight

    def count(self, rows: int, passes: int = 0) -> None:
        """See `Rows`."""
        with self._counting:
            self.touched += rows
            self.passes += passes

    def reduce(self, task: Task[Found], params: ArrayLike | None = None) -> Found:
        """See `Rows`."""
        (found,) = self.reduce_all((task, params))
        return cast(Found, found)

    def reduce_all(self, *questions: tuple[Task[Any], ArrayLike | None]) -> tuple[Any, ...]:
        """See `Rows`."""
        given = [NOTHING if params is None else vectors(params, self.width) for _, params in questions]
        tasks = [task for task, _ in questions]
        parts: list[list[tuple[NDArray[Any], ...]]] = [[()] * self._store.chunks for _ in tasks]

        def look(chunk: int) -> None:
            arrays = self._piece(chunk)
            for task, params, found in zip(tasks, given, parts, strict=True):
                found[chunk] = task.over(arrays, params)

        in_turns(look, self._store.chunks)
        self.count(self.size * sum(task.looks(params) for task, params in zip(tasks, given, strict=True)), 1)
        return tuple(
            task.answer(tuple(np.concatenate(part) for part in zip(*found, strict=True)), params, self)
            for task, params, found in zip(tasks, given, parts, strict=True)
        )

    def _piece(self, chunk: int) -> Arrays:
        """The rows of a chunk, in room that each thread has and uses again: tasks answer with copies."""
        if getattr(self._own, "room", None) is None or self._own.room.size < self.columns * CHUNK_ROWS:
            self._own.room = np.empty(self.columns * CHUNK_ROWS)
        return self._store.piece(chunk, self._own.room)

    def run(self, start: int, stop: int) -> Arrays:
        """See `RowsAtHand`."""
        return self._store.run(start, stop)

    def draw(self, measure: Measure, theta: Array, expected: float, seen: int, seed: int) -> Urn:
        """See `Rows`."""
        return Urn(self, measure, theta, expected, seen, seed)

    def sample(
        self,
        size: int | Mapping[int, int],
        rng: np.random.Generator,
        by: str | None = None,
        measure: Measure | None = None,
        cases: bool = False,
    ) -> MemoryRows:
        """See `Rows`."""
        return MemoryRows.of(self.reduce(Subsample(size, int(rng.integers(2**63)), by, measure, cases)))

    def keep(
        self, make: Callable[Concatenate[Arrays, Count, Given], Found], *given: Given.args, **named: Given.kwargs
    ) -> Found:
        """See `RowsAtHand`."""
        return make(self._at_hand.arrays, self.count, *given, **named)

    def without(self, columns: Sequence[int]) -> DiskRows:
        """The rows without some columns of the design."""
        return DiskRows(self._store.without(columns), self._room)

    @cached_property
    def _at_hand(self) -> MemoryRows:
        """All rows as arrays that are mapped from scratch files, for what needs any row at any time."""
        store, scratch, size = self._store, self._room.scratch, self.size
        fields = store.fields
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
        rows = MemoryRows.of(Arrays(x, y, weights, offset, strata, codes, self.groups))
        rows.count = self.count  # type: ignore[method-assign]
        return rows
