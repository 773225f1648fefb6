"""`make demo`: 2.3 million simulated loans by four methods, Metropolis-Hastings to auto; table, figures, report."""

from __future__ import annotations

import time
from pathlib import Path

import tallbayes as tb
from benchmarks import loans


def main(folder: str = "demo") -> None:
    began = time.perf_counter()
    out = Path(folder)
    out.mkdir(exist_ok=True)
    data = tb.datasets.simulate_loans()
    print(f"{len(data):,} loans, {int(data['foreclosed'].sum()):,} foreclosed: {loans.FORMULA}\n")
    print("mh            one coefficient at a time, all rows for every proposal")
    print("case_control  two-stage, screened by all foreclosed and 60,000 other loans")
    print("taylor        two-stage, screened by subchains on a quadratic expansion")
    print("auto          the default: an exact second stage that looks at a handful of rows\n")
    fits = loans.fit_all(data, {"mh": 500, "case_control": 800, "taylor": 1_000, "auto": 10_000})
    print(f"\n{fits['auto']}\n")
    loans.report(fits)
    tb.plots.density(**fits).savefig(out / "density.png", dpi=120)
    tb.plots.redpm(**fits).savefig(out / "redpm.png", dpi=120)
    fits["auto"].save(out / "auto.nc")
    fits["auto"].report(out / "auto.html")
    print(f"\nFigures: {out}/density.png and {out}/redpm.png; the fit: tb.load('{out}/auto.nc'), {out}/auto.html")
    print(f"{time.perf_counter() - began:.0f} seconds in all")


if __name__ == "__main__":
    main()
