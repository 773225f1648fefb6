"""A source of rows that are computed anew for each pass: a query, or a function that gives frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tallbayes.data.pieces import Batch, Piece, Source, conform, cut, join


def stream(what: str, names: list[str], batches: Callable[[Sequence[str]], Iterator[Any]]) -> Source:
    """The rows of record batches; `what` is what messages call them.

    Types may widen from batch to batch, from no values to any and from whole numbers to others. Every pass must give
    as many rows as the first.

    >>> import pyarrow as pa
    >>> source = stream("it", ["x"], lambda wanted: iter([pa.record_batch({"x": [1]}), pa.record_batch({"x": [0.5]})]))
    >>> [piece.columns["x"].to_pylist() for piece in source.pieces(["x"])]
    [[1.0, 0.5]]
    """
    import pyarrow as pa

    known: dict[str, Any] = {}
    passes: list[int] = []  # the number of rows of each that came to its end

    def widened(batch: Any) -> Any:
        """The batch, with types that fit it and those before it."""
        own = pa.schema([(field.name, field.type) for field in batch.schema])
        before = pa.schema([(name, known[name]) for name in own.names if name in known])
        try:
            schema = pa.unify_schemas([before, own], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"{what} changed the type of a column between its parts: {error}") from error
        known.update({field.name: field.type for field in schema})
        return conform(batch, pa.schema([schema.field(name) for name in own.names]))

    def all_batches(wanted: Sequence[str]) -> Iterator[Any]:
        rows = 0
        for batch in batches(wanted):
            rows += batch.num_rows
            if batch.num_rows:
                yield widened(batch)
        passes.append(rows)
        if rows != passes[0]:
            when = "the second" if len(passes) == 2 else "later"
            raise ValueError(
                f"{what} returned {passes[0]} rows the first time and {rows} {when}: "
                "it must give the same rows each time"
            )

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        table = join(list(all_batches(wanted)) or [pa.record_batch([pa.nulls(0) for _ in wanted], list(wanted))])
        return dict(zip(wanted, table.columns, strict=True))

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return cut(Batch(batch) for batch in all_batches(wanted or names[:1]))

    return Source(names, None, False, load, pieces)
