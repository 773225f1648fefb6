"""Parquet and Arrow (Feather) files, which tell the types of their columns: read batch by batch.

A Parquet file is read with little memory even if all its rows are one row group: its pages are decoded as they are
needed. `pyarrow.dataset` would hold whole row groups, several at a time. An Arrow file whose rows are few long batches,
as polars writes them, is mapped: it takes no memory that the system could not take back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tallbayes.data.formats import Contents, File, after, plainly
from tallbayes.data.names import require_distinct

BATCH = 1 << 16  # rows
LONG = 1 << 20  # rows of an Arrow batch that are not all read into memory, if its file is on a disk
BUFFER = 1 << 20  # bytes of each column that are read ahead


def open_parquet(file: File) -> Contents:
    """The columns of a Parquet file, as its footer has them."""
    import pyarrow.parquet as pq

    with plainly(f"{file.name} is not a Parquet file, or is damaged"), file.open() as stream:
        found = pq.ParquetFile(stream)
        schema, rows = found.schema_arrow, found.metadata.num_rows
    require_distinct(schema.names, f" in {file.name}")

    def batches(wanted: Sequence[str], skip: int = 0) -> Iterator[Any]:
        with plainly(f"cannot read {file.name}"), file.open() as stream:
            parquet = pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False, page_checksum_verification=True)
            first, group, groups = skip, 0, parquet.metadata.num_row_groups
            while group < groups - 1 and skip >= (rows := parquet.metadata.row_group(group).num_rows):
                group, skip = group + 1, skip - rows
            found = parquet.iter_batches(BATCH, row_groups=range(group, groups), columns=list(wanted))
            yield from after(_whole(found, wanted, file.name, first - skip), skip)

    return contents_of(schema, rows, batches)


def open_arrow(file: File) -> Contents:
    """The columns of an Arrow file or stream."""
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.ipc

    def reader(stream: Any, fields: list[int] | None = None) -> Any:
        first = bytes(stream.read(6))
        if first.startswith(b"FEA1"):
            raise ValueError(f"{file.name} is a Feather file of version 1; write it again as version 2 or as Parquet")
        stream.seek(0)
        opener = pa.ipc.open_file if first == b"ARROW1" else pa.ipc.open_stream
        return opener(stream, options=pa.ipc.IpcReadOptions(included_fields=fields))

    with plainly(f"{file.name} is not an Arrow or Feather file, or is damaged"), (file.map or file.open)() as stream:
        found = reader(stream)
        schema, rows, long = found.schema, None, False
        require_distinct(schema.names, f" in {file.name}")
        if file.map and isinstance(found, pa.ipc.RecordBatchFileReader):  # without a map, to count would be to read all
            rows = pa.dataset.IpcFileFormat().make_fragment(stream).count_rows()
            long = rows > LONG * found.num_record_batches

    def batches(wanted: Sequence[str], skip: int = 0) -> Iterator[Any]:
        return after(all_batches(wanted), skip)

    def all_batches(wanted: Sequence[str]) -> Iterator[Any]:
        mapped = file.map if long else None
        with plainly(f"cannot read {file.name}"), (mapped or file.open)() as stream:
            fields = sorted(schema.names.index(name) for name in wanted)
            opened = reader(stream, None if mapped else fields)  # of a mapped file Arrow would copy the chosen ones
            if isinstance(opened, pa.ipc.RecordBatchStreamReader):
                yield from _whole(opened, wanted, file.name)
                return
            found = (opened.get_batch(number) for number in range(opened.num_record_batches))
            for batch in _whole(found, wanted, file.name):
                if mapped:
                    yield from (_copied(batch.slice(first, BATCH)) for first in range(0, batch.num_rows, BATCH))
                else:
                    yield batch

    return contents_of(schema, rows, batches)


def _whole(batches: Iterable[Any], wanted: Sequence[str], name: str, row: int = 0) -> Iterator[Any]:
    """Some columns of record batches, the first of which begins at a row; ValueError if what they hold is damaged.

    Arrow reads text by lengths that stand in the file, and where these are wrong would read from anywhere.
    """
    found = iter(batches)
    while True:
        with plainly(f"cannot read {name} from row {row} on"):
            batch = next(found, None)
            if batch is None:
                return
            batch = batch.select(wanted)
            batch.validate(full=True)
        yield batch
        row += batch.num_rows


def _copied(batch: Any) -> Any:
    """A record batch in memory of its own, which stays as it is when the file goes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def contents_of(schema: Any, rows: int | None, batches: Callable[..., Iterator[Any]]) -> Contents:
    """What a schema and a way to its batches tell."""
    import pyarrow as pa

    def types(wanted: Sequence[str]) -> dict[str, Any]:
        return {name: schema.field(name).type for name in wanted}

    def table(wanted: Sequence[str]) -> Any:
        filled = [batch for batch in batches(wanted) if batch.num_rows]
        return pa.Table.from_batches(filled, pa.schema([schema.field(name) for name in wanted]))

    return Contents(list(schema.names), rows, types, batches, table)
