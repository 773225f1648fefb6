"""How large a formula may be: limits far beyond what a regression can use, checked before anything is evaluated.

A formula may come from a file or a stranger: a short one such as (a + b + c)**20 or bs(x, df=10_000_000) could take all
time and memory there is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LETTERS = 100_000  # of a formula
TOKENS = 10_000  # names, operators and brackets
DEPTH = 150  # of what is inside each other, in brackets or in an expression
PRODUCTS = 20_000  # that '*', ':' and '**' are multiplied out to
TERMS = 2_000  # of a formula that was multiplied out
COLUMNS = 10_000  # of a design
ENTRIES = 1_000  # of a list
WHOLE = 2**63 - 1  # the largest whole number; larger ones would not be numbers of NumPy
LARGE = "a whole number beyond 2^63, which no column can hold (write it as 1e20)"
OPTIONS = {  # the least and the largest that an option may be, by function and name
    "bs": {"df": (1, 1_000), "degree": (0, 20)},
    "cc": {"df": (1, 1_000)},
    "cr": {"df": (1, 1_000)},
    "cs": {"df": (1, 1_000)},
    "hashed": {"levels": (1, 1_000)},
    "np.round": {"decimals": (-300, 300)},
    "poly": {"degree": (1, 100)},
    "round": {"decimals": (-300, 300)},
    "s": {"knots": (1, 10_000), "max_bases": (1, 1_000)},
    "scale": {"ddof": (0, 1_000)},
    "standardize": {"ddof": (0, 1_000)},
}


def tokens(text: str) -> list[Any]:
    """The tokens of a formula as formulaic has them; ValueError if there are too many, or it is no formula at all.

    >>> [token.token for token in tokens("y ~ log(x)")]
    ['y', '~', 'log(x)']
    """
    from formulaic.errors import FormulaicError
    from formulaic.parser.algos.tokenize import tokenize

    refuse_long(text)
    if "``" in text:
        raise ValueError(f"the formula {shown(text)} has backticks without a name in them; name a column")
    try:
        found = list(tokenize(text))
    except FormulaicError as error:
        raise ValueError(f"cannot understand the formula {shown(text)}: {plain(error)}") from error
    if len(found) > TOKENS:
        raise ValueError(
            f"the formula {shown(text)} has {len(found):,} names, operators and brackets; it can have {TOKENS:,}"
        )
    _check_brackets(text, [token.token for token in found if token.kind.value == "context"])
    return found


def _check_brackets(text: str, brackets: Sequence[str]) -> None:
    depth = 0
    for bracket in brackets:
        if bracket in "[]":
            raise ValueError(f"the formula {shown(text)} has square brackets; write round ones around terms")
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            raise ValueError(f"cannot understand the formula {shown(text)}: its brackets do not match")
        if depth > DEPTH:
            raise ValueError(f"the formula {shown(text)} has more than {DEPTH} brackets inside each other")


def refuse_long(text: str) -> None:
    """Raise an error if this is no text, or a very long one.

    >>> refuse_long("y ~ x" + " + x" * 100_000)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: the formula 'y ~ x + x + x + ...' has 400,005 characters; it can have 100,000
    """
    if not isinstance(text, str):
        raise TypeError(f"a formula is a text such as 'y ~ x', not {type(text).__name__}")
    if len(text) > LETTERS:
        raise ValueError(f"the formula {shown(text)} has {len(text):,} characters; it can have {LETTERS:,}")


def sides(text: str) -> Any:
    """What formulaic makes of a formula whose expressions were checked; ValueError if it has too many terms.

    >>> sides("y ~ (a + b + c)**20")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: the formula 'y ~ (a + b + c)**20' would be multiplied out to more than 20,000 products; write the ...
    """
    from formulaic import Formula

    try:
        many = _products(tree(text)) > PRODUCTS
        found = None if many else Formula(text, _context={})
    except Exception as error:  # of its own kinds, and of others where it does not check what it is given
        why = plain(error)
        if re.search("^Numeric literals|numerical scaling", why):
            why = "the only numbers that can be terms are 0 and 1; for a multiple of a column, write I(5 * x)"
        raise ValueError(f"cannot understand the formula {shown(text)}: {why}") from error
    if many:
        raise ValueError(
            f"the formula {shown(text)} would be multiplied out to more than {PRODUCTS:,} products; write the "
            "interactions that you need, as in a + b + a:b"
        )
    return found


def tree(text: str) -> Any:
    """The operators of a formula and what they join, as formulaic has them."""
    from formulaic.parser import DefaultFormulaParser

    return DefaultFormulaParser().get_ast(text, context={})


def refuse_terms(text: str, count: int) -> None:
    """Raise ValueError if a formula has too many terms."""
    if count > TERMS:
        raise ValueError(f"the formula {shown(text)} has {count:,} terms; it can have {TERMS:,}")


def refuse_wide(terms: Iterable[Any], levels: Mapping[str, int]) -> None:
    """Raise ValueError if terms of formulaic's would give a design too many columns, by the levels that columns have.

    >>> refuse_wide(sides("y ~ g * h").rhs, {"g": 900, "h": 800})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: the term g:h has 720,000 columns, one for each combination of levels; a design can have 10,000: ...
    """
    every = 0
    for term in terms:
        width = math.prod(levels.get(factor.expr, 1) for factor in term.factors)
        every += width
        if every > COLUMNS:
            raise ValueError(
                f"the term {term} has {width:,} columns, one for each combination of levels; a design can have "
                f"{COLUMNS:,}: merge rare levels, leave the term out, or write one column as a group: (1 | column)"
            )


def shown(text: str, most: int = 200) -> str:
    """A text in quotes, or its beginning.

    >>> shown("y ~ x"), shown("y ~ x", 4)
    ("'y ~ x'", "'y...'")
    """
    return repr(text if len(text) <= most else f"{text[: most - 3]}...")


def plain(error: Exception) -> str:
    """Take the colours and line breaks out of a message of formulaic."""
    said = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())
    return said if len(said) <= 500 else f"{said[:497]}..."


def _products(root: Any) -> int:
    """How many products formulaic makes of a tree of operators, or more; not exactly if these are very many."""
    terms: dict[int, int] = {}  # of each node
    spent, waiting = 0, [(root, False)]
    while waiting and spent <= PRODUCTS:
        node, ready = waiting.pop()
        arguments = getattr(node, "args", ())
        if not ready:
            waiting += [(node, True), *((one, False) for one in arguments)]
            continue
        count, cost = _joined(node, [terms[id(one)] for one in arguments])
        terms[id(node)], spent = min(count, PRODUCTS + 1), spent + cost
    return spent


def _joined(node: Any, counts: list[int]) -> tuple[int, int]:
    """The terms of a node, from those of its parts, and how many products it takes to make them."""
    if len(counts) < 2:
        return sum(counts) or 1, 0
    first, second = counts
    match node.operator.symbol:
        case "*":
            return first + second + first * second, first * second
        case ":":
            return first * second, first * second
        case "/" | "in":
            return first + second, first**2 + second**2
        case "**" | "^":
            text = str(node.args[1])
            if "." in text:  # which formulaic refuses
                return first, 0
            power = int(text) if text.isdecimal() and len(text) < 6 else PRODUCTS + 1
            count = first ** min(power, 20)
            return count, max(count, power)
        case _:
            return first + second, 0
