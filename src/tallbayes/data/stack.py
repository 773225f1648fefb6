"""Files as one source: one below the other, in the order in which they are given.

Every piece has the same types: those of all files, made one. A file that changes while it is being read is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tallbayes.data.formats import Contents, File
from tallbayes.data.names import require, require_distinct
from tallbayes.data.pieces import Batch, Piece, Source, conform, cut

END = 1 << 16  # bytes at each end of a file that its identity depends on


class Part(NamedTuple):
    """One file as it was when it was opened: `stamp` is what `file.stamp` said then."""

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

    def schema(self, wanted: Sequence[str]) -> Any:
        """The types of some columns."""
        import pyarrow as pa

        with self.unchanged():
            return pa.schema(list(self.contents.types(wanted).items()))

    def identity(self) -> list[Any]:
        """What the file is: its place, size and time of change, and a hash of its ends."""
        with self.unchanged(), self.file.open() as stream:
            ends = hashlib.sha256(stream.read(END))
            size = stream.seek(0, 2)
            stream.seek(max(0, size - END))
            ends.update(stream.read(END))
        return [*(self.stamp or []), ends.hexdigest()]


def stack(parts: Sequence[Part], path: str, held: bool = False) -> Source:
    """The rows of all parts; `path` is what messages call them together, and held data have no files to name.

    >>> import io
    >>> from tallbayes.data.files import open_file
    >>> files = [File(name, lambda: io.BytesIO(b"x\\n1\\n2\\n"), "CSV") for name in ("'a.csv'", "'b.csv'")]
    >>> source = stack([Part(file, file.stamp(), open_file(file)) for file in files], "*.csv")
    >>> [(piece.columns["x"].to_pylist(), piece.where(3)) for piece in source.pieces(["x"])]
    [([1, 2, 1, 2], "row 1 of 'b.csv'")]
    """
    import pyarrow as pa

    names, counts = parts[0].contents.names, [part.contents.rows for part in parts]
    for part in parts:
        require_distinct(part.contents.names, f" in {part.file.name}")

    def require_all(wanted: Sequence[str]) -> None:
        for part in parts:
            require(wanted, part.contents.names, part.file.name)

    def check_all() -> None:
        for part in parts:
            part.check()

    def batches(wanted: Sequence[str]) -> Iterator[Batch]:
        require_all(wanted)
        schema = types_of(parts, path, wanted)
        for part in parts:
            start = 0
            with part.unchanged():
                for batch in part.contents.batches(wanted):
                    yield Batch(conform(batch, schema), "" if held else part.file.name, start)
                    start += batch.num_rows
        check_all()

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        require_all(wanted)
        tables = []
        for part in parts:
            with part.unchanged():
                tables.append(part.contents.table(wanted))
        schema = types_of(parts, path, wanted)
        filled = [table for table in tables if table.num_rows]  # pyarrow.csv.write_csv fails if the first has no rows
        table = pa.concat_tables(filled or [schema.empty_table()], promote_options="permissive")
        check_all()
        return dict(zip(wanted, table.columns, strict=True))

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return cut(batches(wanted or names[:1]), what=f"the data of {path!r}")

    def identity() -> list[list[Any]] | None:
        return None if any(part.stamp is None for part in parts) else [part.identity() for part in parts]

    rows = None if None in counts else sum(count or 0 for count in counts)
    others = [name for part in parts for name in part.contents.names if name not in names]
    return Source(names, rows, held, load, pieces, identity, others=others)


def with_keys(contents: Contents, values: Mapping[str, Any]) -> Contents:
    """The columns of a file, and those that its folders name; of two with the same name the file's own.

    `values` are pyarrow scalars, each for all rows.
    """
    import pyarrow as pa

    keys = {key: value for key, value in values.items() if key not in contents.names}
    if not keys:
        return contents

    def own(wanted: Sequence[str]) -> list[str]:
        return [name for name in wanted if name not in keys] or contents.names[:1]  # the number of rows is needed

    def types(wanted: Sequence[str]) -> dict[str, Any]:
        known = contents.types(own(wanted))
        return {name: keys[name].type if name in keys else known[name] for name in wanted}

    def completed(rows: Any, wanted: Sequence[str]) -> list[Any]:
        return [pa.repeat(keys[name], rows.num_rows) if name in keys else rows[name] for name in wanted]

    return Contents(
        [*contents.names, *keys],
        contents.rows,
        types,
        lambda wanted, skip=0: (
            pa.RecordBatch.from_arrays(completed(batch, wanted), wanted)
            for batch in contents.batches(own(wanted), skip)
        ),
        lambda wanted: pa.Table.from_arrays(completed(contents.table(own(wanted)), wanted), wanted),
    )


def types_of(parts: Sequence[Part], path: str, wanted: Sequence[str]) -> Any:
    """The types of all files made one; a file without rows has no say."""
    found = []
    for part in [part for part in parts if part.contents.rows != 0] or parts[:1]:
        found.append((part.file.name, part.schema(wanted)))
    return agreed(path, found)


def agreed(path: str, schemas: Iterable[tuple[str, Any]]) -> Any:
    """The types of files, each with its name, made one."""
    import pyarrow as pa

    found = None
    for name, own in schemas:
        try:
            found = pa.unify_schemas([found, own], promote_options="permissive") if found else own
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            column, here, before = next(_unlike(own, found))
            raise ValueError(
                f"the files {path!r} disagree on the type of a column: {name} differs from those before it, where "
                f"{column!r} is {before}, but {here} here; make it the same in all"
            ) from error
    return found


def _unlike(own: Any, others: Any) -> Iterator[tuple[str, Any, Any]]:
    """Columns whose types in two schemas cannot be made one."""
    import pyarrow as pa

    for field in own:
        if field.name in others.names:
            two = pa.schema([field]), pa.schema([others.field(field.name)])
            try:
                pa.unify_schemas(two, promote_options="permissive")
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                yield field.name, field.type, two[1].types[0]
