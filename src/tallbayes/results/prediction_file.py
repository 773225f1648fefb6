"""Predictions as they come, piece by piece, into a Parquet or CSV file: memory is that of a few pieces."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tallbayes.data.names import require
from tallbayes.data.options import check_path
from tallbayes.data.pieces import Source
from tallbayes.data.progress import passing
from tallbayes.data.writing import check_writable, replacing
from tallbayes.results.predict import Predicted

ENDINGS = (".parquet", ".csv")


def write(
    target: str | os.PathLike[str] | IO[bytes],
    parts: Iterable[Predicted],
    names: Sequence[str],
    source: Source,
    keep: Sequence[str],
) -> int:
    """Write columns that are kept and predictions, by their names, to a file; how many rows there were.

    A file appears when it is complete. One that is open already gets CSV.
    """
    with passing("predicting", source.rows) as done:
        tables = _tables(parts, names, source, keep, done)
        if not isinstance(target, str | os.PathLike) and hasattr(target, "write"):
            if hasattr(target, "encoding"):
                raise ValueError("target must be open for bytes, not for text: open(path, 'wb'), or give its path")
            return _write_csv(tables, target)
        path = Path(check_path("target", target, "the path of a file, or an open one"))
        if path.suffix.lower() not in ENDINGS:
            raise ValueError(f"{str(path)!r} must end in {' or '.join(ENDINGS)}")
        check_writable(path)
        with replacing(path) as partial:
            if path.suffix.lower() == ".parquet":
                return _write_parquet(tables, partial)
            with partial.open("wb") as file:
                return _write_csv(tables, file)


def _tables(
    parts: Iterable[Predicted], names: Sequence[str], source: Source, keep: Sequence[str], done: Callable[[int], None]
) -> Iterator[Any]:
    """A pyarrow table for each part; all have the types of the first, and of data in memory those of all rows.

    `done` is told of rows whose table has been dealt with.
    """
    import pyarrow as pa

    keep = list(dict.fromkeys(keep))
    if both := [name for name in names if name in keep]:
        raise ValueError(
            f"the data has a column {both[0]!r}, which predictions have as well; rename it, or do not keep it"
        )
    require(keep, source.names)
    types = pa.table(source.load(keep)).schema if source.held and keep else None
    for rows, values in parts:
        kept = pa.table(rows.kept)
        types = kept.schema if types is None else types
        beside = dict(zip(keep, _as_before(kept, types, rows.where(0)).columns, strict=True))
        yield pa.table(beside | dict(zip(names, values, strict=True))).combine_chunks()
        done(rows.size)


def _as_before(table: Any, types: Any, where: str) -> Any:
    """A table with these types, which are its own or wider."""
    import pyarrow as pa

    if table.schema.types == types.types:
        return table
    for now, before in zip(table.schema, types, strict=True):
        try:
            wide = pa.unify_schemas([pa.schema([before]), pa.schema([now])], promote_options="permissive").types[0]
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            wide = None
        if wide != before.type:
            raise ValueError(
                f"column {now.name!r} holds {now.type} from {where} on, but {before.type} before; make it all of one "
                "type first, or do not keep it"
            )
    return table.cast(types)


def _write_parquet(tables: Iterable[Any], path: Path) -> int:
    import pyarrow.parquet as pq

    coming = iter(tables)
    first = next(coming)
    rows = int(first.num_rows)
    # Arrow would keep a file of its own open that it cannot complete, and with it what is written on a full disk.
    with path.open("wb") as file, pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for table in coming:
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _write_csv(tables: Iterable[Any], file: IO[bytes]) -> int:
    """As CSV; Arrow writes the rows twenty times as fast as pandas, but quotes every name of the first line."""
    import pyarrow as pa
    import pyarrow.csv

    rows = 0
    for table in tables:
        plain = _plain(table)
        if rows == 0:
            names = io.StringIO()
            csv.writer(names, lineterminator="\n").writerow(plain.column_names)
            file.write(names.getvalue().encode())
        pa.csv.write_csv(plain, file, pa.csv.WriteOptions(include_header=False, quoting_style="needed"))
        rows += plain.num_rows
    return rows


def _plain(table: Any) -> Any:
    """A table whose columns CSV can hold; levels are written out."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, name, column.cast(column.type.value_type))
        elif pa.types.is_nested(column.type):
            raise ValueError(f"column {name!r} holds {column.type}, which CSV cannot; use a file in .parquet")
    return table.combine_chunks()
