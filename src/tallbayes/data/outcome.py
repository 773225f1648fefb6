"""An outcome of two kinds that are not 0 and 1: which of them counts as 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.summand import quoted

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

# What counts as 1 without being asked, and beside what.
OBVIOUS = {
    "yes": "no", "y": "n", "true": "false", "t": "f", "1": "0", "1.0": "0.0", "on": "off", "success": "failure",
    "positive": "negative", "pos": "neg", "pass": "fail",
}  # fmt: skip
SHOWN = 6  # levels in a message


def coded(name: str, column: pd.Series[Any], given: Any = None) -> tuple[Array, Any]:
    """Outcomes as 0 and 1, and which value of the column counts as 1, None where it had 0 and 1 already.

    `given` is the value that counts as 1, against all others; without it, of two levels of text the obvious one, or
    else the second.

    >>> import pandas as pd
    >>> coded("y", pd.Series(["no", "yes"], dtype="category"))
    (array([0., 1.]), 'yes')
    >>> coded("y", pd.Series([1, 2]), 2)
    (array([0., 1.]), 2)
    """
    if column.dtype == "category":
        levels = column.cat.categories.tolist()
        place = _default(name, levels) if given is None else _given(name, levels, given)
        return (column.cat.codes.to_numpy() == place).astype(float), levels[place]
    y = column.to_numpy(dtype=float)
    if given is None:
        _refuse_two_numbers(name, y)
        return y, None
    found = y == _number(given)
    if not found.any():
        levels = [int(value) if value == int(value) else value for value in np.unique(y).tolist()]
        raise ValueError(f"outcome={given!r} never occurs: the outcome {name!r} is {_list(levels, 'or')}")
    value = _number(given)
    return found.astype(float), int(value) if value == int(value) else value


def said(name: str, value: Any, y: Array) -> str:
    """What counted as 1, and in how many rows.

    >>> said("y", "yes", np.array([0.0, 1.0, 1.0]))
    "y = 1 where it is 'yes': 2 of 3 rows"
    """
    return f"{name} = 1 where it is {value!r}: {np.count_nonzero(y):,} of {y.size:,} rows"


def _default(name: str, levels: list[Any]) -> int:
    if len(levels) != 2:
        example = levels[-1]
        some = "only one level" if len(levels) == 1 else f"{len(levels)} levels"
        raise ValueError(
            f"the outcome {name!r} is text with {some} ({_list(levels, 'and')}); say what counts as 1, for example "
            f"{spellings(name, example)}"
        )
    low = [str(level).strip().casefold() for level in levels]
    return next((place for place in (0, 1) if OBVIOUS.get(low[place]) == low[1 - place]), 1)


def _given(name: str, levels: list[Any], given: Any) -> int:
    """The place of the level that was given; on a command line all is text, so text also stands for numbers."""
    for same in (lambda level: level == given, lambda level: str(level) == str(given)):
        if found := [place for place, level in enumerate(levels) if same(level)]:
            return found[0]
    raise ValueError(f"outcome={given!r} never occurs: the outcome {name!r} is {_list(levels, 'or')}")


def _number(given: Any) -> float:
    if isinstance(given, str) and given.strip().casefold() in ("true", "false"):
        return float(given.strip().casefold() == "true")
    try:
        return float(given)
    except (TypeError, ValueError):
        return float("nan")  # which equals nothing


def _refuse_two_numbers(name: str, y: Array) -> None:
    low, high = y.min(), y.max()
    if (low, high) != (0, 1) and low < high and ((y == low) | (y == high)).all():
        raise ValueError(
            f"outcome {name!r} must be 0 or 1, but is {low:g} or {high:g}; say which counts as 1, for example "
            f"{spellings(name, int(high) if high == int(high) else float(high))}"
        )


def spellings(name: str, value: Any) -> str:
    """The two ways to say what counts as 1."""
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"outcome={shown}, or in the formula: I({quoted(name)} == {value!r}) ~ ..."


def _list(levels: list[Any], joint: str) -> str:
    """The first few levels in words."""
    if len(levels) == 1:
        return repr(levels[0])
    if len(levels) > SHOWN:
        return f"{', '.join(map(repr, levels[:SHOWN]))}, ... ({len(levels)} in all)"
    return f"{', '.join(map(repr, levels[:-1]))} {joint} {levels[-1]!r}"
