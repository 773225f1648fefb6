"""A formula before it meets data: its parts, the columns they need and the functions they call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tallbayes.data import counts, expression, group_term, limits, offset_term, slips
from tallbayes.data.syntax import READING


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
    with READING:
        return _parse(text)


def _parse(text: str) -> Parsed:
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
    slips.refuse(text, limits.tree(rest))
    if len(left) > 1:
        names = ", ".join(str(term) for term in left)
        raise ValueError(f"the formula {text!r} has several outcomes ({names}); write only one")
    if len(right) == 0:
        raise ValueError(f"the formula {text!r} has no predictors; an intercept alone is 'y ~ 1'")
    slips.refuse_constant(right, (_used([term]).columns for term in right))
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
    if extras["offset"] is not None:
        refuse_outcome(on_left.columns, extras["offset"].columns, "in the offset")
    refuse_outcome(on_left.columns, on_right.columns, "on the right side")
    every = expression.Used.joined([*parts, expression.Used((group,) if group else (), ())])
    outcome = str(left[0])
    return Parsed(
        text, outcome, every.columns, on_right.columns, every.functions, left, right, group, every.dates, **extras
    )


def refuse_outcome(outcome: Sequence[str], others: Iterable[str], where: str) -> None:
    """Raise ValueError if the column of the outcome is there again; what is computed of several columns may be.

    >>> refuse_outcome(["late"], ["age", "late"], "on the right side")
    Traceback (most recent call last):
    ValueError: the outcome's column 'late' is also on the right side, where it would explain itself; leave it out there
    """
    if len(outcome) == 1 and outcome[0] in others:
        raise ValueError(
            f"the outcome's column {outcome[0]!r} is also {where}, where it would explain itself; leave it out there"
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
