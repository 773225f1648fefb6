"""A family as an expression beside the same one built in: `python -m benchmarks.families [--rows N]`.

Fits of the loans by both, in turns, so that a machine whose speed changes is as fast for one as for the other. What
compiles is compiled before. The posterior is compared in Monte Carlo errors.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import tallbayes as tb
from tallbayes.data.loans import LOAN_ROWS
from tallbayes.paper.loans import FORMULA

LOGIT = "y * eta - log1p(exp(eta))"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=LOAN_ROWS)
    parser.add_argument("--draws", type=int, default=4_000, help="of each of four chains")
    parser.add_argument("--times", type=int, default=7)
    given = parser.parse_args()
    loans = tb.datasets.simulate_loans(given.rows, seed=1)
    own = tb.family(LOGIT, outcomes="0/1", name="logit")
    seconds: dict[str, list[dict[str, float]]] = {"built in": [], "expression": []}
    fits = {}
    for turn in range(given.times + 1):
        for name, family in (("built in", "bernoulli"), ("expression", own)):
            begin = time.perf_counter()
            fit = tb.fit(FORMULA, loans, family=family, draws=given.draws, seed=turn, progress=False)
            taken = {"all": time.perf_counter() - begin, **fit.stats["seconds"]}
            fits[name] = fit
            if turn:
                seconds[name].append(taken)
    print(f"{given.rows:,} loans, {fits['built in'].draws.shape[2]} coefficients, 4 x {given.draws:,} draws\n")
    parts = ["all", "design", "mode", "surrogate", "warmup", "sampling"]
    print(f"{'best of ' + str(given.times) + ', s':18s}" + "".join(f"{part:>11s}" for part in parts))
    for name, runs in seconds.items():
        print(f"{name:18s}" + "".join(f"{min(run.get(part, 0.0) for run in runs):11.3f}" for part in parts))
    ratios = [b["all"] / a["all"] for a, b in zip(*seconds.values(), strict=True)]
    best = [min(run["all"] for run in runs) for runs in seconds.values()]
    print(f"\nexpression over built in: {best[1] / best[0]:.2f} (best), {np.median(ratios):.2f} (median of pairs)")
    a, b = (fit.summary() for fit in fits.values())
    z = np.abs(a["mean"] - b["mean"]) / np.hypot(a["mcse_mean"], b["mcse_mean"])
    sd = np.abs(a["sd"] / b["sd"] - 1).max()
    print(f"largest difference of means: {z.max():.1f} Monte Carlo errors; of sds: {100 * sd:.1f}%")
    print(f"bounds: {fits['expression'].stats['bounds']}")


if __name__ == "__main__":
    main()
