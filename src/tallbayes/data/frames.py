"""Any input becomes a pandas frame of the needed columns, checked.

`read` loads only the columns that are asked for, from anything that `sources.py` can open. What comes back has three
kinds of columns: float64, int64 and categorical, and dates where they are asked for. `check` refuses missing and
infinite values. Rows count from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tallbayes.data.cleaning import USUALLY, Cleaning
from tallbayes.data.columns import holds_dates, is_text, with_sorted_levels
from tallbayes.data.missing import Gaps
from tallbayes.data.names import require
from tallbayes.data.sources import open_source
from tallbayes.data.tally import row

if TYPE_CHECKING:
    import pandas as pd


class Known(NamedTuple):
    """Data that can be read again, the names of their columns, and which of them hold dates."""

    data: Any
    names: list[str]
    dates: set[str]


def names_and_dates(data: Any) -> Known:
    """The columns on offer and which of them hold dates: the first piece tells, and what was learned for it is kept.

    >>> import numpy as np
    >>> names_and_dates({"y": [0, 1], "sold": np.array(["2020-01-01", "2021-05-07"], dtype="datetime64[D]")})[1:]
    (['y', 'sold'], {'sold'})
    """
    source = open_source(data)
    names = source.names
    if not names:
        return Known(data, names, set())
    if source.others:
        raise ValueError(
            f"not all files have the same columns, so '.' is ambiguous: {source.others[0]!r} is not in the first "
            "of them; name the columns of the formula one by one"
        )
    if source.elsewhere is not None:
        return Known(data, names, set(source.elsewhere.dates()))
    columns = source.load(names) if source.held else next(source.pieces(names)).columns
    kept = data if source.held and not isinstance(data, str) else source  # of standard input what it held
    return Known(kept, names, {name for name, values in columns.items() if holds_dates(values)})


def read(data: Any, columns: Sequence[str], clean: Cleaning = USUALLY) -> pd.DataFrame:
    """Load only `columns`, in that order, with rows numbered from zero.

    Booleans become 0 and 1. Text becomes categorical with sorted levels; an ordered categorical keeps its
    order; levels without a row are dropped. Dates are refused in all columns but `clean.dates`, which must hold some,
    and lose their time zone: they are what its clock shows. Complex numbers and mixed content are refused.

    >>> frame = read({"y": [True, False], "bank": ["b", "a"], "unused": [1, 2]}, ["y", "bank"])
    >>> frame["y"].tolist(), frame["bank"].cat.categories.tolist()
    ([1.0, 0.0], ['a', 'b'])
    """
    import pandas as pd

    source = open_source(data, clean.texts)
    names = source.names
    if not names:
        raise ValueError("the data has no columns")
    wanted = list(dict.fromkeys(columns))
    require(wanted, names)
    loaded = source.load(wanted or names[:1])  # where no column is needed (y ~ 1), the number of rows still is
    rows = len(next(iter(loaded.values())))
    if rows == 0:
        raise ValueError("the data has no rows")
    cleaned = {name: clean(name, loaded[name]) for name in wanted}
    settled = {name: with_sorted_levels(values) if is_text(values) else values for name, values in cleaned.items()}
    return pd.DataFrame(settled, index=range(rows), copy=False)


def check(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame itself; raise ValueError if a value of it is missing or infinite, naming every such column.

    Rows are named as the frame's index has them.

    >>> import pandas as pd
    >>> check(pd.DataFrame({"fico": [700.0, 650.0]}))["fico"].tolist()
    [700.0, 650.0]
    >>> check(pd.DataFrame({"fico": [700.0, float("nan")]}))
    Traceback (most recent call last):
    ValueError: column 'fico' has 1 missing value (first at row 1); drop or impute it first
    """
    if len(frame) == 0:
        raise ValueError("the data has no rows")
    columns = {str(name): _bare(column) for name, column in frame.items()}
    counted = Gaps(columns)
    if columns:
        counted.add(columns, lambda place: row(frame.index[place]))
    counted.refuse()
    return frame


def _bare(column: pd.Series[Any]) -> Any:
    """What a column of a frame holds."""
    return column.array if column.dtype == "category" else column.to_numpy()
