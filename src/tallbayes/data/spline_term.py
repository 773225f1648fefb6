"""The right side s(x, z) of a formula: a spline of these variables, and what it may be like."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from tallbayes.data import limits

OPTIONS = ("max_interaction", "max_bases", "expected_bases", "lines", "knots")

_CALL, _OPTION = re.compile(r"(?<![\w.`])s\s*\("), re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)


class Spline(NamedTuple):
    """The formula with the variables as summands, and the options by name."""

    text: str
    options: dict[str, Any]


def cut(text: str) -> Spline | None:
    """What a formula says of a spline; None if it is that of a regression.

    >>> cut("late ~ s(age, log(income), max_interaction=3)")
    Spline(text='late ~ age + log(income)', options={'max_interaction': 3})
    >>> cut("late ~ s(.)").text, cut("late ~ age")
    ('late ~ .', None)
    """
    limits.refuse_long(text)
    left, tilde, right = text.partition("~")
    if not tilde or not _CALL.search(right):
        return None
    call = right.strip()
    begin = _CALL.match(call)
    inside = _inside(call, begin.end() - 1) if begin else None
    if inside is None:
        raise ValueError(
            f"s(...) must be all of the right side of {limits.shown(text)}: put all variables into it, as in "
            "'y ~ s(x, z)', or use terms such as bs(x, df=5) for a regression"
        )
    variables, options = [], {}
    for part in _parts(inside):
        if found := _OPTION.fullmatch(part):
            options[found[1]] = _value(text, *found.groups())
        elif part.strip():
            variables.append(part.strip())
    if not variables:
        raise ValueError(f"s() in {text!r} has no variables; name some, as in s(x, z), or all others with s(.)")
    return Spline(f"{left.strip()} ~ {' + '.join(variables)}", options)


def wrap(text: str) -> str:
    """The formula of a spline of all that is on the right side.

    >>> wrap("late ~ age + income")
    'late ~ s(age + income)'
    """
    left, _, right = text.partition("~")
    return text if cut(text) is not None else f"{left.strip()} ~ s({right.strip()})"


def _inside(call: str, begin: int) -> str | None:
    """What is in the brackets that begin there, if they end with the text."""
    for place, letter, depth in _unquoted(call[begin:]):
        if depth == 0 and letter in ")]}":
            return call[begin + 1 : -1] if begin + place == len(call) - 1 else None
    return None


def _parts(inside: str) -> list[str]:
    """What the commas outside of brackets and quotes separate."""
    commas = [place for place, letter, depth in _unquoted(inside) if letter == "," and depth == 0]
    return [inside[begin + 1 : end] for begin, end in pairwise([-1, *commas, len(inside)])]


def _unquoted(text: str) -> Iterator[tuple[int, str, int]]:
    """Places and letters outside of quotes, and how many brackets are open after each."""
    depth, quote = 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            yield place, letter, depth


def _value(text: str, name: str, said: str) -> Any:
    if name not in OPTIONS:
        raise ValueError(f"s() in {text!r} has no option {name!r}; it has {', '.join(OPTIONS)}")
    try:
        value = ast.literal_eval(said.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"{name}={limits.shown(said.strip())} in {limits.shown(text)} must be a number") from None
    bounds = limits.OPTIONS["s"].get(name)
    if bounds is not None and isinstance(value, int | float) and value > bounds[1]:
        raise ValueError(f"{name}={limits.shown(said.strip())} in s(...) is too large; it can be {bounds[1]:,}")
    return value
