"""The same Dask cluster under dask-ml and under tallbayes: `python -m benchmarks.peers.cluster --folder loans`.

Both read the paper's 2.3 million loans from Parquet files, with two workers of one thread each on this machine: dask-ml
finds a point estimate, tallbayes the whole posterior. Then a worker is killed amid a fit, at some parts of the time
that an unbroken one took, while its nanny starts another. In the first fit workers import what they need, and so does a
worker that takes another's place. The files are made by

    tallbayes simulate loans --seed 1 --out loans/
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.out_of_core import FORMULA, WIDTH, batches, design

ROOT = Path(__file__).parents[2]
WORKERS, REPEATS = 2, 2
MOMENTS = (0.25, 0.5, 0.75)  # of an unbroken fit, when a worker is killed
CAP = 90  # seconds until a fit counts as hanging
ROWS = 100_000  # of a chunk
SOLVER = "newton"  # of dask-ml: without a penalty; "lbfgs" takes longer

Found = dict[str, Any]


class Hangs(BaseException):
    """Raised by the alarm; no `except Exception` of a contestant stops it."""


def ours(client: Any, folder: Path) -> Found:
    """tallbayes: the posterior, from all rows."""
    import tallbayes as tb

    fit = tb.fit(FORMULA, folder, draws=10_000, chains=4, seed=1, engine=client, progress=False)
    return {
        "result": fit.draws,
        "mean": fit.draws.mean(axis=(0, 1)).tolist(),
        "sd": fit.draws.std(axis=(0, 1)).tolist(),
        "gives": f"4 chains x 10,000 draws, {fit.stats['method']}",
        "messages": [fit.stats[name] for name in ("rounds", "bytes_sent", "bytes_received")],
    }


def dask_ml(client: Any, folder: Path) -> Found:
    """dask-ml: a point estimate. Workers keep the chunks, whose columns are scaled, in their memory."""
    import dask
    import dask.array as da
    import pyarrow.parquet as pq
    from dask_ml.linear_model import LogisticRegression

    read = dask.delayed(lambda file: next(design(batch, intercept=False) for batch in batches([file], 2**30)), nout=2)
    blocks = []
    for file in sorted(folder.glob("*.parquet")):
        rows, (X, y) = pq.read_metadata(file).num_rows, read(file)
        shapes = ((X, (rows, WIDTH - 1)), (y, (rows,)))
        blocks.append([da.from_delayed(part, shape, np.float64) for part, shape in shapes])
    X, y = dask.persist(*(da.concatenate(parts).rechunk({0: ROWS}) for parts in zip(*blocks, strict=True)))
    center, scale = dask.compute(X.mean(axis=0), X.std(axis=0))
    model = LogisticRegression(solver=SOLVER).fit(((X - center) / scale).persist(), y)
    slopes = np.ravel(model.coef_) / scale
    result = np.array([float(np.ravel(model.intercept_)[0]) - slopes @ center, *slopes])
    return {"result": result, "mean": result.tolist(), "gives": f"point estimate, {SOLVER}"}


CONTESTANTS: dict[str, Callable[[Any, Path], Found]] = {"dask-ml": dask_ml, "tallbayes": ours}


def compete(name: str, folder: Path) -> None:
    """A contestant in this process: unbroken fits, then broken ones; prints what it finds as JSON."""
    from distributed import Client, LocalCluster

    signal.signal(signal.SIGALRM, hangs)
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,  # deaths of workers are no news here
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        seconds = []
        for _ in range(REPEATS):
            before, began = outgoing(client), time.perf_counter()
            found = CONTESTANTS[name](client, folder)
            seconds.append(time.perf_counter() - began)
            found["outgoing"] = outgoing(client) - before
        unbroken = found.pop("result")
        broken = [amid(client, name, folder, unbroken, moment, moment * min(seconds)) for moment in MOMENTS]
    print(json.dumps(found | {"seconds": seconds, "broken": broken}))


def amid(client: Any, name: str, folder: Path, unbroken: np.ndarray, moment: float, after: float) -> str:
    """What becomes of a fit when a worker is killed after some seconds."""
    client.wait_for_workers(WORKERS)
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(after, os.kill, (victim, signal.SIGKILL))
    began = time.perf_counter()
    timer.start()
    signal.alarm(CAP)
    try:
        result = CONTESTANTS[name](client, folder)["result"]
        apart = np.abs(result - unbroken).max() if result.shape == unbroken.shape else np.inf
        ended = "the same, bit for bit" if apart == 0 else f"off by at most {apart:.1g}"
    except Hangs:
        ended = "hangs"
    except Exception as error:  # whatever a contestant says is what is to be reported
        ended = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    signal.alarm(0)
    seconds = time.perf_counter() - began
    early = " before the kill" if seconds < after else ""
    timer.join()
    return f"killed at {moment:.0%} ({after:.2f} s): {ended}{early}, after {seconds:.1f} s"


def hangs(*_: Any) -> None:
    raise Hangs


def outgoing(client: Any) -> int:
    """Bytes that workers have sent to each other, and as results."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.cluster", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("loans"), help="that `tallbayes simulate` wrote")
    parser.add_argument("--python", default=str(ROOT / ".venv-peers" / "bin" / "python"), help="with the peers")
    parser.add_argument("--only", choices=CONTESTANTS, help="in this process")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not list(folder.glob("*.parquet")):
        parser.error(f"'{folder}' has no Parquet files; make some with `tallbayes simulate loans --out {folder}/`")
    if options.only:
        compete(options.only, folder)
        return
    found = {name: measured(name, folder, options.python) for name in CONTESTANTS}
    posterior = found["tallbayes"]
    print(f"{WORKERS} workers of one thread; seconds from files to result, fastest of {REPEATS}, and the first")
    print("workers sent: to each other and as results; apart: from the posterior mean, in posterior sds\n")
    print(f"{'':10} {'seconds':>8} {'first':>8} {'workers sent':>16} {'apart':>8}  gives")
    for name, one in found.items():
        apart = np.abs((np.array(one["mean"]) - posterior["mean"]) / posterior["sd"]).max()
        times = f"{min(one['seconds']):8.2f} {one['seconds'][0]:8.2f}"
        print(f"{name:10} {times} {one['outgoing']:10,} bytes {apart:8.2g}  {one['gives']}")
    rounds, sent, received = posterior["messages"]
    print(f"\nMessages of tallbayes: {rounds} rounds, {sent:,} bytes to workers, {received:,} bytes back")
    for name, one in found.items():
        print(f"\n{name}, a worker killed amid a fit")
        print("\n".join(f"    {line}" for line in one["broken"]))


def measured(name: str, folder: Path, python: str) -> Found:
    """What a contestant finds, in a process of its own."""
    argv = [sys.executable if name == "tallbayes" else python, "-W", "ignore", "-m", "benchmarks.peers.cluster"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [*argv, "--folder", str(folder), "--only", name],
        env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=600,
    )  # fmt: skip
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
