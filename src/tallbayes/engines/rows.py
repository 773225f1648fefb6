"""Rows on many machines: each part is asked where it is, and what the blocks answer is joined in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Concatenate, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.once import once
from tallbayes.data.progress import passing
from tallbayes.engines.engine import Engine, Handle
from tallbayes.rows.arrays import Arrays, vectors
from tallbayes.rows.building import fits
from tallbayes.rows.door import kept
from tallbayes.rows.in_parts import InParts
from tallbayes.rows.memory import NOTHING, MemoryRows
from tallbayes.rows.protocol import Count, Found, Given, Split, Task
from tallbayes.rows.room import Room, in_words
from tallbayes.rows.store import Fields

Array = NDArray[np.float64]


class EngineRows(InParts):
    """Parts of the rows, each a run of whole blocks that some worker keeps."""

    def __init__(
        self, engine: Engine, parts: Sequence[Handle], sizes: Sequence[int], fields: Fields, totals: Array, room: Room
    ) -> None:
        super().__init__()
        self.engine, self._parts, self._sizes, self._fields = engine, list(parts), list(sizes), fields
        self._totals, self._room = totals, room
        self._columns: list[int] | None = None  # all of the design

    @property
    def told(self) -> dict[str, Any]:
        """See `Rows`."""
        engine = self.engine
        travelled = {"rounds": engine.rounds, "bytes_sent": engine.sent, "bytes_received": engine.received}
        return {"engine": engine.name, "workers": engine.workers} | travelled

    @property
    def hands(self) -> int:
        """See `RowsAtHand`."""
        return self.engine.workers

    @property
    def size(self) -> int:
        """See `Rows`."""
        return sum(self._sizes)

    @property
    def fields(self) -> Fields:
        """See `InParts`."""
        return self._fields

    @property
    def totals(self) -> Array:
        """See `InParts`."""
        return self._totals

    @property
    def columns(self) -> int:
        """See `Rows`."""
        return len(self._fields.x) if self._columns is None else len(self._columns)

    def parts(self, *questions: tuple[Task[Any], ArrayLike | None]) -> list[tuple[Task[Any], Array, Any]]:
        """See `InParts`: one round."""
        tasks = [task for task, _ in questions]
        params = [NOTHING if given is None else vectors(given, self.width) for _, given in questions]
        asked = [(task, None if given is None else own) for (task, given), own in zip(questions, params, strict=True)]
        with passing("pass over all rows", self.size) as done:
            given = asked, self._columns
            said = self.engine.ask("reduce", self._parts, given, lambda place: done(self._sizes[place]))
        self.count(self.size * sum(task.looks(own) for task, own in zip(tasks, params, strict=True)), 1)
        found = []
        for number, (task, own) in enumerate(zip(tasks, params, strict=True)):
            each = [answers[number] for answers in said if answers[number] is not None]
            found.append((task, own, tuple(np.concatenate(part) for part in zip(*each, strict=True))))
        return found

    def run(self, start: int, stop: int) -> Arrays:
        """See `RowsAtHand`: those parts are asked that have such rows."""
        ends = np.cumsum(self._sizes)
        parts = [
            part
            for part, end, size in zip(self._parts, ends.tolist(), self._sizes, strict=True)
            if size and (end - size < stop and start < end)
        ]
        found = self.engine.ask("run", parts or self._parts[:1], (start, stop, self._columns))
        return _joined(found, self.strata, self.groups, found[0].block)

    @once
    def _at_hand(self) -> MemoryRows:
        """All rows on the driver, if there is room for them."""
        if not fits(self.columns, self.size, self._room):
            raise ValueError(
                f"this way of sampling needs any row at any time, and the {self.size:,} rows on the workers do not fit "
                f"into {in_words(self._room.memory)} here; use method='auto' or 'thinned', which need passes only, or "
                "give more memory="
            )
        filled = [part for part, size in zip(self._parts, self._sizes, strict=True) if size]
        found = self.engine.ask("run", filled, (0, self.size, self._columns))
        rows = MemoryRows.of(_joined(found, self.strata, self.groups, 0))
        rows.count = self.count  # type: ignore[method-assign]
        return rows

    def keep(
        self, make: Callable[Concatenate[Arrays, Count, Given], Found], *given: Given.args, **named: Given.kwargs
    ) -> Found:
        """See `RowsAtHand`."""
        return make(self._at_hand.arrays, self.count, *given, **named)

    def parted(self, parts: int, split: Split) -> list[EngineRows]:
        """See `RowsAtHand`: each part is with one worker."""
        owner = cast(Any, split).__self__
        asked = [(owner, cast(Any, split).__name__, parts, self._columns) for _ in self._parts]
        handles = self.engine.exchange("deal", self._parts, asked, "shard", [(Room(self._room.memory),)] * parts)
        facts = self.engine.ask("facts", handles, (0,))
        self.count(self.size, 1)
        return [
            EngineRows(self.engine, [handle], [fact.rows], fact.fields, fact.totals, self._room)
            for handle, fact in zip(handles, facts, strict=True)
        ]

    def without(self, columns: Sequence[int]) -> EngineRows:
        """See `RowsAtHand`."""
        rows = EngineRows(self.engine, self._parts, self._sizes, self._fields, self._totals, self._room)
        places = list(range(len(self._fields.x))) if self._columns is None else self._columns
        rows._columns = [places[place] for place in kept(self.columns, columns)]
        return rows


def _joined(found: Sequence[Arrays], strata: Sequence[str], groups: int, block: int) -> Arrays:
    """Arrays one below the other."""
    parts = zip(*(arrays.parts(np.arange(arrays.size)) for arrays in found), strict=True)
    return replace(Arrays.joined(tuple(np.concatenate(part) for part in parts), strata, groups), block=block)
