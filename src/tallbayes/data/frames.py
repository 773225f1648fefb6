"""Any input becomes a pandas frame of the needed columns, checked.

`read` loads only the columns that are asked for, from anything that `sources.py` can open. What comes back has three
kinds of columns: float64, int64 and categorical, and dates where they are asked for. `check` refuses missing and
infinite values. Rows count from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallbayes.data import dates as date_parts
from tallbayes.data.names import require
from tallbayes.data.sources import open_source
from tallbayes.data.summand import quoted

if TYPE_CHECKING:
    import pandas as pd

DROP = ', or leave such rows out with missing="drop"'


class Known(NamedTuple):
    """Data that can be read again, the names of their columns, and which of them hold dates."""

    data: Any
    names: list[str]
    dates: set[str]


def names_and_dates(data: Any) -> Known:
    """The columns on offer and which of them hold dates: the first piece tells, and what was learned for it is kept.

    >>> names_and_dates({"y": [0, 1], "sold": np.array(["2020-01-01", "2021-05-07"], dtype="datetime64[D]")})[1:]
    (['y', 'sold'], {'sold'})
    """
    source = open_source(data)
    names = source.names
    if not names:
        return Known(data, names, set())
    columns = source.load(names) if source.held else next(source.pieces(names)).columns
    kept = data if source.held and not isinstance(data, str) else source  # of standard input what it held
    return Known(kept, names, {name for name, values in columns.items() if _holds_dates(values)})


def read(data: Any, columns: Sequence[str], dates: Sequence[str] = ()) -> pd.DataFrame:
    """Load only `columns`, in that order, with rows numbered from zero.

    Booleans become 0 and 1. Text becomes categorical with sorted levels; an ordered categorical keeps its
    order; levels without a row are dropped. Dates are refused in all columns but `dates`, which must hold some, and
    lose their time zone: they are what its clock shows. Complex numbers and mixed content are refused.

    >>> frame = read({"y": [True, False], "bank": ["b", "a"], "unused": [1, 2]}, ["y", "bank"])
    >>> frame["y"].tolist(), frame["bank"].cat.categories.tolist()
    ([1.0, 0.0], ['a', 'b'])
    """
    import pandas as pd

    source = open_source(data)
    names = source.names
    if not names:
        raise ValueError("the data has no columns")
    wanted = list(dict.fromkeys(columns))
    require(wanted, names)
    loaded = source.load(wanted or names[:1])  # where no column is needed (y ~ 1), the number of rows still is
    rows = len(next(iter(loaded.values())))
    if rows == 0:
        raise ValueError("the data has no rows")
    cleaned = {name: (_dates if name in dates else _clean)(name, loaded[name]) for name in wanted}
    return pd.DataFrame(cleaned, index=range(rows), copy=False)


def check(frame: pd.DataFrame, instead: str = "") -> pd.DataFrame:
    """The frame itself; raise ValueError if a value of it is missing or infinite, naming every such column.

    `instead` is said of missing values: what else can be done about them. Rows are named as the frame's index has them.

    >>> import pandas as pd
    >>> check(pd.DataFrame({"fico": [700.0, 650.0]}))["fico"].tolist()
    [700.0, 650.0]
    >>> check(pd.DataFrame({"fico": [700.0, float("nan")]}))
    Traceback (most recent call last):
    ValueError: column 'fico' has 1 missing value (first at row 1); drop or impute it first
    """
    if len(frame) == 0:
        raise ValueError("the data has no rows")
    problems = []
    for name, column in frame.items():
        if column.dtype.kind in "iuf" and np.isfinite(column.to_numpy()).all():
            continue
        infinite = np.isinf(column.to_numpy()) if column.dtype.kind == "f" else np.zeros(1, dtype=bool)
        for word, remedy, bad, more in [
            ("missing", "drop or impute", column.isna().to_numpy(), instead),
            ("infinite", "drop or replace", infinite, ""),
        ]:
            if count := int(bad.sum()):
                s, them = ("", "it") if count == 1 else ("s", "them")
                problems.append(
                    f"column {name!r} has {count} {word} value{s} (first at row {frame.index[int(bad.argmax())]}); "
                    f"{remedy} {them} first{more}"
                )
    if problems:
        raise ValueError("\n".join(problems))
    return frame


def _clean(name: str, values: Any) -> Any:
    """Turn a pandas or pyarrow column into a float64 or int64 array or a Categorical."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(values, pd.Series):
        kind = values.dtype.kind
        if isinstance(values.dtype, pd.CategoricalDtype):
            return _categorical(name, values.array)
        if kind in "iu" and values.dtype != np.uint64 and not values.hasnans:
            return np.ascontiguousarray(values.to_numpy(dtype=np.int64))
        if kind in "biuf":
            return np.ascontiguousarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        if kind == "c":
            raise ValueError(f"column {name!r} is complex; take its real part or its size first")
        try:
            values = pa.table({name: values}).column(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise ValueError(f"column {name!r} has mixed content; make it all numbers or all text ({error})") from error

    types, kind = pa.types, values.type
    if types.is_dictionary(kind):
        return _categorical(name, values.to_pandas().array)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _categorical(name, values.cast(pa.large_string()).dictionary_encode().to_pandas().array)
    if types.is_integer(kind) and kind != pa.uint64() and values.null_count == 0:
        return values.cast(pa.int64()).to_numpy()
    if types.is_boolean(kind):
        return values.cast(pa.uint8()).cast(pa.float64()).to_numpy()
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return values.cast(pa.float64(), safe=False).to_numpy()
    if types.is_temporal(kind):
        if not _holds_dates(values):
            raise ValueError(f"column {name!r} holds durations or times of day; make it a number first")
        raise ValueError(f"column {name!r} holds dates or times; in a formula, {date_parts.hint(quoted(name))}")
    raise ValueError(f"column {name!r} holds values of type {kind}; make it numbers or text first")


def _holds_dates(values: Any) -> bool:
    """Whether a pandas or pyarrow column has dates, with or without a time of day."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(values, pd.Series):
        if isinstance(values.dtype, pd.ArrowDtype):
            return bool(
                pa.types.is_date(values.dtype.pyarrow_dtype) or pa.types.is_timestamp(values.dtype.pyarrow_dtype)
            )
        if values.dtype.kind == "O" and not isinstance(values.dtype, pd.CategoricalDtype):
            return pd.api.types.infer_dtype(values, skipna=True) in ("date", "datetime", "datetime64")
        return values.dtype.kind == "M"
    return bool(pa.types.is_date(values.type) or pa.types.is_timestamp(values.type))


def _dates(name: str, values: Any) -> Any:
    """Turn a pandas or pyarrow column of dates into what the clock of their time zone shows, as datetime64."""
    import pandas as pd
    import pyarrow as pa

    if not _holds_dates(values):
        cleaned = _clean(name, values)
        if pd.isna(cleaned).all():  # of no kind; the missing values are found by `check`
            return cleaned
        raise ValueError(
            f"column {name!r} holds no dates, as {', '.join(date_parts.PARTS)} need them; make it dates first, "
            "with pandas.to_datetime for example"
        )
    if isinstance(values, pd.Series) and values.dtype.kind == "M" and not isinstance(values.dtype, pd.ArrowDtype):
        return values.dt.tz_localize(None).to_numpy()
    if isinstance(values, pd.Series):
        values = pa.table({name: values}).column(0)
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    if values.type.tz is None:
        return values.to_numpy()
    return values.to_pandas().dt.tz_localize(None).to_numpy()


def _categorical(name: str, values: Any) -> Any:
    """Sort the levels of a Categorical unless they are ordered, and drop those without a row."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values.categories)
    if kind.startswith("mixed"):
        raise ValueError(f"column {name!r} has levels of mixed types; make them all numbers or all text")
    if kind not in ("string", "integer", "floating", "boolean", "empty"):
        values = values.rename_categories(str)  # such as the intervals of pandas.cut
    levels, codes = values.categories.to_numpy(), values.codes
    kept = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(levels)))
    if not values.ordered:
        kept = kept[np.argsort(levels[kept], kind="stable")]
    if np.array_equal(kept, np.arange(len(levels))):
        return values
    recode = np.full(len(levels) + 1, -1, dtype=codes.dtype)  # its last entry is for -1, a missing value
    recode[kept] = np.arange(len(kept))
    return pd.Categorical.from_codes(recode[codes], pd.Index(levels[kept]), ordered=values.ordered)
