"""Fits of more rows than memory holds, by phase: `python -m benchmarks.larger_than_memory loans --folder loans100m`.

Each fit runs in a process of its own under a hard limit of memory. What it takes is told in seconds by phase, in bare
scans of the same columns by pyarrow in the same run, and in passes over the rows on disk. `loans` makes a first fit and
one that finds its rows in a cache folder; `groups` wants files with a column `branch`; `splines` simulates its rows.
`same` fits all of Payne and Mallick's 2.3 million loans from memory, one file, 23 files, CSV and a function, with one,
two and four threads, and says whether the draws are the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory_limit import forget_files, how_limited, run_limited

FORMULA = "foreclosed ~ first_payment + fico + dti + upb + first_time"
COLUMNS = ["foreclosed", "first_payment", "fico", "dti", "upb", "first_time"]
GROUPED = "foreclosed ~ first_payment + fico + dti + upb + first_time + (1 | branch)"
LIMIT = 2 * 10**9


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.larger_than_memory", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["loans", "groups", "splines", "same"], default="same")
    parser.add_argument("--folder", type=Path, default=Path("loans100m"))
    parser.add_argument("--rows", type=int, default=10_000_000, help="of splines")
    parser.add_argument("--limit", type=float, default=LIMIT, help="bytes of memory")
    parser.add_argument("--here", help=argparse.SUPPRESS)  # in the process that is limited
    options = parser.parse_args()
    if options.here is not None:
        print(json.dumps(JOBS[options.what](options, json.loads(options.here))))
        return
    if options.what == "same":
        same()
        return
    print(f"Limit of memory: {options.limit / 1e9:.1f} GB by {how_limited()}")
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as cache:
        given: list[dict[str, Any]] = [{}]
        if options.what == "loans":
            given = [{"cache": cache}, {"cache": cache}]
        for number, job in enumerate(given):
            files = sorted(options.folder.glob("*.parquet"))
            forget_files([*files, *Path(cache).rglob("*.bin")])
            again = ["--folder", str(options.folder), "--rows", str(options.rows), "--here", json.dumps(job)]
            argv = [sys.executable, "-m", "benchmarks.larger_than_memory", options.what, *again]
            outcome = run_limited(argv, int(options.limit), 3_000)
            if outcome.code:
                print(outcome.stderr[-2_000:], "killed for its memory" if outcome.killed else "")
                continue
            show(options.what, number, json.loads(outcome.stdout.splitlines()[-1]), outcome.private, outcome.peak)


def show(what: str, number: int, found: dict[str, Any], private: int, peak: int) -> None:
    """What a fit took."""
    print(f"\n{what}, {['first fit', 'with the rows kept'][number]}: {found['rows']:,} rows")
    print("seconds by phase: " + ", ".join(f"{name} {spent:.2f}" for name, spent in found["seconds"].items()))
    total, compiling = found["total"], found["seconds"]["compile"]
    print(f"in all {total:.1f} s, of which {compiling:.1f} s compiling or loading what was compiled")
    if found["scan"]:
        print(f"one bare scan by pyarrow: {found['scan']:.2f} s; the fit took {total / found['scan']:.1f} scans")
    if found["pass"]:
        print(f"one pass over the rows: {found['pass']:.2f} s; the fit took {total / found['pass']:.1f} of them")
    print(f"passes {found['passes']}, rows a draw {found['rows_per_draw']:.2f}, disk {found['disk'] / 1e9:.2f} GB")
    print(f"least bulk ESS {found['ess']:,.0f} of {found['draws']:,} draws; exact: {found['exact']}")
    print(f"private memory {private / 1e6:,.0f} MB, with page cache {peak / 1e6:,.0f} MB at most")


def scan(folder: Path) -> float:
    """Seconds of the fastest of three bare scans of the columns."""
    import pyarrow.parquet as pq

    def once() -> float:
        began = time.perf_counter()
        for file in sorted(folder.glob("*.parquet")):
            for _ in pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False).iter_batches(1 << 16, columns=COLUMNS):
                pass
        return time.perf_counter() - began

    return min(once() for _ in range(3))


def facts(model: Any, fit: Any, total: float, scanned: float = 0.0) -> dict[str, Any]:
    """What is told of a fit."""
    from tallbayes.rows.tasks import LogLikelihood

    theta = np.zeros(model.rows.width)
    passes = []
    for _ in range(3 if hasattr(model, "coefficients") else 0):
        began = time.perf_counter()
        model.rows.reduce(LogLikelihood(model.family.tag), theta)
        passes.append(time.perf_counter() - began)
    return {
        "rows": fit.stats["rows"],
        "seconds": fit.stats["seconds"],
        "total": total,
        "scan": scanned,
        "pass": min(passes, default=0.0),
        "passes": fit.stats.get("passes", 0),
        "rows_per_draw": fit.stats["rows_per_draw"],
        "disk": int(model.rows.store.content.size),
        "ess": float(fit.summary()["ess_bulk"].min()),
        "draws": fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"],
        "exact": fit.stats["exact"],
    }


def regression(make: str, formula: str, draws: int, options: argparse.Namespace, job: dict[str, Any]) -> dict[str, Any]:
    """A model of the files in the folder."""
    import tallbayes as tb

    scanned = scan(options.folder)
    began = time.perf_counter()
    model = getattr(tb, make)(formula, options.folder, **job)
    fit = tb.sample(model, draws=draws, chains=4, seed=1, progress=False)
    return facts(model, fit, time.perf_counter() - began, scanned)


def splines(options: argparse.Namespace, job: dict[str, Any]) -> dict[str, Any]:
    """Payne and Mallick's simulated splines."""
    import tallbayes as tb
    from tallbayes.data.datasets import simulate_mars
    from tallbayes.rows.building import builder
    from tallbayes.rows.duplicates import Columns
    from tallbayes.rows.room import Room

    names, piece = ["x1", "x2", "x3", "x4"], 1_000_000
    building = builder(len(names), options.rows, room=Room.of("300MB"))
    for number in range(options.rows // piece):
        part = simulate_mars(piece, seed=number)
        building.add(Columns(part[names].to_numpy(float).T.copy(), part["y"].to_numpy(float), None, None, {}))
    rows = building.finish()
    began = time.perf_counter()
    model = tb.MARS(rows, names=names)
    fit = tb.sample(model, draws=50, warmup=100, chains=2, seed=1, progress=False)
    return facts(model, fit, time.perf_counter() - began)


JOBS = {
    "loans": partial(regression, "GLM", FORMULA, 10_000),
    "groups": partial(regression, "Hierarchical", GROUPED, 1_000),
    "splines": splines,
}


def same() -> None:
    """The same draws from everywhere."""
    import tallbayes as tb
    from tallbayes.data.datasets import simulate_loans
    from tallbayes.rows import threads

    frame = simulate_loans()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        frame.to_parquet(place / "one.parquet", index=False)
        frame.to_csv(place / "all.csv", index=False)
        (place / "many").mkdir()
        for number, part in enumerate(np.array_split(np.arange(len(frame)), 23)):
            frame.iloc[part].to_parquet(place / "many" / f"{number:02d}.parquet", index=False)

        def pieces() -> Any:
            return (frame.iloc[start : start + 300_000] for start in range(0, len(frame), 300_000))

        sources = {
            "frame": frame,
            "one Parquet file": place / "one.parquet",
            "23 Parquet files": place / "many",
            "CSV": place / "all.csv",
            "tb.scan": tb.scan(pieces),
        }
        first = None
        print(f"{'data':18} {'memory':>7} {'threads':>7} {'seconds':>8}  the same draws")
        for name, data in sources.items():
            for memory in ("8GB", "100MB"):
                for count in (1, 2, 4) if name in ("frame", "23 Parquet files") else (2,):
                    began = time.perf_counter()
                    with threads.using(count):
                        options = {"draws": 10_000, "chains": 4, "seed": 1, "progress": False}
                        draws = tb.fit(FORMULA, data, memory=memory, **options).draws
                    spent = time.perf_counter() - began
                    first = draws if first is None else first
                    print(f"{name:18} {memory:>7} {count:>7} {spent:>8.2f}  {bool((draws == first).all())}", flush=True)


if __name__ == "__main__":
    main()
