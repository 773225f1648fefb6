"""CSV files, block by block, with types that fit all rows.

Arrow takes the types of a stream from its first block. Where a later value does not fit, its column moves on to the
next type in Arrow's own order, and the file is read again from the start. What has been learned is kept for later.

Values may hold newlines. Arrow must always be told so: else it cuts blocks at any newline, and where that falls into a
quoted value it may change the value without a word.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tallbayes.data.formats import Contents, File, after, in_words, plainly
from tallbayes.data.quotes import Lines, refuse_swallowed
from tallbayes.data.texts import ENCODING

BLOCK, LARGEST_BLOCK = 1 << 22, 1 << 26  # bytes
LONG_ROW = "straddling object"
MISFIT = re.compile(r"In CSV column #(\d+): .*CSV conversion error to ")


def open_csv(file: File, known: Mapping[str, Any] = MappingProxyType({})) -> Contents:
    """The columns of a CSV file, whose first line has their names; types of some may be known."""
    line = _first_line(file)
    separator = max(",;\t", key=line.count)
    names = next(csv.reader([line], delimiter=separator))
    reader = _Reader(file, separator, names)
    reader.known |= known
    return Contents(names, None, reader.types, reader.batches, reader.table)


class _Reader:
    """A CSV file, and what has been learned about it: the types of columns, and how much its longest row needs."""

    def __init__(self, file: File, separator: str, names: list[str]):
        self.file, self.separator, self.names = file, separator, names
        self.known: dict[str, Any] = {}
        self.block = BLOCK
        self.lines, self.sound = 0, False  # lines of the last pass, and whether no quote is missing

    def types(self, wanted: Sequence[str]) -> dict[str, Any]:
        """The types that fit all rows: a pass over the file finds those that are not known yet."""
        if unknown := [name for name in wanted if name not in self.known]:
            self._learn(unknown)
        return {name: self.known[name] for name in wanted}

    def batches(self, wanted: Sequence[str], skip: int = 0) -> Iterator[Any]:
        """All rows, one record batch for each block."""
        types = self.types(wanted)
        with plainly(f"cannot read {self.file.name}"), self._stream(wanted, types) as stream:
            yield from after(stream, skip)

    def table(self, wanted: Sequence[str]) -> Any:
        """All rows at once: Arrow reads them in parallel and finds types that fit them all."""
        import pyarrow as pa
        import pyarrow.csv

        try:
            with plainly(f"cannot read {self.file.name}"), self._bytes() as stream:
                table = pa.csv.read_csv(stream, **self._options(wanted, self.known, parallel=True))
        except ValueError:  # that another way of reading helps with, or describes with its row
            types = self.types(wanted)
            table = pa.Table.from_batches(self.batches(wanted), pa.schema(list(types.items())))
        self.known |= dict(zip(wanted, table.schema.types, strict=True))
        self._look_for_quotes(table.num_rows)
        return table

    def _look_for_quotes(self, rows: int) -> None:
        """Raise ValueError if there are more lines than rows, for want of a closing quote."""
        import pyarrow as pa

        if self.sound or self.lines <= rows + 1:
            return
        numbers = [name for name in self.names if str(self.known.get(name)) in ("int64", "double")]
        texts = dict.fromkeys(self.names, pa.binary())
        with plainly(f"cannot read {self.file.name}"), self._stream(self.names, texts) as stream:
            refuse_swallowed(stream, self.names, numbers, self.separator, self.file.texts.decimal, self.file.name)
        self.sound = True

    def _learn(self, wanted: Sequence[str]) -> None:
        """Find the types of columns; raise ValueError if the file is not CSV with as many values in each row."""
        import pyarrow as pa

        types: dict[str, Any] = {}
        while True:
            try:
                with plainly(f"cannot read {self.file.name}"), self._stream(wanted, types) as stream:
                    types = dict(zip(wanted, stream.schema.types, strict=True))
                    rows = sum(batch.num_rows for batch in stream)
            except ValueError as error:
                if not isinstance(error.__cause__, pa.ArrowInvalid) or not self._adapt(str(error.__cause__), types):
                    raise ValueError(
                        f"cannot read {self.file.name} as CSV separated by {self.separator!r}: {_reason(error)}"
                    ) from error
            else:
                self.known |= types
                self._look_for_quotes(rows)
                return

    def _adapt(self, problem: str, types: dict[str, Any]) -> bool:
        """Change what may be behind a problem, and tell whether there is something else to try."""
        if misfit := MISFIT.search(problem):
            name, order = self.names[int(misfit[1])], _order()
            if types[name] == order[-1]:
                return False
            types[name] = order[order.index(types[name]) + 1]
        elif LONG_ROW in problem and self.block < LARGEST_BLOCK:
            self.block = LARGEST_BLOCK
        else:
            return False
        return True

    @contextmanager
    def _bytes(self) -> Iterator[Any]:
        import pyarrow as pa

        with self.file.open() as raw, pa.input_stream(raw, compression=self.file.compression) as stream:
            counted = Lines(stream)
            yield counted
            self.lines = counted.count

    @contextmanager
    def _stream(self, wanted: Sequence[str], types: dict[str, Any]) -> Iterator[Any]:
        import pyarrow.csv

        with self._bytes() as stream, pyarrow.csv.open_csv(stream, **self._options(wanted, types)) as reader:
            yield reader

    def _options(self, wanted: Sequence[str], types: dict[str, Any], parallel: bool = False) -> dict[str, Any]:
        """How Arrow reads the file; only if not in parallel do its messages tell the row."""
        import pyarrow.csv

        texts, missing = self.file.texts, pyarrow.csv.ConvertOptions().null_values
        return {
            "read_options": pyarrow.csv.ReadOptions(block_size=self.block, use_threads=parallel),
            "parse_options": pyarrow.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types={name: types[name] for name in wanted if name in types},
                include_columns=list(wanted),
                strings_can_be_null=True,
                null_values=[*missing, *texts.na_values],
                decimal_point=texts.decimal,
            ),
        }


def _reason(error: ValueError) -> str:
    """What Arrow says of a file, with rows that count from zero as everywhere."""
    said = str(error.__cause__ or error)
    if LONG_ROW in said:
        return f"a row has more than {LARGEST_BLOCK >> 20} MB; a closing quote may be missing"
    if "Empty CSV file" in said:
        return "it has no rows"
    told = re.sub(r"Row #(\d+)", lambda found: f"row {int(found[1]) - 2}", in_words(ValueError(said)))
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in told)


def _order() -> list[Any]:
    """The types in the order in which Arrow tries them."""
    import pyarrow as pa

    times = [pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC")]
    first = [pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s")]
    return [*first, *times, pa.float64(), pa.string(), pa.binary()]


def _first_line(file: File) -> str:
    """The names of a CSV file's columns; raise ValueError if its first line is no such thing."""
    import pyarrow as pa

    with file.open() as raw:
        try:
            first = pa.input_stream(raw, compression=file.compression).read(BLOCK)
        except OSError as error:
            if file.compression is None or error.errno is not None:
                raise
            problem = f"compressed with {file.compression}, or is damaged"
            raise ValueError(
                f"{file.name} is not {'complete' if 'Truncated' in str(error) else problem}: {in_words(error)}"
            ) from error
    header = re.split(rb"[\r\n]", first.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n"), maxsplit=1)[0]
    if not header.strip():
        raise ValueError(f"{file.name} is empty: a CSV file starts with the names of its columns")
    try:
        line: str = header.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.name} is not a CSV file in UTF-8; {ENCODING}") from error
    if line.count('"') % 2:
        raise ValueError(
            f"{file.name} has a quote in its first line that does not end there; names of columns take one line"
        )
    if "\0" in line or line.startswith("PAR1"):
        raise ValueError(f"{file.name} is not a CSV file in UTF-8: its first line is not text")
    return line
