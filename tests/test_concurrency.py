"""Fits at the same time, in threads and in processes, and in odd surroundings: the same bits as alone."""

from __future__ import annotations

import ast
import asyncio
import gc
import hashlib
import io
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import chaos
import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.progress import TextColumn
from runs import DATA, FEW, RUNS, same

import tallbayes as tb
from tallbayes.data import screen, syntax
from tallbayes.data.alone import ALONE
from tallbayes.rows import threads

KINDS = ["thinned", "mh", "groups", "splines", "consensus of thinned", "gaussian", "own model", "thinned on disk"]
FIXED = np.random.default_rng(2).normal(size=300)
SEPARATED = {"x": FIXED, "y": (FIXED > 0) * 1}
TESTS = Path(__file__).parent


@cache
def alone(name: str) -> tb.Fit:
    return RUNS[name](**FEW)


def work(name: str) -> tb.Fit:
    """In another process, whose warnings are its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.PriorWarning)
        return RUNS[name](**FEW)


# Threads


def test_fits_in_several_threads_are_those_of_one_alone(tmp_path):
    def one(task):
        number, name = task
        with threads.using(1 + number % 2):  # the pool of threads is shared
            checkpoint = tmp_path / f"{number}.tb" if number % 3 == 0 else None
            return name, RUNS[name](**FEW, checkpoint=checkpoint)

    for name in KINDS:
        alone(name)
    with ThreadPoolExecutor(4) as pool:
        for name, fit in pool.map(one, enumerate(2 * KINDS)):
            assert same(fit, alone(name)), name
            assert fit.stats["acceptance"] == alone(name).stats["acceptance"]


def test_each_thread_has_the_warnings_of_its_own_fit():
    """Python records warnings for the whole process, and what is restored last stays."""
    before, here = list(warnings.filters), threading.Barrier(4)

    def one(number):
        found = []
        for _ in range(8):
            here.wait(60)
            fit = tb.fit("y ~ log(x + 10)" if number % 2 else "y ~ x", DATA if number % 2 else SEPARATED, **FEW)
            found.append(len(fit.stats["warnings"]))
        return found

    with pytest.warns(tb.SeparationWarning) as caught, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(4))) == [[2] * 8, [0] * 8] * 2
    assert len(caught) == 2 * 2 * 8
    assert list(warnings.filters) == before


def test_shards_in_threads_have_their_warnings_noted():
    flat = {"x": [0.0, 1.0] * 200, "y": ([0, 1] * 50 + [0, 0] * 50) * 2}
    with pytest.warns(tb.TailWarning):
        fit = tb.fit("y ~ x", flat, prior=tb.StudentT(2, 0, 1), method=tb.Consensus(2, inner=tb.MH(), workers=2), **FEW)
    assert fit.stats["doubts"]


def test_levels_that_are_new_are_found_whatever_is_done_with_warnings():
    """formulaic would warn of them, and go on with zeros."""
    fit = tb.fit("y ~ C(g)", DATA, **FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as another thread may do at any time
        with pytest.raises(ValueError, match=r"levels never seen when the formula was learned: 99 \(first at row 1\)"):
            fit.predict({"g": [3, 99]})


# What is shown


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal gets."""
    file = io.StringIO()
    monkeypatch.setattr(
        screen, "console", lambda: Console(file=file, force_terminal=True, width=100, color_system=None)
    )
    return file


def test_bars_of_several_threads_share_one_display(terminal):
    before, both = sys.stdout, threading.Barrier(2)

    def one(name):
        with screen.shown(TextColumn("{task.description}")) as bar:
            bar.add_task(name)
            both.wait(60)
            assert len(screen._SCREEN._bars) == 2
            both.wait(60)
            return screen._SCREEN._live

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(one, ["apples", "pears"])
    assert first is second
    assert screen._SCREEN._live is None
    assert screen._SCREEN._bars == []
    assert sys.stdout is before
    assert "apples" in terminal.getvalue()
    assert "pears" in terminal.getvalue()


def test_progress_of_several_fits_at_once(terminal):
    before = sys.stdout, sys.stderr
    with ThreadPoolExecutor(3) as pool:
        fits = list(pool.map(lambda name: RUNS[name](**FEW | {"progress": True}), ["mh", "gaussian", "thinned"] * 2))
    assert all(same(fit, alone(name)) for fit, name in zip(fits, ["mh", "gaussian", "thinned"] * 2, strict=True))
    assert (sys.stdout, sys.stderr) == before
    for text in ("mh draws", "gaussian sums draws", "thinned draws"):
        assert text in terminal.getvalue()


class Gone(io.StringIO):
    """A terminal that was closed while the run goes on."""

    def write(self, text):
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    "stderr", [Gone(), None, io.TextIOWrapper(io.BytesIO(), "ascii")], ids=["gone", "none", "ascii"]
)
def test_a_run_does_not_end_because_nobody_can_be_shown_its_progress(stderr, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr)
    assert same(RUNS["mh"](**FEW | {"progress": True}), alone("mh"))


class _Cycle:
    """Garbage that runs Python when it is collected, and so lets other threads go on in the middle of anything."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(50))


def _miscounted() -> int:
    """How often eight threads fail that read the same expression."""

    def read(times: int) -> int:
        failed = 0
        for _ in range(times):
            _Cycle()
            try:
                syntax.tree("where(x > 0, (x + 1) * (z - 2) / (x * x + 1), log(x ** 2 + 1)) + (x > 3) * (z < 4)")
            except SystemError:
                failed += 1
        return failed

    before, switch = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50, 2, 2)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(read, [150] * 8))
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(switch)


def test_threads_read_expressions_at_once():
    assert _miscounted() == 0


@pytest.mark.skipif(syntax.SOUND, reason="this Python reads expressions in several threads")
def test_expressions_are_read_by_one_thread_at_a_time(monkeypatch):
    """Where this Python would miscount, which it does too rarely to be waited for."""
    parse, free = ast.parse, []

    def is_free():
        if found := ALONE.acquire(blocking=False):
            ALONE.release()
        return found

    def watched(*given, **options):
        with ThreadPoolExecutor(1) as pool:
            free.append(pool.submit(is_free).result())
        return parse(*given, **options)

    monkeypatch.setattr(ast, "parse", watched)
    tb.fit("y ~ log(x + 10) + C(g)", DATA, **FEW)
    assert free
    assert not any(free)
    monkeypatch.setattr(syntax, "READING", nullcontext())
    syntax.tree("log(x)")
    assert free[-1]


# Processes


def test_fits_can_be_pickled_without_the_rows():
    rng = np.random.default_rng(1)
    large = {"x": rng.normal(size=50_000), "y": rng.integers(0, 2, 50_000)}
    for fit in (tb.fit("y ~ x", large, **FEW), tb.sample(tb.GLM("y ~ x", large), **FEW)):
        pickled = pickle.dumps(fit)
        assert len(pickled) < 50_000
        again = pickle.loads(pickled)
        assert same(again, fit)
        again.summary()
        given = {"model": tb.GLM("y ~ x", large)} if "model" in fit.origin.asked else {"data": large}
        assert same(again.more(draws=10, progress=False, **given), fit.more(draws=10, progress=False))
        with pytest.raises(ValueError, match="give it again"):
            again.more(draws=10, progress=False)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*os.fork.*:RuntimeWarning")
@pytest.mark.parametrize("how", ["fork", pytest.param("forkserver", marks=pytest.mark.long), "spawn"])
def test_processes(how):
    """The parent has made fits before, some of them with threads."""
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {how}")
    with threads.using(2):
        tb.fit("y ~ x", pd.concat([DATA] * 400), method="mh", draws=5, warmup=5, seed=1, progress=False)
    names = KINDS if how == "fork" else ["thinned", "groups"]
    with ProcessPoolExecutor(2 if how == "fork" else 1, multiprocessing.get_context(how)) as pool:
        found = list(pool.map(work, names))
    assert [name for name, fit in zip(names, found, strict=True) if not same(fit, alone(name))] == []


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(backend):
    names = ["mh", "own model", "gaussian"]
    found = joblib.Parallel(2, backend)(joblib.delayed(work)(name) for name in names)
    if backend == "loky":
        joblib.externals.loky.get_reusable_executor().shutdown()
    assert [name for name, fit in zip(names, found, strict=True) if not same(fit, alone(name))] == []


def _fitting():
    tb.fit("y ~ x + C(g)", DATA, **FEW)


def _compiling():
    numba.njit(lambda x: np.sin(x) * x)(1.0)


@pytest.mark.parametrize("busy", [_fitting, _compiling])
def test_a_fork_while_another_thread_is_busy(busy):
    """The new process has none of the threads, and none of their locks."""
    done, expected = threading.Event(), alone("mh")

    def working():
        while not done.is_set():
            busy()

    with ThreadPoolExecutor(1) as pool:
        job, codes = pool.submit(working), []
        for _ in range(5):
            time.sleep(0.02)
            process = os.fork()
            if process == 0:
                _compiling()
                os._exit(0 if same(work("mh"), expected) else 1)
            codes.append(chaos.ended(process, 60))
            if codes[-1] is None:
                chaos.kill(process)
        done.set()
        job.result()
    assert codes == [0] * 5


# Surroundings

FIT = """
import hashlib, os, sys
import numpy as np
from runs import FEW, RUNS
from tallbayes.results import report
report.MOST_PANELS = report.MOST_TRACES = 1
answer = sys.argv[1]
{before}
fit = RUNS["mh"](**FEW | {{"progress": True}})
fit.report(answer + ".html")
with open(answer, "w") as file:
    file.write(hashlib.sha256(np.ascontiguousarray(fit.draws).tobytes()).hexdigest())
"""
NOWHERE = {"HOME": "/nowhere", "TMPDIR": "/nowhere", "XDG_CACHE_HOME": "/nowhere"}
CASES = {  # what is set, what is not, what is done at first, and what the shell does
    "nowhere": (NOWHERE | {"NUMBA_THREADING_LAYER": "nonsense"}, [], "", "<&- >&- 2>&-"),
    "no home, ascii": (
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "NUMBA_THREADING_LAYER": "workqueue", "TALLBAYES_THREADS": "1000"},
        ["HOME"],
        "import tempfile; place = tempfile.mkdtemp(); os.chdir(place); os.rmdir(place)",
        "2>&-",
    ),
}
LONG = {
    "one thread": ({"NUMBA_NUM_THREADS": "1"}, [], "", ">&-"),
    **{f"layer {one}": ({"NUMBA_THREADING_LAYER": one}, [], "", "") for one in ("default", "omp", "tbb", "safe")},
}


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_surroundings(name, tmp_path):
    changes, gone, before, redirected = (CASES | LONG)[name]
    kept = {key: value for key, value in os.environ.items() if key not in gone}
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    (tmp_path / "script.py").write_text(FIT.format(before=before))
    line = f'"$0" -W ignore script.py "{tmp_path}/answer" {redirected}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable],
        env=kept | changes | {"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    expected = hashlib.sha256(np.ascontiguousarray(alone("mh").draws).tobytes()).hexdigest()
    assert (tmp_path / "answer").read_text() == expected


def test_the_command_line_without_a_reader_and_with_letters_that_its_terminal_has_not(tmp_path):
    tb.fit("y ~ größe", DATA.rename(columns={"x": "größe"}), **FEW).save(tmp_path / "fit.nc")
    summary = f'"$0" -m tallbayes summary "{tmp_path}/fit.nc"'
    done = subprocess.run(
        ["sh", "-c", f"{summary} > {tmp_path}/table; echo $?; {summary} | true", sys.executable],
        env=os.environ | {"PYTHONPATH": str(TESTS.parent / "src"), "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=120,
    )
    assert done.stdout == b"0\n"
    assert done.stderr == b""
    assert "gr" in (tmp_path / "table").read_text("utf-8", "replace")


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.5"])
def test_a_number_of_threads_that_is_none(given, monkeypatch):
    monkeypatch.setenv("TALLBAYES_THREADS", given)
    with pytest.raises(ValueError, match=f"TALLBAYES_THREADS must be a whole number from 1, not '{given}'"):
        threads._available.__wrapped__()


def test_a_numba_that_may_not_compile_is_said():
    done = subprocess.run(
        [sys.executable, "-c", "import tallbayes.families.kept"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "unset the environment variable NUMBA_DISABLE_JIT" in done.stderr.splitlines()[-1]


# Signals


def test_sigterm_ends_a_run_and_its_checkpoint_goes_on(tmp_path):
    folder, answer = tmp_path / "run.tb", tmp_path / "answer"
    process = chaos.forked(lambda: chaos.digest("mh", folder), answer)
    until = time.monotonic() + 60
    while not (folder / "draws" / "state").exists() and time.monotonic() < until:
        time.sleep(0.001)
    os.kill(process, signal.SIGTERM)
    assert chaos.ended(process, 60) == -signal.SIGTERM
    assert chaos.torn(folder) == []
    assert chaos.digest("mh", folder) == chaos.digest("mh", None)
    assert list(folder.rglob(".*")) == []


def test_inside_a_running_event_loop():
    """As in a notebook; Ctrl-C is as it was afterwards, and other threads leave it alone."""
    before = signal.getsignal(signal.SIGINT)

    async def cell():
        here, there = RUNS["mh"](**FEW), asyncio.to_thread(work, "mh")
        return here, await there

    assert all(same(fit, alone("mh")) for fit in asyncio.run(cell()))
    assert signal.getsignal(signal.SIGINT) is before
