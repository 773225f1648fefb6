"""Runs of every kernel, in memory, on disk and on an engine: for tests that end them and go on."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from on_disk import model_on_disk

import tallbayes as tb
from tallbayes.engines.engine import Local
from tallbayes.sampling import journal, loop
from tallbayes.sampling.scribe import Scribe

ROWS = 600
RNG = np.random.default_rng(1)
DATA = pd.DataFrame({"x": RNG.normal(size=ROWS), "z": RNG.random(ROWS), "g": RNG.integers(0, 16, ROWS)})
DATA["y"] = (RNG.random(ROWS) < 1 / (1 + np.exp(1 - DATA["x"]))) * 1
DATA["v"] = 1 + DATA["x"] + 0.3 * RNG.normal(size=ROWS)

# A run: where it keeps itself, if anywhere, and how much it draws.
Run = Callable[..., tb.Fit]
AGAIN: dict[Run, Callable[[], dict[str, Any]]] = {}  # what files do not keep of a run, if it is to go on


def _fit(formula: str, method: Any = "auto", **options: Any) -> Run:
    run = lambda **how: tb.fit(formula, DATA, method=method, **options, **how)  # noqa: E731
    AGAIN[run] = lambda: {"data": DATA}
    return run


def _sample(make: Callable[[], Any], method: Any = "auto") -> Run:
    run = lambda **how: tb.sample(make(), method, **how)  # noqa: E731
    AGAIN[run] = lambda: {"model": make()}
    return run


def _normal(theta: Any, rows: Any) -> Any:
    return -0.5 * ((rows.v - theta.a - theta.b * rows.x) / 0.3) ** 2


def _slopes(theta: Any, rows: Any) -> tuple[Any, Any]:
    away, one = (rows.v - theta.a - theta.b * rows.x) / 0.09, np.ones(rows.x.size)
    return np.array([away, away * rows.x]), -np.array([[one, rows.x], [rows.x, rows.x**2]]) / 0.09


def _own() -> tb.Model:
    prior = {"a": tb.Normal(0, 10), "b": tb.Normal(0, 10)}
    start = {"a": 0.0, "b": 0.0}
    return tb.Model(_normal, prior, start=start, data=DATA, columns=["x", "v"], derivatives=_slopes)


FOLDER = tempfile.TemporaryDirectory()
atexit.register(FOLDER.cleanup)
FILE = Path(FOLDER.name, "data.csv")
DATA.to_csv(FILE, index=False)  # once: runs at the same time read it


def _with_workers(**how: Any) -> tb.Fit:
    return tb.fit("y ~ x", str(FILE), engine=Local(2), **how)


AGAIN[_with_workers] = lambda: {"engine": Local(2)}


RUNS: dict[str, Run] = {
    "thinned": _fit("y ~ x + z", tb.Thinned()),
    "thinned, student": _fit("y ~ x", tb.Thinned(), prior=tb.StudentT(4, 0, 1)),
    "mh": _fit("y ~ x", tb.MH()),
    "mh by column": _fit("y ~ x", tb.MH("one-at-a-time")),
    "two-stage": _fit("y ~ x", tb.TwoStage(tb.Taylor(40))),
    "two-stage by column": _fit("y ~ x", tb.TwoStage(tb.CaseControl(50), "one-at-a-time")),
    "two-stage, subchain": _fit("y ~ x", tb.TwoStage(tb.Subsample(50), subchain=4)),
    "subsampling": _fit("y ~ x", tb.Subsampling()),
    "consensus of thinned": _fit("y ~ x", tb.Consensus(2, inner=tb.Thinned())),
    "consensus of mh": _fit("y ~ x", tb.Consensus(3, inner=tb.MH("one-at-a-time"))),
    "groups": _fit("y ~ x + (1 | g)"),
    "groups, mh": _fit("y ~ x + (1 | g)", tb.MH()),
    "groups, two-stage": _fit("y ~ x + (1 | g)", tb.TwoStage()),
    "groups, consensus": _fit("y ~ x + (1 | g)", tb.Consensus(2, inner=tb.Thinned())),
    "gaussian": _fit("v ~ x", family="gaussian", prior=tb.StudentT(4, 0, 5)),
    "gaussian groups": _fit("v ~ x + (1 | g)", family="gaussian"),
    "splines": _fit("y ~ s(x, max_bases=4)"),
    "splines, two-stage": _fit("y ~ s(x, max_bases=4)", tb.TwoStage()),
    "splines, mh": _fit("y ~ s(x, max_bases=4)", tb.MH()),
    "own model": _sample(_own),
    "own model, subsampling": _sample(_own, tb.Subsampling(tb.TaylorProxy(100))),
    "thinned on disk": _sample(lambda: model_on_disk(tb.GLM("y ~ x", DATA)), tb.Thinned()),
    "mh on disk": _sample(lambda: model_on_disk(tb.GLM("y ~ x", DATA)), tb.MH("one-at-a-time")),
    "subsampling on disk": _sample(lambda: model_on_disk(tb.GLM("y ~ x", DATA)), tb.Subsampling()),
    "groups on disk": _sample(lambda: model_on_disk(tb.Hierarchical("y ~ x + (1 | g)", DATA)), tb.Thinned()),
    "on an engine": _with_workers,
}
FEW = {"draws": 40, "warmup": 60, "chains": 2, "seed": 1, "progress": False}


def _at_once(scribe: Scribe, job: Callable[[], None]) -> Future[float]:
    done = Future[float]()
    done.set_result(scribe._do(job))
    scribe._raise()
    return done


@contextmanager
def often(seconds: float = 0.0) -> Iterator[None]:
    """While it lasts, chains are advanced step by step, and after each a checkpoint is due; they wait until it is."""
    with (
        patch.object(journal, "EVERY", seconds),
        patch.object(journal, "SHARE", 1e9),
        patch.object(Scribe, "give", _at_once),
        patch.object(loop, "CALL_SECONDS", 0.0),  # so that how they are split does not hang on a clock
    ):
        yield


def same(one: tb.Fit, other: tb.Fit) -> bool:
    """Whether two fits have the same draws, bit for bit, and what is known of each of them."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("posterior", "sample_stats")]
    return all(first.equals(second) for first, second in pairs) and one.parameters == other.parameters
