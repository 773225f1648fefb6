"""Gaussian outcomes beside least squares of statsmodels and glum: `python -m benchmarks.peers.gaussian [--rows N]`.

Each gets the same arrays, intercept included, in a process of its own, and is timed from there to its result: ours to
4 x 1,000 draws of the posterior (twice, the second in the table), the others to an estimate with standard errors
(statsmodels) or without (glum).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
NOISE = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.gaussian", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--who", choices=sorted(FITS), help=argparse.SUPPRESS)  # in the processes of each
    options = parser.parse_args()
    if options.who is not None:
        print(json.dumps(measured(options)))
        return
    print(f"{options.rows:,} rows, {options.columns} columns\n")
    print(f"{'':20s}{'seconds':>9s}{'peak GB':>9s}")
    found: dict[str, Any] = {}
    for who in FITS:
        python = sys.executable if who == "tallbayes" else str(PEERS_PYTHON)
        sizes = ["--rows", str(options.rows), "--columns", str(options.columns)]
        command = [python, "-m", "benchmarks.peers.gaussian", "--who", who, *sizes]
        told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ, timeout=900)
        if told.returncode:
            print(f"{who:20s} failed: {told.stderr.strip().splitlines()[-1]}")
            continue
        one = found[who] = json.loads(told.stdout.splitlines()[-1])
        print(f"{who:20s}{one['seconds']:9.2f}{one['peak']:9.1f}", flush=True)
    ours, least = found["tallbayes"], found["statsmodels"]
    away = np.abs(np.subtract(ours["mean"], least["mean"]) / least["sd"]).max()
    ratio = np.divide(ours["sd"], least["sd"])
    print(f"\nposterior means less least squares: {away:.3f} standard errors at most")
    print(f"posterior sds over standard errors: {ratio.min():.3f} to {ratio.max():.3f}")
    print(f"rows touched a draw: {ours['rows_per_draw']:g}; passes over all rows: {ours['passes']}")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """One fit in this process."""
    rng = np.random.default_rng(1)
    x = np.empty((options.rows, options.columns), order="F")
    x[:, 0] = 1.0
    for column in x.T[1:]:
        column[:] = rng.standard_normal(options.rows)
    y = x @ rng.normal(size=options.columns) + NOISE * rng.standard_normal(options.rows)
    fit = FITS[options.who]
    if options.who == "tallbayes":
        fit(x, y)  # compiles
    begin = time.perf_counter()
    found = fit(x, y)
    seconds = time.perf_counter() - begin
    return found | {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def ours(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The posterior."""
    import tallbayes as tb

    fit = tb.sample(tb.GaussianModel.from_arrays(x, y), draws=1_000, seed=1, progress=False)
    table = fit.summary()[:-1]
    stats = {name: fit.stats[name] for name in ("rows_per_draw", "passes")}
    return {"mean": table["mean"].tolist(), "sd": table["sd"].tolist()} | stats


def glum(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Coefficients."""
    from glum import GeneralizedLinearRegressor

    fit = GeneralizedLinearRegressor(family="normal", alpha=0, fit_intercept=False).fit(x, y)
    return {"mean": fit.coef_.tolist()}


def statsmodels(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Coefficients and their standard errors."""
    from statsmodels.api import OLS

    fit = OLS(y, x).fit()
    return {"mean": fit.params.tolist(), "sd": fit.bse.tolist()}


FITS = {"tallbayes": ours, "glum": glum, "statsmodels": statsmodels}

if __name__ == "__main__":
    main()
