"""A stretch of the rows of many files, for those who share a pass with others: each opens the files of its own.

What has to be known of all files, their rows and types, is found in a survey, which is also shared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tallbayes.data.files import keys_of, open_file
from tallbayes.data.formats import File
from tallbayes.data.names import require, require_distinct
from tallbayes.data.paths import files_of
from tallbayes.data.pieces import Batch, Piece, Source, conform, cut
from tallbayes.data.stack import Part, agreed, with_keys
from tallbayes.data.texts import USUAL, Texts

FEW = 256  # files that one looks at alone


class Surveyed(NamedTuple):
    """What is known of one file: its name as messages have it, its stamp, its rows, and types as Arrow writes them."""

    name: str
    stamp: list[Any] | None
    rows: int
    schema: bytes


class Survey(NamedTuple):
    """What is known of all files: `schema` has the types that they agree on."""

    path: str
    names: list[str]
    files: list[Surveyed]
    schema: bytes
    texts: Texts

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(file.rows for file in self.files)


def listing(path: str, texts: Texts = USUAL) -> tuple[list[str], int, list[Surveyed] | None]:
    """The columns on offer, as the first file has them, the number of files, and what they are if that is soon said.

    >>> listing("nothing.csv")
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'nothing.csv'
    """
    files = files_of(path, texts)
    parts = _parts(files, range(len(files)) if len(files) <= FEW else [0])
    names = parts[0].contents.names
    require_distinct(names)
    soon = len(parts) == len(files) and all(part.contents.rows is not None for part in parts)
    return names, len(files), [_surveyed(part, part.contents.names) for part in parts] if soon else None


def survey(path: str, texts: Texts, numbers: Sequence[int], wanted: Sequence[str]) -> list[Surveyed]:
    """What some of the files are; rows that no file tells are counted."""
    return [_surveyed(part, wanted) for part in _parts(files_of(path, texts), numbers)]


def _surveyed(part: Part, wanted: Sequence[str]) -> Surveyed:
    require_distinct(part.contents.names, f" in {part.file.name}")
    require(wanted, part.contents.names, part.file.name)
    schema, rows = part.schema(wanted).serialize().to_pybytes(), part.contents.rows
    if rows is None:
        with part.unchanged():
            rows = sum(batch.num_rows for batch in part.contents.batches(wanted))
    return Surveyed(part.file.name, part.stamp, rows, schema)


def surveyed(path: str, texts: Texts, names: list[str], files: Sequence[Surveyed], wanted: Sequence[str]) -> Survey:
    """All of it together; raise ValueError if files lack a column, or disagree on its type."""
    import pyarrow as pa

    schemas = []
    for file in files:
        schema = _schema(file.schema)
        require(wanted, schema.names, file.name)
        schemas.append(pa.schema([schema.field(name) for name in wanted]))
    filled = [pair for pair, file in zip(zip(_names(files), schemas, strict=True), files, strict=True) if file.rows]
    types = agreed(path, filled or [("", schemas[0])])
    own = [file._replace(schema=schema.serialize().to_pybytes()) for file, schema in zip(files, schemas, strict=True)]
    return Survey(path, names, own, types.serialize().to_pybytes(), texts)


def _names(files: Sequence[Surveyed]) -> list[str]:
    return [file.name for file in files]


class Stretch(NamedTuple):
    """The rows first..last, and the files that have them: the number of each, what it is, and which of its rows."""

    path: str
    texts: Texts
    names: list[str]
    schema: bytes
    files: str  # a hash of the names of all of them
    chosen: list[tuple[int, Surveyed, int, int]]
    first: int
    last: int


def stretch(known: Survey, first: int, last: int) -> Stretch:
    """Which files have the rows first..last."""
    chosen, start = list[tuple[int, Surveyed, int, int]](), 0
    for number, file in enumerate(known.files):
        begin, end = max(first, start), min(last, start + file.rows)
        if begin < end:
            chosen.append((number, file, begin - start, end - start))
        start += file.rows
    files = _hash(_names(known.files))
    return Stretch(known.path, known.texts, known.names, known.schema, files, chosen, first, last)


def open_stretch(known: Stretch) -> Source:
    """Its rows, numbered as they are among all rows."""
    schema, files = _schema(known.schema), files_of(known.path, known.texts)
    if _hash([file.name for file in files]) != known.files:
        raise ValueError(f"the files of {known.path!r} have changed; fit again")

    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        types = {number: dict(_pairs(file.schema)) for number, file, _, _ in known.chosen}
        parts = _parts(files, list(types), types)
        for part, (_, file, begin, end) in zip(parts, known.chosen, strict=True):
            was = part._replace(stamp=file.stamp)
            with was.unchanged():
                for batch in part.contents.batches(wanted, begin):
                    rows = batch.slice(0, end - begin)
                    yield Batch(conform(rows, schema), part.file.name, begin)
                    begin += rows.num_rows
                    if begin == end:
                        break
            was.check()

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return cut(batches(wanted), known.first)

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError("a stretch is read piece by piece")

    return Source(known.names, known.last - known.first, False, load, pieces)


def _hash(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _parts(files: Sequence[File], numbers: Sequence[int], types: dict[int, dict[str, Any]] | None = None) -> list[Part]:
    keys = keys_of(files)
    return [
        Part(
            files[number],
            files[number].stamp(),
            with_keys(open_file(files[number], (types or {}).get(number, {})), keys[number]),
        )
        for number in numbers
    ]


def _schema(written: bytes) -> Any:
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(written))


def _pairs(written: bytes) -> list[tuple[str, Any]]:
    schema = _schema(written)
    return list(zip(schema.names, schema.types, strict=True))
