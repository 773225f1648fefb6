"""From data and a formula to rows on many machines: who reads, learns and builds are the workers.

They read whole pieces, as one machine does, so that all that is learned from pieces is the same, and rows have the same
places whatever the number of workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tallbayes.data import pieces
from tallbayes.data.formula import Formula
from tallbayes.data.frames import names_and_dates
from tallbayes.data.learning import Learning
from tallbayes.data.parsed import Parsed
from tallbayes.data.paths import STANDARD_INPUT
from tallbayes.data.pieces import Piece, Source
from tallbayes.data.progress import passing
from tallbayes.data.questions import Answer, Question
from tallbayes.data.scan import as_arrow
from tallbayes.data.source_names import called
from tallbayes.data.sources import open_source
from tallbayes.data.stretches import Surveyed, stretch, surveyed
from tallbayes.data.texts import USUAL, Texts
from tallbayes.engines.engine import Engine, Handle, Heard, nobody
from tallbayes.engines.rows import EngineRows
from tallbayes.engines.wire import pack
from tallbayes.engines.work import Facts, Job, written
from tallbayes.models.building import Looked, most_rows
from tallbayes.models.prepared import Prepared, Wanted
from tallbayes.rows.duplicates import Columns, Merged, repeats
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import LENGTH, in_order
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import Room
from tallbayes.rows.store import Fields

MOST_PIECES = 8  # of a part
PARTS = 2  # of each worker at least, so that a lost one is made up for by all others


def remote(engine: Engine, data: Any, texts: Texts = USUAL) -> Source:
    """Data that workers read: a path that they can reach, or a frame in memory, which is sent to them.

    CSV files are written as `texts` say.

    >>> from tallbayes.engines.engine import Local
    >>> remote(Local(), {"x": [1, 2], "y": [0, 1]}).names
    ['x', 'y']
    """
    if isinstance(data, str | os.PathLike) and data != STANDARD_INPUT:
        path = os.fspath(data)
        ((names, files, known),) = engine.call("listing", [(path, texts)])
        return source_of(names, None, InFiles(engine, path, texts, names, files, known), called(path))
    source = open_source(data, texts)
    if source.elsewhere is not None:
        return source
    if not source.held:
        raise ValueError(
            "with engine= the data are files that the workers read, a frame in memory, or a Dask frame; write what a "
            "query or a function gives to Parquet files first"
        )
    return source_of(source.names, source.rows, InMemory(engine, source), source.called)


def source_of(names: list[str], rows: int | None, elsewhere: Any, called: str = "") -> Source:
    """Data that cannot be read here."""

    def refuse(wanted: Sequence[str]) -> Any:
        raise ValueError("these data are read by the workers of an engine; give the data themselves here")

    return Source(names, rows, False, refuse, refuse, elsewhere=elsewhere, called=called)


class Elsewhere:
    """Data that workers read."""

    engine: Engine

    def stretches(self, wanted: Sequence[str]) -> tuple[list[Handle], list[int]]:
        """All rows of some columns, in runs of whole pieces; and how many rows are in each."""
        raise NotImplementedError

    def prepare(self, parsed: Parsed, wanted: Wanted, room: Room) -> Prepared:
        """Rows of a formula, as `models.prepared.prepare` makes them on one machine."""
        if wanted.arrays:
            shown = ", ".join(wanted.arrays)
            raise ValueError(f"with engine= {shown} must name a column: arrays cannot be cut as the workers read rows")
        stub = source_of(self.names, None, None)
        learning = Learning(parsed, stub, wanted.asked, {})
        stretches, sizes = self.stretches(learning.wanted)
        job = Job(parsed.text, wanted.asked)
        try:
            pack(wanted.outcome)
        except TypeError:
            message = f"outcome={wanted.outcome!r} cannot be sent to workers; give a text or a number"
            raise ValueError(message) from None
        with passing("looking at the data", sum(sizes)) as done:
            seen = self.engine.ask("look", stretches, (job,), lambda place: done(sizes[place]))
        counts = [(own.gaps.rows, own.gaps.kept) for own in seen]
        for own in seen:
            learning.then(own)
        every = learning.seen()
        learned = learning.finish()
        firsts = np.cumsum([0, *(most_rows(wanted.family, kept) for _, kept in counts)])
        common = job, every, wanted.family, dict(wanted.columns), Room(room.memory), wanted.numbered
        with passing("building rows", learned.rows) as done:
            each = [(own, first) for own, first in zip(counts, firsts[:-1].tolist(), strict=True)]
            built = self.engine.remake("build", stretches, common, each)
            parts = Parts(self.engine, built, int(firsts[-1]), lambda place: done(counts[place][1]))
        looked = Looked(wanted.family, learned.formula.outcome)
        for fact in parts.facts:
            if fact.looked is not None:
                looked.then(fact.looked)
        looked.finish(learned.rows)
        rows = settled(parts, firsts, learned.formula, room)
        return Prepared(rows, learned.formula, learned.left_out, learned.rows, looked.ones)

    def look(self, question: Question[Answer]) -> list[Answer]:
        """What a question sees of each part of the rows, in their order."""
        stretches, sizes = self.stretches(question.wanted)
        with passing("looking at the data", sum(sizes)) as done:
            return self.engine.ask("look_at", stretches, (question,), lambda place: done(sizes[place]))

    @property
    def names(self) -> list[str]:
        """The columns on offer."""
        raise NotImplementedError

    def dates(self) -> list[str]:
        """Those of them that hold dates."""
        raise NotImplementedError

    def cut(self, rows: int) -> Iterator[tuple[int, int]]:
        """Runs of whole pieces that together are so many rows, about equally many in each."""
        size = pieces.PIECE
        count = -(-rows // size)
        parts = min(count, max(PARTS * max(1, self.engine.workers), -(-count // MOST_PIECES)))
        return pairwise(min(rows, count * part // parts * size) for part in range(parts + 1))


@dataclass(frozen=True)
class InFiles(Elsewhere):
    """Files that the workers can reach."""

    engine: Engine
    path: str
    texts: Texts
    columns: list[str]
    files: int
    known: list[Surveyed] | None  # of them, if it was soon said

    @property
    def names(self) -> list[str]:
        """See `Elsewhere`."""
        return self.columns

    def dates(self) -> list[str]:
        """See `Elsewhere`."""
        ((dates,),) = self.engine.call("dates", [(self.path, self.texts)])
        return list(dates)

    def stretches(self, wanted: Sequence[str]) -> tuple[list[Handle], list[int]]:
        """See `Elsewhere`."""
        known = surveyed(self.path, self.texts, self.columns, self.known or self._survey(wanted), wanted)
        if not known.rows:
            raise ValueError(f"the data of {self.path!r} has no rows")
        runs = list(self.cut(known.rows))
        return self.engine.place("files", [(stretch(known, *ends),) for ends in runs]), lengths(runs)

    def _survey(self, wanted: Sequence[str]) -> list[Surveyed]:
        """What the files are: each worker looks at some of them."""
        workers = min(self.files, PARTS * max(1, self.engine.workers))
        numbers = [list(range(self.files))[start::workers] for start in range(workers)]
        said = self.engine.call("survey", [(self.path, self.texts, own, list(wanted)) for own in numbers])
        found = dict(pair for own, files in zip(numbers, said, strict=True) for pair in zip(own, files, strict=True))
        return [found[number] for number in range(self.files)]


@dataclass(frozen=True)
class InMemory(Elsewhere):
    """A frame in memory here."""

    engine: Engine
    source: Source

    @property
    def names(self) -> list[str]:
        """See `Elsewhere`."""
        return self.source.names

    def dates(self) -> list[str]:
        """See `Elsewhere`."""
        return list(names_and_dates(self.source)[2])

    def stretches(self, wanted: Sequence[str]) -> tuple[list[Handle], list[int]]:
        """See `Elsewhere`."""
        found = list(self.source.pieces(wanted))
        runs = list(self.cut(sum(_length(piece) for piece in found)))
        sent = [
            (list(wanted), _written([piece for piece in found if first <= piece.start < last]), first)
            for first, last in runs
        ]
        return self.engine.place("sent", sent), lengths(runs)


def lengths(runs: Sequence[tuple[int, int]]) -> list[int]:
    """Rows of each run."""
    return [last - first for first, last in runs]


def _length(piece: Piece) -> int:
    return len(next(iter(piece.columns.values())))


def _written(found: Sequence[Piece]) -> bytes:
    """Pieces as Arrow writes them."""
    return written([batch for piece in found for batch in as_arrow(piece.columns, f"rows from {piece.where(0)} on")])


class Parts:
    """Parts that have been built, what is known of them, and some of their rows, to see whether they repeat."""

    def __init__(self, engine: Engine, handles: Sequence[Handle], size: int, heard: Heard = nobody) -> None:
        self.engine, self.handles = engine, handles
        self.facts: list[Facts] = engine.ask("facts", handles, (size,), heard)
        self.ends = np.cumsum([0, *(fact.rows for fact in self.facts)])
        self.size = int(self.ends[-1])

    @property
    def fields(self) -> Fields:
        """Which columns there are."""
        return next(fact.fields for fact in self.facts if fact.fields is not None)

    def some(self) -> Columns:
        """The rows that were looked at."""
        return Columns.joined([fact.some for fact in self.facts if fact.some is not None])


def settled(parts: Parts, firsts: Any, formula: Formula, room: Room) -> RowsAtHand:
    """Rows in their places: by group if there is one, whole blocks in every part; duplicates merged if it pays."""
    group, groups, engine = formula.group, len(formula.group_levels), parts.engine
    if group is not None or (parts.ends != firsts).any() or (parts.ends[:-1] % LENGTH).any():
        parts = Parts(engine, _exchanged(parts, group, groups, room), parts.size)
    if repeats(parts.size, parts.some()) and (merged := _merged(parts)) is not None:
        return MemoryRows(*merged, group, groups)
    totals = np.concatenate([fact.totals for fact in parts.facts])
    return EngineRows(engine, parts.handles, [fact.rows for fact in parts.facts], parts.fields, totals, room)


def _exchanged(parts: Parts, group: str | None, groups: int, room: Room) -> list[Handle]:
    """Rows of a group together, and whole blocks in every part."""
    count = len(parts.handles)
    if group is None:
        before = list(parts.ends[:-1, None])
    else:
        sizes = np.array([np.zeros(groups, np.int64) if fact.sizes is None else fact.sizes for fact in parts.facts])
        starts = np.concatenate([[0], np.cumsum(sizes.sum(0))[:-1]])
        before = list(starts + np.cumsum(sizes, axis=0) - sizes)
    blocks = -(-parts.size // LENGTH)
    edges = np.minimum(parts.size, blocks * np.arange(count + 1) // count * LENGTH)
    each = [(first, group, groups, Room(room.memory)) for first in edges[:-1].tolist()]
    return parts.engine.exchange("by_place", parts.handles, [(own, edges) for own in before], "settle", each)


def _merged(parts: Parts) -> Columns | None:
    """Duplicates of all parts merged, if they are not too many."""
    total = float(in_order(np.concatenate([fact.totals for fact in parts.facts]))[0])
    merged = Merged(parts.size, total)
    for few, counted in parts.engine.ask("merge", parts.handles, (parts.size, total)):
        if not few or (counted is not None and not merged.add(*counted)):
            return None
    return merged.columns
