"""The report of a fit: one page that says what was fitted, whether to trust it, and what came out.

What a reader must know first stands at the top in large words. What differs from one kind of fit to another is asked of
the fit: its title, its model, advice, and sections on effects.
"""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tallbayes.data.options import check_path
from tallbayes.data.writing import check_writable, replacing
from tallbayes.results import page
from tallbayes.results.fit import Fit
from tallbayes.results.plots import calibration, density, forest, trace
from tallbayes.results.speed_plots import seconds, speed
from tallbayes.results.story import METHODS, MIXED, touched
from tallbayes.sampling.diagnostics import R_HAT_LIMIT
from tallbayes.sampling.words import few

if TYPE_CHECKING:
    import pandas as pd

MOST_PANELS, MOST_TRACES = 24, 8  # of more parameters those that mix worst
COLUMNS = {
    "mean": "mean",
    "sd": "sd",
    "eti94_lb": "94% from",
    "eti94_ub": "to",
    "ess_bulk": "bulk ESS",
    "ess_tail": "tail ESS",
    "r_hat": "R-hat",
    "mcse_mean": "MC error",
    "edpm": "ESS/min",
}
FORMATS = {"R-hat": ".3f", "MC error": ".2g", "mean outcome": ".3g", "ESS/min": ",.0f", "share of draws": ".0%"}
PHASES = {
    "compile": "compiling the loops, once per machine",
    "design": "reading the data and making the design matrix",
    "shards": "dealing the rows to shards",
    "mode": "finding the posterior mode",
    "surrogate": "making the surrogate",
    "warmup": "tuning and settling",
    "sampling": "drawing",
    "diagnostics": "checking the draws: whether there are enough, and what they are worth",
    "combining": "combining the draws of shards",
    "checking": "checking the approximation against all rows",
    "effects": "computing effects of variables",
    "calibration": "comparing predictions with outcomes",
    "other": "everything else, such as putting the draws of all chains together",
}


def report(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, a name that ends in .html, replacing an older one only when the new one is complete."""
    path = check_path("path", path, "the path of a page, which ends in .html")
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is a page of HTML; give a name that ends in .html, not {path!r}")
    check_writable(path)
    with replacing(path) as partial:
        partial.write_text(render(fit), encoding="utf-8")


def render(fit: Fit) -> str:
    """The page.

    >>> from tallbayes.results.example import example
    >>> "<title>y ~ fico</title>" in render(example())
    True
    """
    stats = fit.stats
    lead = f"{fit._model} on {stats['rows']:,} rows, by tallbayes {fit.posterior.attrs['inference_library_version']}."
    parts = [
        _verdict(fit),
        page.section("What was fitted, and how", page.facts(_how(fit)), _exactness(fit)),
        page.section("Did it converge?" if stats["exact"] else "Did the chains mix?", _convergence(fit)),
        *_coefficients(fit),
        *fit._effects(),
        *([_predictions(fit)] if fit.calibrated else []),
        _draws(fit) if fit.coefficients else _followed(fit),
        _speed(fit),
        f"<footer>{_again(fit)}</footer>",
    ]
    return page.page(fit._title, lead, parts)


def _verdict(fit: Fit) -> str:
    stats, problems = fit.stats, fit._problems()
    least, total = float(fit.edpm().min()), sum(stats["seconds"].values())
    chains, size = fit.posterior.sizes["chain"], fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"]
    exact = ("exact", "yes", "draws follow the posterior of all rows", "good")
    if not stats["exact"]:
        exact = ("exact", "no", "an approximation; see below how far off", "middling")
    if problems:
        met = ("converged" if stats["exact"] else "mixed", "not yet", "see the problems below", "bad")
    elif stats["exact"]:
        met = ("converged", "yes", "no problems found", "good")
    else:
        met = ("chains", MIXED, "they agree, but may all be off", "middling")
    return page.cards(
        exact,
        met,
        ("draws", f"{size:,}", "interrupted" if stats["interrupted"] else f"in {chains} chains", ""),
        ("effective draws a minute", page.number(round(least)), "of the slowest parameter", ""),
        ("rows touched a draw", *touched(stats), ""),
        ("time", _time(total), f"of which sampling {_time(stats['seconds']['sampling'])}", ""),
    )


def _how(fit: Fit) -> dict[str, str]:
    stats, known = fit.stats, dict[str, str]()
    if fit.formula is not None:
        known["formula"] = fit.formula.text
    known |= fit._told()
    if left_out := [sentence for sentence in stats.get("told", []) if sentence != stats.get("outcome", "")]:
        known["left out"] = "; ".join(left_out)
    known["rows"] = f"{stats['rows']:,}"
    if stats["distinct_rows"] < stats["rows"]:
        known["rows"] += f", of which {stats['distinct_rows']:,} are distinct; equal ones are looked at once"
    if groups := stats.get("groups"):
        known["groups"] = f"{groups['count']:,} of {groups['term']}; the prior of their sd is {groups['prior']}"
    known["method"] = METHODS.get(stats["method"], stats["method"])
    if stats["why"]:
        known["chosen because"] = stats["why"]
    if stats["surrogate"]:
        known["surrogate"] = stats["surrogate"]
    known["proposals"] = str(stats["proposal"])
    known["accepted"] = ", ".join(f"{stage} {share:.1%}" for stage, share in stats["acceptance"].items())
    if stats["surrogate_rows_per_draw"]:
        known["surrogate's rows"] = f"{few(stats['surrogate_rows_per_draw'])} a draw"
    return known


def _exactness(fit: Fit) -> str:
    if fit.stats["exact"]:
        return page.text(
            "This method is exact: its chains have the posterior of all rows as their limit, whatever rows a step "
            "looks at. What remains is Monte Carlo error, which shrinks as draws are added; the tables say how large "
            "it is."
        )
    lines = fit.stats["approximation"].get("said", [])
    return page.text("This method is approximate: more draws will not remove its error.") + page.bullets(lines)


def _convergence(fit: Fit) -> str:
    problems, warnings = fit._problems(), fit.stats["warnings"]
    table = fit.summary()
    if not problems:
        least, worst = table["ess_bulk"].min(), table["r_hat"].max()
        verdict = "No problems found" if fit.stats["exact"] else MIXED.capitalize()
        parts = [
            page.text(
                f"{verdict}. The chains agree (the largest R-hat is {worst:.3f}; up to {R_HAT_LIMIT} "
                f"is fine), and the slowest parameter has {least:,.0f} effective draws."
            )
        ]
        if not fit.stats["exact"]:
            parts.append(page.text("That says nothing about how far the approximation is off."))
    else:
        parts = [page.text("Not yet. Do not trust the numbers below until these problems are solved.")]
        named = [said for name, said in _meanings(fit).items() if any(name in problem for problem in problems)]
        parts += [page.bullets(problems), page.text(*named, "What to do:"), page.bullets(_advice(fit))]
    if warnings:
        parts += [page.text("The fit warned:"), page.bullets(warnings)]
    return "\n".join(parts)


def _advice(fit: Fit) -> list[str]:
    draws, stats = fit.posterior.sizes["draw"], fit.stats
    advice = []
    if stats["interrupted"]:
        advice.append("The run was interrupted; run it again to its end.")
    advice.append(f"Draw more: draws={max(1_000, 4 * draws):,} instead of {draws:,}, or set target_ess.")
    advice += fit._advice()
    if stats["warnings"]:
        advice.append("Look at the warnings below: outcomes that are separated, or nearly so, need a tighter prior.")
    if stats["proposal"] == "one-at-a-time":
        advice.append("Centre columns whose mean is far from zero, or move all coefficients at once.")
    return advice


def _coefficients(fit: Fit) -> list[str]:
    if not fit.coefficients:
        return []
    names = list(fit.main_parameters)
    but = " but the intercept" if "Intercept" in names else ""
    caption = f"Posterior mean, 50% and 94% interval of each {fit.called}{but}."
    table = in_words(fit.summary().loc[names])
    if fit.prior:
        table["prior"] = [fit.prior.get(name, "") for name in names]
    return [
        page.section(
            f"{fit.called.capitalize()}s",
            page.figure(forest(fit), caption),
            page.table(table, fit.called, FORMATS),
            page.bullets(fit.stats["pulled"]),
            page.text(
                "Click on the head of a column to sort by it. ESS: effective draws, in the bulk, in the tails, and (of "
                "the bulk) a minute. R-hat: 1 if chains agree. MC error: Monte Carlo error of the mean."
            ),
        )
    ]


def _predictions(fit: Fit) -> str:
    table = fit.calibration()
    inside = ((table["observed"] >= table["lower"]) & (table["observed"] <= table["upper"])).sum()
    return page.section(
        "Predictions against outcomes",
        page.figure(calibration(fit), "Outcomes against predictions, and the rows of each bin."),
        page.text(
            f"All {fit.stats['rows']:,} rows were sorted by what the fit predicts for them. If the model holds, about "
            f"94% of the bins lie in the band; {inside} of {len(table)} do.",
            "Several bins in a row on the same side of it say that the model lacks something there: a curve, an "
            "interaction, a variable. With many rows small departures show; whether they matter is yours to judge.",
        ),
    )


ALIKE = "The path of each chain: they should look alike, and like grass."


def _draws(fit: Fit) -> str:
    names, said = _shown(fit, MOST_PANELS)
    few_names, more = _shown(fit, MOST_TRACES)
    return page.section(
        "Draws",
        said,
        page.figure(density(fit, names=names), "Posterior densities.", density(fit, names=names, columns=2)),
        more,
        page.figure(trace(fit, few_names, 2), ALIKE, trace(fit, few_names, 1)),
    )


def _followed(fit: Fit) -> str:
    """Of a fit without coefficients: quantities that say whether it converged, and nothing else."""
    names = list(fit.main_parameters)[:MOST_PANELS]
    return page.section(
        "Diagnostics",
        page.text("Convergence is judged by these quantities:"),
        page.bullets(_meanings(fit).values()),
        page.figure(trace(fit, names, 2), ALIKE, trace(fit, names, 1)),
        page.figure(density(fit, names=names), "Posterior densities.", density(fit, names=names, columns=2)),
        page.table(in_words(fit.summary()), "quantity", FORMATS),
    )


def _meanings(fit: Fit) -> dict[str, str]:
    """What parameters are, by the names of the posterior, where these do not say it."""
    found = {}
    for name, values in fit.posterior.data_vars.items():
        if said := values.attrs.get("description"):
            found[str(name)] = f"{name}{'[i]' if values.ndim > 2 else ''}: {said}"
    return found


def _shown(fit: Fit, most: int) -> tuple[list[str], str]:
    """Parameters to draw, and why not all."""
    every = list(fit.parameters if fit.coefficients else fit.main_parameters)
    if len(every) <= most:
        return every, ""
    worst = set(fit.summary()["ess_bulk"][every].sort_values().index[:most])
    said = page.text(f"Of {len(every):,} parameters, the {most} with the fewest effective draws:")
    return [name for name in every if name in worst], said


def _speed(fit: Fit) -> str:
    stats = fit.stats
    rows = f"Rows of the data that a draw touched: {', '.join(touched(stats))}"
    if stats["surrogate_rows_per_draw"]:
        rows += f", and {few(stats['surrogate_rows_per_draw'])} of the surrogate"
    phases = [f"{name}: {PHASES[name]}" for name in stats["seconds"] if name in PHASES]
    return page.section(
        "Speed",
        page.text(f"{rows}."),
        page.figure(seconds(fit), "Where the time went, in seconds."),
        page.bullets(phases),
        page.figure(speed(fit, _shown(fit, MOST_PANELS)[0]), "Effective draws per minute of sampling."),
    )


def _again(fit: Fit) -> str:
    seed = f"The seed was {fit.stats['seed']}. " if fit.stats["seed"] is not None else ""
    return escape(f"{seed}Made with tallbayes, after Payne and Mallick, Two-Stage Metropolis-Hastings for Tall Data.")


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """Some lines of a summary, with names of columns that a reader knows."""
    return table[list(COLUMNS)].rename(columns=COLUMNS)


def _time(seconds: float) -> str:
    return f"{seconds / 60:,.1f} min" if seconds >= 120 else f"{seconds:,.1f} s"
