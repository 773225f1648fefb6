"""The bank data (15 coefficients, two rare levels): do all methods agree within Monte Carlo error?"""

from __future__ import annotations

import os

import tallbayes as tb
from tallbayes.paper.bank import FORMULA, RARE


def main() -> None:
    if "TALLBAYES_DATA" not in os.environ:
        print("\nBank data: set TALLBAYES_DATA to the folder that holds bank-additional-full.csv")
        return
    data = tb.datasets.load_bank()
    common = {"seed": 1, "warmup": 500, "prior": tb.Normal(0, 10)}
    fits = {
        "mh": tb.fit(FORMULA, data, method=tb.MH("one-at-a-time"), draws=10_000, **common),
        "block_mh": tb.fit(FORMULA, data, method=tb.MH("random-walk"), draws=20_000, **common),
        "subsample": tb.fit(FORMULA, data, method=tb.TwoStage(tb.Subsample(1_400)), draws=10_000, **common),
        "case_control": tb.fit(FORMULA, data, method=tb.TwoStage(tb.CaseControl(1_000)), draws=10_000, **common),
        "taylor": tb.fit(FORMULA, data, method=tb.TwoStage(tb.Taylor()), draws=10_000, **common),
        "auto": tb.fit(FORMULA, data, draws=25_000, seed=1, prior=tb.Normal(0, 10)),
        "taylor_1000": tb.fit(FORMULA, data, method=tb.TwoStage(tb.Taylor(1_000)), draws=10_000, **common),
    }
    print(f"\nBank, {len(data):,} rows, {fits['mh'].stats['distinct_rows']:,} distinct")
    print(tb.compare(**fits).T.map(lambda value: f"{value:,.3g}").to_string())
    print("\nRare levels, mean (sd)")
    for name, fit in fits.items():
        table = fit.summary().loc[list(RARE)]
        print(f"{name:13}", "   ".join(f"{m:.3f} ({s:.3f})" for m, s in zip(table["mean"], table["sd"], strict=True)))
