"""Gaussian outcomes beside others: `python -m benchmarks.peers.gaussian [--rows N] [--groups K]`.

Each gets the same arrays, intercept included, in a process of its own, and is timed from there to its result: ours to
4 x 1,000 draws of the posterior (twice, the second in the table), the others to an estimate. Without groups these are
least squares of statsmodels, with standard errors, and of glum, without. With groups they are mixed models: lme4, if R
has it (timed inside R, without reading the data), and statsmodels' MixedLM, each within a limit of time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
NOISE, SPREAD = 0.5, 0.3  # sds of errors, and of groups


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.gaussian", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--groups", type=int, default=0)
    parser.add_argument("--limit", type=float, default=900, help="seconds for each")
    parser.add_argument("--who", help=argparse.SUPPRESS)  # in the processes of each
    options = parser.parse_args()
    if options.who is not None:
        print(json.dumps(measured(options)))
        return
    grouped = f", {options.groups:,} groups" if options.groups else ""
    print(f"{options.rows:,} rows, {options.columns} columns{grouped}\n")
    print(f"{'':20s}{'seconds':>9s}{'peak GB':>9s}")
    found: dict[str, Any] = {}
    for who in WITH_GROUPS if options.groups else FITS:
        python = str(PEERS_PYTHON) if who in ("glum", "statsmodels", "statsmodels mixed") else sys.executable
        sizes = ["--rows", options.rows, "--columns", options.columns, "--groups", options.groups]
        command = [python, "-m", "benchmarks.peers.gaussian", "--who", who, *map(str, sizes)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, cwd=ROOT, start_new_session=True, **pipes) as child:
            try:
                told, wrong = child.communicate(timeout=options.limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)  # with R, if it has started that
                print(f"{who:20s} over {options.limit:g}", flush=True)
                continue
        if child.returncode:
            print(f"{who:20s} failed: {(wrong.strip().splitlines() or ['killed'])[-1]}", flush=True)
            continue
        one = found[who] = json.loads(told.splitlines()[-1])
        print(f"{who:20s}{one['seconds']:9.2f}{one['peak']:9.1f}", flush=True)
    ours = found["tallbayes"]
    for who, other in found.items():
        if "sd" not in other or who == "tallbayes":
            continue
        away, ratio = np.subtract(ours["mean"], other["mean"]) / other["sd"], np.divide(ours["sd"], other["sd"])
        print(f"\nposterior means less those of {who}: {np.abs(away).max():.3f} standard errors at most")
        print(f"posterior sds over standard errors: {ratio.min():.3f} to {ratio.max():.3f}")
        for what in {"sigma", "error"} & other.keys():
            print(f"{what}: {ours[what][0]:.5f} with sd {ours[what][1]:.5f}, {who} {other[what]:.5f}")
    print(f"\nrows touched a draw: {ours['rows_per_draw']:g}; passes over all rows: {ours['passes']}")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """One fit in this process."""
    rng = np.random.default_rng(1)
    x = np.empty((options.rows, options.columns), order="F")
    x[:, 0] = 1.0
    for column in x.T[1:]:
        column[:] = rng.standard_normal(options.rows)
    y = x @ rng.normal(size=options.columns) + NOISE * rng.standard_normal(options.rows)
    given, fits = (x, y), FITS
    if options.groups:
        groups = rng.integers(options.groups, size=options.rows)
        y += SPREAD * rng.standard_normal(options.groups)[groups]
        given, fits = (x, y, groups), WITH_GROUPS
    fit = fits[options.who]
    if options.who == "tallbayes":
        fit(*given)  # compiles
    begin = time.perf_counter()
    found = fit(*given)
    seconds = time.perf_counter() - begin
    who = resource.RUSAGE_CHILDREN if options.who == "lme4" else resource.RUSAGE_SELF
    return {"seconds": seconds, "peak": resource.getrusage(who).ru_maxrss / 1e6} | found


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


def ours_with_groups(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """The posterior."""
    import tallbayes as tb

    fit = tb.sample(tb.GaussianGroups.from_arrays(x, y, groups), draws=1_000, seed=1, progress=False)
    drawn = {"beta": fit.posterior["beta"], "sigma": fit.posterior["1|group_sigma"], "error": fit.posterior["sd"]}
    mean = {name: one.mean(("chain", "draw")).to_numpy() for name, one in drawn.items()}
    sd = {name: one.std(("chain", "draw")).to_numpy() for name, one in drawn.items()}
    stats = {name: fit.stats[name] for name in ("rows_per_draw", "passes")}
    both = {name: [float(mean[name]), float(sd[name])] for name in ("sigma", "error")}
    return {"mean": mean["beta"].tolist(), "sd": sd["beta"].tolist()} | both | stats


def lme4(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """Maximum likelihood by R."""
    with tempfile.TemporaryDirectory() as folder:
        for name, values in (("x", x.ravel(order="F")), ("y", y), ("g", groups.astype(np.int32))):
            values.tofile(f"{folder}/{name}")
        told = subprocess.run(
            ["Rscript", "-", folder, str(y.size), str(x.shape[1])], input=R, capture_output=True, text=True
        )
    if told.returncode:
        raise RuntimeError(told.stderr.strip().replace("\n", " ") or "killed")
    numbers = np.array(told.stdout.split(), dtype=float)
    p, seconds = x.shape[1], float(numbers[0])
    return {
        "seconds": seconds, "mean": numbers[1 : p + 1].tolist(), "sd": numbers[p + 1 : 2 * p + 1].tolist(),
        "sigma": float(numbers[-2]), "error": float(numbers[-1]),
    }  # fmt: skip


R = """
suppressMessages(library(lme4))
given <- commandArgs(trailingOnly = TRUE); n <- as.numeric(given[2]); p <- as.integer(given[3])
x <- matrix(readBin(file.path(given[1], "x"), "double", n * p), n, p)
y <- readBin(file.path(given[1], "y"), "double", n)
g <- factor(readBin(file.path(given[1], "g"), "integer", n))
spent <- system.time(fit <- lmer(y ~ 0 + x + (1 | g), REML = FALSE, control = lmerControl(calc.derivs = FALSE)))
cat(spent[["elapsed"]], fixef(fit), sqrt(diag(as.matrix(vcov(fit)))), attr(VarCorr(fit)$g, "stddev"), sigma(fit))
"""


def mixed(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """Maximum likelihood."""
    from statsmodels.api import MixedLM

    fit = MixedLM(y, x, groups).fit(reml=False)
    p, error = x.shape[1], float(fit.scale) ** 0.5
    sigma = float(np.asarray(fit.cov_re)[0, 0]) ** 0.5
    return {"mean": fit.params[:p].tolist(), "sd": fit.bse[:p].tolist(), "sigma": sigma, "error": error}


FITS: dict[str, Any] = {"tallbayes": ours, "glum": glum, "statsmodels": statsmodels}
WITH_GROUPS: dict[str, Any] = {"tallbayes": ours_with_groups, "lme4": lme4, "statsmodels mixed": mixed}

if __name__ == "__main__":
    main()
