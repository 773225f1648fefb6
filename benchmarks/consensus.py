"""Consensus Monte Carlo against exact methods: the bank's rare levels, and a table of all methods on the loans.

`python -m benchmarks consensus` runs both, `python -m benchmarks.consensus bank` (or loans) one of them, with options.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from benchmarks import bank as plain_bank
from benchmarks import loans as plain_loans
from tallbayes.diagnostics import mcse

SHARDS = 14
BANK_DRAWS = 10_000
BANK: dict[str, dict[str, Any]] = {
    "random": {},
    "stratified": {"sharding": "stratified"},
    "random_weighed": {"combine": "gaussian"},
    "stratified_weighed": {"sharding": "stratified", "combine": "gaussian"},
}
LOANS: dict[str, dict[str, Any]] = {
    "mh": {"method": "mh", "proposal": "one-at-a-time"},
    "consensus": {"method": "consensus", "inner": "mh", "proposal": "one-at-a-time"},
    "two_stage": {"method": "two-stage", "surrogate": tb.CaseControl(60_000)},
    "both": {"method": "consensus", "inner": "two-stage", "surrogate": tb.CaseControl(60_000 // SHARDS)},
    "thinned": {"method": "thinned"},
}
LOAN_DRAWS = {"mh": 2_000, "consensus": 2_000, "two_stage": 3_000, "both": 3_000, "thinned": 10_000}


def bank(out: str = "demo", draws: int = BANK_DRAWS) -> None:
    """Which coefficients a consensus gets wrong, and what sharding and weights from all rows do about it."""
    if "TALLBAYES_DATA" not in os.environ:
        print("\nBank data: set TALLBAYES_DATA to the folder that holds bank-additional-full.csv")
        return
    data, common = tb.datasets.load_bank(), {"seed": 1, "progress": False}
    mh = tb.fit(plain_bank.FORMULA, data, method="mh", proposal="random-walk", draws=4 * draws, warmup=500, **common)
    fits = {
        name: tb.fit(plain_bank.FORMULA, data, method="consensus", draws=draws, **options, **common)
        for name, options in BANK.items()
    }
    print(
        f"\nBank, {len(data):,} rows in {SHARDS} shards: errors of means in posterior sds of MH, and sds over its sds"
    )
    print(f"(Monte Carlo error of a mean: MH {_noise(mh):.3f}, consensus {_noise(fits['random']):.3f} sds)")
    table = pd.concat({name: errors(fit, mh) for name, fit in fits.items()}, axis=1)
    print(table.round(2).to_string())
    for name, fit in fits.items():
        found, rare = errors(fit, mh), [c for c in mh.parameters if c in plain_bank.RARE]
        others = found.drop(index=rare)
        parts = (found.loc[rare], others)
        off = [f"mean off by {one['mean'].abs().max():.2f}, sd x {one['sd'].max():.2f}" for one in parts]
        print(f"{name:20} rare levels: {off[0]}; others: {off[1]}")
        for line in fit.stats["approximation"]["said"]:
            print(f"{'':20} {line}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("random", "stratified", "random_weighed"):
        tb.plots.density(mh=mh, **{name: fits[name]}).savefig(folder / f"consensus_{name}.png", dpi=100)
    print(f"Figures: {folder}/consensus_random.png, consensus_stratified.png, consensus_random_weighed.png")


def loans(rows: int = tb.datasets.LOAN_ROWS, draws: dict[str, int] | None = None) -> None:
    """All methods of the paper beside the thinned one: effective draws per minute, and how far each is off."""
    data, draws = tb.datasets.simulate_loans(rows), LOAN_DRAWS | (draws or {})
    common: dict[str, Any] = {"seed": 1, "progress": False}
    for options in LOANS.values():  # compile
        tb.fit(plain_loans.FORMULA, data.head(200_000), draws=20, warmup=20, **options, **common)
    truth = tb.fit(plain_loans.FORMULA, data, draws=50_000, **common | {"seed": 2})
    fits = {}
    for name, options in LOANS.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        warmup = None if name == "thinned" else 400
        fits[name] = tb.fit(plain_loans.FORMULA, data, draws=draws[name], warmup=warmup, **options, **common)
    table = tb.compare(**fits).drop(columns=["largest_z", "largest_z_sd"])
    table.insert(1, "other_minutes", [sum(f.stats["seconds"].values()) / 60 - f.minutes for f in fits.values()])
    off = {name: errors(fit, truth) for name, fit in fits.items()}
    table["error_of_means"] = [found["mean"].abs().max() for found in off.values()]
    table["noise_of_means"] = [max(_noise(fit), fit.stats["approximation"].get("noise", 0)) for fit in fits.values()]
    table["error_of_sds"] = [(found["sd"] - 1).abs().max() for found in off.values()]
    print(f"\nLoans, {rows:,} rows, {int(data['foreclosed'].sum()):,} foreclosed, {SHARDS} shards")
    print(table.T.map(lambda value: f"{value:,.3g}").to_string())
    print("error_of_means: largest, in posterior sds of a thinned run of 200,000 draws; noise_of_means: Monte Carlo")
    print("error, that of weights included; error_of_sds: largest, as a share. The paper's median REDPM by thinning:")
    print("consensus 1.03, 1.07, 1.02; two-stage 1.27, 1.44, 1.47.")
    for name in ("consensus", "both"):
        print(f"{name:10} {fits[name].stats['approximation']['said'][1]}")
    print(f"\nREDPM over mh\n{tb.compare_parameters(**fits).round(2).to_string()}")


def errors(fit: tb.Fit, truth: tb.Fit) -> pd.DataFrame:
    """Of each parameter: the error of its mean in posterior sds, and its sd over that of the truth."""
    sd = truth.draws.std((0, 1))
    mean = (fit.draws.mean((0, 1)) - truth.draws.mean((0, 1))) / sd
    return pd.DataFrame({"mean": mean, "sd": fit.draws.std((0, 1)) / sd}, index=pd.Index(truth.parameters))


def _noise(fit: tb.Fit) -> float:
    return float(np.max(mcse(fit.draws) / fit.draws.std((0, 1))))


def main() -> None:
    bank()
    loans()


def command_line() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consensus", description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("bank", help=bank.__doc__)
    part.add_argument("--out", default="demo", help="folder for the figures")
    part.add_argument("--draws", type=int, default=BANK_DRAWS, help="a chain and shard")
    part = parts.add_parser("loans", help=loans.__doc__)
    part.add_argument("--rows", type=int, default=tb.datasets.LOAN_ROWS)
    for name, count in LOAN_DRAWS.items():
        part.add_argument(f"--{name.replace('_', '-')}", dest=name, type=int, default=count, help="draws a chain")
    options = vars(parser.parse_args())
    if options.pop("part") == "bank":
        bank(**options)
    else:
        loans(options.pop("rows"), options)


if __name__ == "__main__":
    command_line()
