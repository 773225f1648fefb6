"""`make demo`: 2.3 million simulated loans, Metropolis-Hastings against two-stage, a table and two figures."""

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
    print("taylor        two-stage, screened by subchains on a quadratic expansion\n")
    fits = loans.fit_all(data, {"mh": 500, "case_control": 800, "taylor": 1_000})
    print(f"\n{fits['taylor']}\n")
    loans.report(fits)
    tb.plots.density(**fits).savefig(out / "density.png", dpi=120)
    tb.plots.redpm(**fits).savefig(out / "redpm.png", dpi=120)
    fits["taylor"].save(out / "taylor.nc")
    print(f"\nFigures: {out}/density.png and {out}/redpm.png; the fit: tb.load('{out}/taylor.nc')")
    print(f"{time.perf_counter() - began:.0f} seconds in all")


if __name__ == "__main__":
    main()
