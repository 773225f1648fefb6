"""The sections on splines in the report of a fit: what matters, and what it does to the probability."""

from __future__ import annotations

import re

import numpy as np

from tallbayes.results import page
from tallbayes.results.facts import reference_levels
from tallbayes.results.report import COLUMNS, FORMATS
from tallbayes.splines.basis import DEGREE, MOST, VARIABLE
from tallbayes.splines.fit import MARSFit
from tallbayes.splines.plots import PANELS, effects, importance, interaction
from tallbayes.splines.probabilities import is_stored, stored_pairs

MOST_VALUES = 8  # of variables, that say which row of the data is followed
OFTEN = 0.5  # share of draws in which two variables must stand together to be shown


def spline_sections(fit: MARSFit) -> list[str]:
    """How much variables matter, what they do, and what they do together."""
    if not is_stored(fit.table):
        return [_importance(fit), _effects(fit, "log-odds")]
    return [_importance(fit), _effects(fit, "probability"), *_interactions(fit)]


def _importance(fit: MARSFit) -> str:
    bases = fit.posterior["bases"].values
    table = fit.importance().rename(columns=COLUMNS | {"included": "share of draws"})
    drawn = page.figure(
        importance(fit),
        "How much each variable matters, and the share of draws that include it.",
        importance(fit, narrow=True),
    )
    return page.section(
        "Variables that matter",
        page.text(
            f"Splines have {bases.min()} to {bases.max()} bases, {bases.mean():.1f} on average. The effect of a "
            "variable is the standard deviation of the changes in the log-odds that it alone makes."
        ),
        page.beside(drawn, page.table(table, "variable", FORMATS)),
    )


def _effects(fit: MARSFit, scale: str) -> str:
    shown, each = min(PANELS, len(fit.variables)), "each variable"
    if shown < len(fit.variables):
        each = f"each of the {shown} variables that matter most"
    base = (
        " The dotted line is the base rate, the share of all rows whose outcome is 1." if scale == "probability" else ""
    )
    caption = f"{scale.capitalize()} as a function of {each}, averaged over the others, with 94% intervals.{base}"
    said = {
        "probability": "What would the share of ones be if a variable had the same value in all rows and all others "
        "stayed as they are? Where a curve is flat, the variable makes no difference.",
        "log-odds": "This fit was saved by a version that stored no effects on the probability scale.",
    }
    drawn = page.figure(effects(fit, scale=scale), caption, effects(fit, scale=scale, narrow=True))
    return page.section("Effects of variables", page.text(said[scale]), drawn)


def _interactions(fit: MARSFit) -> list[str]:
    pairs = stored_pairs(fit.table)
    if not pairs:
        return []
    shares = [_share(fit, *pair) for pair in pairs]
    parts = []
    for (first, second), share in zip(pairs, shares, strict=True):
        if share >= OFTEN:
            caption = f"Probability as a function of {first} and {second}, which share a basis in {share:.0%} of draws."
            drawn = interaction(fit, first, second), interaction(fit, first, second, narrow=True)
            parts.append(page.figure(drawn[0], caption, drawn[1]))
    said = (
        "No two variables share a basis in half of the draws or more: the effect of each hardly depends on the others."
    )
    if parts:
        said = (
            "These variables share a basis in most draws: the effect of one depends on the other. Each line is "
            "the effect of the first variable at one value of the second, which a triangle marks in the map."
        )
    return [page.section("Interactions", page.text(said), *parts)]


def points_in_words(fit: MARSFit) -> dict[str, str]:
    """Which rows of the data the log-odds are of that are followed: their values of the variables that matter most."""
    names = [str(name) for name in fit.importance().index]
    points = fit.table["points"].sel(variable=names).values
    return {f"log_odds[{i}]": _row(fit, dict(zip(names, point, strict=True))) for i, point in enumerate(points)}


def _row(fit: MARSFit, point: dict[str, float]) -> str:
    """A row in words. Of the columns of a category, that of its level says it all."""
    references = {} if fit.formula is None else dict(reference_levels(fit.formula))
    values = dict[str, str]()
    for name, value in point.items():
        found = re.fullmatch(r"(.+)\[T\.(.+)\]", name)
        if found is None or found[1] not in references:
            values[name] = page.number(value)
        elif value:
            values[found[1]] = found[2]
        else:
            values.setdefault(found[1], str(references[found[1]]))
    shown = ", ".join(f"{name} {value}" for name, value in list(values.items())[:MOST_VALUES])
    more = len(values) - MOST_VALUES
    return f"the log-odds of a row with {shown}" + (f", and {more:,} variables of lesser effect" if more > 0 else "")


def _share(fit: MARSFit, *pair: str) -> float:
    """Of the draws in which two variables stand together in a basis."""
    bases = fit._all[0].bases
    there = np.arange(MOST) < bases[..., DEGREE, None]
    variables = bases[..., VARIABLE : VARIABLE + MOST]
    both = [((variables == fit.variables.index(name)) & there).any(2) for name in pair]
    return float((both[0] & both[1]).any(1).mean())
