"""Rows with missing values, left out where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

CHOICES = ("refuse", "drop")


class Complete(NamedTuple):
    """The rows of a frame without missing values, under their old numbers, which rows these are, and what to say."""

    frame: pd.DataFrame
    kept: NDArray[np.bool_]
    said: list[str]


def leave_out(frame: pd.DataFrame, others: Mapping[str, NDArray[Any]] | None = None) -> Complete:
    """Leave out rows with a missing value in the frame, or in other numbers of each row.

    >>> import pandas as pd
    >>> leave_out(pd.DataFrame({"income": [1.0, np.nan, 3.0], "age": [30.0, np.nan, np.nan]})).said
    ['2 rows left out for missing values: age 2, income 1']
    """
    counts: dict[str, int] = {}
    kept = np.ones(len(frame), dtype=bool)
    missing = [(str(name), column.isna().to_numpy()) for name, column in frame.items()]
    for name, bad in (*missing, *((name, np.isnan(values)) for name, values in (others or {}).items())):
        if count := int(np.count_nonzero(bad)):
            counts[name] = count
            kept &= ~bad
    if not counts:
        return Complete(frame, kept, [])
    by_column = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))
    if not kept.any():
        raise ValueError(
            f"every one of the {kept.size:,} rows has a missing value ({by_column}), so that none is left; leave the "
            "worst columns out of the formula, or impute them"
        )
    left = kept.size - int(kept.sum())
    some = frame.loc[kept].copy()
    for text in some.select_dtypes("category"):
        some[text] = some[text].cat.remove_unused_categories()
    return Complete(some, kept, [f"{left:,} row{'s' if left > 1 else ''} left out for missing values: {by_column}"])
