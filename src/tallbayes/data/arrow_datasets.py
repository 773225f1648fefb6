"""A `pyarrow.dataset.Dataset` as a source: its Parquet files are read one after the other.

Arrow's own scanner holds whole row groups; it is left to read what is not simply a Parquet file with the data set's
types: other formats, files that lack a column, selected row groups, and data sets with a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tallbayes.data.columnar import BATCH, contents_of, open_parquet
from tallbayes.data.formats import Contents, File, after, plainly
from tallbayes.data.pieces import Source
from tallbayes.data.stack import Part, stack, with_keys
from tallbayes.data.streams import stream


def open_dataset(dataset: Any) -> Source:
    """The columns of a data set, whose files are one below the other in its own order.

    >>> import pyarrow as pa
    >>> import pyarrow.dataset
    >>> source = open_dataset(pa.dataset.dataset(pa.table({"x": [1, 2]})))
    >>> source.names, [piece.columns["x"].to_pylist() for piece in source.pieces(["x"])]
    (['x'], [[1, 2]])
    """
    import pyarrow.dataset as ds

    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # it has a filter
        fragments = []
    if fragments and all(isinstance(fragment, ds.FileFragment) for fragment in fragments):
        return stack([_part(fragment, dataset.schema) for fragment in fragments], "of the data set")
    return stream("the pyarrow Dataset", list(dataset.schema.names), _scanned(dataset.scanner, "the pyarrow Dataset"))


def _part(fragment: Any, schema: Any) -> Part:
    """A file of a data set, with the columns and types of the data set."""
    import pyarrow.dataset as ds
    import pyarrow.fs

    def stamp() -> list[Any] | None:
        about = fragment.filesystem.get_file_info(fragment.path)
        if about.type == pyarrow.fs.FileType.NotFound:
            raise FileNotFoundError(fragment.path)
        return None if about.mtime_ns is None else [fragment.path, about.size, about.mtime_ns]

    opened = stamp()
    file = File(repr(fragment.path), lambda: fragment.filesystem.open_input_file(fragment.path), "Parquet", stamp=stamp)
    contents = contents_of(schema, None, _scanned(partial(fragment.scanner, schema=schema), file.name))
    if isinstance(fragment, ds.ParquetFileFragment) and len(fragment.row_groups) == fragment.metadata.num_row_groups:
        contents = _preferred(with_keys(open_parquet(file), _keys(fragment, schema)), contents, schema)
    return Part(file, opened, contents)


def _preferred(whole: Contents, scanned: Contents, schema: Any) -> Contents:
    """A Parquet file read as such where its columns are those of the data set."""

    def batches(wanted: Sequence[str], skip: int = 0) -> Iterator[Any]:
        own = [name for name in wanted if name in whole.names]
        return (whole if whole.types(own) == scanned.types(wanted) else scanned).batches(wanted, skip)

    return contents_of(schema, whole.rows, batches)


def _keys(fragment: Any, schema: Any) -> dict[str, Any]:
    """What a file's folders say of its rows, with the types of the data set."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    keys = ds.get_partition_keys(fragment.partition_expression)
    return {key: pa.array([value], schema.field(key).type)[0] for key, value in keys.items()}


def _scanned(scanner: Callable[..., Any], what: str) -> Callable[..., Iterator[Any]]:
    """Record batches of Arrow's scanner, which reads no further ahead than it must."""

    def batches(wanted: Sequence[str], skip: int = 0) -> Iterator[Any]:
        with plainly(f"cannot read {what}"):
            found = scanner(columns=list(wanted), batch_size=BATCH, batch_readahead=1, fragment_readahead=1)
            yield from after(found.to_batches(), skip)

    return batches
