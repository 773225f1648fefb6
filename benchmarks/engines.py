"""A fit of the loans by one process, by Dask's workers and by ranks of MPI: `python -m benchmarks.engines`.

Each case runs in processes of its own, on loopback and bounded in time. Machines are noisy, and their speed changes
from minute to minute: each fit of a case is beside one by this process with rows in memory and one with rows on disk,
and ratios are medians over such pairs. Told are seconds (the least), whether the draws are the same bit for bit, what
travelled, and what of the time is scheduling: rounds times what a round takes that asks for nothing. `--folder` takes
other Parquet files than the paper's 2.3 million loans.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from tallbayes.data.loans import LOAN_ROWS
from tallbayes.engines import work
from tallbayes.engines.preparing import remote
from tallbayes.paper.loans import FORMULA

FILES, EMPTY, SECONDS = 23, 50, 900.0
WORKERS = (1, 2, 4)
CASES = (*(f"dask {count}" for count in WORKERS), *(f"mpi {count}" for count in WORKERS))
AIM = 1.5
HERE = {"memory": {}, "disk": {"memory": "60MB"}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--folder", type=Path, help="Parquet files of loans")
    parser.add_argument("--rows", type=int, default=LOAN_ROWS, help="simulated where there is no folder")
    parser.add_argument("--draws", type=int, default=1_000, help="a chain, of four")
    parser.add_argument("--repeats", type=int, default=5, help="fits of a case")
    parser.add_argument("--rank", choices=CASES, help=argparse.SUPPRESS)  # in the processes of a case
    options = parser.parse_args()
    if options.rank is not None:
        here(options)
        return
    with tempfile.TemporaryDirectory() as place:
        if options.folder is None:
            options.folder = Path(place)
            loans = tb.datasets.simulate_loans(rows=options.rows)
            for number, part in enumerate(np.array_split(np.arange(len(loans)), FILES)):
                loans.iloc[part].to_parquet(options.folder / f"{number:02d}.parquet", index=False)
        show(pd.DataFrame({case: measured(case, options) for case in CASES}).T)


def show(table: pd.DataFrame) -> None:
    """What all cases took, and how they compare."""
    print(f"{table['rows'].iloc[0]:,} rows, 4 chains x {table['draws'].iloc[0]:,} draws, seed 1")
    shown = pd.DataFrame({"seconds": table["seconds"].map("{:.2f}".format)})
    for where in HERE:
        shown[f"over {where}"] = table[f"over {where}"].map("{:.2f}".format)
    shown["reading"] = table["design"].map("{:.2f}".format)
    shown["the same draws"] = np.where(table["same"] & (table["hash"] == table["hash"].iloc[0]), "yes", "NO")
    shown["passes"], shown["rounds"] = table["passes"], table["rounds"]
    shown["MB sent"], shown["MB received"] = ((table[way] / 1e6).map("{:.2f}".format) for way in ("sent", "received"))
    shown["ms an empty round"] = (1e3 * table["empty"]).map("{:.2f}".format)
    shown["scheduling"] = (table["rounds"] * table["empty"] / table["seconds"]).map("{:.1%}".format)
    shown["MB of a worker"] = (table["peak"] / 1e6).map("{:.0f}".format)
    print(shown.to_string())
    least = {where: table[f"seconds {where}"].min() for where in HERE}
    print("one process with two threads: " + ", ".join(f"{where} {spent:.2f} s" for where, spent in least.items()))
    for where in HERE:
        place = "in memory" if where == "memory" else "on disk"
        print(f"dask 2 over one process, rows {place}: {table[f'over {where}']['dask 2']:.2f} (aim: at most {AIM})")


def measured(case: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a case gives."""
    kind, _, count = case.partition(" ")
    command = [str(Path(sys.executable).with_name("mpiexec")), "-n", count] if kind == "mpi" else []
    command += [sys.executable, "-m", "benchmarks.engines", "--rank", case, "--folder", str(options.folder)]
    command += ["--draws", str(options.draws), "--repeats", str(options.repeats)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def here(options: argparse.Namespace) -> None:
    """What `measured` runs: all ranks of MPI come here."""
    kind, _, count = options.rank.partition(" ")
    work.FUNCTIONS["peak"] = peak
    if kind == "mpi":
        tb.mpi.run(lambda engine: print(json.dumps(by_mpi(engine, options))))
    else:
        print(json.dumps(by_dask(int(count), options)))


def by_mpi(engine: Any, options: argparse.Namespace) -> dict[str, Any]:
    """By ranks, which share the cores."""
    return by_engine(engine, options, lambda: engine.call("peak", [()] * engine.workers))


def by_dask(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """By workers that are processes with one thread each."""
    from distributed import Client, LocalCluster

    from tallbayes.engines.on_dask import DaskEngine

    warnings.simplefilter("ignore")  # of ports and of closing
    given = {"threads_per_worker": 1, "processes": True, "host": "127.0.0.1", "dashboard_address": None}
    with (
        tempfile.TemporaryDirectory() as place,
        LocalCluster(n_workers=count, local_directory=place, silence_logs=50, **given) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(count, timeout=60)
        return by_engine(DaskEngine(client), options, lambda: list(client.run(peak).values()))


def by_engine(engine: Any, options: argparse.Namespace, peaks: Callable[[], list[int]]) -> dict[str, Any]:
    """Fits by an engine, each beside those of this process, after some that compile; what travels is of the last."""
    spent: dict[str, list[float]] = {where: [] for where in (*HERE, "engine")}
    hashes, designs = set[str](), []
    for _ in range(options.repeats + 1):
        for where, given in HERE.items():
            fit, took = fitted(options, **given)
            spent[where].append(took)
            hashes.add(hashed(fit))
        before = {name: getattr(engine, name) for name in ("rounds", "sent", "received")}
        fit, took = fitted(options, engine=engine)
        spent["engine"].append(took)
        hashes.add(hashed(fit))
        designs.append(fit.stats["seconds"]["design"])
    found = {name: getattr(engine, name) - value for name, value in before.items()}
    took, *here = (np.array(spent[where][1:]) for where in ("engine", *HERE))
    for where, own in zip(HERE, here, strict=True):
        found |= {f"over {where}": median(took / own), f"seconds {where}": own.min()}
    rows = tb.GLM(FORMULA, remote(engine, options.folder)).rows
    empty = [seconds(lambda: engine.ask("run", rows._parts, (0, 0, None))) for _ in range(EMPTY)]
    return found | {
        "rows": fit.stats["rows"],
        "draws": options.draws,
        "seconds": took.min(),
        "design": min(designs[1:]),
        "passes": fit.stats["passes"],
        "same": len(hashes) == 1,
        "hash": hashed(fit),
        "peak": max(peaks()),
        "empty": median(empty),
    }


def fitted(options: argparse.Namespace, **given: Any) -> tuple[Any, float]:
    """A fit, and what it took."""
    began = time.perf_counter()
    fit = tb.fit(FORMULA, options.folder, draws=options.draws, seed=1, progress=False, **given)
    return fit, time.perf_counter() - began


def hashed(fit: Any) -> str:
    """Of all bits of the draws."""
    return hashlib.sha256(np.ascontiguousarray(fit.draws).tobytes()).hexdigest()


def seconds(run: Callable[[], Any]) -> float:
    """What a run takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def peak() -> int:
    """The most bytes that this process has had in memory."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
