"""Freddie Mac's loans, or simulated ones of the same size: effective draws per minute of the paper's methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from tallbayes import plots
from tallbayes.data.datasets import LOAN_ROWS, simulate_loans
from tallbayes.data.freddie_mac import load_loans
from tallbayes.data.timing import Phases
from tallbayes.models.glm import GLM
from tallbayes.paper.experiment import Experiment, Finding, Steps, errors, fit_all, noise, same_posterior
from tallbayes.results.compare import compare, compare_parameters
from tallbayes.results.fit import Fit
from tallbayes.rows import threads
from tallbayes.rows.tasks import LogLikelihood
from tallbayes.sampling.methods import MH, Consensus, Method, Thinned, TwoStage
from tallbayes.sampling.subsample import CaseControl

FORMULA = "foreclosed ~ first_payment + fico + dti + upb + first_time"
SHARDS = 14
OTHERS, FEWER = 150_000, 60_000  # loans that were not foreclosed in a surrogate, at random and weighted
SAID = {
    "mh": "Metropolis-Hastings, one coefficient at a time",
    "two_stage": "two-stage, all foreclosed and 150,000 others",
    "consensus": "consensus of 14 shards",
    "two_stage_weighted": "two-stage, others weighted (ours)",
    "both": "consensus with two-stage on each shard",
    "thinned": "thinned second stage (ours)",
}
THINS = (1, 10, 20)
PAPERS = {"mh": (118, 1, 1, 1), "two_stage": (81, 1.27, 1.44, 1.47), "consensus": (115, 1.03, 1.07, 1.02)}
PAPERS_ITERATIONS = 100_000
PASSES = 20
DRAWS = dict.fromkeys(SAID, 1_200) | {"two_stage_weighted": 1_600, "thinned": 10_000}


@dataclass(frozen=True)
class Size:
    """How much to run: rows, and draws a chain."""

    rows: int = LOAN_ROWS
    others: int = OTHERS
    fewer: int = FEWER
    draws: dict[str, int] = field(default_factory=DRAWS.copy)
    warmup: int = 300


FULL = Size(draws=dict.fromkeys(SAID, 25_000), warmup=1_250)


def methods(size: Size) -> dict[str, Method]:
    """Those that are compared."""
    return {
        "mh": MH("one-at-a-time"),
        "two_stage": TwoStage(CaseControl(size.others, uniform=True)),
        "consensus": Consensus(SHARDS, inner=MH("one-at-a-time")),
        "two_stage_weighted": TwoStage(CaseControl(size.fewer)),
        "both": Consensus(SHARDS, inner=TwoStage(CaseControl(size.fewer // SHARDS))),
        "thinned": Thinned(),
    }


def load(rows: int, data: Path | None) -> tuple[pd.DataFrame, str]:
    """The loans, and where they are from."""
    if data is not None:
        return load_loans(data), "Freddie Mac's loans"
    return simulate_loans(rows), "Simulated loans in place of Freddie Mac's, which are behind a registration"


def run(size: Size, data: Path | None, tell: Callable[[str], None] | None) -> Experiment:
    """Fit, compare, draw."""
    steps = Steps("loans", len(SAID) + 2, tell)
    steps.next("the data")
    rows, said = load(size.rows, data)
    steps.next("likelihood in threads")
    passes = _passes(rows)
    fits = fit_all(FORMULA, rows, methods(size), size.draws, steps, warmup=size.warmup)
    found = Experiment(
        "loans",
        "Freddie Mac's loans",
        f"{said}: {len(rows):,}, of which {int(rows['foreclosed'].sum()):,} foreclosed (the paper: 2,297,813 and "
        f"3,711); 7 coefficients with N(0, 10²) priors. Four chains of {size.draws['mh']:,} draws with "
        "Metropolis-Hastings, where the paper has one of 100,000.",
    )
    found.tables["methods"] = (
        "Minutes of sampling, and effective draws a minute over those of Metropolis-Hastings (REDPM): the median over "
        "coefficients, looking at every draw, every 10th and every 20th; and how far means are off.",
        _methods(fits),
    )
    found.tables["threads"] = ("A pass over all rows for four parameter vectors: the likelihood in threads.", passes)
    found.tables["redpm"] = (
        "REDPM of each coefficient.",
        compare_parameters(**fits).rename(columns=SAID).rename_axis("coefficient"),
    )
    shown = {name: fits[name] for name in ("mh", "two_stage", "consensus")}
    found.figures["density"] = (
        "Posterior densities of the paper's three methods.",
        plots.density(names=None, columns=4, **shown),
    )
    ours = {name: fits[name] for name in ("mh", "thinned")}
    found.figures["density-thinned"] = (
        "Posterior densities: the thinned second stage, over Metropolis-Hastings.",
        plots.density(names=None, columns=4, **ours),
    )
    found.figures["redpm"] = "REDPM of the paper's methods, by coefficient and thinning.", plots.redpm(THINS, **shown)
    found.figures["redpm-all"] = "REDPM of all methods.", plots.redpm(THINS, **fits)
    found.findings += _findings(fits, passes)
    found.discussion += _discussion(fits)
    return found


def _discussion(fits: dict[str, Fit]) -> list[str]:
    ratios, faster = compare_parameters(**fits), compare(**fits)["redpm_1"]
    low = [f"{name} ({ratio:.2f})" for name, ratio in ratios["two_stage"].items() if ratio <= 1]
    rate = fits["mh"].draws[..., 0].size / (60 * fits["mh"].minutes)
    return [
        "We agree that two-stage Metropolis-Hastings gives the same posterior for less, and more so if draws are "
        "thinned. "
        + (f"With others drawn at random not every coefficient gains here: {', '.join(low)}. " if low else "")
        + f"Drawn in proportion to how much they matter (others weighted), fewer of them reach a REDPM of "
        f"{ratios['two_stage_weighted'].min():.2f} or more.",
        f"We differ in speed: Metropolis-Hastings makes {rate:.0f} iterations a second here, in {threads.count()} "
        f"threads of compiled code, and {PAPERS_ITERATIONS / (60 * PAPERS['mh'][0]):.0f} in the paper's 14 processes. "
        f"Consensus gains {faster['consensus']:.2f} here and 1.03 in the paper; we have not looked for the "
        "reason.",
        f"The thinned second stage, which is not in the paper, reaches a REDPM of {faster['thinned']:,.0f}.",
    ]


def _methods(fits: dict[str, Fit]) -> pd.DataFrame:
    table, lines = compare(**fits), {}
    for name, one in fits.items():
        papers = PAPERS.get(name, (np.nan,) * 4)
        off = errors(one, fits["thinned"])
        lines[SAID[name]] = {
            "minutes": one.minutes,
            "paper's minutes": papers[0],
            **{f"REDPM, {thin}": table.loc[name, f"redpm_{thin}"] for thin in THINS},
            "paper's": ", ".join(f"{ratio:g}" for ratio in papers[1:]) if name in PAPERS else "",
            "least REDPM": table.loc[name, "redpm_min"],
            "rows a draw": one.stats["rows_per_draw"],
            "largest error of a mean, sds": off["mean"].abs().max(),
            "its Monte Carlo error": float(np.hypot(noise(one), noise(fits["thinned"]))),
        }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("method")


def _passes(rows: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds a pass by number of threads, the best of some, and whether the sums have the same bits."""
    model = GLM(FORMULA, rows)
    theta = np.random.default_rng(1).normal(0, 0.1, (4, model.rows.width)) - 6 * np.eye(model.rows.width)[0]
    ask = LogLikelihood(model.family.tag)
    lines, sums = {}, []
    for count in range(1, threads.count() + 1):
        with threads.using(count):
            model.rows.reduce(ask, theta)
            spent = []
            for _ in range(PASSES):
                phases = Phases()
                with phases("pass"):
                    found = model.rows.reduce(ask, theta)
                spent.append(1e3 * phases.seconds["pass"])
        sums.append(found)
        lines[f"{count} thread{'s' if count > 1 else ''}"] = {"milliseconds": min(spent)}
    table = pd.DataFrame.from_dict(lines, orient="index").rename_axis("threads")
    table["speed-up"] = table["milliseconds"].iloc[0] / table["milliseconds"]
    table["same bits"] = ["yes" if (one == sums[0]).all() else "no" for one in sums]
    return table


def _findings(fits: dict[str, Fit], passes: pd.DataFrame) -> list[Finding]:
    ratios = compare_parameters(**fits)
    table, two = compare(**fits), ratios["two_stage"]
    every, tenth, twentieth = (float(table[f"redpm_{thin}"]["two_stage"]) for thin in THINS)
    consensus = float(table["redpm_1"]["consensus"])
    return [
        same_posterior(fits["two_stage"], fits["mh"], "Metropolis-Hastings"),
        Finding(
            "Its REDPM is above 1 for every coefficient, 1.27 in the median.",
            f"{two.min():.2f} to {two.max():.2f}, {two.median():.2f} in the median.",
            bool(two.min() > 1),
        ),
        Finding(
            "Thinning makes it larger: 1.44 for every 10th draw, 1.47 for every 20th.",
            f"{tenth:.2f} and {twentieth:.2f}.",
            tenth > every,
        ),
        Finding("Consensus hardly gains: 1.03.", f"{consensus:.2f} in the median.", consensus < 1.2),
        Finding(
            "The likelihood in parallel gives the same posterior in less time.",
            f"{passes['speed-up'].iloc[-1]:.2f} times as fast with {len(passes)} threads, and the sums have the same "
            "bits.",
            bool(passes["speed-up"].iloc[-1] > 1 and (passes["same bits"] == "yes").all()),
        ),
    ]
