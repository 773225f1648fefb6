"""Held-out probabilities of splines beside other classifiers: `python -m benchmarks.peers.splines bank`.

Four fifths of the rows are for fitting, and the others are scored; all get the same rows and columns of the design.
Of the bank, in the folder TALLBAYES_DATA, all columns are used, also the duration of a call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from benchmarks.mars import say, scores, timed
from benchmarks.peers.__main__ import HERE, PEERS_PYTHON
from benchmarks.peers.classifiers import PEERS, POINTS
from tallbayes.sampling.diagnostics import ess, r_hat

OUTCOMES = {"simulation": "y", "flights": "late", "bank": "y"}
REMARKS = {
    "simulation": "",
    "flights": "",
    "bank": "the duration of a call, which is known only after it, is among the columns",
}
NEAR, SIMULATED = 0.005, 250_000  # nats; rows of the paper's simulation


def load(name: str) -> pd.DataFrame:
    """All columns, with names that a formula can have."""
    if name == "simulation":
        return tb.datasets.simulate_mars(SIMULATED).drop(columns="probability")
    if name == "flights":
        return tb.datasets.load_flights()
    raw = pd.read_csv(Path(os.environ["TALLBAYES_DATA"]) / "bank-additional-full.csv", sep=";")
    raw["y"] = (raw["y"] == "yes").astype(np.int8)
    return raw.rename(columns=lambda column: column.replace(".", "_"))


def side_by_side(
    name: str, rows: int | None, draws: int | None, options: str, peers: list[str], limit: float
) -> pd.DataFrame:
    """Ours, then the others, each in a process of its own."""
    data, outcome = load(name), OUTCOMES[name]
    data = data.sample(min(rows or len(data), len(data)), random_state=1)
    order, size = np.random.default_rng(1).permutation(len(data)), len(data) * 4 // 5
    train, test = data.iloc[order[:size]], data.iloc[order[size:]]
    formula, y = f"{outcome} ~ s({', '.join(['.', *options.split()])})", test[outcome].to_numpy()
    fit, seconds = ours(formula, train, draws)
    followed = fit.log_odds(test.head(POINTS))
    note = f"{followed.shape[0]} chains of {followed.shape[1]:,}; {float(fit.posterior['bases'].mean()):.1f} bases; "
    note += "converged" if fit.converged else "not converged"
    lines = {"splines": line(y, fit.predict(test)["mean"].to_numpy(), seconds, note, followed)}
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), fit, train, test, outcome)
        lines |= {peer: compete(peer, Path(folder), y, limit) for peer in peers}
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.insert(1, "to best", table["log loss"] - table["log loss"].min())
    print(f"\n{name}: {len(train):,} rows, {len(fit.variables)} columns; scored on {len(test):,} others; {formula}")
    show(table)
    for problem in fit.problems():
        print(f"splines: {problem}")
    near = "within" if table.loc["splines", "to best"] <= NEAR else "not within"
    print(f"splines are {near} {NEAR} nats of the best" + f"; {REMARKS[name]}" * bool(REMARKS[name]))
    print(f"ESS, R-hat: of the log-odds of {POINTS} test rows; seconds are those of fitting")
    print("bass: pyBASS, which knows Gaussian outcomes only, so that 0 and 1 are regressed as numbers")
    print("earth: py-earth 0.1.0, the last release (2017), does not compile with Python 3.11")
    return table


def ours(formula: str, train: pd.DataFrame, draws: int | None) -> tuple[Any, float]:
    """With the package's defaults, and seconds without compiling."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a carrier of few flights is not among the reference rows
        tb.fit(formula, train, draws=4, warmup=40, seed=1, progress=False)
        return timed(lambda: tb.fit(formula, train, draws=draws, seed=1, progress=False))


def save(folder: Path, fit: Any, train: pd.DataFrame, test: pd.DataFrame, outcome: str) -> None:
    design = [j for j, name in enumerate(fit.formula.coefficients) if name != "Intercept"]
    np.save(folder / "X.npy", np.ascontiguousarray(fit.formula.apply(train)[design].T))
    np.save(folder / "X_test.npy", np.ascontiguousarray(fit.formula.apply(test)[design].T))
    np.save(folder / "y.npy", train[outcome].to_numpy())


def compete(peer: str, folder: Path, y: np.ndarray, limit: float) -> dict[str, Any]:
    """A peer's line of the table, or what went wrong."""
    say(f"{peer} ...")
    command = [str(PEERS_PYTHON), str(HERE / "classifiers.py"), peer, str(folder), str(limit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:  # it has been killed
        return {"note": f"over {limit:.0f} seconds"}
    if done.returncode != 0:
        return {"note": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    report, draws = json.loads((folder / f"{peer}.json").read_text()), folder / f"{peer}_draws.npy"
    followed = np.load(draws) if draws.exists() else None
    return line(y, np.load(folder / f"{peer}.npy"), report["seconds"], report["note"], followed)


def line(y: np.ndarray, chance: np.ndarray, seconds: float, note: str, draws: np.ndarray | None) -> dict[str, Any]:
    found: dict[str, Any] = scores(y, chance) | {"fit s": seconds}
    say(f"log loss {found['log loss']:.5f}, {seconds:.0f} s, {note}")
    if draws is not None:
        effective = ess(draws)
        found |= {"least ESS": effective.min(), "median ESS": np.median(effective), "R-hat": r_hat(draws).max()}
    return found | {"note": note}


def show(table: pd.DataFrame) -> None:
    digits = {"log loss": 5, "to best": 5, "Brier": 5, "calibration error": 5, "R-hat": 3}
    said = table.astype(object)
    for name in table.columns.drop("note"):
        said[name] = ["" if pd.isna(one) else f"{one:,.{digits.get(name, 0)}f}" for one in table[name]]
    print(said.to_string())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.splines", description=__doc__)
    parser.add_argument("data", choices=tuple(OUTCOMES), nargs="+")
    parser.add_argument("--rows", type=int, help="a random subset of so many, to fit and to score (all)")
    parser.add_argument(
        "--draws", type=int, help="of ours a chain (until it has converged, within the package's budget)"
    )
    parser.add_argument("--options", default="", help="of s(...), separated by blanks, such as max_bases=80")
    parser.add_argument("--only", choices=tuple(PEERS), nargs="*", default=list(PEERS), help="some of the peers")
    parser.add_argument("--limit", type=float, default=900, help="seconds until a peer is killed (900)")
    parser.add_argument("--out", help="CSV file for the table, with the name of the data before it")
    options = parser.parse_args()
    if options.only and not PEERS_PYTHON.exists():
        parser.error(f"there is no environment {PEERS_PYTHON.parents[1].name}; `make bench-peers` builds it")
    if "bank" in options.data and "TALLBAYES_DATA" not in os.environ:
        parser.error("set TALLBAYES_DATA to the folder that holds bank-additional-full.csv")
    for name in options.data:
        table = side_by_side(name, options.rows, options.draws, options.options, options.only, options.limit)
        if options.out:
            out = Path(options.out)
            table.to_csv(out.with_name(f"{name}_{out.name}"))


if __name__ == "__main__":
    main()
