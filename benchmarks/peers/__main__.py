"""Everyone on the same rows, one after the other, in one table: `python -m benchmarks.peers`, or `make bench-peers`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from benchmarks import loans, scaling
from benchmarks.peers.ours import METHODS
from tallbayes.sampling.diagnostics import ess, mcse

HERE = Path(__file__).parent
PEERS_PYTHON = HERE.parents[1] / ".venv-peers" / "bin" / "python"
SAMPLERS = ("numpyro_float32", "numpyro_float64", "nutpie", "pymhss")
POINTS = ("sklearn_lbfgs", "sklearn_newton_cholesky", "statsmodels", "glum")
CAP = 600  # seconds, importing and reading included

TOTAL, SETUP, LEAST, MEDIAN = "total s", "set-up s", "min ESS", "median ESS"
SPEED, TOUCHED, APART, NOTE = "min ESS/s", "rows a draw", "apart", "note"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rows", type=int, help="of the loans (all 2,297,813), or for each number of columns (10^6)")
    parser.add_argument("--limit", type=float, default=540, help="seconds that a sampler among the peers may take")
    parser.add_argument("--only", help="names of methods and peers, separated by commas; auto always runs")
    parser.add_argument("--out", help="CSV file for the table")
    parser.add_argument("--nuts-over-columns", action="store_true", help="NumPyro beside ours for 5 to 100 columns")
    options = parser.parse_args()
    everyone = [*METHODS, *SAMPLERS, *POINTS]
    names = options.only.split(",") if options.only else everyone
    if unknown := [name for name in names if name not in everyone]:
        parser.error(f"no competitor {unknown[0]!r}; there are {', '.join(everyone)}")
    if not PEERS_PYTHON.exists():
        parser.error(f"there is no environment {PEERS_PYTHON.parents[1].name}; `make bench-peers` builds it")
    if options.nuts_over_columns:
        table = over_columns(options.rows or scaling.COLUMNS_ROWS, options.limit)
    else:
        rows = options.rows or tb.datasets.LOAN_ROWS
        table = side_by_side(rows, [name for name in everyone if name in ("auto", *names)], options.limit)
    if options.out:
        table.to_csv(options.out)


def side_by_side(rows: int, names: list[str], limit: float) -> pd.DataFrame:
    """Everyone on the loans, and how we compare."""
    design = tb.GLM(loans.FORMULA, tb.datasets.simulate_loans(rows)).rows
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), design._x.T, design._y)
        found = {"auto": reference(Path(folder), limit)}
        found |= {name: compete(name, Path(folder), limit) for name in names if name != "auto"}
    table = pd.DataFrame({name: line(one, found["auto"]) for name, one in found.items()}).T
    print(f"\nLoans, {rows:,} rows, {len(design._x)} columns, {int(design._y.sum()):,} foreclosed")
    print(
        f"{APART}: largest difference to auto's means in Monte Carlo errors; of estimates, to the mode in posterior sds"
    )
    show(table)
    print_ratios(table, found)
    return table


def over_columns(rows: int, limit: float) -> pd.DataFrame:
    """NUTS in double precision beside ours, for a growing number of columns."""
    lines = {}
    for columns in scaling.COLUMNS:
        with tempfile.TemporaryDirectory() as folder:
            save(Path(folder), *scaling.columns_data(columns, rows))
            ours = reference(Path(folder), limit, scaling.DRAWS)
            nuts = compete("numpyro_float64", Path(folder), limit)
        left, right = line(ours, ours), line(nuts, ours)
        lines[f"{columns} columns"] = {
            "ours min ESS/s": left[SPEED],
            "NUTS min ESS/s": right[SPEED],
            "ours / NUTS": left[SPEED] / right[SPEED],
            "NUTS total s": right[TOTAL],
            APART: right[APART],
            NOTE: right[NOTE],
        }
    table = pd.DataFrame(lines).T
    print(f"\nNumPyro's NUTS (float64) beside auto, {rows:,} rows, set-up included")
    show(table)
    return table


def save(folder: Path, X: np.ndarray, y: np.ndarray) -> None:
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)


def reference(folder: Path, limit: float, draws: int | None = None) -> dict[str, Any]:
    """Our own run, which finds the mode for everyone and to which everyone is compared."""
    found = compete("auto", folder, limit, draws)
    if "values" not in found:
        sys.exit(f"auto failed: {found['note']}")
    return found


def compete(name: str, folder: Path, limit: float, draws: int | None = None) -> dict[str, Any]:
    """Run one competitor in a fresh process: its report and its draws or estimate, or a note that says what failed."""
    if name in METHODS:
        extra = [] if draws is None else [str(draws)]
        command = [sys.executable, "-m", "benchmarks.peers.ours", name, str(folder), *extra]
    else:
        command = [str(PEERS_PYTHON), str(HERE / "worker.py"), name, str(folder), str(limit)]
    print(f"{name} ...", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CAP, cwd=HERE.parents[1])
    except subprocess.TimeoutExpired:  # it has been killed
        return {"note": f"over {CAP // 60} minutes"}
    if done.returncode != 0:
        return {"note": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    report: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return report | {"values": np.load(folder / f"{name}.npy"), "mode": np.load(folder / "mode.npy")}


def line(one: dict[str, Any], auto: dict[str, Any]) -> dict[str, Any]:
    """A competitor's line of the table."""
    found = dict.fromkeys((TOTAL, SETUP, LEAST, MEDIAN, SPEED, TOUCHED, APART), np.nan) | {NOTE: one["note"]}
    if "values" not in one:
        return found
    found |= {TOTAL: one["seconds_total"], SETUP: one["seconds_setup"], TOUCHED: one["rows_per_draw"]}
    values, draws = one["values"], auto["values"]
    if values.ndim == 1:
        found[APART] = np.abs((values - one["mode"]) / draws.std(axis=(0, 1))).max()
    elif values.size:
        effective = ess(values)
        found |= {LEAST: effective.min(), MEDIAN: np.median(effective), SPEED: effective.min() / one["seconds_total"]}
        errors = np.hypot(mcse(values), mcse(draws))
        found[APART] = np.abs((values.mean(axis=(0, 1)) - draws.mean(axis=(0, 1))) / errors).max()
    return found


def show(table: pd.DataFrame) -> None:
    def word(value: Any) -> str:
        if isinstance(value, str):
            return value
        return "" if pd.isna(value) else f"{value:,.3g}"

    print(table.map(word).to_string())


def print_ratios(table: pd.DataFrame, found: dict[str, dict[str, Any]]) -> None:
    """Our time over the fastest point estimate's, and our speed over each other sampler's."""
    points = [name for name in POINTS if found.get(name, {}).get("extra", {}).get("agrees")]
    print()
    if points:
        fastest = table.loc[points, TOTAL].astype(float).idxmin()
        ratio = table.loc["auto", TOTAL] / table.loc[fastest, TOTAL]
        print(f"total seconds, auto / {fastest}: {ratio:.2f}")
    for name in (name for name in table.index if name in SAMPLERS):
        print(f"min ESS/s with set-up, auto / {name}: {table.loc['auto', SPEED] / table.loc[name, SPEED]:,.0f}")


if __name__ == "__main__":
    main()
