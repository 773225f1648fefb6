"""Data in pieces of a fixed number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tallbayes.data.tally import rows_from

PIECE = 1 << 18  # rows


class Piece(NamedTuple):
    """Some rows that follow each other: pandas or pyarrow columns, all of one length."""

    columns: dict[str, Any]
    start: int  # the number of its first row among all rows
    where: Callable[[int], str]  # of a row of the piece, 0, 1, ...: "row 12", and in files "row 3 of 'b.parquet'"


def sliced(load: Callable[[list[str]], dict[str, Any]], wanted: Sequence[str]) -> Iterator[Piece]:
    """Pieces of columns that are in memory: no row is copied."""
    columns, size = load(list(wanted)), PIECE
    rows = len(next(iter(columns.values())))
    if rows == 0:
        raise ValueError("the data has no rows")
    columns = {name: values.iloc if hasattr(values, "iloc") else values for name, values in columns.items()}
    for start in range(0, rows, size):
        yield Piece({name: values[start : start + size] for name, values in columns.items()}, start, rows_from(start))
