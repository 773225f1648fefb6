"""A formula before it meets data: its parts, the columns they need and the functions they call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tallbayes.data import counts, expression, group_term, limits, offset_term


class Extra(NamedTuple):
    """A part of a formula that gives each row one number outside the design: an offset, or the number of trials."""

    text: str
    columns: tuple[str, ...]
    side: Any


class Parsed(NamedTuple):
    """A formula before it meets data: its sides, the data columns they need and the functions they call."""

    text: str
    outcome: str
    columns: tuple[str, ...]
    predictors: tuple[str, ...]
    functions: tuple[str, ...]
    left: Any
    right: Any
    group: str | None
    dates: tuple[str, ...] = ()  # columns that are used only as month(x) and its kind use them
    offset: Extra | None = None
    trials: Extra | None = None

    @property
    def outcome_column(self) -> str | None:
        """The column that is the outcome, None where the left side is something else."""
        factors = list(self.left[0].factors)
        return str(factors[0].expr) if len(factors) == 1 and factors[0].eval_method.value == "lookup" else None


def parse(text: str) -> Parsed:
    """What `tallbayes.data.formula.Formula.parse` does."""
    rest, group = group_term.cut(text)
    rest, offset = offset_term.cut(rest)
    rest, trials = counts.cut(rest)
    expression.refuse_code(rest)
    sides = limits.sides(rest)
    left, right = getattr(sides, "lhs", []), getattr(sides, "rhs", [])
    limits.refuse_terms(text, len(right))
    on_left, on_right = _used(left), _used(right)
    if not on_left.columns:
        raise ValueError(f"the formula {text!r} has no outcome; write it as 'outcome ~ predictors'")
    if len(left) > 1:
        names = ", ".join(str(term) for term in left)
        raise ValueError(f"the formula {text!r} has several outcomes ({names}); write only one")
    if len(right) == 0:
        raise ValueError(f"the formula {text!r} has no predictors; an intercept alone is 'y ~ 1'")
    if group in on_left.columns:
        raise ValueError(f"the outcome {group!r} is also the group of (1 | {group}); group by another column")
    parts, extras = [on_left, on_right], dict[str, Extra | None](offset=None, trials=None)
    for name, said in (("offset", offset), ("trials", trials)):
        if said:
            used = expression.check(said)
            parts.append(used)
            alone = f"0 + {{{said}}}"
            expression.refuse_code(alone)  # once more, as formulaic sees it between braces
            extras[name] = Extra(said, used.columns, limits.sides(alone))
    every = expression.Used.joined([*parts, expression.Used((group,) if group else (), ())])
    outcome = str(left[0])
    return Parsed(
        text, outcome, every.columns, on_right.columns, every.functions, left, right, group, every.dates, **extras
    )


def _used(side: Iterable[Any]) -> expression.Used:
    """The data columns that the terms of one side need, in the order they are written, and the functions they call.

    formulaic's own `required_variables` overlooks columns inside center(x) and its kind.
    """
    found = []
    for factor in (factor for term in side for factor in term.factors):
        if factor.eval_method.value == "lookup":
            found.append(expression.Used((factor.expr,), ()))
        elif factor.eval_method.value == "python":
            found.append(expression.check(factor.expr))
    return expression.Used.joined(found)
