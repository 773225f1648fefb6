"""Files of each kind, CSV, Parquet and Arrow (Feather), from a disk or any other stream of bytes.

The kind of a file is told by its name or, where that does not tell, by its first bytes. A reader learns the names of
the columns and leaves the rest until some of them are asked for.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
FIRST_BLOCK, LARGEST_BLOCK = 1 << 20, 2**31 - 1  # bytes


class Source(NamedTuple):
    """Data not yet loaded: the names on offer, and a way to load some of them (pandas or pyarrow columns)."""

    names: list[str]
    load: Callable[[list[str]], dict[str, Any]]


class File(NamedTuple):
    """One file: its name as messages have it, how its bytes are read from the first on, and what it is."""

    name: str
    open: Callable[[], Any]
    kind: str
    compression: str | None = None
    keys: Mapping[str, str | None] = {}  # what the folders that it lies in say of all its rows


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


def open_file(file: File) -> Source:
    """The columns of one file.

    >>> import io
    >>> source = open_file(File("'a.csv'", lambda: io.BytesIO(b"x,y\\n1,2\\n3,4\\n"), "CSV"))
    >>> source.names, source.load(["y"])["y"].to_pylist()
    (['x', 'y'], [2, 4])
    """
    return {"CSV": _open_csv, "Parquet": _open_parquet, "Arrow": _open_arrow}[file.kind](file)


def _open_parquet(file: File) -> Source:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open() as stream:
            names = list(pq.read_schema(stream).names)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file.name} is not a Parquet file: {error}") from error

    def load(wanted: list[str]) -> dict[str, Any]:
        with file.open() as stream:
            table = pq.read_table(stream, columns=wanted, partitioning=None)
        return {name: table[name] for name in wanted}

    return Source(names, load)


def _open_arrow(file: File) -> Source:
    import pyarrow as pa
    import pyarrow.ipc

    def reader(stream: Any, fields: list[int] | None = None) -> Any:
        first = bytes(stream.read(6))
        if first.startswith(b"FEA1"):
            raise ValueError(f"{file.name} is a Feather file of version 1; write it again as version 2 or as Parquet")
        stream.seek(0)
        opener = pa.ipc.open_file if first == b"ARROW1" else pa.ipc.open_stream
        return opener(stream, options=pa.ipc.IpcReadOptions(included_fields=fields))

    try:
        with file.open() as stream:
            names = list(reader(stream).schema.names)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file.name} is not an Arrow or Feather file: {error}") from error

    def load(wanted: list[str]) -> dict[str, Any]:
        with file.open() as stream:
            table = reader(stream, [names.index(name) for name in wanted]).read_all()
        return {name: table[name] for name in wanted}

    return Source(names, load)


def _open_csv(file: File) -> Source:
    import pyarrow as pa
    import pyarrow.csv

    line = _first_line(file)
    separator = max(",;\t", key=line.count)

    def load(wanted: list[str]) -> dict[str, Any]:
        def attempt(whole: bool) -> Any:
            with file.open() as raw, pa.input_stream(raw, compression=file.compression) as stream:
                block = FIRST_BLOCK
                if whole:
                    content = stream.read()
                    stream, block = pa.BufferReader(content), min(len(content) + 1, LARGEST_BLOCK)
                return pa.csv.read_csv(
                    stream,
                    pa.csv.ReadOptions(block_size=block),
                    pa.csv.ParseOptions(delimiter=separator, newlines_in_values=whole),
                    pa.csv.ConvertOptions(include_columns=wanted, strings_can_be_null=True),
                )

        try:
            try:
                table = attempt(whole=False)
            except pa.ArrowInvalid:  # types come from the first block alone, and 1, 2, ..., 2.5 needs them all
                table = attempt(whole=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"cannot read {file.name} as CSV separated by {separator!r}: {error}") from error
        return {name: table[name] for name in wanted}

    return Source(next(csv.reader([line], delimiter=separator)), load)


def _first_line(file: File) -> str:
    """The names of a CSV file's columns; raise ValueError if its first line is no such thing."""
    import pyarrow as pa

    with file.open() as raw:
        try:
            first = pa.input_stream(raw, compression=file.compression).read(FIRST_BLOCK)
        except OSError as error:
            if file.compression is None or error.errno is not None:
                raise
            raise ValueError(f"{file.name} is not compressed with {file.compression}: {error}") from error
    header = first.split(b"\n")[0].strip(b"\r")
    if not header.strip():
        raise ValueError(f"{file.name} is empty: a CSV file starts with the names of its columns")
    try:
        line: str = header.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.name} is not a CSV file in UTF-8: {error}") from error
    if "\0" in line or line.startswith("PAR1"):
        raise ValueError(f"{file.name} is not a CSV file: its first line is not text")
    return line
