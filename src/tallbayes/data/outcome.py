"""An outcome of two kinds that are not 0 and 1: which of them counts as 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.kinds import Distinct, Kind
from tallbayes.data.summand import quoted

Array = NDArray[np.float64]

# What counts as 1 without being asked, and beside what.
OBVIOUS = {
    "yes": "no", "y": "n", "true": "false", "t": "f", "1": "0", "1.0": "0.0", "on": "off", "success": "failure",
    "positive": "negative", "pos": "neg", "pass": "fail",
}  # fmt: skip
SHOWN = 6  # levels in a message


def event(name: str, kind: Kind, numbers: Distinct, given: Any = None) -> Any:
    """Which value of the outcome's column counts as 1, None where it has 0 and 1 already.

    `given` is the value that counts as 1, against all others; without it, of two levels of text the obvious one, or
    else the second. `numbers` are those of a column that is no text.

    >>> from tallbayes.data.kinds import Levels
    >>> event("y", Kind(Levels(["no", "yes"], False), False), Distinct())
    'yes'
    """
    if kind.levels is not None:
        levels = kind.levels.values
        return levels[_default(name, levels) if given is None else _given(name, levels, given)]
    if given is None:
        _refuse_two_numbers(name, numbers)
        return None
    if not numbers.found:
        seen, more = [_whole(one) for one in numbers.values().tolist()], numbers.more
        raise ValueError(f"outcome={given!r} never occurs: the outcome {name!r} is {_list(seen, 'or', more)}")
    return _whole(number(given))


def coded(values: NDArray[Any], kind: Kind, event: Any) -> Array:
    """The values of the outcome's column, or the numbers of their levels if it is text, as 0 and 1.

    >>> coded(np.array([1, 2]), Kind(None, True), 2), coded(np.array([1, 0]), Kind(None, True), None)
    (array([0., 1.]), array([1., 0.]))
    """
    if kind.levels is not None:
        values, event = values == kind.levels.values.index(event), None
    return np.asarray(values if event is None else values == event, dtype=float)


def number(given: Any) -> float:
    """The number that was given, NaN if it is none.

    >>> number("2"), number("False"), number("yes")
    (2.0, 0.0, nan)
    """
    if isinstance(given, str) and given.strip().casefold() in ("true", "false"):
        return float(given.strip().casefold() == "true")
    try:
        return float("nan") if isinstance(given, bytes | bytearray) else float(given)
    except (TypeError, ValueError):
        return float("nan")  # which equals nothing


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


def said(name: str, value: Any, ones: int, rows: int) -> str:
    """What counted as 1, and in how many rows; nothing where that did not have to be said.

    >>> said("y", "yes", 2, 3)
    "y = 1 where it is 'yes': 2 of 3 rows"
    """
    return "" if value is None else f"{name} = 1 where it is {value!r}: {ones:,} of {rows:,} rows"


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


def _refuse_two_numbers(name: str, numbers: Distinct) -> None:
    values = numbers.values().tolist()
    if len(values) == 2 and values != [0, 1]:
        low, high = values
        raise ValueError(
            f"outcome {name!r} must be 0 or 1, but is {low:g} or {high:g}; say which counts as 1, for example "
            f"{spellings(name, _whole(high))}"
        )


def spellings(name: str, value: Any) -> str:
    """The two ways to say what counts as 1."""
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"outcome={shown}, or in the formula: I({quoted(name)} == {value!r}) ~ ..."


def _list(levels: list[Any], joint: str, more: bool = False) -> str:
    """The first few levels in words; there may be more than these."""
    if len(levels) == 1:
        return repr(levels[0])
    if len(levels) > SHOWN:
        return f"{', '.join(map(repr, levels[:SHOWN]))}, ... ({len(levels)}{' or more' if more else ' in all'})"
    return f"{', '.join(map(repr, levels[:-1]))} {joint} {levels[-1]!r}"
