"""All files that a path means as one source: one below the other, in the order of their names.

Every piece has the same types: those of all files, made one. The folders that files lie in may name columns, such as
year=2009. A file that changes while it is being read is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tallbayes.data.columnar import open_arrow, open_parquet
from tallbayes.data.csv_files import open_csv
from tallbayes.data.formats import Contents, File
from tallbayes.data.names import require
from tallbayes.data.paths import STANDARD_INPUT, files_of
from tallbayes.data.pieces import Batch, Piece, Source, cut

OPENERS = {"CSV": open_csv, "Parquet": open_parquet, "Arrow": open_arrow}
END = 1 << 16  # bytes at each end of a file that its identity depends on


def open_file(file: File) -> Contents:
    """The columns of one file.

    >>> import io
    >>> contents = open_file(File("'a.csv'", lambda: io.BytesIO(b"x,y\\n1,2\\n3,4\\n"), "CSV"))
    >>> contents.names, [batch["y"].to_pylist() for batch in contents.batches(["y"])]
    (['x', 'y'], [[2, 4]])
    """
    return OPENERS[file.kind](file)


def open_path(path: str) -> Source:
    """All files that a path means, one below the other.

    >>> open_path("nothing.csv")
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'nothing.csv'
    """
    import pyarrow as pa

    files = files_of(path)
    keys = _key_types(files)
    parts = [_Part(file, file.stamp(), _with_keys(file, open_file(file), keys)) for file in files]
    names, counts = parts[0].contents.names, [part.contents.rows for part in parts]
    held = path == STANDARD_INPUT

    def types(wanted: Sequence[str]) -> Any:
        for part in parts:
            require(wanted, part.contents.names, part.file.name)
        return _agreed(path, parts, wanted)

    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        schema = types(wanted)
        for part in parts:
            start = 0
            with part.unchanged():
                for batch in part.contents.batches(wanted):
                    yield Batch(_as(schema, batch), "" if held else part.file.name, start)
                    start += batch.num_rows
        for part in parts:
            part.check()

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        for part in parts:
            require(wanted, part.contents.names, part.file.name)
        tables = []
        for part in parts:
            with part.unchanged():
                tables.append(part.contents.table(wanted))
        filled = [table for table in tables if table.num_rows]
        whole = pa.concat_tables([types(wanted).empty_table(), *filled], promote_options="permissive")
        for part in parts:
            part.check()
        return dict(zip(wanted, whole.columns, strict=True))

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return cut(batches(wanted or names[:1]))

    def identity() -> list[list[Any]] | None:
        return None if any(part.stamp is None for part in parts) else [part.identity() for part in parts]

    rows = None if None in counts else sum(count or 0 for count in counts)
    return Source(names, rows, held, load, pieces, identity)


class _Part(NamedTuple):
    """One of the files, as it was when it was opened."""

    file: File
    stamp: list[Any] | None
    contents: Contents

    def check(self) -> None:
        """Raise an error if the file is not what it was."""
        try:
            now = self.file.stamp()
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self.file.name} was removed while it was being read") from error
        if now != self.stamp:
            raise ValueError(
                f"{self.file.name} changed while it was being read; start again when nothing writes to it any more"
            )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Errors of reading are put down to a change of the file if there was one."""
        self.check()
        try:
            yield
        except (ValueError, OSError):
            self.check()
            raise

    def identity(self) -> list[Any]:
        """What the file is: its place, size and time of change, and a hash of its ends."""
        with self.unchanged(), self.file.open() as stream:
            ends = hashlib.sha256(stream.read(END))
            size = stream.seek(0, 2)
            stream.seek(max(0, size - END))
            ends.update(stream.read(END))
        return [*(self.stamp or []), ends.hexdigest()]


def _agreed(path: str, parts: Sequence[_Part], wanted: Sequence[str]) -> Any:
    """The types of all files made one; a file without rows has no say."""
    import pyarrow as pa

    agreed = None
    for part in [part for part in parts if part.contents.rows != 0] or parts[:1]:
        own = pa.schema(list(part.contents.types(wanted).items()))
        try:
            agreed = pa.unify_schemas([agreed, own], promote_options="permissive") if agreed else own
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(
                f"the files {path!r} disagree on the type of a column: {part.file.name} differs from those before "
                f"it: {error}"
            ) from error
    return agreed


def _as(schema: Any, batch: Any) -> Any:
    """A record batch of these types, which are its own or wider."""
    import pyarrow as pa

    if batch.schema.types == schema.types:
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    tables = [schema.empty_table(), pa.Table.from_batches([batch])]
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    return next(iter(table.to_batches()), pa.RecordBatch.from_pylist([], schema))


def _with_keys(file: File, contents: Contents, types: Mapping[str, Any]) -> Contents:
    """The columns of a file, and those that its folders name; of two with the same name the file's own."""
    import pyarrow as pa

    keys = {key: pa.scalar(value).cast(types[key]) for key, value in file.keys.items() if key not in contents.names}
    if not keys:
        return contents

    def own(wanted: Sequence[str]) -> list[str]:
        return [name for name in wanted if name not in keys] or contents.names[:1]  # the number of rows is needed

    def all_types(wanted: Sequence[str]) -> dict[str, Any]:
        known = contents.types(own(wanted))
        return {name: types[name] if name in keys else known[name] for name in wanted}

    def completed(rows: Any, wanted: Sequence[str]) -> list[Any]:
        return [pa.repeat(keys[name], rows.num_rows) if name in keys else rows[name] for name in wanted]

    return Contents(
        [*contents.names, *keys],
        contents.rows,
        all_types,
        lambda wanted: (
            pa.RecordBatch.from_arrays(completed(batch, wanted), wanted) for batch in contents.batches(own(wanted))
        ),
        lambda wanted: pa.Table.from_arrays(completed(contents.table(own(wanted)), wanted), wanted),
    )


def _key_types(files: Sequence[File]) -> dict[str, Any]:
    """Of each key that folders are named after, whether its values are whole numbers or text."""
    import pyarrow as pa

    whole: dict[str, bool] = {}
    for file in files:
        for key, value in file.keys.items():
            digits = value is None or (value.isascii() and value.removeprefix("-").isdigit())
            whole[key] = whole.get(key, True) and digits
    return {key: pa.int64() if numbers else pa.string() for key, numbers in whole.items()}
