"""The term offset(x) of a formula: cut out of the text, since it is added to eta as it is, without a coefficient."""

from __future__ import annotations

from tallbayes.data import functions
from tallbayes.data.summand import cut_out, python


def cut(text: str) -> tuple[str, str]:
    """Split a formula into what formulaic may see and the sum of what its offset() terms hold, "" without any.

    >>> cut("y ~ x + offset(log(days)) + offset(z)")
    ('y ~ x ', '(log(days)) + (z)')
    """
    from formulaic.parser.algos.tokenize import tokenize

    found: list[str] = []
    while True:
        tokens = list(tokenize(text))
        calls = [functions.arguments(python(token), ["offset"]) if python(token) else None for token in tokens]
        place = next((place for place, call in enumerate(calls) if call), None)
        if place is None:
            return text, " + ".join(f"({one})" for one in found)
        term, inside = python(tokens[place]), (calls[place] or ("", []))[1]
        if len(inside) != 1:
            raise ValueError(f"the term {term} needs one column or expression, as in offset(log(days))")
        text = cut_out(text, tokens, place, place, "term", term)
        found += inside
