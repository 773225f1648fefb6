"""Arrays that users give beside a table: a number for each row, or a matrix of them, or what group a row is in.

Masked values are missing. Texts, dates and complex numbers are no numbers, whatever NumPy could make of them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import refuse, shown

Array = NDArray[np.float64]


def as_numbers(name: str, values: Any, what: str = "numbers, one for each row") -> Array:
    """The values as an array of numbers, of any shape; those that are masked or None are NaN.

    >>> as_numbers("weights", np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    >>> as_numbers("weights", ["1", "2"])
    Traceback (most recent call last):
    ValueError: weights must be numbers, one for each row, but '1' at row 0 is not a number
    """
    found = as_array(name, values, what)
    if found.dtype.kind == "O":
        for place, one in enumerate(found.ravel()):
            if not isinstance(one, int | float | Decimal | np.number | np.bool_ | None):
                raise ValueError(f"{name} must be {what}, but {shown(one)} at row {place} is not a number")
    elif found.dtype.kind in "USMmT" and found.size:
        raise ValueError(f"{name} must be {what}, but {shown(found.ravel()[0])} at row 0 is not a number")
    elif found.dtype.kind not in "biuf":
        refuse(name, what, values)
    try:
        with np.errstate(over="ignore"):  # what is too large for float64 is infinite, and refused as such
            return np.asarray(found, dtype=float)
    except (TypeError, ValueError, OverflowError):
        refuse(name, what, values)


def require_order(name: str, values: Any, data: Any) -> None:
    """Raise ValueError if the index of a pandas Series has the rows of a frame in another order.

    >>> import pandas as pd
    >>> data = pd.DataFrame({"y": [0, 1, 1]})
    >>> require_order("weights", pd.Series([1, 2, 3]).iloc[::-1], data)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: weights is a Series that has the rows of the data in another order, by its index; ...
    """
    import pandas as pd

    if not (isinstance(values, pd.Series) and isinstance(data, pd.DataFrame)):
        return
    index, own = data.index, values.index
    if own.equals(index) or len(own) != len(index):
        return
    if own.is_unique and own.isin(index).all():
        raise ValueError(
            f"{name} is a Series that has the rows of the data in another order, by its index; give "
            f"{name}.reindex(data.index) to have it follow the index, or {name}.to_numpy() to "
            "take it in its present order"
        )


def as_array(name: str, values: Any, what: str) -> NDArray[Any]:
    """The values as an array of any type, with nothing in place of those that are masked or missing."""
    if isinstance(values, np.ma.MaskedArray):
        if not np.ma.is_masked(values):
            return np.asarray(values.data)
        number = values.dtype.kind in "biuf"
        found = values.data.astype(float if number else object)
        found[np.ma.getmaskarray(values)] = np.nan if number else None
        return np.asarray(found)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    import pandas as pd  # here, since plain arrays need none of it

    if isinstance(values, pd.Series | pd.DataFrame | pd.Index | pd.api.extensions.ExtensionArray):
        values = values.to_numpy()
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):  # lists of unequal length, for example
        refuse(name, what, values)
    if found.ndim == 0 and not np.isscalar(values):  # such as sparse matrices, and sets
        refuse(name, what, values)
    if found.dtype.kind == "O" and (gaps := np.asarray(pd.isna(found))).any():
        found = found.copy()
        found[gaps] = None
    return found


def as_levels(name: str, values: Any) -> tuple[list[Any], NDArray[np.intp]]:
    """The different values of an array, sorted, and for each row the number of its own; refuses missing values.

    >>> as_levels("groups", ["b", "a", "b"])
    (['a', 'b'], array([1, 0, 1]))
    """
    import pandas as pd

    what = "numbers or texts, one for each row"
    found = as_array(name, values, what)
    if found.ndim != 1 or found.dtype.kind not in "biufUOT":
        refuse(name, what, values)
    missing = np.asarray(pd.isna(found))
    if missing.any():
        count = int(missing.sum())
        raise ValueError(
            f"{name} has {count} missing value{'s' if count > 1 else ''} (first at row {int(missing.argmax())}); drop "
            "such rows first"
        )
    try:
        levels, codes = np.unique(found, return_inverse=True)
    except TypeError:
        raise ValueError(f"{name} has values of mixed types; make them all numbers or all texts") from None
    return levels.tolist(), codes
