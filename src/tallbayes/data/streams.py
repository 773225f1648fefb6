"""A source of rows that are computed anew for each pass: a query, or a function that gives frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tallbayes.data.pieces import Batch, Piece, Source, conform, cut, join

WHOLE = 1 << 64  # checksums count up to here


def stream(what: str, names: list[str], batches: Callable[[Sequence[str]], Iterator[Any]]) -> Source:
    """The rows of record batches; `what` is what messages call them.

    Types may widen from batch to batch, from no values to any and from whole numbers to others. Every pass must give
    as many rows as the first, with the same values, whatever their order.

    >>> import pyarrow as pa
    >>> source = stream("it", ["x"], lambda wanted: iter([pa.record_batch({"x": [1]}), pa.record_batch({"x": [0.5]})]))
    >>> [piece.columns["x"].to_pylist() for piece in source.pieces(["x"])]
    [[1.0, 0.5]]
    """
    import pyarrow as pa

    known: dict[str, Any] = {}
    passes: list[int] = []  # the number of rows of each that came to its end
    checks: dict[str, int] = {}  # of the values of a column, in the first pass that had it

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
        rows, found = 0, Counter[str]()
        for batch in batches(wanted):
            rows += batch.num_rows
            if batch.num_rows:
                yield widened(batch)
                found.update({name: _check(batch[name]) for name in wanted})
        passes.append(rows)
        if rows != passes[0]:
            when = "the second" if len(passes) == 2 else "later"
            raise ValueError(
                f"{what} returned {passes[0]} rows the first time and {rows} {when}: "
                "it must give the same rows each time"
            )
        for name, check in found.items():
            if checks.setdefault(name, check % WHOLE) != check % WHOLE:
                raise ValueError(
                    f"{what} returned other values of column {name!r} than before: it must give the same rows each "
                    "time; draw random numbers from a seed, and read what may change only once"
                )

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        table = join(list(all_batches(wanted)) or [pa.record_batch([pa.nulls(0) for _ in wanted], list(wanted))])
        return dict(zip(wanted, table.columns, strict=True))

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return cut(Batch(batch) for batch in all_batches(wanted or names[:1]))

    return Source(names, None, False, load, pieces)


def _check(values: Any) -> int:
    """A checksum of an Arrow array that does not depend on the order of its values; 0 if they are of no use anyway."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = values.dictionary_encode()
    if pa.types.is_dictionary(values.type):
        levels = pd.util.hash_array(values.dictionary.to_numpy(zero_copy_only=False).astype(object))
        levels = np.append(levels, np.uint64(1))  # of those that are missing
        hashes = levels[pc.fill_null(values.indices, len(levels) - 1).to_numpy(zero_copy_only=False)]
    elif pa.types.is_boolean(kind) or pa.types.is_primitive(values.type) or pa.types.is_decimal(kind):
        if pa.types.is_boolean(kind):
            values = values.cast(pa.uint8())
        hashes = pd.util.hash_array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    else:
        return 0
    return int(hashes.sum(dtype=np.uint64))
