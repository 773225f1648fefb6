"""Group effects by ours and by NumPyro's NUTS: `python -m benchmarks.peers.hierarchical flights` (or groups).

Flights are a random subset that NUTS can do, to see whether the two agree. On many groups NUTS runs as long as ours
takes in all, or as long as the limit allows, to see how far it gets.

NUTS does about as well with centred as with non-centred effects on both; centred is what runs unless `--kind` says
otherwise. Kind `scaled` is centred too, and gets the posterior's standard deviations for nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from benchmarks.hierarchical import COMPILE_DRAWS, FLIGHTS, apart, simulate_groups, timed_fit
from benchmarks.peers.__main__ import PEERS_PYTHON, compete, save, show
from tallbayes.sampling.diagnostics import ess

KINDS = ("centred", "noncentred", "scaled")
AGREE = ("means |z|", "means rms z", "sds |z|", "sds rms z")
LONGEST = 540  # seconds that NUTS may get


def flights(rows: int, draws: int, limit: float, kinds: list[str]) -> pd.DataFrame:
    """A random subset of the flights."""
    data = tb.datasets.load_flights()
    data = data.sample(min(rows, len(data)), random_state=1)
    formula = tb.Hierarchical(FLIGHTS, data).formula
    assert formula is not None
    codes = np.unique(data["carrier"].astype(str), return_inverse=True)[1]
    return side_by_side("Flights", formula.apply(data).T, data["late"].to_numpy(float), codes, draws, limit, kinds)


def groups(count: int, draws: int, limit: float, kinds: list[str]) -> pd.DataFrame:
    """Many groups of 10 to 1,000 rows."""
    return side_by_side("Groups", *simulate_groups(count), draws, limit, kinds)


def side_by_side(
    title: str, X: np.ndarray, y: np.ndarray, codes: np.ndarray, draws: int, limit: float, kinds: list[str]
) -> pd.DataFrame:
    """Ours, then NUTS on the same rows, which starts at our means: as good a place as the mode."""
    timed_fit(X, y, codes, COMPILE_DRAWS)
    fit, seconds = timed_fit(X, y, codes, draws)
    ours, total = fit.draws, seconds["total"]
    found = {
        "auto": {
            "values": ours,
            "seconds_total": total,
            "seconds_setup": total - seconds["sampling"],
            "rows_per_draw": fit.stats["rows_per_draw"],
            "note": f"4 chains, {draws} draws each",
        }
    }
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), X, y)
        np.save(Path(folder) / "groups.npy", codes)
        for name, values in {"mode": np.mean, "sd": np.std}.items():
            np.save(Path(folder) / f"{name}.npy", values(unconstrained(fit), axis=(0, 1)))
        for kind in kinds:
            found[f"numpyro_{kind}"] = compete(f"numpyro_{kind}", Path(folder), min(LONGEST, max(limit, total)))
    table = pd.DataFrame({name: line(one, ours) for name, one in found.items()}).T
    print(f"\n{title}, {len(y):,} rows, {X.shape[1]} columns, {codes.max() + 1:,} groups, {ours.shape[2]:,} parameters")
    print("|z|: largest difference to auto's posterior means and sds in Monte Carlo errors; rms z should be about 1")
    show(table)
    for name, one in found.items():
        if one.get("extra"):
            print(f"{name}: {', '.join(f'{what} {value}' for what, value in one['extra'].items())}")
    return table


def unconstrained(fit: tb.Fit) -> np.ndarray:
    """Draws of the coefficients, effects and log of their standard deviation."""
    beta, scale, effects = np.split(fit.draws, [len(fit.coefficients), len(fit.coefficients) + 1], axis=2)
    return np.concatenate([beta, effects, np.log(scale)], axis=2)


def line(one: dict[str, Any], ours: np.ndarray) -> dict[str, Any]:
    """A line of the table."""
    names = ("total s", "set-up s", "draws", "min ESS", "median ESS", "min ESS/s", "median ESS/s", "rows a draw")
    found: dict[str, Any] = dict.fromkeys((*names, *AGREE), np.nan) | {"note": one["note"]}
    if "values" not in one:
        return found
    values, total = one["values"], one["seconds_total"]
    found |= {"total s": total, "set-up s": one["seconds_setup"], "draws": values.shape[0] * values.shape[1]}
    found |= {"rows a draw": one["rows_per_draw"]}
    if values.shape[1] >= 4:  # ESS needs as many
        effective = ess(values)
        low, middle = effective.min(), np.median(effective)
        found |= {"min ESS": low, "median ESS": middle, "min ESS/s": low / total, "median ESS/s": middle / total}
    if values.shape[1] >= 4 and values is not ours:
        for of, z in apart(values, ours).items():
            found |= {f"{of}s |z|": np.abs(z).max(), f"{of}s rms z": (z**2).mean() ** 0.5}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.hierarchical", description=__doc__)
    parser.add_argument("data", choices=("flights", "groups"))
    parser.add_argument("--rows", type=int, default=20_000, help="of the flights (20,000)")
    parser.add_argument("--count", type=int, default=10_000, help="number of groups (10,000)")
    parser.add_argument("--draws", type=int, help="of ours a chain (10,000 for flights, 1,000 for groups)")
    parser.add_argument("--limit", type=float, default=240, help="seconds that NUTS may take (240)")
    parser.add_argument("--kind", choices=KINDS, nargs="+", help="of NUTS (centred, and for groups scaled)")
    parser.add_argument("--out", help="CSV file for the table")
    options = parser.parse_args()
    if not PEERS_PYTHON.exists():
        parser.error(f"there is no environment {PEERS_PYTHON.parents[1].name}; `make bench-peers` builds it")
    if options.data == "flights":
        table = flights(options.rows, options.draws or 10_000, options.limit, options.kind or ["centred"])
    else:
        table = groups(options.count, options.draws or 1_000, options.limit, options.kind or ["centred", "scaled"])
    if options.out:
        table.to_csv(options.out)


if __name__ == "__main__":
    main()
