"""What a fit takes that goes on until it has converged: seconds by phase beside the clock on the wall, and draws.

Groups of 20 to 100 rows with effects of a small and of a usual sd, groups without any effect, and the bank's data.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

import tallbayes as tb
from benchmarks.scaling import show

GROUPS = {  # number of groups and sd of their effects
    "500 groups, sd .1": (500, 0.1),
    "500 groups, sd .5": (500, 0.5),
    "5,000 groups, sd .1": (5_000, 0.1),
    "5,000 groups, sd .5": (5_000, 0.5),
    "50 groups, no effect": (50, 0.0),
}
FEWEST, MOST = 20, 100  # rows a group
RATE, SLOPE = 0.1, 0.5
BANK = "I(y == 'yes') ~ age + job + marital + education"
COMPILE_DRAWS = 5


def simulate(groups: int, sd: float) -> pd.DataFrame:
    """One column x, an outcome at about RATE, and the group of each row."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(groups), rng.integers(FEWEST, MOST + 1, groups))
    x, effects = rng.standard_normal(group.size), sd * rng.standard_normal(groups)
    y = rng.random(group.size) < expit(logit(RATE) + SLOPE * x + effects[group])
    return pd.DataFrame({"y": y.astype(int), "x": x, "g": group})


def measure(formula: str, data: Any, seed: int = 1) -> dict[str, float | str]:
    """One fit by its defaults, after a short one that compiles."""
    tb.fit(formula, data, draws=COMPILE_DRAWS, warmup=COMPILE_DRAWS, seed=1, progress=False)
    began = time.perf_counter()
    fit = tb.fit(formula, data, seed=seed, progress=False)
    wall = time.perf_counter() - began
    seconds = dict(fit.stats["seconds"])
    problems = fit.problems()
    table = fit.summary()
    worst = table[["ess_bulk", "ess_tail"]].min(axis=1).idxmin()
    return {
        "draws": f"{fit.posterior.sizes['draw']:,}",
        "stopped": fit.stats.get("stopped", "asked"),
        "converged": "no" if problems else "yes",
        "rows a draw": f"{fit.stats['rows_per_draw']:,.0f}",
        "wall s": wall,
        "not counted s": wall - sum(seconds.values()),
        **{f"{phase} s": spent for phase, spent in seconds.items() if phase != "compile"},
        "bulk ESS": table["ess_bulk"].min(),
        "tail ESS": table["ess_tail"].min(),
        "worst": worst,
        "R-hat": table["r_hat"].max(),
    }


def main() -> None:
    lines = {}
    for name, (groups, sd) in GROUPS.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        lines[name] = measure("y ~ x + (1 | g)", simulate(groups, sd))
    if "TALLBAYES_DATA" in os.environ:
        path = Path(os.environ["TALLBAYES_DATA"]) / "bank-additional-full.csv"
        lines["bank"] = measure(BANK, pd.read_csv(path, sep=";"))
    names = list(dict.fromkeys(column for line in lines.values() for column in line))
    split = names.index("bulk ESS")
    show("Until converged: seconds", lines, names[:split])
    show("Until converged: diagnostics", lines, names[split:])
    if "bank" not in lines:
        print("\nBank data: set TALLBAYES_DATA to the folder that holds bank-additional-full.csv")


if __name__ == "__main__":
    main()
