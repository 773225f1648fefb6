"""What the tests of MPI run on all ranks: `mpiexec -n 3 python under_mpi.py fits FOLDER OUT`, and the like."""

import gc
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.engines import mpi_link, work
from tallbayes.rows.passes import LENGTH

QUICK = {"draws": 20, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
KINDS = {
    "regression": ("y ~ x + size", {"draws": 100}),
    "groups": ("y ~ x + (1 | bank)", {}),
    "two-stage": ("y ~ x", {"method": "two-stage"}),
    "consensus": ("y ~ x", {"method": tb.Consensus(3, inner=tb.MH()), "draws": 60}),
}


def fitted(folder, kind, engine=None, **more):
    formula, options = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tb.fit(formula, folder, engine=engine, **QUICK | options | more)


def results(fit):
    """Numbers that are found by looking at the rows once more."""
    slopes, loo = fit.avg_slopes("x", by="size"), fit.loo(rows=500, progress=False)
    return np.array([*slopes["mean"], *slopes["sd"], loo.elpd, loo.subsampling_se])


def fits(engine, folder, out):
    """All kinds of fits, one in as few rounds as there may be; and parts are let go of when nobody needs them."""
    found = {kind: fitted(folder, kind, engine) for kind in KINDS}
    first = found["regression"].stats
    assert first["rounds"] <= first["passes"] + 4, first  # files, what is in them, building; few rows are brought home
    np.savez(out, **{kind: one.draws for kind, one in found.items()}, results=results(found["regression"]))
    with tempfile.TemporaryDirectory() as place:
        fitted(folder, "regression", engine, draws=40, checkpoint=f"{place}/run.tb")
        whole = fitted(folder, "regression", engine, checkpoint=f"{place}/run.tb")  # goes on
    assert (whole.draws == found["regression"].draws).all()
    del found
    gc.collect()
    engine.call("listing", [(folder,)])
    assert not engine._rank.parts


def both(engine, folder, out):
    """One start of all ranks for fits and messages."""
    fits(engine, folder, out)
    messages(engine)


def fit(engine, folder):
    fitted(folder, "two-stage", engine)


def refused(kind, call, *given):
    """The text of the error that a call raises."""
    try:
        call(*given)
    except kind as error:
        where = getattr(error, "__notes__", [""])[0]
        return str(error) if "of MPI:\nTraceback" in where or not where else where
    raise AssertionError(f"no {kind}")


def messages(engine):
    """Large messages, cut into many, come as they went; of errors the first is raised, and the ranks go on."""
    written = [np.random.default_rng(number).bytes(10**6 * number) for number in (3, 2, 1)]
    parts = engine.place("keep", list(enumerate(written)))
    joined = engine.exchange("cut", parts, [(3,)] * 3, "join", [(number,) for number in range(3)])
    array, text = np.arange(10**6).reshape(1000, -1).T, "é" * 200_000
    heard = []
    for number, answer in enumerate(engine.ask("echo", joined, (array, text), heard.append)):
        assert answer[0] == b"".join(one[number::3] for one in written)
        np.testing.assert_array_equal(answer[1], array)
        assert answer[2] == text
    assert sorted(heard) == [0, 1, 2]
    assert refused(ValueError, engine.ask, "refuse", joined, ()) == "part 1"
    assert refused(RuntimeError, engine.ask, "lose", joined, ()) == "KeyError: 'here'"
    lost = engine.exchange("refuse", parts, [()] * 3, "join", [(0,)] * 3)  # errors come with what is asked next
    assert refused(ValueError, engine.ask, "echo", lost, (None, "")) == "part 1"
    lost = engine.exchange("cut", parts, [(3,)] * 3, "refuse", [()] * 3)
    assert refused(ValueError, engine.ask, "echo", lost, (None, "")) == "no part"
    assert refused(RuntimeError, engine.ask, "echo", lost, (None, "")).startswith("a rank has not made")
    assert [answer[2] for answer in engine.ask("echo", joined, (None, ""))] == [""] * 3
    in_threads(engine, joined)
    interrupt(engine, joined)


def in_threads(engine, parts):
    """Each thread gets its own answers; what they ask for at a time is one round."""
    before = engine.rounds
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: engine.ask("slow", [parts[number % 3]], (number,)), range(40)))
    assert found == [[(number % 3, number)] for number in range(40)]
    assert engine.rounds - before < 20


def interrupt(engine, parts):
    """Ctrl-C leaves no round half made."""
    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            engine.ask("slow", parts, (0,))
    except KeyboardInterrupt:
        assert engine.ask("slow", parts, (1,)) == [(number, 1) for number in range(3)]
    engine.close()
    try:
        engine.ask("slow", parts, (1,))
    except RuntimeError as error:
        sys.exit(0 if "the engine is closed" in str(error) else 1)


def slow(part, number):
    time.sleep(0.02)
    return part[0], number


def refuse(part):
    if isinstance(part, list):
        raise ValueError("no part")
    if part[0]:
        raise ValueError(f"part {part[0]}")
    return [b""] * 3


FUNCTIONS = {
    "keep": lambda number, written: (number, written),
    "cut": lambda part, count: [part[1][number::count] for number in range(count)],
    "join": lambda found, number: (number, b"".join(found)),
    "echo": lambda part, *given: (part[1], *given),
    "refuse": refuse,
    "slow": slow,
    "lose": lambda part: {}["here"],
}


def main(name, *given):
    pieces.PIECE = LENGTH
    if name == "command":
        sys.argv[1:] = given
        tb.mpi.command_line()
        return
    if name == "both":
        mpi_link.CUT = 100_000
        work.FUNCTIONS |= FUNCTIONS
    if name == "fit" and mpi_link.mpi().COMM_WORLD.rank == 1:  # it dies in the middle of a pass
        work.FUNCTIONS["reduce"] = lambda *question: os.kill(os.getpid(), 9)
    tb.mpi.run(lambda engine: globals()[name](engine, *given))


if __name__ == "__main__":
    main(*sys.argv[1:])
