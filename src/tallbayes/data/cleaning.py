"""Columns as sources give them become numbers, text or dates, by what is known of the data and of the formula."""

from __future__ import annotations

from typing import Any, NamedTuple

from tallbayes.data.columns import clean
from tallbayes.data.nearly import remedy
from tallbayes.data.tally import Where, row
from tallbayes.data.texts import ENCODING, USUAL, Texts


class Cleaning(NamedTuple):
    """How columns of some data become numbers, text or dates."""

    texts: Texts = USUAL
    dates: tuple[str, ...] = ()
    text: frozenset[str] = frozenset()  # columns that stay text

    def __call__(self, name: str, values: Any, where: Where = row) -> Any:
        """A column of that name, see `columns.clean`; messages name rows by `where`.

        >>> import pandas as pd
        >>> Cleaning(Texts(na_values=("?",)))("x", pd.Series(["1", "?"]))
        array([ 1., nan])
        """
        if name in self.dates:
            return clean(name, values, dates=True)
        values = self.texts.read(values, name not in self.text)
        _refuse_mixed(name, values, where)
        _refuse_bytes(name, values, where)
        return clean(name, values)


USUALLY = Cleaning()


def _refuse_mixed(name: str, values: Any, where: Where) -> None:
    """Raise ValueError if a column of pandas has text among numbers."""
    import pandas as pd

    if not isinstance(values, pd.Series) or values.dtype != object:
        return
    if not pd.api.types.infer_dtype(values, skipna=True).startswith("mixed"):
        return
    text = values.map(lambda value: isinstance(value, str)).to_numpy(bool)
    if text.any() and values[~text].map(pd.api.types.is_number).all():
        first = int(text.argmax())
        value = values.iloc[first]
        raise ValueError(
            f"column {name!r} has mixed content: numbers, and the text {value!r} at {where(first)}; {remedy(value)}"
        )


def _refuse_bytes(name: str, values: Any, where: Where) -> None:
    """Raise ValueError if a column of bytes, as Arrow makes them of a CSV file, has some that are not UTF-8."""
    import pyarrow as pa

    if not isinstance(values, pa.ChunkedArray) or not pa.types.is_binary(values.type):
        return
    for place, value in enumerate(values.to_pylist()):
        if value is not None and value.decode(errors="replace").encode() != value:
            raise ValueError(
                f"column {name!r} is {value[:60]!r} at {where(place)}: the file is not in UTF-8; {ENCODING}"
            )
