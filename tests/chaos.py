"""Kills runs at random times, over all kernels: `make chaos`, or `python tests/chaos.py --kills 100 --seed 1`.

Each run is a process of its own, which ends with the bits of its draws. It is killed (SIGKILL) at a random time after
its checkpoint has appeared, started again on the same folder, killed again, and so on, and at last left alone. Its
draws must then be those of a run that nobody has killed. After each kill, all that its folder holds must be readable:
no file may be half written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

os.environ.setdefault("TALLBAYES_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from runs import RUNS, often

from tallbayes.engines import packed

LONGEST = 300.0  # seconds of a run, after which something is wrong
KILLS = 3  # of one run, so that 100 are some of every run
MANY = {"draws": 300, "warmup": 200, "chains": 2, "seed": 1, "progress": False}
FEW = {"draws": 60, "warmup": 60, "chains": 2, "seed": 1, "progress": False}
SLOW = ("splines, two-stage", "splines, mh", "own model, subsampling", "groups, consensus")


class Told(NamedTuple):
    """What a run has come to."""

    name: str
    kills: int
    phases: dict[str, int]  # in which it was when it was killed
    same: bool
    problems: list[str]


def digest(name: str, folder: Path | None) -> str:
    """A hash of the draws of a run, with a checkpoint in a folder."""
    how = (FEW if name in SLOW else MANY) | ({} if folder is None else {"checkpoint": folder})
    with often(0.01):
        fit = RUNS[name](**how)
    content = [np.ascontiguousarray(values).tobytes() for values in fit.posterior.data_vars.values()]
    return hashlib.sha256(b"".join(content)).hexdigest()


def forked(work: Callable[[], str], answer: Path) -> int:
    """The id of a new process that writes what work gives to a file, and ends."""
    if (process := os.fork()) == 0:
        code = 1
        try:
            found = work()
            answer.with_suffix(".part").write_text(found)
            answer.with_suffix(".part").replace(answer)
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return process


def ended(process: int, seconds: float) -> int | None:
    """How a process has ended within so many seconds; None if it has not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (found := os.waitpid(process, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(found[1])
        time.sleep(0.002)
    return None


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def torn(folder: Path) -> list[str]:
    """Files of a checkpoint that cannot be read; those that are being written have hidden names."""
    found = []
    for path in folder.rglob("*"):
        if path.is_dir() or path.name == "lock" or path.name.startswith("."):
            continue
        try:
            json.loads(path.read_bytes()) if path.suffix == ".json" else packed.read(path)
        except ValueError as error:
            found.append(f"{path.name}: {error}")
    return found


def phase(folder: Path) -> str:
    if (folder / "draws" / "state").exists():
        return "draws"
    return "warm-up" if list(folder.glob("*/state")) else "set-up"


def torture(name: str, kills: int, rng: np.random.Generator, place: Path) -> Told:
    """One run, killed so often at the most."""
    right, found, folder = place / "right", place / "found", place / "run.tb"
    began = time.monotonic()
    if (code := ended(forked(lambda: digest(name, None), right), LONGEST)) != 0:
        return Told(name, 0, {}, False, [f"a run that nobody kills ended with {code}"])
    usual, phases, problems = time.monotonic() - began, dict[str, int](), list[str]()
    for attempt in range(kills + 1):
        process = forked(lambda: digest(name, folder), found)
        while not (folder / "asked.json").exists() and attempt == 0 and ended(process, 0.002) is None:
            pass
        patience = LONGEST if attempt == kills else float(rng.uniform(0.0, usual / (attempt + 1)))
        code = ended(process, patience)
        if code == 0:
            break
        if code is not None or attempt == kills:
            problems.append(f"it ended with {code}" if code is not None else "it did not end")
            break
        kill(process)
        phases[phase(folder)] = phases.get(phase(folder), 0) + 1
        problems += torn(folder)
    same = found.exists() and found.read_text() == right.read_text()
    left = [path.name for path in folder.rglob(".*")] if found.exists() else []
    problems += [f"{name} was left behind" for name in left]
    return Told(name, sum(phases.values()), phases, same, problems)


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--kills", type=int, default=100)
    given.add_argument("--seed", type=int, default=int(time.time()))
    given.add_argument("--minutes", type=float, default=30.0, help="no run is begun after that")
    given.add_argument("--only", default="", help="runs whose name has this")
    asked = given.parse_args()
    rng, began, told = np.random.default_rng(asked.seed), time.monotonic(), list[Told]()
    names = [name for name in RUNS if asked.only in name]
    print(f"seed {asked.seed}\n{'run':<26}{'kills':>6}  {'in':<36}{'draws':>10}", flush=True)
    while sum(one.kills for one in told) < asked.kills and time.monotonic() - began < 60 * asked.minutes:
        name = names[len(told) % len(names)]
        with tempfile.TemporaryDirectory() as place:
            told.append(torture(name, KILLS, rng, Path(place)))
        one = told[-1]
        where = ", ".join(f"{phase} {count}" for phase, count in one.phases.items())
        print(f"{name:<26}{one.kills:>6}  {where:<36}{'the same' if one.same else 'DIFFER':>10}", flush=True)
        for problem in one.problems:
            print(f"    {problem}", flush=True)
    kills, bad = sum(one.kills for one in told), [one for one in told if not one.same or one.problems]
    print(f"{kills} kills of {len(told)} runs in {time.monotonic() - began:.0f} s: {len(bad)} runs went wrong")
    return 1 if bad or kills < asked.kills else 0


if __name__ == "__main__":
    sys.exit(main())
