"""What is done where the rows are: functions of messages, and of the part of the rows that a worker keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.frames import names_and_dates
from tallbayes.data.learning import Asked, Learning, Seen
from tallbayes.data.parsed import parse
from tallbayes.data.pieces import Batch, Source, conform, cut
from tallbayes.data.questions import Question
from tallbayes.data.sources import open_source
from tallbayes.data.stack import agreed
from tallbayes.data.stretches import Stretch, listing, open_stretch, survey
from tallbayes.data.texts import Texts
from tallbayes.engines.wire import Message, pack, unpack
from tallbayes.families import Family
from tallbayes.models.building import Looked, pieces
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.cutting import Chunks
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.duplicates import Columns, Merged, looked_at
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Sums, Task
from tallbayes.rows.room import ROOM, Room
from tallbayes.rows.sorting import as_columns, taken_from
from tallbayes.rows.store import Fields, Store

# --- how engines run what is below ---


def answer(function: str, message: Message) -> Message:
    """A function's answer to a message."""
    return pack(FUNCTIONS[function](*unpack(message, functions=True)))


def made(function: str, message: Message) -> Any:
    """The part that a function makes of a message."""
    return FUNCTIONS[function](*unpack(message, functions=True))


def remade(function: str, part: Any, common: Message, own: Message) -> Any:
    """The part that a function makes of another one."""
    return FUNCTIONS[function](part, *unpack(common, functions=True), *unpack(own, functions=True))


def given(function: str, part: Any, message: Message) -> list[Message]:
    """The pieces of a part, packed one by one: each goes another way."""
    return [pack(piece) for piece in FUNCTIONS[function](part, *unpack(message, functions=True))]


def taken(function: str, message: Message, pieces: Sequence[Message]) -> Any:
    """The part that a function makes of pieces."""
    return FUNCTIONS[function]([unpack(piece) for piece in pieces], *unpack(message, functions=True))


def asked(function: str, part: Any, message: Message) -> Message:
    """A part's answer to a message."""
    return pack(FUNCTIONS[function](part, *unpack(message, functions=True)))


# --- reading ---


@dataclass(frozen=True)
class Files:
    """A stretch of the rows of files."""

    known: Stretch

    def source(self) -> Source:
        """Ready to be read."""
        return open_stretch(self.known)


@dataclass(frozen=True)
class Sent:
    """Rows that were sent, as Arrow writes them, from row `first` on."""

    names: list[str]
    written: bytes
    first: int

    def source(self) -> Source:
        """Ready to be read."""
        import pyarrow as pa

        def batches(wanted: Sequence[str]) -> Iterator[Batch]:
            with pa.ipc.open_stream(self.written) as reader:
                yield from (Batch(batch.select(wanted)) for batch in reader)

        def load(wanted: Sequence[str]) -> dict[str, Any]:
            raise NotImplementedError("rows that were sent are read piece by piece")

        return Source(self.names, None, False, load, lambda wanted: cut(batches(wanted), self.first))


def written(batches: Sequence[Any]) -> bytes:
    """Record batches as Arrow writes them, with types that fit all of them."""
    import pyarrow as pa

    schema = agreed("sent", [("rows", batch.schema) for batch in batches])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(conform(batch, schema))
    found: bytes = sink.getvalue().to_pybytes()
    return found


class Job(NamedTuple):
    """What is to be read and made of it."""

    formula: str
    asked: Asked


def dates(path: str, texts: Texts) -> tuple[list[str]]:
    """The columns of files that hold dates."""
    return (list(names_and_dates(open_source(path, texts))[2]),)


def files(known: Stretch) -> Files:
    """A part that is read from files whenever it is needed."""
    return Files(known)


def sent(names: list[str], written: bytes, first: int) -> Sent:
    """A part that was sent."""
    return Sent(names, written, first)


def look(rows: Files | Sent, job: Job) -> Seen:
    """What some rows show."""
    learning = Learning(parse(job.formula), rows.source(), job.asked, {})
    learning.look()
    return learning.seen()


def look_at(rows: Files | Sent, question: Question[Any]) -> Any:
    """What a question sees of some rows."""
    return question.look(rows.source())


class Built(NamedTuple):
    """A part of the rows of a model: a run of whole blocks, or nearly so; and what was seen when they were built."""

    store: Store
    looked: Looked | None = None

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return self.store.content.nbytes + self.store.offsets.nbytes


class Facts(NamedTuple):
    """What the driver has to know of a part."""

    rows: int
    totals: NDArray[np.float64]  # of its blocks: weights and weighted outcomes
    fields: Fields | None  # None where it has no rows
    looked: Looked | None
    sizes: NDArray[np.int64] | None  # of groups
    some: Columns | None  # rows that were asked for


def build(
    rows: Files | Sent,
    job: Job,
    seen: Seen,
    family: Family,
    given: Mapping[str, str],
    room: Room,
    numbered: bool,
    own: tuple[int, int],
    first: int,
) -> Built:
    """Some rows of the design, in the order in which they come: the first of them should have the number `first`.

    All rows have been seen before; `own` are how many are read here, and how many of them are used.
    """
    learning = Learning(parse(job.formula), rows.source(), job.asked, {})
    learning.then(seen)
    learned = learning.finish(own)
    looked = Looked(family, learned.formula.outcome)
    found = pieces(learned, family, given, looked, first if numbered else None)
    store = _stored((part.heard() for part in found), room)
    group, groups = learned.formula.group, len(learned.formula.group_levels)
    if store.rows and group is not None:
        store = replace(store, fields=replace(store.fields, group=group, groups=groups))
    return Built(replace(store, block=first // LENGTH), looked)


EMPTY = Store(
    Fields.of(0, False, False, (), None, 0),
    0,
    np.empty((0, 1), np.int64),
    np.empty((0, 1), np.uint8),
    (np.empty(0),),
    np.empty((0, 2)),
    np.empty(0, np.uint8),
)


def _stored(parts: Iterator[Columns], room: Room) -> Store:
    """Rows in a store, in a scratch file of the worker; they may be none."""
    chunks = None
    try:
        for part in parts:
            if not part.y.size:
                continue
            if chunks is None:
                optional = part.weights is not None, part.offset is not None
                chunks = Chunks(None, Fields.of(len(part.x), *optional, tuple(part.strata), None, 0), room)
            chunks.add(part)
    except BaseException:
        if chunks is not None:
            chunks.close()
        raise
    return EMPTY if chunks is None else chunks.finish()


def facts(part: Built, size: int) -> Facts:
    """What is to be known of a part, and some of its rows, to see whether rows repeat: all parts have `size` rows."""
    store, sizes = part.store, None
    if store.rows and store.fields.group is not None:
        sizes = np.zeros(store.fields.groups, np.int64)
        for chunk in range(store.chunks):
            sizes += np.bincount(_codes(store, chunk), minlength=sizes.size)
    own = looked_at(size) - store.block * LENGTH
    own = own[(own >= 0) & (own < store.rows)]
    some = Columns.joined(list(taken_from(store, own))) if own.size else None
    return Facts(store.rows, store.totals, store.fields if store.rows else None, part.looked, sizes, some)


def _codes(store: Store, chunk: int) -> NDArray[np.intp]:
    codes, group = np.empty(store.size(chunk)), store.fields.group
    assert group is not None
    store.column(chunk, store.fields.strata[group], codes)
    return codes.astype(np.intp)


# --- asking ---


def reduce(part: Built, tasks: Sequence[tuple[Task[Any], Any]], columns: Sequence[int] | None) -> list[Any]:
    """What the blocks of a part answer to tasks, each with its parameters."""
    rows = DiskRows(_cut(part.store, columns), ROOM)
    if not rows.size:
        return [None for _ in tasks]
    return [
        tuple(each.sum(0, keepdims=True) for each in parts) if isinstance(task, Sums) else parts
        for task, _, parts in rows.parts(*tasks)
    ]


def run(part: Built, start: int, stop: int, columns: Sequence[int] | None) -> Arrays:
    """Those of the rows start..stop, as they are numbered among all, that a part has."""
    store, first = part.store, part.store.block * LENGTH
    begin, end = np.clip((start - first, stop - first), 0, store.rows).tolist()
    return _cut(store, columns).run(begin, end)


def merge(part: Built, size: int, total: float) -> tuple[bool, tuple[Columns, NDArray[np.int64]] | None]:
    """The distinct rows of a part with the weights of their duplicates, and whether they are few enough for it."""
    store, merged = part.store, Merged(size, total)
    for chunk in range(store.chunks):
        if not merged.add(as_columns(store.piece(chunk), np.arange(store.size(chunk)))):
            return False, None
    return True, merged.counted


def _cut(store: Store, columns: Sequence[int] | None) -> Store:
    return store if columns is None or not store.rows else store.with_columns(columns)


# --- exchanging ---


def by_place(part: Built, before: NDArray[np.int64], edges: NDArray[np.int64]) -> list[Any]:
    """Rows with their places among all, for those who take the places between two edges.

    `before` is the place of the first row of each group, or of all rows where there are none.
    """
    store = part.store
    if not store.rows:
        return [None] * (edges.size - 1)
    grouped = store.fields.group is not None
    codes = np.concatenate([_codes(store, chunk) for chunk in range(store.chunks)]) if grouped else None
    if codes is None:
        places = before[0] + np.arange(store.rows)
    else:
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(before.size))
        places = np.empty(store.rows, np.int64)
        places[order] = (before - starts)[codes[order]] + np.arange(store.rows)
    takers = np.searchsorted(edges, places, side="right") - 1
    found = []
    for taker in range(edges.size - 1):
        chosen = np.flatnonzero(takers == taker)
        found.append((places[chosen], Columns.joined(list(taken_from(store, chosen)))) if chosen.size else None)
    return found


def settle(pieces: Sequence[Any], first: int, group: str | None, groups: int, room: Room) -> Built:
    """Rows brought together by their places, of which the first is the first of a block."""
    there = [piece for piece in pieces if piece is not None]
    if not there:
        return Built(EMPTY)
    order = np.argsort(np.concatenate([places for places, _ in there]), kind="stable")
    store = _stored(iter([Columns.joined([rows for _, rows in there]).take(order)]), room)
    fields = replace(store.fields, group=group, groups=groups)
    return Built(replace(store, fields=fields, block=first // LENGTH))


def deal(part: Built, owner: Any, split: str, parts: int, columns: Sequence[int] | None) -> list[Any]:
    """What each shard gets of a part's rows; see `Split`."""
    shards: list[list[Arrays]] = [[] for _ in range(parts)]
    whole = _cut(part.store, columns)
    for chunk in range(whole.chunks):
        for shard, own in zip(shards, getattr(owner, split)(whole.piece(chunk), range(parts)), strict=True):
            if own.size:
                shard.append(own)
    fields = whole.fields
    return [(fields, [_dealt(fields, own) for own in shard], shard[0].groups) if shard else None for shard in shards]


def _dealt(fields: Fields, part: Arrays) -> Columns:
    weights = None if fields.weights is None else part.weights
    offset = None if fields.offset is None else part.offset
    strata = {name: part.codes if name == fields.group else part.strata[name] for name in fields.strata}
    return Columns(part.x, part.y, weights, offset, strata)


def shard(pieces: Sequence[Any], room: Room) -> Built:
    """What a shard got of all parts; without weights, if all of them are one."""
    there = [piece for piece in pieces if piece is not None]
    rows = [part for _, parts, _ in there for part in parts]
    alike = all(part.weights is None or (part.weights == 1).all() for part in rows)
    store = _stored((part._replace(weights=None) if alike else part for part in rows), room)
    group, groups = there[0][0].group, there[0][2]
    return Built(replace(store, fields=replace(store.fields, group=group, groups=groups if group else 0)))


_ALL = (
    *(listing, survey, dates, files, sent, look, look_at, build),
    *(facts, reduce, run, merge, by_place, settle, deal, shard),
)
FUNCTIONS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _ALL}
