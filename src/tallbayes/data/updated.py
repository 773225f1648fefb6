"""A formula changed by another, as R's `update` does: a '.' stands for the old side, '- x' takes a term away.

Sides are taken apart into summands. Group terms and offset() must stay summands of their own, so they are put in and
taken out as text, and so is all of a spline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tallbayes.data import expression, limits
from tallbayes.data.options import check_text
from tallbayes.data.summand import operator, python, right_side
from tallbayes.data.wildcard import is_dot

WHAT = "a change of the formula such as '~ . + x'"

_SPECIAL = re.compile(r"(offset|s)\s*\(")
_LONE_DOT = re.compile(r"(?<![\w`])\.(?![\w`])")


class Summand(NamedTuple):
    """A part of the right side that is added or taken away."""

    minus: bool
    text: str
    key: tuple[str, ...]  # its tokens, by which summands are the same whatever blanks they have
    dots: tuple[int, ...]  # places of '.' in the text
    special: bool  # whether it is a group term, an offset or a spline, which formulaic does not see


def updated(old: str, change: str) -> str:
    """The formula that a change makes of an old one.

    >>> updated("y ~ x + z + (1 | bank)", "~ . - x + w")
    'y ~ z + (1 | bank) + w'
    >>> updated("p(paid, loans) ~ x * z", "~ . - x:z")
    'p(paid, loans) ~ x * z - x:z'
    >>> updated("y ~ x + z", "late ~ .:w")
    'late ~ (x + z):w'
    """
    check_text("formula", change, WHAT)
    tokens = limits.tokens(change)
    if not any("~" in operator(token) for token in tokens):
        raise ValueError(f"the change {limits.shown(change)} has no '~'; write it as '~ . + x'")
    (was_left, was), (left, asked) = _sides(old), _sides(change)
    if left in ("", "."):
        left = was_left
    full: list[Summand] = []
    short: list[Summand] = []
    for one in asked:
        if one.minus and one.special:
            full, short = _without(full, one, change), _without(short, one, change)
        elif one.key == (".",) and not one.minus:
            full, short = full + was, short + was
        else:
            one = _filled(one, was, change)
            full.append(one)
            left_over = [other for other in short if other.minus == one.minus or other.key != one.key]
            short = left_over if len(left_over) < len(short) else [*short, one]
    return f"{left} ~ {_joined(short) if _terms(short) == _terms(full) else _joined(full)}"


def _sides(text: str) -> tuple[str, list[Summand]]:
    """The left side of a formula, and the summands of its right side."""
    tokens = limits.tokens(text)
    begin = right_side(tokens)
    return text[: tokens[begin - 1].source_start].strip(), list(_summands(text, tokens, begin))


def _summands(text: str, tokens: Sequence[Any], begin: int) -> Iterator[Summand]:
    """What stands between the '+' and '-' outside of brackets; two signs may stand together, as in '~-' and '+-'."""
    signs, start, parts, depth = operator(tokens[begin - 1]), tokens[begin - 1].source_end + 1, list[Any](), 0
    for token in tokens[begin:]:
        sign = operator(token)
        if depth == 0 and sign[:1] in ("+", "-") and parts:
            yield _summand(signs, text[start : token.source_start], start, parts)
            signs, start, parts = sign, token.source_end + 1, []
        elif depth == 0 and sign[:1] in ("+", "-"):
            signs, start = signs + sign, token.source_end + 1
        else:
            parts.append(token)
            depth += (token.token == "(") - (token.token == ")") if token.kind.value == "context" else 0
    if not parts:
        raise ValueError(f"cannot understand the formula {limits.shown(text)}: nothing follows its last sign")
    yield _summand(signs, text[start:], start, parts)


def _summand(signs: str, text: str, start: int, tokens: Sequence[Any]) -> Summand:
    start += len(text) - len(text.lstrip())
    call = python(tokens[0]) if len(tokens) == 1 else ""
    special = _SPECIAL.match(call) is not None or any(operator(token) == "|" for token in tokens)
    dots = tuple(token.source_start - start for token in tokens if is_dot(token))
    key = tuple("".join(str(token.token).split()) for token in tokens)
    return Summand(signs.count("-") % 2 == 1, text.strip(), key, dots, special)


def _without(summands: list[Summand], gone: Summand, change: str) -> list[Summand]:
    """The summands without one that can only go as a whole."""
    left = [one for one in summands if one.minus or one.key != gone.key]
    if len(left) == len(summands):
        raise ValueError(
            f"the change {limits.shown(change)} takes {gone.text} away, which is not among the terms of "
            f"{limits.shown(_joined(summands))}"
        )
    return left


def _filled(one: Summand, was: Sequence[Summand], change: str) -> Summand:
    """The summand with the old side in brackets for each '.' in it."""
    if one.special and _LONE_DOT.search(one.text):
        raise ValueError(
            f"the change {limits.shown(change)} has a '.' in {one.text}, where it could stand for the old side or for "
            "all columns; write the names of the columns"
        )
    if one.dots and (special := next((other for other in was if other.special), None)):
        raise ValueError(
            f"the '.' in {one.text} of the change {limits.shown(change)} would put {special.text} into another term; "
            "write the terms out"
        )
    text = one.text
    for place in reversed(one.dots):
        text = f"{text[:place]}({_joined(was)}){text[place + 1 :]}"
    return one._replace(text=text, dots=())


def _joined(summands: Sequence[Summand]) -> str:
    """The right side as text."""
    text = "".join(f" {'-' if one.minus else '+'} {one.text}" for one in summands)
    return text.removeprefix(" + ").strip() or "1"


def _terms(summands: Sequence[Summand]) -> set[Any]:
    """The terms that formulaic makes of summands."""
    text = f"y ~ {_joined([one for one in summands if not one.special])}"
    expression.refuse_code(text)
    return set(limits.sides(text).rhs)
