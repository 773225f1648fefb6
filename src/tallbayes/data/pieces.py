"""What every input becomes: a source, which tells its columns and gives its rows as often as asked, in pieces.

All pieces but the last have `PIECE` rows, however the rows are spread over files, so that nothing that is computed from
pieces depends on the files. Pieces of files are of no more memory than their rows need.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

PIECE = 1 << 18  # rows
MANY = 64  # parts of a piece that are worth a copy: what works on a column goes through its parts one by one


class Piece(NamedTuple):
    """Some rows that follow each other: pandas or pyarrow columns, all of one length."""

    columns: dict[str, Any]
    start: int  # the number of its first row among all rows
    where: Callable[[int], str]  # of a row of the piece, 0, 1, ...: "row 12", and in files "row 3 of 'b.parquet'"


class Source(NamedTuple):
    """Data not yet loaded: the names on offer, and ways to read the rows of some of them (pandas or pyarrow columns).

    `rows` is None where it takes a pass over the data to know it; `held` tells that the data are in memory already;
    `load` gives all rows; each call of `pieces` starts at the first row; `identity` says what the data are (each
    file's name, size, time of change and a hash of its ends) or None where that cannot be known. Data that other
    machines read have `elsewhere` who makes rows of them, and cannot be read here.
    """

    names: list[str]
    rows: int | None
    held: bool
    load: Callable[[Sequence[str]], dict[str, Any]]
    pieces: Callable[[Sequence[str]], Iterator[Piece]]
    identity: Callable[[], list[list[Any]] | None] = lambda: None
    elsewhere: Any = None
    others: Sequence[str] = ()  # columns that some files have and the first has not
    called: str = ""  # what to call the data on a page (`source_names.py`)


class Batch(NamedTuple):
    """Rows as a reader gives them: a pyarrow RecordBatch, and where its first row comes from."""

    rows: Any
    file: str = ""
    start: int = 0  # the number of its first row in that file


def sliced(load: Callable[[Sequence[str]], dict[str, Any]], wanted: Sequence[str]) -> Iterator[Piece]:
    """Pieces of columns that are in memory: no row is copied.

    >>> import pandas as pd
    >>> [piece.where(1) for piece in sliced(lambda wanted: {"x": pd.Series([1, 2, 3])}, ["x"])]
    ['row 1']
    """
    columns, size = load(wanted), PIECE
    rows = len(next(iter(columns.values())))
    _some(rows)
    places = {name: getattr(values, "iloc", values) for name, values in columns.items()}
    for start in range(0, rows, size):
        yield Piece({name: place[start : start + size] for name, place in places.items()}, start, _row(start))


def cut(batches: Iterable[Batch], first: int = 0, what: str = "the data") -> Iterator[Piece]:
    """Pieces of batches, which are cut and joined; `first` numbers the first row.

    Raise ValueError if there is none; `what` is what that calls the data.

    Their types may widen from batch to batch: from no values to any, from whole numbers to others.

    >>> import pyarrow as pa
    >>> batches = [Batch(pa.record_batch({"x": [1, 2]}), "'a'"), Batch(pa.record_batch({"x": [0.5]}), "'b'")]
    >>> [(piece.columns["x"].to_pylist(), piece.where(2)) for piece in cut(batches)]
    [([1.0, 2.0, 0.5], "row 0 of 'b'")]
    """
    size, start, count = PIECE, first, 0
    parts: list[Batch] = []
    for batch in batches:
        offset = 0
        while offset < batch.rows.num_rows:
            part = batch.rows.slice(offset, size - count)
            parts.append(Batch(part, batch.file, batch.start + offset))
            offset, count = offset + part.num_rows, count + part.num_rows
            if count == size:
                yield _joined(parts, start)
                start, count, parts = start + count, 0, []
    if parts:
        yield _joined(parts, start)
    _some(start + count - first, what)


def _joined(parts: list[Batch], start: int) -> Piece:
    table = join([part.rows for part in parts])
    if len(parts) > MANY:
        table = table.unify_dictionaries().combine_chunks()
    columns = dict(zip(table.column_names, table.columns, strict=True))
    if not parts[0].file:
        return Piece(columns, start, _row(start))
    firsts = [0]
    for part in parts[:-1]:
        firsts.append(firsts[-1] + part.rows.num_rows)
    origins = [(part.file, part.start) for part in parts]

    def where(row: int) -> str:
        part = bisect_right(firsts, row) - 1
        file, first = origins[part]
        return f"row {first + row - firsts[part]} of {file}"

    return Piece(columns, start, where)


def join(batches: Sequence[Any]) -> Any:
    """One table of record batches, whose types are made one where they differ."""
    import pyarrow as pa

    if all(batch.schema.equals(batches[0].schema) for batch in batches[1:]):
        return pa.Table.from_batches(batches)
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")


def conform(batch: Any, schema: Any) -> Any:
    """A record batch with the types of a schema, which are its own or wider.

    >>> import pyarrow as pa
    >>> conform(pa.record_batch({"x": [1, 2]}), pa.schema({"x": pa.float64()}))["x"].to_pylist()
    [1.0, 2.0]
    """
    import pyarrow as pa

    if batch.schema.types == schema.types:
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    tables = [schema.empty_table(), pa.Table.from_batches([batch])]
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    return next(iter(table.to_batches()), pa.RecordBatch.from_pylist([], schema))


def _row(start: int) -> Callable[[int], str]:
    return lambda row: f"row {start + row}"


def _some(rows: int, what: str = "the data") -> None:
    if rows == 0:
        raise ValueError(f"{what} has no rows")
