"""The paper's Freddie Mac experiment on simulated loans: effective draws per minute of MH and two-stage MH."""

from __future__ import annotations

from typing import Any

import pandas as pd

import tallbayes as tb
from tallbayes.paper.experiment import PRIOR
from tallbayes.paper.loans import FORMULA

METHODS: dict[str, Any] = {
    "mh": tb.MH("one-at-a-time"),
    "case_control": tb.TwoStage(tb.CaseControl(60_000)),
    "uniform": tb.TwoStage(tb.CaseControl(150_000, uniform=True)),
    "taylor": tb.TwoStage(tb.Taylor()),
    "auto": tb.Auto(),
}


def fit_all(data: pd.DataFrame, draws: dict[str, int], seed: int = 1) -> dict[str, tb.Fit]:
    """Each method on the same data, with so many draws a chain and a fifth of that for tuning."""
    return {
        name: tb.fit(
            FORMULA, data, draws=count, warmup=min(count // 5, 1_000), seed=seed, method=METHODS[name], prior=PRIOR
        )
        for name, count in draws.items()
    }


def report(fits: dict[str, tb.Fit]) -> None:
    """The comparison, and REDPM by coefficient and thinning."""
    table = tb.compare(**fits)
    table.insert(1, "setup_minutes", [sum(f.stats["seconds"].values()) / 60 - f.minutes for f in fits.values()])
    print(table.T.map(lambda value: f"{value:,.3g}").to_string())
    for thin in (1, 10, 20):
        print(f"\nREDPM over mh, thinned by {thin}\n{tb.compare_parameters(thin, **fits).round(2).to_string()}")


def main() -> None:
    data = tb.datasets.simulate_loans()
    for method in METHODS.values():  # compile
        tb.fit(FORMULA, data.head(200_000), draws=5, warmup=5, seed=0, progress=False, method=method, prior=PRIOR)
    fits = fit_all(data, {"mh": 2_000, "case_control": 4_000, "uniform": 3_000, "taylor": 4_000, "auto": 10_000})
    print(f"\nLoans, {len(data):,} rows, {int(data['foreclosed'].sum()):,} foreclosed")
    report(fits)
    ratios = tb.compare_parameters(**fits)
    for name, goal in (
        ("case_control", "at least 1.3"),
        ("uniform", "the paper: 1.27"),
        ("taylor", "at least 20, aim 50"),
        ("auto", "thinned: no aim"),
    ):
        print(f"{name:12} / mh  median {ratios[name].median():.2f} ({goal}), lowest {ratios[name].min():.2f}")
