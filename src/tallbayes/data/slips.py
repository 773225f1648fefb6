"""What formulaic takes out of a formula without a word, refused: a model other than the one that was meant.

These are arithmetic left of the '~', the '-' before a term that was never there, the power of a single column, and
terms that no column is part of. A number in a product changes what its coefficient means, and not its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tallbayes.data.limits import shown

INTERCEPT = "1"


def refuse(text: str, tree: Any) -> None:
    """Raise ValueError if parts of formulaic's tree of a formula would be left out.

    >>> from tallbayes.data.limits import tree
    >>> refuse("y ~ x - z", tree("y ~ x - z"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: the formula 'y ~ x - z' takes z away, which is not among its terms; for a difference of columns ...
    """
    left, right = tree.args
    outcomes = [str(part) for part in getattr(left, "args", ())]
    if outcomes and (left.operator.symbol != "+" or len(set(outcomes)) < len(outcomes)):
        said = text.partition("~")[0].strip()
        raise ValueError(
            f"the formula {shown(text)} has arithmetic left of the '~'; for an outcome that is computed, write "
            f"I({said}) ~ ..."
        )
    found: dict[int, set[Any]] = {}  # terms of each node that joins others
    waiting = [(right, False)]
    while waiting:
        node, ready = waiting.pop()
        parts = list(getattr(node, "args", ()))
        if not parts:
            continue
        if node.operator.symbol == ":" and (numbers := [part for part in parts if _is_number(part)]):
            raise ValueError(
                f"the formula {shown(text)} has {numbers[0]} in an interaction, which would not be in its name; for a "
                "multiple of a column, write I(5 * x)"
            )
        if not ready:
            waiting += [(node, True), *((one, False) for one in parts)]
            continue
        symbol = node.operator.symbol
        if symbol in ("**", "^") and not hasattr(parts[0], "args"):
            raise ValueError(
                f"the formula {shown(text)} has {parts[0]} {symbol} {parts[1]}, which stands for interactions of "
                f"several terms and is {parts[0]} alone; for a power of the column, write I({parts[0]} ** {parts[1]})"
            )
        alone = not any(hasattr(part, "args") for part in parts)
        if symbol in (":", "*") and alone and len(parts) == 2 and str(parts[0]) == str(parts[1]):
            raise ValueError(
                f"the formula {shown(text)} has {parts[0]} {symbol} {parts[1]}, which is {parts[0]} alone; for the "
                f"square of the column, write I({parts[0]} ** 2)"
            )
        if symbol not in ("+", "-"):
            found[id(node)] = set(node.to_terms())
            continue
        sets = [found.pop(id(one)) if hasattr(one, "args") else set(one.to_terms()) for one in parts]
        there = sets.pop(0) if len(sets) > 1 else set()
        if symbol == "+":
            there.update(*sets)
        else:
            _refuse_never(text, there, sets[0])
            there.difference_update(sets[0])
        found[id(node)] = there


def _is_number(part: Any) -> bool:
    return str(part).replace(".", "", 1).isdecimal() and str(part) != INTERCEPT


def _refuse_never(text: str, there: set[Any], gone: set[Any]) -> None:
    """Raise ValueError if a term is taken away that is not there."""
    if never := sorted(str(term) for term in gone - there if str(term) != INTERCEPT):
        raise ValueError(
            f"the formula {shown(text)} takes {never[0]} away, which is not among its terms; for a difference of "
            f"columns write I(x - z), and leave the '- {never[0]}' out if it is not needed"
        )


def refuse_constant(terms: Iterable[Any], columns: Iterable[Iterable[str]]) -> None:
    """Raise ValueError if a term other than the intercept has no column in it."""
    for term, used in zip(terms, columns, strict=True):
        if not any(True for _ in used) and str(term) != INTERCEPT:
            raise ValueError(
                f"the term {term} of the formula has no column in it, so nothing can be learned about it; leave it "
                "out, or name a column"
            )
