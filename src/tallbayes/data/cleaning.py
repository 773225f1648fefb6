"""Columns as sources give them become numbers, text or dates, by what is known of the data and of the formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tallbayes.data.columns import clean, holds_dates, zone_of
from tallbayes.data.nearly import remedy
from tallbayes.data.tally import Where, row
from tallbayes.data.texts import ENCODING, USUAL, Texts


class Cleaning(NamedTuple):
    """How columns of some data become numbers, text or dates."""

    texts: Texts = USUAL
    dates: tuple[str, ...] = ()
    text: frozenset[str] = frozenset()  # columns that stay text
    zones: Mapping[str, str] = {}  # the time zone that columns of dates must have, "" for none

    def __call__(self, name: str, values: Any, where: Where = row) -> Any:
        """A column of that name, see `columns.clean`; messages name rows by `where`.

        >>> import pandas as pd
        >>> Cleaning(Texts(na_values=("?",)))("x", pd.Series(["1", "?"]))
        array([ 1., nan])
        """
        if name in self.dates:
            self._check_zone(name, values)
            return self.texts.without_dates(clean(name, values, True, where))
        values = self.texts.read(values, name not in self.text)
        _refuse_mixed(name, values, where)
        _refuse_bytes(name, values, where)
        return clean(name, values, where=where)

    def _check_zone(self, name: str, values: Any) -> None:
        zone, known = zone_of(values), self.zones.get(name)
        if known is not None and zone != known and holds_dates(values):
            raise ValueError(
                f"column {name!r} has times {_in(zone)}, but they were {_in(known)} when the formula was learned; "
                "hours and days differ: make them the same, with .dt.tz_convert or .dt.tz_localize for example"
            )


def _in(zone: str) -> str:
    return f"in the time zone {zone}" if zone else "without a time zone"


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
        truth = values[~text].map(lambda one: isinstance(one, bool)).all()
        kind, do = ("True and False", "make it all of one kind") if truth else ("numbers", remedy(value))
        raise ValueError(f"column {name!r} has mixed content: {kind}, and the text {value!r} at {where(first)}; {do}")


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
