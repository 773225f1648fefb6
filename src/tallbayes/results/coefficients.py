"""The section on coefficients in the report of a fit: as they are, as ratios, and for a usual step of their columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tallbayes.families.steady import exp
from tallbayes.results import page
from tallbayes.results.forest import forest
from tallbayes.results.intervals import Interval
from tallbayes.results.page import Head, Shown, number
from tallbayes.results.ratios import ratio_of
from tallbayes.results.steps import steps, steps_in_words
from tallbayes.results.table import described

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

Columns = dict[Head, list[Shown]]

GROWS = {
    "odds ratio": "the odds are",
    "rate ratio": "the expected count is",
    "ratio of means": "the mean is",
    "hazard ratio": "the hazard is",
}
EMPTY = Shown("", math.nan)
CLOSE = 1e-3  # ratios that are closer to one have as many digits as tell them from it
LARGE = 1e6  # ratios beyond it, or below one by it, say no more than that


def coefficient_section(fit: Fit) -> str:
    """A figure and a table.

    >>> from tallbayes.results.example import example
    >>> "odds ratio" in coefficient_section(example())
    True
    """
    names = list(fit.main_parameters)
    but = " but the intercept" if "Intercept" in names else ""
    known = steps_in_words(fit)
    caption = f"Posterior mean, 50% and 94% interval of each {fit.called}{but}"
    caption += ", for a step of its column: one sd, or from 0 to 1." if known else "."
    columns = _plain(fit, names) | _as_ratios(fit, names) | _per_step(fit, names, known)
    drawn = page.figure(forest(fit), caption, forest(fit, narrow=True))
    return page.section(
        f"{fit.called.capitalize()}s",
        page.beside(drawn, page.stacked(page.text(*_reading(fit, bool(known))), page.bullets(fit.stats["pulled"]))),
        page.grouped_table(columns, names, fit.called),
    )


def _plain(fit: Fit, names: list[str]) -> Columns:
    table = fit.summary().loc[names]
    over = fit.called
    return {
        Head("mean", over): [_shown(value) for value in table["mean"]],
        Head("sd", over): [_shown(value) for value in table["sd"]],
        Head("94% interval", over): list(map(_interval, table["eti94_lb"], table["eti94_ub"])),
    }


def _as_ratios(fit: Fit, names: list[str]) -> Columns:
    """Of the coefficients alone, where their links have a name for that."""
    name = ratio_of(fit.family)
    if not name or fit.called != "coefficient":
        return {}
    with np.errstate(over="ignore", invalid="ignore"):  # where outcomes are separated, ratios may be infinite
        mean, _, low, high = described(exp(fit._values("beta", "coefficient")), Interval())
    of = dict(zip(fit.coefficients, zip(mean.tolist(), low.tolist(), high.tolist(), strict=True), strict=True))
    rows = [of.get(one) for one in names]
    return {
        Head("mean", name): [EMPTY if row is None else Shown(_ratio(row[0]), row[0]) for row in rows],
        Head("94% interval", name): [
            EMPTY if row is None else Shown(f"{_ratio(row[1])} to {_ratio(row[2])}", row[1]) for row in rows
        ],
    }


def _per_step(fit: Fit, names: list[str], words: dict[str, str]) -> Columns:
    """Coefficients times the step of their column."""
    if not words:
        return {}
    unit, table, over = steps(fit), fit.summary(), "coefficient for a step of its column"
    mean, low, high = (table[part] for part in ("mean", "eti94_lb", "eti94_ub"))
    return {
        Head("step", over): [Shown(words[one], unit[one]) if one in unit else EMPTY for one in names],
        Head("mean", over): [_shown(mean[one] * unit[one]) if one in unit else EMPTY for one in names],
        Head("94% interval", over): [
            _interval(low[one] * unit[one], high[one] * unit[one]) if one in unit else EMPTY for one in names
        ],
    }


def _shown(value: float) -> Shown:
    return Shown(number(value), value)


def _interval(low: float, high: float) -> Shown:
    return Shown(f"{number(low)} to {number(high)}", low)


def _ratio(value: float) -> str:
    """A ratio, which may be larger than one can read where outcomes are separated.

    >>> _ratio(1.5), _ratio(1e300), _ratio(1e-9), _ratio(1.0000123)
    ('1.5', '> 1e6', '< 1e-6', '1.000012')
    """
    if 0 < abs(value - 1) < CLOSE:
        return f"{value:.{1 - math.floor(math.log10(abs(value - 1)))}f}"
    return "> 1e6" if value > LARGE else "< 1e-6" if value < 1 / LARGE else number(value)


def _reading(fit: Fit, scaled: bool) -> list[str]:
    """How to read the figure and the table."""
    words = list[str]()
    if (name := ratio_of(fit.family)) and fit.called == "coefficient":
        words.append(f"The {name} is the factor by which {GROWS[name]} multiplied when a column grows by one.")
    if scaled:
        words.append(
            "A step is one sd of the column or, if it has only two values, the difference between them. That makes "
            "coefficients comparable, whatever the units of their columns."
        )
    return [*words, "Click on the heading of a column to sort the table by it."]
