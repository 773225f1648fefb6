"""The group term (1 | g) of a formula: cut out of the text, its levels learned, rows matched to levels.

formulaic knows no such term and reads `|` as something else, so it must not see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.kinds import exact
from tallbayes.data.limits import tokens as tokens_of
from tallbayes.data.summand import cut_out, operator

if TYPE_CHECKING:
    import pandas as pd

# The group's column gives its name to an axis of the posterior, where these are taken.
NAMES_TAKEN = ("chain", "draw", "coefficient", "beta", "rows", "outcome", "alone")


def cut(text: str) -> tuple[str, str | None]:
    """Split a formula into what formulaic may see and the column g of its group term (1 | g), if it has one.

    >>> cut("y ~ x + (1 | bank)")
    ('y ~ x ', 'bank')
    >>> cut("y ~ (1 | bank)")
    ('y ~ 1', 'bank')
    """
    tokens = tokens_of(text)
    if not any("~" in operator(token) for token in tokens):
        raise ValueError(f"the formula {text!r} has no '~'; write it as 'outcome ~ predictors'")
    if "~" in operator(tokens[-1]):
        raise ValueError(f"the formula {text!r} has nothing right of the '~'; an intercept alone is 'y ~ 1'")
    if any(token.token == "." and token.kind.value == "value" for token in tokens):
        raise ValueError(
            f"the formula {text!r} has a '.'; write the names of the columns, which are not known without the data"
        )
    bars = [i for i, token in enumerate(tokens) if "|" in operator(token)]
    for bar in bars:
        _refuse_other_bar(text, tokens, bar)
    if not bars:
        return text, None
    if len(bars) > 1:
        raise ValueError(f"the formula {text!r} has {len(bars)} group terms; this version takes one group term")
    first, last = bars[0] - 2, bars[0] + 2
    group = tokens[last - 1].token
    _refuse_name(group)
    return cut_out(text, tokens, first, last, "group term", f"(1 | {group})"), group


def _refuse_other_bar(text: str, tokens: Sequence[Any], bar: int) -> None:
    around = [f"{token.kind.value} {token.token}" for token in tokens[max(0, bar - 2) : bar + 3]]
    if around[:3] + around[4:] != ["context (", "value 1", "operator |", "context )"]:
        raise ValueError(f"the formula {text!r} has a '|' outside a group term such as (1 | g)")
    if not around[3].startswith("name "):
        raise ValueError(f"the group term (1 | {tokens[bar + 1].token}) needs the name of a column after the '|'")


def _refuse_name(group: str) -> None:
    if group in NAMES_TAKEN or "/" in group:
        why = "has a '/', which files of results cannot hold" if "/" in group else "has another meaning in a posterior"
        raise ValueError(f"the group column's name {group!r} {why}; rename the column")


def at_least_two(name: str, levels: Sequence[Any]) -> tuple[Any, ...]:
    """The levels of a group column, if there are several.

    >>> at_least_two("bank", [7, 30])
    (7, 30)
    """
    if len(levels) < 2:
        raise ValueError(
            f"the group column {name!r} has only one level, {levels[0]!r}, whose effect cannot be told from the "
            f"intercept; drop the term (1 | {name}), or add rows of other groups"
        )
    return tuple(levels)


def match_levels(name: str, column: pd.Series[Any], known: Sequence[Any]) -> NDArray[np.intp]:
    """Index of each row's level in `known`, -1 where it is not there; text never equals a number.

    >>> import pandas as pd
    >>> match_levels("bank", pd.Series([30.0, 8.0, 7.0]), [7, 30])
    array([ 1, -1,  0])
    """
    import pandas as pd

    if column.dtype == "category":
        codes, levels = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    else:
        codes, uniques = pd.factorize(exact(name, column.to_numpy()))
        levels = uniques.tolist()
    is_text, was_text = isinstance(levels[0], str), isinstance(known[0], str)
    if is_text != was_text:
        now, then = ("text", "numbers") if is_text else ("numbers", "text")
        raise ValueError(f"column {name!r} holds {now}, but held {then} when the formula was learned; make it {then}")
    place = {level: i for i, level in enumerate(known)}  # by value and exactly, also for integers beyond 2^53
    return np.array([place.get(level, -1) for level in levels], dtype=np.intp)[codes]
