"""Runs cases in processes forked from a warm one, so that what hangs or crashes takes nothing else with it."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from odd.case import Case
from odd.judge import BAD, GOOD, Verdict, judged

SECONDS = 20.0  # that a case may take
ROOM = 6 << 30  # bytes of addresses that it may ask for, besides what the warm process has


class Told(NamedTuple):
    """A case and its verdict."""

    case: Case
    verdict: Verdict
    seconds: float

    @property
    def bad(self) -> bool:
        return self.verdict.outcome in BAD


def run(cases: Sequence[Case], seconds: float = SECONDS) -> Iterator[Told]:
    """What has come of each case, in their order."""
    room = Path(tempfile.gettempdir(), f"odd-{os.getpid()}-{time.time_ns()}")
    room.mkdir()
    try:
        yield from _run_in(room, cases, seconds)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _run_in(room: Path, cases: Sequence[Case], seconds: float) -> Iterator[Told]:
    place = 0
    while place < len(cases):
        end = next((one + 1 for one in range(place, len(cases)) if cases[one].alone), len(cases))
        process, answers = _forked(room, cases[place:end])
        began = time.monotonic()
        with answers:
            buffer = b""
            while place < end:
                ready, _, _ = select.select([answers], [], [], max(0.0, began + seconds - time.monotonic()))
                got = os.read(answers.fileno(), 1 << 16) if ready else None
                if not got:  # it hangs, or has died
                    os.kill(process, signal.SIGKILL)
                    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                    verdict = (
                        Verdict("hang", f"no end after {seconds:g} s")
                        if got is None
                        else Verdict("crash", f"the process ended with {code}")
                    )
                    yield Told(cases[place], verdict, time.monotonic() - began)
                    place, process = place + 1, 0
                    break
                *lines, buffer = (buffer + got).split(b"\n")
                for line in lines:
                    yield Told(cases[place], Verdict(*json.loads(line)), time.monotonic() - began)
                    place, began = place + 1, time.monotonic()
        if process:
            os.waitpid(process, 0)


def _forked(room: Path, cases: Sequence[Case]) -> tuple[int, IO[bytes]]:
    """A process that runs cases one after another, and a stream of their verdicts."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: none of ours is left
        process = os.fork()
    if process:
        os.close(writing)
        return process, os.fdopen(reading, "rb", buffering=0)
    try:
        os.close(reading)
        faulthandler.disable()  # a crash is told by the process that waits for it
        _limit()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        for number, case in enumerate(cases):
            folder = room / f"{os.getpid()}-{number}"  # of digits: messages name it, and are searched for words
            folder.mkdir()
            os.chdir(folder)
            try:
                verdict = judged(case, folder)
            except Exception as error:
                verdict = Verdict("silent", f"the judge failed: {type(error).__name__}: {error}")
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)
            os.write(writing, json.dumps(verdict).encode() + b"\n")
        os._exit(0)
    finally:
        os._exit(1)


def _limit() -> None:
    """Memory that is asked for without end is refused, rather than taken from others."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if (sizes := Path("/proc/self/statm")).exists():
        used = int(sizes.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))


def table(told: Sequence[Told]) -> str:
    """Counts by kind of case and by outcome."""
    outcomes = [*GOOD, *BAD]
    kinds = list(dict.fromkeys(one.case.kind for one in told))
    counts = Counter((one.case.kind, one.verdict.outcome) for one in told)
    width = max(map(len, [*kinds, "all"])) + 2
    lines = [f"{'':<{width}}" + "".join(f"{outcome:>18}" for outcome in ["cases", *outcomes])]
    for kind in [*kinds, "all"]:
        those = [kind] if kind != "all" else kinds
        numbers = [sum(counts[one, outcome] for one in those) for outcome in outcomes]
        lines.append(f"{kind:<{width}}" + "".join(f"{number:>18}" for number in [sum(numbers), *numbers]))
    return "\n".join(lines)
