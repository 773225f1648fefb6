"""Parquet and Arrow (Feather) files, which tell the types of their columns: read batch by batch.

A Parquet file is read with little memory even if all its rows are one row group: its pages are decoded as they are
needed. `pyarrow.dataset` would hold whole row groups, several at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tallbayes.data.formats import Contents, File, plainly

BATCH = 1 << 16  # rows
BUFFER = 1 << 20  # bytes of each column that are read ahead


def open_parquet(file: File) -> Contents:
    """The columns of a Parquet file, as its footer has them."""
    import pyarrow.parquet as pq

    with plainly(f"{file.name} is not a Parquet file"), file.open() as stream:
        found = pq.ParquetFile(stream)
        schema, rows = found.schema_arrow, found.metadata.num_rows

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        with plainly(f"cannot read {file.name}"), file.open() as stream:
            parquet = pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False)
            for batch in parquet.iter_batches(BATCH, columns=list(wanted)):
                yield batch.select(wanted)

    return _contents(schema, rows, batches)


def open_arrow(file: File) -> Contents:
    """The columns of an Arrow file or stream."""
    import pyarrow as pa
    import pyarrow.ipc

    def reader(stream: Any, fields: list[int] | None = None) -> Any:
        first = bytes(stream.read(6))
        if first.startswith(b"FEA1"):
            raise ValueError(f"{file.name} is a Feather file of version 1; write it again as version 2 or as Parquet")
        stream.seek(0)
        opener = pa.ipc.open_file if first == b"ARROW1" else pa.ipc.open_stream
        return opener(stream, options=pa.ipc.IpcReadOptions(included_fields=fields))

    with plainly(f"{file.name} is not an Arrow or Feather file"), file.open() as stream:
        found = reader(stream)
        schema = found.schema
        rows = found.count_rows() if hasattr(found, "count_rows") else None  # a stream ends somewhere

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        with plainly(f"cannot read {file.name}"), file.open() as stream:
            opened = reader(stream, sorted(schema.names.index(name) for name in wanted))
            if isinstance(opened, pa.ipc.RecordBatchStreamReader):
                yield from (batch.select(wanted) for batch in opened)
            else:
                yield from (opened.get_batch(i).select(wanted) for i in range(opened.num_record_batches))

    return _contents(schema, rows, batches)


def _contents(schema: Any, rows: int | None, batches: Callable[[Sequence[str]], Iterator[Any]]) -> Contents:
    import pyarrow as pa

    def types(wanted: Sequence[str]) -> dict[str, Any]:
        return {name: schema.field(name).type for name in wanted}

    def table(wanted: Sequence[str]) -> Any:
        return pa.Table.from_batches(batches(wanted), pa.schema([schema.field(name) for name in wanted]))

    return Contents(list(schema.names), rows, types, batches, table)
