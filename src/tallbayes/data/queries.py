"""Queries of polars and DuckDB: each pass runs them again, and no more than some batches of their rows are held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tallbayes.data import pieces
from tallbayes.data.pieces import Source
from tallbayes.data.streams import stream

LAZY = "the polars LazyFrame"


def open_lazy_frame(frame: Any) -> Source:
    """The columns of a polars LazyFrame.

    >>> import polars as pl
    >>> source = open_lazy_frame(pl.LazyFrame({"x": [1, 2]}).with_columns(z=2 * pl.col("x")))
    >>> source.names, [piece.columns["z"].to_pylist() for piece in source.pieces(["z"])]
    (['x', 'z'], [[2, 4]])
    """

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        with _running(LAZY):
            for part in _parts(frame.select(wanted)):
                yield from part.to_arrow().to_batches()

    with _running(LAZY):
        names = frame.collect_schema().names()
    return stream(LAZY, names, batches)


@contextmanager
def _running(what: str) -> Iterator[None]:
    """What goes wrong in a query is said in a line."""
    from polars.exceptions import PolarsError

    try:
        yield
    except (PolarsError, OSError) as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ValueError(f"{what} cannot be run ({type(error).__name__}: {said}); try its .collect() first") from error


def _parts(frame: Any) -> Iterator[Any]:
    """The frames of a query, one below the other; before polars 1.34 it ran once for each of them."""
    size = pieces.PIECE
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(chunk_size=size, maintain_order=True, lazy=True)
        return
    start = 0
    while (part := frame.slice(start, size).collect()).height:
        yield part
        start += size


def open_relation(relation: Any) -> Source:
    """The columns of a DuckDB relation, in the order that its query gives."""
    from duckdb import ColumnExpression

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        needed = relation.select(*(ColumnExpression(name) for name in wanted))
        start = needed.to_arrow_reader if hasattr(needed, "to_arrow_reader") else needed.fetch_arrow_reader
        with start(pieces.PIECE) as reader:  # closed even if left early: a connection has one open result
            yield from reader

    return stream("the DuckDB relation", list(relation.columns), batches)
