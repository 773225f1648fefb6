"""A closing quote that is missing in a CSV file: the value then goes on over other rows, which are lost without a word.

Lines are counted while a file is read. Only if there are more of them than rows, the values that have several lines are
looked at: they may be meant so, but lines that look like rows of the file are not.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tallbayes.data.texts import number


class Lines(io.RawIOBase):
    """A stream of bytes that counts its lines.

    >>> stream = Lines(io.BytesIO(b"x,y\\n1,2\\n"))
    >>> len(stream.read(100)), stream.count
    (8, 2)
    """

    def __init__(self, stream: Any) -> None:
        self.stream, self.count = stream, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        found: bytes = self.stream.read(size)
        self.count += found.count(b"\n")
        return found


def refuse_swallowed(
    batches: Iterable[Any], names: Sequence[str], numbers: Sequence[str], separator: str, decimal: str, file: str
) -> None:
    """Raise ValueError if a value has swallowed rows of a file: batches have all columns, as bytes.

    Columns that are known to hold `numbers` tell rows from other lines; without them it takes several lines.

    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"x": [b"1", b"2"], "g": [b"a", b"a\\n3,b\\n"]})
    >>> refuse_swallowed([batch], ["x", "g"], ["x"], ",", ".", "'a.csv'")
    Traceback (most recent call last):
    ValueError: a closing quote is missing in 'a.csv': column 'g' has a value at row 1 that goes on over other rows
    """
    import pyarrow.compute as pc

    places, start = [names.index(name) for name in numbers], 0

    def rows_in(value: str) -> int:
        lines = (line.rstrip("\r").split(separator) for line in value.split("\n")[1:])
        rows = (fields for fields in lines if len(fields) == len(names) > 1)
        return sum(all(re.match(number(decimal), fields[place]) for place in places) for fields in rows)

    for batch in batches:
        for name, values in zip(names, batch.columns, strict=True):
            several = pc.match_substring(values, "\n").fill_null(False)
            for place in pc.indices_nonzero(several).to_pylist():
                if rows_in(values[place].as_py().decode(errors="replace")) > (0 if numbers else 2):
                    raise ValueError(
                        f"a closing quote is missing in {file}: column {name!r} has a value at row {start + place} "
                        "that goes on over other rows"
                    )
        start += batch.num_rows
