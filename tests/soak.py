"""A day in an hour: `make soak`, or `python tests/soak.py --minutes 60 --seed 1`.

First 500 small fits of all kinds in this process, over which memory must be flat. Then rounds of small and large fits,
of runs that are killed or interrupted, of full disks, and of fits in threads and processes at the same time, until the
time is up. Every fit must have the draws of the same fit alone. At the end the process has as many open files, threads
and children as before, and nothing is left in the folder for temporary files. It prints a line for each round, and a
table of memory; if anything went wrong, its exit code is 1.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import gc
import hashlib
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

os.environ.setdefault("TALLBAYES_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import chaos
from runs import DATA, FEW, RUNS, often

import tallbayes as tb
from tallbayes.rows import room

SETTLED = 100  # small fits after which memory should not grow
# Bytes for each fit after that, at most. The slope over 500 fits has a standard error of about 5,000, and numba loses
# some 3,000 to ctypes when it is given generators; generators that were never given back, and rows, were 60,000.
GROWTH = 25_000
MORE = 40_000_000  # bytes that may be held after all rounds, such as modules that were imported meanwhile
M_ARENA_MAX = -8  # for mallopt: how many arenas there may be
EVERY = 50  # fits between two looks at memory
SMALL_DISK = 1 << 20  # bytes
OLD = "old.html"  # a file on it
LITTLE = 1_000_000  # bytes of memory that large data do not fit into
ROOM = 1 << 13  # bytes that are left on it
SAID = ("disk is full", "no space left in", "larger than this system lets it be")


def digest(fit: tb.Fit) -> str:
    """Of all draws."""
    parts = [np.ascontiguousarray(values).tobytes() for values in fit.posterior.data_vars.values()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def draws_of(name: str) -> str:
    """Of a small fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digest(RUNS[name](**FEW))


class Held(NamedTuple):
    """What a process holds."""

    memory: int
    files: int
    threads: int
    children: int
    shared: tuple[str, ...]  # memory

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        shared = tuple(sorted(path.name for path in Path("/dev/shm").iterdir() if path.stat().st_uid == os.getuid()))
        files = len(os.listdir("/proc/self/fd"))
        return cls(pages * resource.getpagesize(), files, threading.active_count(), len(children), shared)


@dataclass
class Soak:
    """The rounds of one soak, and what was found."""

    rng: np.random.Generator
    place: Path
    names: list[str]
    large: int  # rows of large fits
    known: dict[str, str] = field(default_factory=dict)  # draws of small fits, by name
    memory: dict[int, int] = field(default_factory=dict)  # by the number of small fits
    problems: list[str] = field(default_factory=list)

    def check(self, right: bool, problem: str) -> None:
        if not right:
            self.problems.append(problem)

    def some(self, count: int) -> list[str]:
        return [self.names[place] for place in self.rng.integers(len(self.names), size=count)]

    def small(self) -> str:
        """Small fits of all kinds, one after the other."""
        for name in self.names:
            found = draws_of(name)
            self.check(self.known.setdefault(name, found) == found, f"{name}: other draws than before")
        return f"{len(self.names)} fits, {Held.now().memory / 1e6:.1f} MB"

    def flat(self, fits: int) -> None:
        """So many small fits of all kinds, over which memory may not grow."""
        for count in range(1, fits + 1):
            name = self.names[count % len(self.names)]
            self.check(draws_of(name) == self.known[name], f"{name}: other draws than before")
            if count % EVERY == 0:
                self.memory[count] = Held.now().memory
                print(f"{count:>5} small fits, {self.memory[count] / 1e6:.1f} MB", flush=True)
        self.check(self.growth <= GROWTH, f"memory grows by {self.growth / 1e3:.1f} kB a fit")

    def together(self) -> str:
        """Small fits at the same time, in threads and in processes."""
        names, how = self.some(8), ("threads", "processes")[self.rng.integers(2)]
        if how == "threads":
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(lambda name: digest(RUNS[name](**FEW)), names))
        else:
            with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
                found = list(pool.map(draws_of, names))
        for name, one in zip(names, found, strict=True):
            self.check(one == self.known[name], f"{name} in {how}: other draws than alone")
        return f"{len(names)} in {how}"

    def many_rows(self) -> str:
        """A large fit, in memory and on disk, in a process of its own."""
        asked = {"draws": 50, "warmup": 50, "chains": 2, "seed": int(self.rng.integers(100)), "progress": False}

        def work() -> str:
            with patch.object(room, "LEAST", 1):
                models = [tb.GLM("y ~ x + z", self.file, memory=memory) for memory in (LITTLE, None)]
            assert [model.rows.resident for model in models] == [False, True]
            found = [digest(tb.sample(model, **asked)) for model in models]
            return str(found[0] == found[1])

        self.check(self.apart(work) == "True", "a large fit on disk has other draws than in memory")
        return f"{self.large:,} rows, on disk and in memory"

    @property
    def file(self) -> Path:
        """Of many rows."""
        path = self.place / "rows.parquet"
        if not path.exists():
            rng = np.random.default_rng(1)
            x, z = rng.normal(size=(2, self.large))
            y = rng.random(self.large) < 1 / (1 + np.exp(2 - x + z / 2))
            pd.DataFrame({"x": x, "z": z, "y": y * 1}).to_parquet(path)
        return path

    def kill(self) -> str:
        """A run that is killed, and goes on."""
        (name,) = self.some(1)
        with tempfile.TemporaryDirectory() as place, patch.object(tempfile, "tempdir", place):  # for data of the run
            told = chaos.torture(name, 2, self.rng, Path(place))
        self.problems += [f"{name}, killed: {problem}" for problem in told.problems]
        self.check(told.same, f"{name}, killed: other draws than of the unbroken run")
        return f"{name}, {told.kills} kills"

    def interrupt(self) -> str:
        """A run in which Ctrl-C is pressed, once or twice, at some time; then it goes on."""
        (name,), twice = self.some(1), bool(self.rng.integers(2))
        with tempfile.TemporaryDirectory() as place:
            folder, answer = Path(place, "run.tb"), Path(place, "answer")
            how = (chaos.FEW if name in chaos.SLOW else chaos.MANY) | {"checkpoint": folder}

            def run() -> str:
                try:
                    with interruptible(), often(0.01):
                        fit = RUNS[name](**how)
                except KeyboardInterrupt:
                    return "nothing"
                draws = fit.posterior.sizes["draw"]
                assert draws == how["draws"] or (fit.stats["interrupted"] and 0 < draws < how["draws"])
                return f"{draws} draws"

            began = time.monotonic()
            right = self.apart(lambda: chaos.digest(name, None))
            usual = time.monotonic() - began
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the run begins
            process = chaos.forked(run, answer)
            signal.signal(signal.SIGINT, before)
            code, patience = None, float(self.rng.uniform(0, usual))
            if self.rng.integers(2):  # while it draws
                while code is None and not (folder / "draws" / "state").exists():
                    code = chaos.ended(process, 0.002)
                patience /= 4
            code = chaos.ended(process, patience) if code is None else code
            for _ in range(1 + twice):
                if code is None:
                    os.kill(process, signal.SIGINT)
                    code = chaos.ended(process, 0.01)
            code = chaos.ended(process, chaos.LONGEST) if code is None else code
            if code is None:
                chaos.kill(process)
            self.check(code == 0, f"{name}, interrupted: it ended with {code}")
            torn = chaos.torn(folder) if folder.exists() else []
            self.check(not torn, f"{name}, interrupted: {torn}")
            self.check(self.apart(lambda: chaos.digest(name, folder)) == right, f"{name}, interrupted: other draws")
            kept = answer.read_text() if answer.exists() else "nothing"
        return f"{name}, {'twice' if twice else 'once'}, {kept} kept"

    def full_disk(self) -> str:
        """What is written to a disk without room: one clear error, and what was there before is as it was."""
        asked = sorted(FULL)[self.rng.integers(len(FULL))]
        self.full(asked)
        return asked

    def full(self, what: str) -> None:
        """One of the things that are written to a full disk."""
        fit, file = tb.fit("y ~ x", DATA, **FEW), self.file
        with small_disk(self.place) as (disk, mounted):
            (disk / OLD).write_bytes(b"old")

            def work() -> str:
                if not mounted:
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))
                os.environ["TMPDIR"], tempfile.tempdir = str(disk), None
                try:
                    with patch.object(room, "LEAST", 1):
                        FULL[what](fit, disk, file)
                except OSError as error:
                    return f"{error.errno} {error}"
                return "nothing"

            said, left = self.apart(work, disk.parent), sorted(path.name for path in disk.iterdir())
            number, _, message = said.partition(" ")
            known = {str(one) for one in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)}
            self.check(number in known and any(one in message for one in SAID), f"{what} on a full disk: {said}")
            self.check((disk / OLD).read_bytes() == b"old", f"{what} on a full disk: the old file has changed")
            self.check({*left} - {"designs"} == {"filler", OLD}, f"{what} on a full disk: {left} are left")

    def apart(self, work: Callable[[], str], folder: Path | None = None) -> str:
        """What work gives in a process of its own."""
        with tempfile.TemporaryDirectory(dir=folder) as place:
            answer = Path(place, "answer")
            process = chaos.forked(work, answer)
            if (code := chaos.ended(process, chaos.LONGEST)) is None:
                chaos.kill(process)
            return answer.read_text() if answer.exists() else f"it ended with {code}"

    @property
    def growth(self) -> float:
        """Bytes for each small fit since memory has settled."""
        late = {fits: memory for fits, memory in self.memory.items() if fits >= SETTLED}
        return 0.0 if len(late) < 2 else float(np.polyfit(*map(list, zip(*late.items(), strict=True)), 1)[0])


@contextmanager
def interruptible() -> Iterator[None]:
    """While it lasts, Ctrl-C is not ignored."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


FULL: dict[str, Callable[[tb.Fit, Path, Path], Any]] = {
    "save": lambda fit, disk, file: fit.save(disk / OLD),
    "report": lambda fit, disk, file: fit.report(disk / OLD),
    "checkpoint": lambda fit, disk, file: tb.fit("y ~ x", DATA, checkpoint=disk / "run.tb", **FEW | {"draws": 20_000}),
    "cache": lambda fit, disk, file: tb.fit("y ~ x + z", file, memory=LITTLE, cache=disk / "designs", **FEW),
    "temporary files": lambda fit, disk, file: tb.fit("y ~ x + z", file, memory=LITTLE, **FEW),
}


@contextmanager
def small_disk(place: Path) -> Iterator[tuple[Path, bool]]:
    """A disk that is all but full, if one can be mounted; else a folder, for a process that may write little."""
    disk = Path(tempfile.mkdtemp(dir=place)) / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(disk)]
    mounted = os.getuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        with (disk / "filler").open("wb") as file:
            file.write(bytes(shutil.disk_usage(disk).free - ROOM if mounted else 1))
        yield disk, mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)
        shutil.rmtree(disk.parent)


def soak(minutes: float, seed: int, names: list[str], large: int, fits: int = 0) -> Soak:
    """So many small fits, and rounds until the time is up, one of each kind at least."""
    with tempfile.TemporaryDirectory(prefix="soak-") as place, tempfile.TemporaryDirectory() as own:
        os.environ["TMPDIR"], before, tempfile.tempdir = own, os.environ.get("TMPDIR"), None
        try:
            found = Soak(np.random.default_rng(seed), Path(place), names, large)
            _rounds(found, time.monotonic() + 60 * minutes, fits)
            found.check(os.listdir(own) == [], f"left among temporary files: {os.listdir(own)}")
        finally:
            tempfile.tempdir = None
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before
    return found


def _rounds(found: Soak, until: float, fits: int) -> None:
    kinds = (found.small, found.together, found.kill, found.interrupt, found.full_disk, found.many_rows)
    found.small()  # after which all is imported, and compiled
    found.flat(fits)
    held, done = Held.now(), 1
    while time.monotonic() < until or done <= len(kinds):
        kind, began, wrong = kinds[done % len(kinds)], time.monotonic(), len(found.problems)
        try:
            note = kind()
        except Exception as error:
            note = "failed"
            found.problems.append(f"{kind.__name__}: {type(error).__name__}: {error}\n{traceback.format_exc()}")
        seconds = time.monotonic() - began
        print(f"{done:>5}  {kind.__name__:<10}{seconds:>6.1f} s  {note}", flush=True)
        for problem in found.problems[wrong:]:
            print(f"       WRONG: {problem}", flush=True)
        if done == len(kinds):  # large fits and threads have been there once
            memory = Held.now().memory
        done += 1
    now = Held.now()
    found.check(now[1:] == held[1:], f"held before: {held[1:]}, and after: {now[1:]}")
    more = now.memory - memory
    found.check(more <= MORE, f"{more / 1e6:.0f} MB more are held after {done - 1} rounds than after {len(kinds)}")


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--minutes", type=float, default=60.0, help="no round is begun after that")
    given.add_argument("--fits", type=int, default=500, help="small ones at the beginning")
    given.add_argument("--seed", type=int, default=int(time.time()))
    given.add_argument("--rows", type=int, default=1_000_000, help="of large fits")
    asked = given.parse_args()
    warnings.simplefilter("ignore")
    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_ARENA_MAX, 1)  # else it keeps some of what threads gave back, which is 100 MB in an hour
    print(f"seed {asked.seed}", flush=True)
    began = time.monotonic()
    found = soak(asked.minutes, asked.seed, list(RUNS), asked.rows, asked.fits)
    print(f"{'fits':>6}{'MB':>8}")
    for fits, memory in found.memory.items():
        print(f"{fits:>6}{memory / 1e6:>8.1f}")
    print(
        f"memory grows by {found.growth / 1e3:.1f} kB a fit after the first {SETTLED}; allowed are {GROWTH / 1e3:.0f}"
    )
    for problem in found.problems:
        print(f"WRONG: {problem}")
    print(f"{time.monotonic() - began:.0f} s: {len(found.problems)} things went wrong")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
