"""Another fit, as this one but for its formula or other arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tallbayes.data import spline_term
from tallbayes.data.updated import updated
from tallbayes.results.more import origin_of
from tallbayes.sampling.checkpoint import recalled

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

FRONT: dict[str, Callable[..., Fit]] = {}  # what makes fits of a formula, by the door's name


def update(fit: Fit, change: str, changes: Mapping[str, Any]) -> Fit:
    """What `Fit.update` does."""
    origin = origin_of(fit)
    if origin.door not in FRONT:
        raise ValueError(
            "fit.update is for fits that tb.fit made, but tb.sample made this one; make a new model instead"
        )
    given = {"seed": fit.stats["seed"], **origin.given, **changes}
    arguments = recalled(origin.asked, given, f"fit.update({change!r}, {{}}=...)")
    formula = arguments.pop("formula")
    if spline_term.cut(formula) is None and fit.formula is not None:
        formula = fit.formula.text  # in which a '.' is written out
    return FRONT[origin.door](updated(formula, change), **arguments)
