"""The text of a formula: names in it, and terms that formulaic must not see, (1 | g) and offset(x), cut out of it."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import iskeyword
from typing import Any


def quoted(name: str) -> str:
    """A column's name as a formula has it.

    >>> quoted("fico"), quoted("emp.var.rate")
    ('fico', '`emp.var.rate`')
    """
    if not name or "`" in name or "\n" in name or name.endswith("\\"):
        raise ValueError(f"the name of column {name!r} cannot be written in a formula; rename the column")
    bare = name.isidentifier() and name.isascii() and not (name.startswith("__") or iskeyword(name))
    return name if bare else f"`{name}`"


def operator(token: Any) -> str:
    """The operator that a token of formulaic's is, or ""."""
    return str(token.token) if token.kind.value == "operator" else ""


def python(token: Any) -> str:
    """The Python expression that a token of formulaic's is, or ""."""
    return str(token.token) if token.kind.value == "python" else ""


def right_side(tokens: Sequence[Any]) -> int:
    """Where the right side of a formula begins."""
    return 1 + next(i for i, token in enumerate(tokens) if "~" in operator(token))


def cut_out(text: str, tokens: Sequence[Any], first: int, last: int, what: str, term: str) -> str:
    """The text without its tokens first to last; refused if they are not a summand of the right side."""
    _refuse_unless_added(text, tokens, first, last, what, term)
    # Removing the '+' before the term leaves the rest as it was. A term that comes first has no '+' before it, and
    # there a 1 says no more than the intercept that formulaic puts there anyway.
    added = operator(tokens[first - 1]) == "+"
    start = tokens[first - 1 if added else first].source_start
    return text[:start] + ("" if added else "1") + text[tokens[last].source_end + 1 :]


def _refuse_unless_added(text: str, tokens: Sequence[Any], first: int, last: int, what: str, term: str) -> None:
    brackets = [token.token for token in tokens[:first] if token.kind.value == "context"]
    outside = sum(1 if bracket in ("(", "[") else -1 for bracket in brackets) == 0
    right = any("~" in operator(token) for token in tokens[:first])
    joined = operator(tokens[first - 1]) in ("~", "+")
    ends = last + 1 == len(tokens) or operator(tokens[last + 1])[:1] in ("+", "-")
    if not (outside and right and joined and ends):
        raise ValueError(
            f"the {what} {term} in the formula {text!r} must be added as it is, as in 'y ~ x + {term}': "
            "not subtracted, multiplied, in brackets or left of the '~'"
        )
