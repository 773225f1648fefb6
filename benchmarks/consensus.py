"""Consensus Monte Carlo on the bank data: what sharding and weights from all rows do for rare levels."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pandas as pd

import tallbayes as tb
from tallbayes.paper.bank import FORMULA, RARE, SHARDS
from tallbayes.paper.experiment import errors, noise

DRAWS = 10_000
RUNS: dict[str, dict[str, Any]] = {
    "random": {},
    "stratified": {"sharding": "stratified"},
    "random_weighed": {"combine": "gaussian"},
    "stratified_weighed": {"sharding": "stratified", "combine": "gaussian"},
}


def main(out: str = "demo", draws: int = DRAWS) -> None:
    """Which coefficients a consensus gets wrong, and what sharding and weights from all rows do about it."""
    if "TALLBAYES_DATA" not in os.environ:
        print("\nBank data: set TALLBAYES_DATA to the folder that holds bank-additional-full.csv")
        return
    data, common = tb.datasets.load_bank(), {"seed": 1, "progress": False, "prior": tb.Normal(0, 10)}
    mh = tb.fit(FORMULA, data, method=tb.MH("random-walk"), draws=4 * draws, warmup=500, **common)
    fits = {
        name: tb.fit(FORMULA, data, method=tb.Consensus(**options), draws=draws, **common)
        for name, options in RUNS.items()
    }
    print(
        f"\nBank, {len(data):,} rows in {SHARDS} shards: errors of means in posterior sds of MH, and sds over its sds"
    )
    print(f"(Monte Carlo error of a mean: MH {noise(mh):.3f}, consensus {noise(fits['random']):.3f} sds)")
    table = pd.concat({name: errors(fit, mh) for name, fit in fits.items()}, axis=1)
    print(table.round(2).to_string())
    for name, fit in fits.items():
        found, rare = errors(fit, mh), [c for c in mh.parameters if c in RARE]
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


def command_line() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consensus", description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="demo", help="folder for the figures")
    parser.add_argument("--draws", type=int, default=DRAWS, help="a chain and shard")
    main(**vars(parser.parse_args()))


if __name__ == "__main__":
    command_line()
