"""Subsampling Metropolis-Hastings on the bank data: likelihood evaluations per second, and how far it is off."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from tallbayes.paper.bank import FORMULA
from tallbayes.paper.experiment import errors
from tallbayes.sampling.diagnostics import ess, mcse

DRAWS = 10_000  # as in the paper
REPEATS = 3
RUNS: dict[str, Any] = {
    "mh": tb.MH("random-walk"),
    "spline, 100 rows": tb.Subsampling(tb.SplineProxy(100)),
    "spline, 7,000 rows": tb.Subsampling(tb.SplineProxy(7_000)),
    "difference, 100 rows": tb.Subsampling(tb.TaylorProxy(100)),
    "difference, 7,000 rows": tb.Subsampling(tb.TaylorProxy(7_000)),
    "difference, steered": tb.Subsampling(),
}
PAPER = {"mh": 355.0, "spline, 100 rows": 23.9, "spline, 7,000 rows": 1.8}


def main() -> None:
    if "TALLBAYES_DATA" not in os.environ:
        print("\nBank data: set TALLBAYES_DATA to the folder that holds bank-additional-full.csv")
        return
    data, common = tb.datasets.load_bank(), {"seed": 1, "progress": False, "prior": tb.Normal(0, 10)}
    truth = tb.fit(FORMULA, data, method=tb.MH("random-walk"), draws=50_000, warmup=500, **common)
    lines = {}
    for name, method in RUNS.items():
        tb.fit(FORMULA, data, draws=10, warmup=10, method=method, **common)  # compile
        fits = [tb.fit(FORMULA, data, draws=DRAWS, warmup=600, method=method, **common) for _ in range(REPEATS)]
        fit = min(fits, key=lambda one: one.minutes)
        off, error = errors(fit, truth), np.hypot(mcse(fit.draws), mcse(truth.draws))
        z = np.abs(fit.draws.mean((0, 1)) - truth.draws.mean((0, 1))) / error
        found = fit.stats["approximation"]
        lines[name] = {
            "evaluations/s": 4 * DRAWS / (60 * fit.minutes),
            "paper's": PAPER.get(name, np.nan),
            "rows": found.get("size", fit.stats["distinct_rows"]),
            "variance": found.get("variance", 0.0),
            "acceptance": fit.stats["acceptance"]["stage 1"],
            "min ESS": ess(fit.draws).min(),
            "min ESS/s": ess(fit.draws).min() / (60 * fit.minutes),
            "largest z": z.max(),
            "mean off by sds": off["mean"].abs().max(),
            "sd off by": (off["sd"] - 1).abs().max(),
        }
        print(f"{name}: {' '.join(found.get('said', ['exact']))}")
    table = pd.DataFrame.from_dict(lines, orient="index")
    distinct = truth.stats["distinct_rows"]
    print(f"\nBank, {len(data):,} rows, {distinct:,} distinct, which our passes look at; 4 chains x {DRAWS:,}")
    print(table.map(lambda value: f"{value:,.3g}").to_string())
    print("largest z: of the 15 means against 200,000 draws of MH, in Monte Carlo errors")


if __name__ == "__main__":
    main()
