"""The Portuguese bank: 15 coefficients by every method of the paper, two of them of rare levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from tallbayes import plots
from tallbayes.data.datasets import load_bank
from tallbayes.paper.experiment import Experiment, Finding, Steps, errors, fit_all, noise, same_posterior
from tallbayes.results.fit import Fit
from tallbayes.results.speed_plots import few_digits
from tallbayes.sampling.diagnostics import ess
from tallbayes.sampling.estimators import SplineProxy
from tallbayes.sampling.methods import MH, Consensus, Method, Subsampling, Thinned, TwoStage
from tallbayes.sampling.subsample import CaseControl, Subsample

FORMULA = "y ~ poutcome + log_age + contact + education + marital"
RARE = ("education[T.illiterate]", "marital[T.unknown]")
SHARDS = 14
CHAINS = 4
METHODS: dict[str, Method] = {
    "mh": MH("one-at-a-time"),
    "two_stage": TwoStage(Subsample(1_400), "one-at-a-time"),
    "two_stage_weighted": TwoStage(CaseControl(1_400), "one-at-a-time"),
    "consensus": Consensus(SHARDS, inner=MH("one-at-a-time")),
    "both": Consensus(SHARDS, inner=TwoStage(Subsample(1_400 // SHARDS))),
    "subsampling_7000": Subsampling(SplineProxy(7_000)),
    "subsampling_100": Subsampling(SplineProxy(100)),
    "thinned": Thinned(),
}
SAID = {
    "mh": "Metropolis-Hastings, one coefficient at a time",
    "two_stage": "two-stage, screened by 1,400 rows",
    "two_stage_weighted": "two-stage, all deposits and 1,400 others, weighted (ours)",
    "consensus": "consensus of 14 shards",
    "both": "consensus with two-stage on each shard",
    "subsampling_7000": "subsampling, spline, 7,000 rows",
    "subsampling_100": "subsampling, spline, 100 rows",
    "thinned": "thinned second stage (ours)",
}
SUBSAMPLING = {"subsampling_7000": 2_500, "subsampling_100": 2_500}  # the paper's 10,000 iterations in four chains
DRAWS = dict.fromkeys(METHODS, 10_000) | {"two_stage": 20_000, "consensus": 3_000, "both": 2_000} | SUBSAMPLING
PAPERS_EVALUATIONS = {"mh": 355.0, "subsampling_100": 23.9, "subsampling_7000": 1.8}


@dataclass(frozen=True)
class Size:
    """How much to run: draws a chain."""

    draws: dict[str, int] = field(default_factory=DRAWS.copy)
    warmup: int = 1_000


FULL = Size(dict.fromkeys(METHODS, 25_000) | SUBSAMPLING, 1_250)


def run(size: Size, data: Path | None, tell: Callable[[str], None] | None) -> Experiment:
    """Fit, compare, draw."""
    steps = Steps("bank", len(METHODS), tell)
    rows = load_bank(data)
    fits = fit_all(FORMULA, rows, METHODS, size.draws, steps, warmup=size.warmup)
    found = Experiment(
        "bank",
        "The Portuguese bank",
        f"{len(rows):,} phone calls, {int(rows['y'].sum()):,} term deposits, 15 coefficients with N(0, 10²) priors. "
        f"Four chains of {size.draws['mh']:,} draws after {size.warmup:,} with Metropolis-Hastings, where the paper "
        "has one of 100,000 after 5,000.",
    )
    found.tables["methods"] = ("Each method beside Metropolis-Hastings.", _methods(fits))
    off = {SAID[name]: errors(one, fits["mh"]) for name, one in fits.items() if name != "mh"}
    found.tables["errors"] = (
        "Error of each posterior mean, in posterior standard deviations of Metropolis-Hastings.",
        pd.DataFrame({name: one["mean"] for name, one in off.items()}).rename_axis("coefficient"),
    )
    for name in METHODS:
        if name != "mh":
            caption = f"Posterior densities: {SAID[name]}, over Metropolis-Hastings."
            figure = plots.density(names=None, columns=4, mh=fits["mh"], **{name: fits[name]})
            found.figures[f"density-{name.replace('_', '-')}"] = caption, figure
    found.findings += _findings(fits)
    found.discussion += [
        "We agree that two-stage Metropolis-Hastings has the posterior of Metropolis-Hastings, as far as its "
        "effective draws can tell, and that consensus errs where a level is rare. Subsampling with a spline hardly "
        "moves here with 100 rows, and not much better with 7,000, which the paper found decent.",
        "A surrogate of 1,400 random rows is a poor one: for a move of one posterior standard deviation its error has "
        "a variance of about 41,188 / 1,400 = 29, so that steps must be small, and effective draws are few. With all "
        "deposits kept, and others drawn by how much they matter, there are more.",
        "We differ in speed: loops are compiled, equal rows are looked at once (the 41,188 calls are "
        f"{fits['mh'].stats['distinct_rows']:,} distinct rows), and four chains share each pass. With 100 rows "
        "subsampling makes more evaluations a second than Metropolis-Hastings, where the paper has it fifteen times "
        "slower.",
        "The thinned second stage is not in the paper: it draws a handful of rows a step, and is exact.",
    ]
    return found


def _methods(fits: dict[str, Fit]) -> pd.DataFrame:
    lines = {}
    for name, one in fits.items():
        draws = CHAINS * one.posterior.sizes["draw"]
        off, effective = errors(one, fits["mh"]), one.summary()["ess_bulk"]
        updates = 1 if "subsampling" in name else len(one.parameters)
        counted = name in PAPERS_EVALUATIONS
        lines[SAID[name]] = {
            "minutes": one.minutes,
            "evaluations/s": updates * draws / (60 * one.minutes) if counted else np.nan,
            "paper's": PAPERS_EVALUATIONS.get(name, np.nan),
            "least ESS": effective.min(),
            "median REDPM": float((one.edpm() / fits["mh"].edpm()).median()),
            "rows a draw": one.stats["rows_per_draw"],
            "largest error of a mean, sds": off["mean"].abs().max(),
            "its Monte Carlo error": float(np.hypot(noise(one), noise(fits["mh"]))),
            "largest sd ratio": off["sd"].max(),
        }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("method")


def _findings(fits: dict[str, Fit]) -> list[Finding]:
    off = errors(fits["consensus"], fits["mh"])
    rare, others = off.loc[list(RARE)], off.drop(index=list(RARE))
    worst = rare["mean"].abs().idxmax()
    mixing = {name: float(ess(fits[name].draws).min()) for name in ("mh", "subsampling_7000", "subsampling_100")}
    share = {name: mixing[name] / fits[name].draws[..., 0].size for name in mixing}
    return [
        same_posterior(fits["two_stage"], fits["mh"], "Metropolis-Hastings"),
        Finding(
            "Consensus is off for the two rare levels, education illiterate (18 rows) and marital unknown (80 rows).",
            f"It is most off for {worst}, by {rare['mean'].abs().max():.2f} posterior sds "
            f"({rare['mean'].abs().min():.2f} for the other rare level), and by {others['mean'].abs().max():.2f} at "
            "most elsewhere.",
            bool(rare["mean"].abs().max() > 2 * max(others["mean"].abs().max(), noise(fits["consensus"]))),
        ),
        Finding(
            "Consensus is wider there.",
            f"Its sds are {rare['sd'].min():.2f} and {rare['sd'].max():.2f} times those of Metropolis-Hastings.",
            bool(rare["sd"].max() > 1.1),
        ),
        Finding(
            "Subsampling with a spline needs some 7,000 rows an iteration to mix decently, and 100 will not do.",
            f"Effective draws a draw: {share['mh']:.3f} for Metropolis-Hastings, "
            f"{few_digits(share['subsampling_7000'])} with 7,000 rows, "
            f"{few_digits(share['subsampling_100'])} with 100.",
            share["subsampling_100"] < share["mh"] / 5 < share["subsampling_7000"],
        ),
    ]
