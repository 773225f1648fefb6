"""Successes among trials on the left side of a formula: p(successes, trials) or cbind(successes, failures)."""

from __future__ import annotations

from tallbayes.data import expression as expressions
from tallbayes.data.limits import tokens as tokens_of
from tallbayes.data.summand import python, right_side

FORMS = {"p": "p(successes, trials)", "cbind": "cbind(successes, failures)"}


def cut(text: str) -> tuple[str, str]:
    """Split a formula into one whose outcome is the successes, and the number of trials, "" where none is written.

    >>> cut("p(paid, loans) ~ x")
    ('paid ~ x', 'loans')
    >>> cut("cbind(paid, `not paid`) ~ x")
    ('paid ~ x', 'paid + `not paid`')
    """
    tokens = tokens_of(text)
    end = right_side(tokens)
    if end != 2 or not (call := expressions.arguments(python(tokens[0]), FORMS) if python(tokens[0]) else None):
        return text, ""
    name, given = call
    if len(given) != 2:
        raise ValueError(f"the outcome {tokens[0].token} needs two columns or expressions, as in {FORMS[name]}")
    successes, second = (one if _plain(one) else f"({one})" for one in given)
    trials = second if name == "p" else f"{successes} + {second}"
    left = successes if _plain(successes) else f"{{{successes}}}"
    return f"{left} {text[tokens[1].source_start :]}", trials


def _plain(expression: str) -> bool:
    """Whether it is the name of a column, or a number."""
    in_backticks = expression[0] == expression[-1] == "`" and "`" not in expression[1:-1]
    return expression.isalnum() or expression.isidentifier() or in_backticks
