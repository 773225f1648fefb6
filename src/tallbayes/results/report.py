"""The report of a fit: one page that says what was fitted, whether to trust it, and what came out.

What a reader must know first stands at the top in large words. What differs from one kind of fit to another is asked of
the fit: its title, its model, advice, and sections on effects.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tallbayes.data.options import check_path
from tallbayes.data.writing import check_writable, replacing
from tallbayes.results import page
from tallbayes.results.coefficients import coefficient_section
from tallbayes.results.facts import how, priors, what
from tallbayes.results.fit import Fit
from tallbayes.results.plots import calibration, densities, density, trace
from tallbayes.results.speed_plots import seconds, speed
from tallbayes.results.story import MIXED, touched
from tallbayes.sampling.diagnostics import R_HAT_LIMIT
from tallbayes.sampling.words import few

if TYPE_CHECKING:
    import pandas as pd

MOST_PANELS, MOST_TRACES = 24, 8  # of more parameters those that mix worst
MADE = "Made with tallbayes, after Payne and Mallick, Two-Stage Metropolis-Hastings for Tall Data."
FOLDED = 12  # priors from which on their table is folded
TRUST = {
    "r_hat": "R-hat",
    "ess_bulk": "bulk ESS",
    "ess_tail": "tail ESS",
    "mcse_mean": "MC error",
    "edpm": "ESS/min",
}
COLUMNS = {"mean": "mean", "sd": "sd", "eti94_lb": "94% from", "eti94_ub": "to"} | TRUST
FORMATS = {"R-hat": ".3f", "mean outcome": ".3g", "ESS/min": ",.0f", "share of draws": ".0%"}
PHASES = {
    "compile": "compiling the loops, once per machine",
    "design": "reading the data and making the design matrix",
    "shards": "dividing the rows among shards",
    "mode": "finding the posterior mode",
    "surrogate": "building the surrogate",
    "warmup": "tuning the sampler and letting it settle",
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
        _fitted(fit),
        page.section("Did it converge?" if stats["exact"] else "Did the chains mix?", _convergence(fit)),
        *([coefficient_section(fit)] if fit.coefficients else []),
        *fit._effects(),
        *([_predictions(fit)] if fit.calibrated else []),
        _draws(fit) if fit.coefficients else _followed(fit),
        _speed(fit),
        f"<footer>{escape(MADE)}</footer>",
    ]
    return page.page(fit._title, lead, parts)


def _verdict(fit: Fit) -> str:
    stats, problems = fit.stats, fit._problems()
    least, total = float(fit.edpm().min()), sum(stats["seconds"].values())
    chains, size = fit.posterior.sizes["chain"], fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"]
    exact = ("exact", "yes", "draws follow the posterior of all rows", "good")
    if not stats["exact"]:
        exact = ("exact", "no", "an approximation; see below how far off it is", "middling")
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
        ("effective draws per minute", page.number(round(least)), "of the slowest parameter", ""),
        ("rows touched per draw", *touched(stats), ""),
        ("time", _time(total), f"{_time(stats['seconds']['sampling'])} of it sampling", ""),
    )


def _fitted(fit: Fit) -> str:
    """Data, outcomes, method and prior."""
    known = page.beside(page.facts(what(fit)), page.stacked(page.facts(how(fit)), _exactness(fit)))
    sentences, prior = priors(fit), list[str]()
    if sentences or fit.prior:
        prior.append(page.stacked("<h3>Prior</h3>", *([page.text(" ".join(sentences))] if sentences else [])))
    if fit.prior:
        import pandas as pd

        table, count = page.table(pd.DataFrame({"prior": fit.prior}), "parameter"), len(fit.prior)
        prior.append(table if count <= FOLDED else page.folded(f"The priors of all {count:,} parameters", table))
    return page.section("What was fitted, and how", known, page.beside(*prior))


def _exactness(fit: Fit) -> str:
    if fit.stats["exact"]:
        return page.text(
            "This method is exact: its chains have the posterior of all rows as their limit, whatever rows a step "
            "looks at. What remains is Monte Carlo error, which shrinks as draws are added; the tables show how large "
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
            parts.append(page.text("This does not show how far off the approximation is."))
    else:
        parts = [page.text("Not yet. Do not trust the numbers below until these problems are solved.")]
        known = _meanings(fit) | {name: f"{name}: {said}." for name, said in fit._explained().items()}
        named = [said for name, said in known.items() if any(name in problem for problem in problems)]
        advice = page.stacked(page.text("What to do:"), page.bullets(_advice(fit)))
        parts.append(page.beside(page.stacked(page.bullets(problems), page.text(*named)), advice))
    if warnings:
        parts += [page.text("The fit warned:"), page.bullets(warnings)]
    return "\n".join(parts)


def _advice(fit: Fit) -> list[str]:
    draws, stats = fit.posterior.sizes["draw"], fit.stats
    advice = []
    if stats["interrupted"]:
        advice.append("The run was interrupted; let it run to its end.")
    advice.append(f"Draw more: draws={max(1_000, 4 * draws):,} instead of {draws:,}, or set target_ess.")
    advice += fit._advice()
    if stats["warnings"]:
        advice.append("See the warnings below: outcomes that are separated, or nearly so, need a tighter prior.")
    if stats["proposal"] == "one-at-a-time":
        advice.append("Centre columns whose mean is far from zero, or move all coefficients at once.")
    return advice


def _predictions(fit: Fit) -> str:
    table = fit.calibration()
    inside = ((table["observed"] >= table["lower"]) & (table["observed"] <= table["upper"])).sum()
    words = page.text(
        f"All {fit.stats['rows']:,} rows were sorted by what the fit predicts for them. If the model holds, about "
        f"94% of the bins lie in the band; {inside} of {len(table)} do.",
        "Several neighbouring bins on the same side of the band suggest that the model lacks something there: a "
        "curve, an interaction, a variable. With many rows even small departures show; whether they matter is for "
        "you to judge.",
    )
    drawn = page.figure(
        calibration(fit),
        "Observed outcomes against predictions, and the number of rows in each bin.",
        calibration(fit, narrow=True),
    )
    return page.section("Predictions against outcomes", page.beside(drawn, page.stacked(words)))


def _draws(fit: Fit) -> str:
    names, said = _shown(fit, MOST_PANELS)
    few_names, more = _shown(fit, MOST_TRACES)
    table = page.table(in_words(fit.summary().loc[list(fit.main_parameters)], TRUST), "parameter", FORMATS)
    return page.section(
        "Draws",
        page.beside(page.stacked(said, _densities(fit, names)), page.stacked(more, _traces(fit, few_names))),
        page.beside(
            table,
            page.stacked(
                page.text(
                    "R-hat is 1 if the chains agree. ESS is the number of effective draws, in the bulk or in the "
                    "tails of the distribution; ESS/min is that of the bulk per minute of sampling. MC error is the "
                    "Monte Carlo error of the mean."
                )
            ),
        ),
    )


def _followed(fit: Fit) -> str:
    """Of a fit without coefficients: quantities that say whether it converged, and nothing else."""
    import pandas as pd

    names, tables = list(fit.main_parameters)[:MOST_PANELS], [page.table(in_words(fit.summary()), "quantity", FORMATS)]
    if words := fit._explained():
        tables.append(page.table(pd.DataFrame({"what it is": words}), "quantity"))
    return page.section(
        "Diagnostics",
        page.text("Convergence is judged by these quantities:"),
        page.bullets(_meanings(fit).values()),
        page.beside(_traces(fit, names), _densities(fit, names)),
        page.beside(*tables),
    )


def _densities(fit: Fit, names: list[str]) -> str:
    return page.figure(
        density(fit, names=names, columns=3), "Posterior densities.", densities({"this fit": fit}, names, narrow=True)
    )


def _traces(fit: Fit, names: list[str]) -> str:
    caption = "The path of each chain: all should look alike, like noise around one level."
    return page.figure(trace(fit, names, 2), caption, trace(fit, names, narrow=True))


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
    rows = f"Rows of the data that a draw touches on average: {', '.join(touched(stats))}"
    if stats["surrogate_rows_per_draw"]:
        rows += f", and {few(stats['surrogate_rows_per_draw'])} of the surrogate"
    names = _shown(fit, MOST_PANELS)[0]
    per_minute = "Effective draws per minute of sampling."
    return page.section(
        "Speed",
        page.text(f"{rows}."),
        page.beside(
            page.figure(seconds(fit), "Where the time went, in seconds.", seconds(fit, narrow=True)),
            page.figure(speed(fit, names), per_minute, speed(fit, names, narrow=True)),
        ),
        page.facts({name: PHASES[name] for name in stats["seconds"] if name in PHASES}),
    )


def in_words(table: pd.DataFrame, columns: Mapping[str, str] = COLUMNS) -> pd.DataFrame:
    """Some lines of a summary, with names of columns that a reader knows."""
    return table[list(columns)].rename(columns=columns)


def _time(seconds: float) -> str:
    return f"{seconds / 60:,.1f}\N{NO-BREAK SPACE}min" if seconds >= 120 else f"{seconds:,.1f}\N{NO-BREAK SPACE}s"
