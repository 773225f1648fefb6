"""What was fitted, and how, in names and words: the first section of a report.

The data and their outcomes, the level that others are compared with, the prior, and the method. Fits that earlier
versions saved know less of themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tallbayes.data.formula import Formula
from tallbayes.models.priors import INTERCEPT_SD, SLOPE_SD
from tallbayes.results.page import number
from tallbayes.results.ratios import scale_of
from tallbayes.results.story import METHODS, enumerated
from tallbayes.sampling.words import few

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

COUNTED = ("poisson", "negative_binomial")  # families whose outcomes are counts
BINARY = ("bernoulli", "binomial")
TINY_SD = 1e-6  # of the mean: an sd that was computed as a difference, and has lost its digits


def what(fit: Fit) -> dict[str, str]:
    """What was fitted, by name.

    >>> from tallbayes.results.example import example
    >>> found = what(example())
    >>> found["formula"], found["data"], found["fitted"]
    ('y ~ fico', 'loans.csv', '2026-01-31 12:00 UTC')
    """
    stats, known = fit.stats, dict[str, str]()
    if fit.formula is not None:
        known["formula"] = fit.formula.text
    if data := stats.get("data"):
        known["data"] = data
    if fitted := stats.get("fitted"):
        known["fitted"] = f"{datetime.fromisoformat(fitted):%Y-%m-%d %H:%M} UTC"
    known |= fit._told()
    known["rows"] = f"{stats['rows']:,}"
    if stats["distinct_rows"] < stats["rows"]:
        known["rows"] += f", of which {stats['distinct_rows']:,} are distinct; equal rows are looked at only once"
    known |= outcomes(fit)
    if fit.formula is not None and (found := dict(reference_levels(fit.formula))):
        count = {factor: len(fit.formula.categories[factor]) for factor in found}
        levels = [f"'{level}' of the {count[factor]:,} levels of {factor}" for factor, level in found.items()]
        known["reference levels" if len(levels) > 1 else "reference level"] = "; ".join(levels)
    if groups := stats.get("groups"):
        known["groups"] = f"{groups['count']:,} of {groups['term']}"
    if left_out := [sentence for sentence in stats.get("told", []) if sentence != stats.get("outcome", "")]:
        known["left out"] = "; ".join(left_out)
    return known


def how(fit: Fit) -> dict[str, str]:
    """How it was fitted, by name.

    >>> from tallbayes.results.example import example
    >>> how(example())["accepted"]
    'stage 1 41.0%, stage 2 93.0%'
    """
    stats, known = fit.stats, dict[str, str]()
    known["method"] = METHODS.get(stats["method"], stats["method"])
    if stats["why"]:
        known["chosen because"] = stats["why"]
    if stats["surrogate"]:
        known["surrogate"] = stats["surrogate"]
    known["proposals"] = str(stats["proposal"])
    known["accepted"] = ", ".join(f"{stage} {share:.1%}" for stage, share in stats["acceptance"].items())
    if stats["surrogate_rows_per_draw"]:
        known["surrogate's rows"] = f"{few(stats['surrogate_rows_per_draw'])} a draw"
    if stats["seed"] is not None:
        known["seed"] = str(stats["seed"])
    return known


def outcomes(fit: Fit) -> dict[str, str]:
    """How many events there are, or the mean and the spread of outcomes; nothing if the fit did not look at them.

    >>> from tallbayes.results.example import example
    >>> outcomes(example())
    {'events': '269 of 1,000 rows, a base rate of 26.9%'}
    """
    if not fit.calibrated:
        return {}
    bins = fit.calibration()
    usual = {"weight": bins["rows"].sum(), "mean": (bins["rows"] * bins["observed"]).sum() / bins["rows"].sum()}
    known: dict[str, Any] = fit.stats.get("outcomes", usual)  # earlier versions stored no others
    weight, mean, rows = known["weight"], known["mean"], fit.stats["rows"]
    total, weighted = number(round(weight * mean, 6)), abs(weight - rows) > 0.5
    if fit.family.name in BINARY:
        of = "trials" if fit.family.name == "binomial" else "rows"
        of += ", counted with their weights" if weighted and of == "rows" else ""
        return {"events": f"{total} of {number(round(weight, 6))} {of}, a base rate of {_percent(mean)}"}
    each = "each with its weight" if weighted else "a row"
    if fit.family.name in COUNTED:
        return {"counts": f"{total} in all, {number(mean)} {each} on average"}
    said = f"mean {number(mean)}"
    if (sd := known.get("sd", 0.0)) > TINY_SD * abs(mean):
        said += f", sd {number(sd)}"
    return {"outcomes": said + (", counted with their weights" if weighted else "")}


def reference_levels(formula: Formula) -> Iterator[tuple[str, Any]]:
    """Each category, with the level that its others are compared with.

    >>> formula, _, _ = Formula.learn("y ~ home", {"y": [0, 1, 1], "home": ["own", "rent", "other"]})
    >>> list(reference_levels(formula))
    [('home', 'other')]
    """
    names = (*formula.coefficients, *formula.left_out)
    for factor, levels in formula.categories.items():
        against = [level for level in levels if not any(_is_in(f"{factor}[T.{level}]", name) for name in names)]
        if len(against) == 1:
            yield factor, against[0]


def _is_in(factor: str, name: str) -> bool:
    """Whether a coefficient is that of a factor, or of a product with it."""
    return re.search(f"(^|:){re.escape(factor)}($|:)", name) is not None


def priors(fit: Fit) -> list[str]:
    """The prior in sentences.

    >>> from tallbayes.results.example import example
    >>> priors(example())[0]
    'No priors were given, so they are the defaults, which follow the columns.'
    """
    stats = fit.stats
    if "prior" in stats:
        return [stats["prior"]]
    if not fit.prior:
        return []
    defaults = stats.get("default_priors")
    given = [name for name in fit.prior if defaults is not None and name not in defaults]
    sentences = []
    if defaults is not None and not given:
        sentences.append("No priors were given, so they are the defaults, which follow the columns.")
    elif defaults:
        sentences.append(f"Given: {enumerated(tuple(given))}. The others are defaults, which follow the columns.")
    if defaults and set(defaults).intersection(fit.coefficients):
        sentences += _defaults(fit, set(defaults))
    if fit.called == "coefficient" and not stats["pulled"]:
        sentences.append("No prior moves a coefficient by more than half a standard error of what the data say.")
    return sentences


def _defaults(fit: Fit, defaults: set[str]) -> Iterator[str]:
    """What defaults are, as `models/priors.py` has them."""
    scale, unit = scale_of(fit.family), " sd of the outcome" if fit.family.location else ""
    if defaults.intersection(fit.coefficients) - {"Intercept"}:
        yield (
            "A usual difference in a column (its sd or, if it has two values, the difference between them) changes "
            f"the {scale} by Normal(0, {SLOPE_SD:g}{unit})."
        )
    if "Intercept" in defaults:
        where = "around the mean of the outcomes, " if fit.family.location else ""
        yield f"The intercept is Normal(0, {INTERCEPT_SD:g}{unit}) {where}where all columns are at their means."


def _percent(share: float) -> str:
    """A share with three digits.

    >>> _percent(0.2841), _percent(0.00012345)
    ('28.4%', '0.0123%')
    """
    return f"{100 * share:.3g}%"
