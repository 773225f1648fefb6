"""`make demo`: the exact fit of 2.3 million simulated loans in seconds; then slower methods, and all side by side."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import tallbayes as tb
from benchmarks import loans
from tallbayes.models.priors import rounded

SLOWER = {  # draws a chain; what the method does; seconds on two cores that have nothing else to do
    "mh": (300, "Metropolis-Hastings: one coefficient at a time, all rows for every proposal", 40),
    "case_control": (400, "two-stage: all rows only for proposals that all foreclosed and 60,000 others let pass", 20),
    "taylor": (600, "two-stage: subchains on a quadratic expansion, then a look at all rows", 15),
}


def main(folder: str = "demo") -> None:
    began = time.perf_counter()
    out = Path(folder)
    out.mkdir(exist_ok=True)
    print("Simulating loans like those that Freddie Mac bought in 2009 and 2010 ...", flush=True)
    data = tb.datasets.simulate_loans()
    print(f"{len(data):,} loans, {int(data['foreclosed'].sum()):,} of them foreclosed.")

    heading("1. The exact fit, by the default method")
    print(f'fit = tb.fit("{loans.FORMULA}", loans, draws=10_000)\n', flush=True)
    fits = {"auto": exact(data, out)}

    seconds = sum(expected for _, _, expected in SLOWER.values())
    heading("2. The same posterior by slower methods, for comparison")
    print(f"They have fewer draws, and take about {seconds} seconds on two cores (Ctrl-C ends the demonstration).")
    for name, (draws, what, expected) in SLOWER.items():
        print(f"\n{name}: {what}; 4 x {draws} draws, about {expected} s", flush=True)
        fits |= loans.fit_all(data, {name: draws})
        if fits[name].stats["interrupted"]:
            raise KeyboardInterrupt

    heading("3. All side by side")
    fits = {name: fits[name] for name in (*SLOWER, "auto")}
    compared(fits, out)
    print(f"\n{time.perf_counter() - began:.0f} seconds in all")


def heading(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}", flush=True)


def exact(data: object, out: Path) -> tb.Fit:
    """Fit, print, save and report."""
    began = time.perf_counter()
    fit = tb.fit(loans.FORMULA, data, draws=10_000, seed=1)
    taken = time.perf_counter() - began
    compiling = fit.stats["seconds"]["compile"]
    print(f"\n{fit}\n")
    print(f"That took {taken:.1f} seconds, {compiling:.1f} of them to compile (only a new machine needs to).")
    fit.save(out / "auto.nc")
    fit.report(out / "auto.html")
    print(f"Report: {out}/auto.html. The fit: tb.load('{out}/auto.nc'), or tallbayes summary {out}/auto.nc", flush=True)
    return fit


def compared(fits: dict[str, tb.Fit], out: Path) -> None:
    """Speed and agreement, with mh as the reference."""
    print("redpm: effective draws per minute of sampling over those of mh, the median and the least of 7 coefficients.")
    print("largest_z: the largest difference of a posterior mean to that of mh, in Monte Carlo standard errors.\n")
    shown = ["minutes", "draws", "ess_min", "redpm_1", "redpm_min", "rows_per_draw", "largest_z", "largest_z_sd"]
    print(tb.compare(**fits)[shown].T.map(rounded).to_string())
    print(f"\nredpm of each coefficient\n{tb.compare_parameters(**fits).map(rounded).to_string()}")
    tb.plots.density(**fits).savefig(out / "density.png", dpi=120)
    tb.plots.redpm((1, 10), **fits).savefig(out / "redpm.png", dpi=120)
    print(f"\nFigures: {out}/density.png and {out}/redpm.png")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nInterrupted; what was written until then stays.")
