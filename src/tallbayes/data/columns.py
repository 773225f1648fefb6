"""A column as it comes from any source, made one of three kinds: numbers, text or dates.

Numbers are float64 or int64 arrays, text is a pandas Categorical, dates are datetime64 arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import dates as date_parts
from tallbayes.data.options import shown
from tallbayes.data.summand import quoted
from tallbayes.data.tally import Where, row

if TYPE_CHECKING:
    import pandas as pd

Mask = NDArray[np.bool_]

LARGEST = 2**63 - 1  # whole number


def clean(name: str, values: Any, dates: bool = False, where: Where = row) -> Any:
    """Turn a pandas or pyarrow column into numbers or text, or into dates if they are asked for.

    Booleans become 0 and 1. Text has its levels as they come: in any order, with or without a row. Dates lose their
    time zone: they are what its clock shows.

    >>> import pandas as pd
    >>> clean("x", pd.Series([True, False])), clean("g", pd.Series(["b", "a"])).categories.tolist()
    (array([1., 0.]), ['b', 'a'])
    """
    try:
        return _dates(name, values, where) if dates else _numbers_or_text(name, values, where)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"column {name!r} has text that is not valid Unicode, such as {error.object[:40]!r}; correct that value"
        ) from error


def with_sorted_levels(values: Any) -> Any:
    """A Categorical whose levels are sorted, unless their order means something, without those that have no row.

    >>> import pandas as pd
    >>> with_sorted_levels(pd.Categorical(["b", "a"], ["c", "b", "a"])).categories.tolist()
    ['a', 'b']
    """
    import pandas as pd

    levels, codes = values.categories.to_numpy(), values.codes
    kept = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(levels)))
    if not values.ordered:
        kept = kept[np.argsort(levels[kept], kind="stable")]
    if np.array_equal(kept, np.arange(len(levels))):
        return values
    recode = np.full(len(levels) + 1, -1, dtype=codes.dtype)  # its last entry is for -1, a missing value
    recode[kept] = np.arange(len(kept))
    return pd.Categorical.from_codes(recode[codes], pd.Index(levels[kept]), ordered=values.ordered)


def is_text(values: Any) -> bool:
    """Whether a column that was cleaned is text.

    >>> is_text(clean("x", __import__("pandas").Series([1.5, 2])))
    False
    """
    return not isinstance(values, np.ndarray)


def is_truth(values: Any) -> bool:
    """Whether a pandas or pyarrow column, not cleaned yet, holds True and False.

    >>> import pandas as pd
    >>> is_truth(pd.Series([True, None], dtype=object)), is_truth(pd.Series([0, 1]))
    (True, False)
    """
    import pandas as pd
    import pyarrow as pa

    if not isinstance(values, pd.Series):
        return bool(pa.types.is_boolean(values.type))
    if values.dtype == object:
        return bool(pd.api.types.infer_dtype(values, skipna=True) == "boolean")
    return bool(values.dtype.kind == "b")


def zone_of(values: Any) -> str:
    """The time zone of a pandas or pyarrow column of times, not cleaned yet; nothing where there is none.

    >>> import pandas as pd
    >>> times = pd.Series(pd.to_datetime(["2026-11-18 12:00"]))
    >>> zone_of(times), zone_of(times.dt.tz_localize("UTC")), zone_of(pd.Series([1.5]))
    ('', 'UTC', '')
    """
    import pandas as pd
    import pyarrow as pa

    if not isinstance(values, pd.Series):
        return (values.type.tz or "") if pa.types.is_timestamp(values.type) else ""
    if values.dtype == object:
        return str(next((one.tzinfo for one in values if getattr(one, "tzinfo", None)), ""))
    kind = getattr(values.dtype, "pyarrow_dtype", values.dtype)
    return str(getattr(kind, "tz", None) or "")


def gaps(values: Any) -> tuple[Mask | None, Mask | None]:
    """Which values of a column that was cleaned are missing, and which infinite; None if it is none of them.

    >>> gaps(np.array([1.0, np.nan])), gaps(np.array([1, 2]))
    ((array([False,  True]), None), (None, None))
    """
    if is_text(values):
        codes = values.codes
        return (codes < 0 if codes.size and codes.min() < 0 else None), None
    if values.dtype.kind == "M":
        absent = np.isnat(values)
        return (absent if absent.any() else None), None
    if values.dtype.kind != "f" or (finite := np.isfinite(values)).all():
        return None, None
    absent = np.isnan(values)
    infinite = ~(finite | absent)
    return (absent if absent.any() else None), (infinite if infinite.any() else None)


def _numbers_or_text(name: str, values: Any, where: Where) -> Any:
    import pandas as pd
    import pyarrow as pa

    own = ""  # what pandas calls a type of its own
    if isinstance(values, pd.Series):
        kind = values.dtype.kind
        if isinstance(values.dtype, pd.CategoricalDtype):
            return _with_plain_levels(name, values.array)
        if kind in "iu" and not values.hasnans and (kind == "i" or not len(values) or values.max() <= LARGEST):
            return np.ascontiguousarray(values.to_numpy(dtype=np.int64))
        if kind in "biuf":
            return np.ascontiguousarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        if kind == "c":
            raise ValueError(f"column {name!r} is complex; take its real part or its size first")
        if pd.api.types.infer_dtype(values, skipna=True) == "decimal":
            return np.array([_as_float(value) for value in values])
        own = str(values.dtype) if isinstance(values.dtype, pd.PeriodDtype | pd.IntervalDtype) else ""
        values = _as_arrow(name, values, where)

    types, kind = pa.types, values.type
    if types.is_dictionary(kind):
        return _with_plain_levels(name, _categorical(values))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return values.cast(pa.large_string()).dictionary_encode().to_pandas().array
    if types.is_integer(kind) and values.null_count == 0 and (kind != pa.uint64() or _fits(values)):
        return values.cast(pa.int64()).to_numpy()
    if types.is_boolean(kind):
        return values.cast(pa.uint8()).cast(pa.float64()).to_numpy()
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return values.cast(pa.float64(), safe=False).to_numpy()
    if types.is_temporal(kind):
        if not holds_dates(values):
            raise ValueError(f"column {name!r} holds durations or times of day; make it a number first")
        raise ValueError(f"column {name!r} holds dates or times; in a formula, {date_parts.hint(quoted(name))}")
    raise ValueError(f"column {name!r} holds values of type {own or kind}; make it numbers or text first")


def _as_arrow(name: str, values: pd.Series[Any], where: Where) -> Any:
    """A column of pandas as one of Arrow, which has no types for some things, and one type for a column."""
    import pandas as pd
    import pyarrow as pa

    try:
        found = pa.table({"column": values}).column(0)
        truth = values.dtype == object and pa.types.is_floating(found.type)  # Arrow takes False after 2.5 for a number
        if not truth or pd.api.types.infer_dtype(values, skipna=True) != "mixed":
            return found
        if (others := _others(values)) is None:
            return found
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        if (others := _others(values)) is None:
            first = int(np.flatnonzero(values.notna())[0])
            value = values.iloc[first]
            raise ValueError(
                f"column {name!r} holds values of type {type(value).__name__}, such as {shown(value)} at "
                f"{where(first)}; make it numbers or text first"
            ) from error
    except OverflowError as error:
        raise ValueError(f"column {name!r} has whole numbers that are too large; make it floating point") from error
    one, other = (f"{shown(values.iloc[place])} at {where(place)}" for place in others)
    raise ValueError(f"column {name!r} has mixed content: {one}, and {other}; make it all of one kind")


def _others(values: pd.Series[Any]) -> tuple[int, int] | None:
    """The places of the first value, and of the first that is of another kind, if there is one."""
    there = np.flatnonzero(values.notna()).tolist()
    first = _sort(values.iloc[there[0]])
    other = next((place for place in there if _sort(values.iloc[place]) is not first), None)
    return None if other is None else (there[0], other)


def _sort(value: Any) -> type:
    """The type of a value, one for all numbers."""
    return float if isinstance(value, int | float | np.number) and not isinstance(value, bool) else type(value)


def holds_dates(values: Any) -> bool:
    """Whether a pandas or pyarrow column has dates, with or without a time of day.

    >>> import pandas as pd
    >>> holds_dates(pd.Series(["2020-01-01"], dtype="datetime64[us]")), holds_dates(pd.Series(["2020-01-01"]))
    (True, False)
    """
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


def _dates(name: str, values: Any, where: Where) -> Any:
    import pandas as pd
    import pyarrow as pa

    if not holds_dates(values):
        cleaned = _numbers_or_text(name, values, where)
        if pd.isna(cleaned).all():  # of no kind; the missing values are found later
            return cleaned
        raise ValueError(
            f"column {name!r} does not hold dates, which {', '.join(date_parts.PARTS)} need; make it dates first, "
            "with pandas.to_datetime for example"
        )
    if isinstance(values, pd.Series) and values.dtype.kind == "M" and not isinstance(values.dtype, pd.ArrowDtype):
        return values.dt.tz_localize(None).to_numpy()
    if isinstance(values, pd.Series):
        zones = sorted({str(getattr(value, "tzinfo", None)) for value in values if not pd.isna(value)})
        if len(zones) > 1:
            raise ValueError(
                f"column {name!r} has times of several time zones ({zones[0]}, {zones[1]}); convert them to one first, "
                "with pandas.to_datetime(..., utc=True) for example"
            )
        values = _as_arrow(name, values, where)
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    if values.type.tz is None:
        return values.to_numpy()
    return values.to_pandas().dt.tz_localize(None).to_numpy()


def _as_float(value: Any) -> float:
    """A decimal number; those that are too large are infinite, and all that is none is missing."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _fits(values: Any) -> bool:
    """Whether numbers without a sign are int64, too."""
    import pyarrow.compute as pc

    return len(values) == 0 or pc.max(values).as_py() <= LARGEST


def _categorical(values: Any) -> Any:
    """Arrow's dictionary as a Categorical; it may have a level twice, or none for missing values."""
    import pyarrow as pa

    every = values.unify_dictionaries().chunks if isinstance(values, pa.ChunkedArray) else [values]
    levels = every[0].dictionary if every else pa.nulls(0)
    if pa.types.is_floating(levels.type):  # 0 and -0 are one level
        values = pa.array(values.cast(values.type.value_type).to_numpy() + 0.0, from_pandas=True).dictionary_encode()
    elif levels.null_count or len(levels.unique()) < len(levels):
        values = values.cast(values.type.value_type).dictionary_encode()
    return values.to_pandas().array


def _with_plain_levels(name: str, values: Any) -> Any:
    """A Categorical whose levels are text, numbers or booleans."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values.categories)
    if kind.startswith("mixed"):
        raise ValueError(f"column {name!r} has levels of mixed types; make them all numbers or all text")
    if kind in ("string", "integer", "floating", "boolean", "empty"):
        return values
    return values.rename_categories(str)  # such as the intervals of pandas.cut
