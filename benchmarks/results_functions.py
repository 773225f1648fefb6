"""What each result of a fit costs: `python -m benchmarks.results_functions --folder loans20m`.

2.3 million loans in memory, and loans in Parquet files, of which a fit holds none. Each function is called in a
process of its own, which has the fit and, in memory, the loans. `private MB` are the most bytes at once on top of what
was there before the call, without files that are mapped. The files are made by

    tallbayes simulate loans --rows 20000000 --seed 1 --out loans20m/
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tallbayes as tb

FORMULA = "foreclosed ~ first_payment + fico + dti + upb + first_time"
SMALLER = "foreclosed ~ first_payment + fico + dti + first_time"
POLL = 0.005  # seconds between two looks at memory
SOME = 10_000  # rows of which outcomes are drawn
MEMORY = "500MB"  # for rows of files: others are on disk
EXACT = 50_000  # rows that are all looked at by leave-one-out, draws included

Given = dict[str, Any]  # data= where the fit cannot know them

FUNCTIONS: dict[str, Callable[[tb.Fit, Given], Any]] = {
    "summary()": lambda fit, data: fit.summary(),
    "summary(exponentiate=True, kind='hdi')": lambda fit, data: fit.summary(exponentiate=True, kind="hdi"),
    "fit['fico']": lambda fit, data: fit["fico"],
    "prob('fico < dti')": lambda fit, data: fit.prob("fico < dti"),
    "contrast('fico - dti')": lambda fit, data: fit.contrast("fico - dti"),
    "avg_predictions()": lambda fit, data: fit.avg_predictions(**data),
    "avg_predictions(by='bank')": lambda fit, data: fit.avg_predictions(by="bank", **data),
    "avg_comparisons()": lambda fit, data: fit.avg_comparisons(**data),
    "avg_slopes('fico')": lambda fit, data: fit.avg_slopes("fico", **data),
    f"predictive({SOME:,} rows)": lambda fit, data: fit.predictive(tb.datasets.simulate_loans(SOME)),
    "plots.predictive(fit)": lambda fit, data: tb.plots.predictive(fit, **data),
    "loo()": lambda fit, data: fit.loo(**data),
    "waic()": lambda fit, data: fit.waic(**data),
    "compare_models(a, b)": lambda fit, data: tb.compare_models(a=fit, b=tb.load(beside("smaller.nc")), **data),
    "plot()": lambda fit, data: fit.plot(),
    "report('fit.html')": lambda fit, data: fit.report(beside("fit.html")),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results_functions", description=__doc__)
    parser.add_argument("--folder", type=Path, help="that `tallbayes simulate` wrote")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        print(*measured(options.work, options.call, options.folder))
        return
    table("2.3 million loans in memory", None)
    if options.folder is not None:
        table(f"Loans in the Parquet files of {options.folder.name}, memory={MEMORY!r}", options.folder.resolve())
    subsamples()


def table(title: str, folder: Path | None) -> None:
    """Fit once, and call each function in a process of its own."""
    with tempfile.TemporaryDirectory() as work:
        data: Any = tb.datasets.simulate_loans() if folder is None else folder
        began = time.perf_counter()
        how = {"seed": 1, "progress": False} | ({} if folder is None else {"memory": MEMORY})
        fit = tb.fit(FORMULA, data, **how)
        seconds = time.perf_counter() - began
        fit.save(Path(work, "fit.nc"))
        tb.fit(SMALLER, data, **how).save(Path(work, "smaller.nc"))
        print(f"{title}: {fit.stats['rows']:,} rows, {fit.draws.shape[0]} x {fit.draws.shape[1]:,} draws")
        print(f"{'':<42}{'seconds':>9}{'private MB':>12}")
        print(f"{'the fit itself':<42}{seconds:>9.2f}", flush=True)
        for name in FUNCTIONS:
            argv = [sys.executable, "-m", "benchmarks.results_functions", "--work", work, "--call", name]
            argv += [] if folder is None else ["--folder", str(folder)]
            done = subprocess.run(argv, capture_output=True, text=True)
            said = done.stdout.split() if not done.returncode else [*done.stderr.strip().splitlines()[-1:], ""]
            print(f"{name:<42}{said[0]:>9}{said[1]:>12}", flush=True)
        print()


def subsamples() -> None:
    """Leave-one-out of all rows beside that of subsamples, by the error that these state."""
    fit = tb.fit(FORMULA, tb.datasets.simulate_loans(EXACT, seed=3), seed=1, progress=False)
    began = time.perf_counter()
    exact = fit.loo(rows=EXACT, progress=False)
    print(f"LOO of all {EXACT:,} rows: elpd {exact.elpd:.4f}, se {exact.se:.1f}, {time.perf_counter() - began:.1f} s")
    print(f"{'rows':>8}{'seconds':>9}{'elpd':>12}{'stated error':>14}{'off by, in these':>18}")
    for rows in (1_000, 5_000, 10_000):
        for seed in range(3):
            began = time.perf_counter()
            found = fit.loo(rows=rows, seed=seed, progress=False)
            seconds, z = time.perf_counter() - began, (found.elpd - exact.elpd) / found.subsampling_se
            print(f"{rows:>8,}{seconds:>9.2f}{found.elpd:>12.4f}{found.subsampling_se:>14.4f}{z:>18.2f}", flush=True)


def beside(name: str) -> str:
    """A file of this run."""
    return str(Path(sys.argv[sys.argv.index("--work") + 1], name))


def measured(work: Path, name: str, folder: Path | None) -> tuple[str, str]:
    """Seconds of the second call of a function, and megabytes of the first."""
    fit = tb.load(work / "fit.nc")
    data: Given = {} if folder is not None else {"data": tb.datasets.simulate_loans()}
    call = FUNCTIONS[name]
    before = private()
    most, ended = [before], threading.Event()
    watching = threading.Thread(target=watch, args=(most, ended))
    watching.start()
    call(fit, data)
    ended.set()
    watching.join()
    began = time.perf_counter()
    call(fit, data)
    return f"{time.perf_counter() - began:.3f}", f"{(most[0] - before) / 1e6:,.0f}"


def watch(most: list[int], ended: threading.Event) -> None:
    """The most memory until it has ended."""
    while not ended.wait(POLL):
        most[0] = max(most[0], private())


def private() -> int:
    """Bytes of this process that are no files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    main()
