"""Parts of dates as numbers: what a formula may make of a column of dates or times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Clock = NDArray[np.datetime64]
DAY = 86_400_000_000  # in microseconds


def _whole(values: Clock, unit: str) -> NDArray[np.int64]:
    """Whole years, months, days or hours since 1970, rounded down."""
    return values.astype(f"datetime64[{unit}]").astype(np.int64)


def year(values: Clock) -> NDArray[np.int64]:
    """The year."""
    return 1970 + _whole(values, "Y")


def month(values: Clock) -> NDArray[np.int64]:
    """The month, from 1 to 12."""
    return 1 + _whole(values, "M") % 12


def day(values: Clock) -> NDArray[np.int64]:
    """The day of the month, from 1 to 31."""
    return 1 + _whole(values, "D") - values.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def weekday(values: Clock) -> NDArray[np.int64]:
    """The day of the week: Monday is 0, Sunday 6."""
    return (_whole(values, "D") + 3) % 7  # 1970 began on a Thursday


def hour(values: Clock) -> NDArray[np.int64]:
    """The hour, from 0 to 23."""
    return _whole(values, "h") % 24


def days(values: Clock) -> NDArray[np.float64]:
    """Days since 1970-01-01, with a fraction for the time of day."""
    return values.astype("datetime64[us]").astype(np.int64) / DAY


PARTS: dict[str, Callable[[Clock], NDArray[Any]]] = {
    part.__name__: part for part in (year, month, day, weekday, hour, days)
}


def hint(column: str) -> str:
    """What to write instead of a column of dates.

    >>> hint("sold")
    'use a part of it: year(sold), month(sold), day(sold), weekday(sold), hour(sold) or days(sold)'
    """
    *some, last = (f"{part}({column})" for part in PARTS)
    return f"use a part of it: {', '.join(some)} or {last}"


def on_columns() -> dict[str, Callable[[Any], Any]]:
    """The parts as functions of pandas columns."""
    import pandas as pd

    def of(part: Callable[[Clock], NDArray[Any]]) -> Callable[[Any], Any]:
        return lambda column: pd.Series(part(column.to_numpy()), index=column.index)

    return {name: of(part) for name, part in PARTS.items()}
