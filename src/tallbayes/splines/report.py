"""The section on splines in the report of a fit."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np

from tallbayes.results import page
from tallbayes.results.report import COLUMNS, FORMATS
from tallbayes.splines.basis import DEGREE, VARIABLE
from tallbayes.splines.plots import effects, importance, interaction
from tallbayes.splines.result import MARSFit


def spline_section(fit: MARSFit) -> str:
    """How much variables matter, and what they do."""
    bases = fit.posterior["bases"].values
    table = fit.importance().rename(columns=COLUMNS | {"included": "share of draws"})
    parts = [
        page.text(
            f"Splines have {bases.min()} to {bases.max()} bases, {bases.mean():.1f} on average. The effect of a "
            "variable is the standard deviation of what it alone changes in the log-odds."
        ),
        page.figure(importance(fit), "How much each variable matters."),
        page.table(table, "variable", FORMATS),
        page.figure(
            effects(fit),
            "Log-odds as a function of each variable, averaged over the others, with 94% intervals.",
            effects(fit, columns=2),
        ),
    ]
    for first, second in _pairs(fit):
        drawn = (interaction(fit, first, second, columns) for columns in (2, 1))
        parts.append(page.figure(next(drawn), f"{first} and {second} together.", next(drawn)))
    return page.section("Effects", *parts)


def _pairs(fit: MARSFit, most: int = 2) -> list[tuple[str, str]]:
    """The pairs of variables that stand together in most bases."""
    found: Counter[tuple[str, str]] = Counter()
    kept, bases = fit.splines["basis"].values, fit.table["bases"].values
    for number, times in zip(*np.unique(kept[kept >= 0], return_counts=True), strict=True):
        degree = int(bases[number, DEGREE])
        variables = sorted(bases[number, VARIABLE : VARIABLE + degree].astype(int))
        for first, second in combinations(variables, 2):
            found[fit.variables[first], fit.variables[second]] += int(times)
    return [pair for pair, _ in found.most_common(most)]
