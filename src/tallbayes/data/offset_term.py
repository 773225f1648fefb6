"""The term offset(x) of a formula: cut out of the text, since it is added to eta as it is, without a coefficient."""

from __future__ import annotations

from tallbayes.data import expression
from tallbayes.data.limits import DEPTH
from tallbayes.data.limits import tokens as tokens_of
from tallbayes.data.summand import cut_out, python


def cut(text: str) -> tuple[str, str]:
    """Split a formula into what formulaic may see and the sum of what its offset() terms hold, "" without any.

    >>> cut("y ~ x + offset(log(days)) + offset(z)")
    ('y ~ x ', '(log(days)) + (z)')
    """
    tokens, found = tokens_of(text), list[str]()
    for place in reversed(range(len(tokens))):  # from the right, so that places in the text stay as they are
        term = python(tokens[place])
        call = expression.arguments(term, ["offset"]) if term else None
        if call is None:
            continue
        if len(call[1]) != 1:
            raise ValueError(f"the term {term} needs one column or expression, as in offset(log(days))")
        if len(found) == DEPTH:
            raise ValueError(f"the formula has more than {DEPTH} offset() terms; make one column of them first")
        text = cut_out(text, tokens, place, place, "term", term)
        found.insert(0, call[1][0])
    return text, " + ".join(f"({one})" for one in found)
