"""The '.' of a formula: all columns that have no other part in the model, written out by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tallbayes.data import expression
from tallbayes.data.frames import names_and_dates
from tallbayes.data.limits import tokens as tokens_of
from tallbayes.data.summand import operator, python, quoted, right_side


def expand(text: str, data: Any, others: Iterable[str] = ()) -> tuple[str, Any]:
    """The formula with names for its '.', and the data, opened if they were not.

    The '.' leaves out the columns of the outcome, the group, offset() terms, and `others`. A column of dates enters
    as days(column).

    >>> expand("y ~ . - z", {"y": [0, 1], "x": [1, 2], "z": [3, 4], "w.1": [5, 6]})[0]
    'y ~ x + `w.1`'
    """
    tokens = tokens_of(text)
    dots = [place for place, token in enumerate(tokens) if is_dot(token)]
    if not dots or not any("~" in operator(token) for token in tokens):
        return text, data
    if dots[0] < right_side(tokens):
        raise ValueError(f"the formula {text!r} has a '.' left of the '~'; write the name of the outcome")
    data, names, dates = names_and_dates(data)
    used = {*_outcome_and_terms(tokens), *others}
    written = {name: f"days({quoted(name)})" if name in dates else _term(name) for name in names if name not in used}
    for place in reversed(dots):  # from the right, so that places in the text stay as they are
        last = place
        left_out = set()
        while _subtracted(tokens, last + 1) in names:
            left_out.add(tokens[last + 2].token)
            last += 2
        terms = [term for name, term in written.items() if name not in left_out]
        if not terms:
            raise ValueError(f"the '.' in {text!r} stands for all other columns, but there are no others in the data")
        summand = operator(tokens[place - 1]) in ("~", "+")
        summand &= last + 1 == len(tokens) or operator(tokens[last + 1]) in ("+", "-")
        said = " + ".join(terms) if summand else f"({' + '.join(terms)})"
        text = text[: tokens[place].source_start] + said + text[_end(text, tokens[last]) :]
    return text, data


def is_dot(token: Any) -> bool:
    """Whether a token of formulaic's is the '.' that stands for all other columns."""
    return bool(token.token == "." and token.kind.value == "value")


def _term(name: str) -> str:
    """A column as a term; formulaic reads `1` and `.` as if there were no backticks."""
    try:
        float("0" if name == "." else name)
    except ValueError:
        return quoted(name)
    return f"Q('{name}')"


def _end(text: str, token: Any) -> int:
    """Where a token ends in the text, the backtick after a name included."""
    end = int(token.source_end) + 1
    return end + (token.kind.value == "name" and text[end : end + 1] == "`")


def _subtracted(tokens: Sequence[Any], place: int) -> str:
    """The name in '- name' if these are the next tokens and they end there, else ""."""
    if len(tokens) < place + 2 or operator(tokens[place]) != "-" or tokens[place + 1].kind.value != "name":
        return ""
    ends = len(tokens) == place + 2 or tokens[place + 2].token[:1] in ("+", "-", ")")
    return str(tokens[place + 1].token) if ends else ""


def _outcome_and_terms(tokens: Sequence[Any]) -> Iterable[str]:
    """Columns of the outcome, of a group term and of offset() terms."""
    right = right_side(tokens)
    for place, token in enumerate(tokens):
        grouping = operator(tokens[place - 1]) == "|" if place else False
        if token.kind.value == "name" and (place < right or grouping):
            yield str(token.token)
        elif code := python(token):
            forms = ("offset",) if place >= right else ("p", "cbind")
            call = expression.arguments(code, forms)
            if call or place < right:
                for part in call[1] if call else [code]:
                    yield from expression.check(part).columns
