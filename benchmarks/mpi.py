"""Metropolis-Hastings' passes over 2.3 million loans by ranks of MPI beside threads, as in figure 1 of the paper.

`python -m benchmarks.mpi`. Each case runs in processes of its own, several times, of which the fastest counts. Besides:
what a round costs that asks for nothing, what a rank takes of a core while it waits, and whether rank 0 is slower at
its own work while another waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from tallbayes.engines import work
from tallbayes.engines.preparing import remote
from tallbayes.rows import building

FORMULA = "foreclosed ~ first_payment + fico + dti + upb + first_time"
THETA = [-6.5, 0.1, -0.4, 0.2, -0.1, 0.1, 0.1]
FILES, REPEATS, BURST, REST = 8, 3, 1.5, 5.0  # seconds
ROUNDS = 2_000
CASES = {  # ranks (none without MPI), threads of each, rows on disk
    "1 thread, rows in memory": (0, 1, False),
    "2 threads, rows in memory": (0, 2, False),
    "1 thread, rows on disk": (0, 1, True),
    "2 threads, rows on disk": (0, 2, True),
    "1 rank": (1, 1, True),
    "2 ranks": (2, 1, True),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        loans = tb.datasets.simulate_loans()
        for number, part in enumerate(np.array_split(np.arange(len(loans)), FILES)):
            loans.iloc[part].to_parquet(folder / f"{number}.parquet", index=False)
        found: dict[str, dict[str, Any]] = {}
        for _ in range(REPEATS):
            for name, case in CASES.items():
                one, before = measured(folder, *case), found.get(name, {})
                found[name] = {key: min(value, before.get(key, value)) for key, value in one.items()}
    table = pd.DataFrame.from_dict(found, orient="index")
    alone, on_disk = (table["pass"][f"1 thread, rows {where}"] for where in ("in memory", "on disk"))
    shown = pd.DataFrame({"ms a pass": 1e3 * table["pass"], "passes a second": 1 / table["pass"]})
    shown["over 1 thread, memory"], shown["over 1 thread, disk"] = alone / table["pass"], on_disk / table["pass"]
    print(f"\n{len(loans):,} loans, one parameter vector\n{shown.round(2).to_string()}")
    print(f"same log-likelihood, bit for bit    {'yes' if table['value'].nunique() == 1 else 'NO'}")
    for ranks in ("1 rank", "2 ranks"):
        print(f"a round that asks for nothing, {ranks}  {1e6 * table['round'][ranks]:.0f} microseconds")
    print(f"a rank that waits takes             {table['waiting']['2 ranks']:.1%} of a core")
    slower = table["own"]["2 ranks"] / table["own"]["1 rank"]
    print(f"rank 0's own work beside it takes   {slower:.2f} times as long")


def measured(folder: Path, ranks: int, threads: int, on_disk: bool) -> dict[str, float]:
    """What a case gives, in processes of its own."""
    command = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks)] if ranks else []
    command += [sys.executable, "-m", "benchmarks.mpi", str(folder), str(int(on_disk)), str(ranks)]
    environment = os.environ | {"TALLBAYES_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def here(folder: str, on_disk: str, ranks: str) -> None:
    """What `measured` runs."""
    work.FUNCTIONS["clock"] = time.process_time
    if int(ranks):
        tb.mpi.run(lambda engine: print(json.dumps(by_ranks(engine, folder))))
        return
    if int(on_disk):
        building.fits = lambda *given: False
    print(json.dumps(passes(tb.GLM(FORMULA, folder))))


def by_ranks(engine: Any, folder: str) -> dict[str, float]:
    model = tb.GLM(FORMULA, remote(engine, folder))
    found = passes(model)
    began = time.perf_counter()
    for _ in range(ROUNDS):
        engine.ask("facts", [], ())
    found["round"] = (time.perf_counter() - began) / ROUNDS
    before = engine.call("clock", [()] * engine.workers)
    time.sleep(REST)
    after = engine.call("clock", [()] * engine.workers)
    found["waiting"] = (after[-1] - before[-1]) / REST
    arrays = np.random.default_rng(1).normal(size=(7, 500_000))
    found["own"] = fastest(lambda: np.exp(arrays).sum())
    return found


def passes(model: Any) -> dict[str, float]:
    theta = np.array(THETA)
    value = float(model.log_likelihood(theta)[0])
    return {"value": value, "pass": fastest(lambda: model.log_likelihood(theta))}


def fastest(run: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs."""
    least, end = np.inf, time.perf_counter() + BURST
    while (began := time.perf_counter()) < end:
        run()
        least = min(least, time.perf_counter() - began)
    return least


if __name__ == "__main__":
    here(*sys.argv[1:]) if len(sys.argv) > 1 else main()
