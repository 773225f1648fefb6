"""Files of each kind, CSV, Parquet and Arrow (Feather), from a disk or any other stream of bytes.

The kind of a file is told by its name or, where that does not tell, by its first bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tallbayes.data.texts import USUAL, Texts

ENDINGS = {
    "CSV": (".csv", ".tsv", ".txt"),
    "Parquet": (".parquet", ".pq"),
    "Arrow": (".feather", ".arrow", ".ipc"),
}
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # CSV files, which have no compression of their own
BEGINNINGS: dict[bytes, tuple[str, str | None]] = {
    b"PAR1": ("Parquet", None),
    b"ARRO": ("Arrow", None),
    b"FEA1": ("Arrow", None),
    b"\xff\xff\xff\xff": ("Arrow", None),  # a stream of Arrow
    b"\x1f\x8b": ("CSV", "gzip"),
    b"\x28\xb5\x2f\xfd": ("CSV", "zstd"),
}


OTHERS = {  # what other files begin with
    b"BZh": "bz2",
    b"PK\x03\x04": "a ZIP archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"SQLite": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"<!DOC": "a web page",
    b"<html": "a web page",
}
WORDS = {  # for what Arrow says of files that are damaged
    r"truncated|end of stream|expected to (be able to )?read|only \d+ bytes|smaller than": "it ends too early",
    r"inflate|decompress|corrupt\w* .*(compressed|data)|data corruption": "its compressed content is damaged",
    r"page header": "one of its pages is damaged",
    r"thrift|magic bytes|base64|flatbuffers|IPC stream|not an arrow file": "the description of its columns is damaged",
    r"offset invariant|UTF8|dictionary ind": "some of its values are damaged",
}


class File(NamedTuple):
    """One file: its name as messages have it, how its bytes are read from the first on, and what it is."""

    name: str
    open: Callable[[], Any]
    kind: str
    compression: str | None = None
    keys: Mapping[str, str | None] = {}  # what the folders that it lies in say of all its rows
    stamp: Callable[[], list[Any] | None] = lambda: None  # its place, size and time of change, where they are known
    map: Callable[[], Any] | None = None  # its bytes without a copy of them in memory, where that can be
    texts: Texts = USUAL  # how a CSV file writes numbers and missing values


class Contents(NamedTuple):
    """The columns of one file: their names, the number of rows if that is known, and ways to types and rows of some.

    `batches` gives pyarrow record batches and starts anew each time, at a row if one is given; `table` gives all rows.
    """

    names: list[str]
    rows: int | None
    types: Callable[[Sequence[str]], dict[str, Any]]
    batches: Callable[..., Iterator[Any]]
    table: Callable[[Sequence[str]], Any]


def after(batches: Iterator[Any], skip: int) -> Iterator[Any]:
    """Record batches without the first rows.

    >>> import pyarrow as pa
    >>> [batch["x"].to_pylist() for batch in after(iter([pa.record_batch({"x": [1, 2]})] * 2), 3)]
    [[2]]
    """
    for batch in batches:
        if batch.num_rows > skip:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


def kind_of(name: str) -> tuple[str, str | None] | None:
    """The kind that a file's name tells, and its compression; None if it does not tell.

    >>> kind_of("loans.csv.gz"), kind_of("loans.parquet"), kind_of("loans.xlsx")
    (('CSV', 'gzip'), ('Parquet', None), None)
    """
    name = name.lower()
    compression = next((ending for ending in COMPRESSED if name.endswith(ending)), "")
    for kind, endings in ENDINGS.items():
        if name.removesuffix(compression).endswith(endings) and (kind == "CSV" or not compression):
            return kind, COMPRESSED.get(compression)
    return None


def recognise(open_bytes: Callable[[], Any]) -> tuple[str, str | None]:
    """The kind that a file's first bytes tell, and its compression: CSV if they are nothing else.

    >>> import io
    >>> recognise(lambda: io.BytesIO(b"PAR1...")), recognise(lambda: io.BytesIO(b"x,y"))
    (('Parquet', None), ('CSV', None))
    """
    with open_bytes() as stream:
        first = bytes(stream.read(4))
    return next((found for bytes_, found in BEGINNINGS.items() if first.startswith(bytes_)), ("CSV", None))


def other_kind(file: File) -> str:
    """What a file is by its first bytes, if it is something else than its name says; else nothing.

    >>> import io
    >>> other_kind(File("'a.csv'", lambda: io.BytesIO(b"PAR1..."), "CSV"))
    'Parquet'
    """
    with file.open() as stream:
        first = bytes(stream.read(1000))
    for start, found in BEGINNINGS.items():
        if first.startswith(start):
            kind, compression = found
            return "" if found == (file.kind, file.compression) else compression or kind
    for start, words in OTHERS.items():
        if first.startswith(start):
            return "" if words == file.compression else words
    plain = file.kind == "CSV" and file.compression is None
    return "" if plain or b"\n" not in first or b"\0" in first or not first.isascii() else "text, such as CSV"


@contextmanager
def plainly(what: str) -> Iterator[None]:
    """Errors of Arrow as ValueError; those of the system, such as a lost connection, stay as they are.

    >>> import pyarrow as pa
    >>> with plainly("cannot read 'a.csv'"):
    ...     raise pa.ArrowInvalid("no end")
    Traceback (most recent call last):
    ValueError: cannot read 'a.csv': no end
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{what}: {in_words(error)}") from error


def in_words(error: Exception) -> str:
    """What is wrong with a file, in other words than Arrow has for it if it is damaged.

    >>> in_words(ValueError("Couldn't deserialize thrift: don't know what type"))
    'the description of its columns is damaged'
    """
    said = " ".join(str(error).split())
    return next((words for pattern, words in WORDS.items() if re.search(pattern, said, re.IGNORECASE)), said)
