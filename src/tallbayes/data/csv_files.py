"""CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

from tallbayes.data.formats import Contents, File

FIRST_BLOCK, LARGEST_BLOCK = 1 << 20, 2**31 - 1  # bytes


def open_csv(file: File) -> Contents:
    """The columns of a CSV file, whose first line has their names."""
    import pyarrow as pa
    import pyarrow.csv

    line = _first_line(file)
    separator = max(",;\t", key=line.count)

    def table(wanted: Sequence[str]) -> Any:
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
                return attempt(whole=False)
            except pa.ArrowInvalid:  # types come from the first block alone, and 1, 2, ..., 2.5 needs them all
                return attempt(whole=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"cannot read {file.name} as CSV separated by {separator!r}: {error}") from error

    def types(wanted: Sequence[str]) -> dict[str, Any]:
        schema = table(wanted).schema
        return dict(zip(wanted, schema.types, strict=True))

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        yield from table(wanted).to_batches()

    return Contents(next(csv.reader([line], delimiter=separator)), None, types, batches, table)


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
