"""Ctrl-C while the package's own command imports it, which takes a second: a line as later, and no traceback."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType

INTERRUPTED = 130  # the exit code
NO_RESULT = "interrupted before there was a result"


def is_command(program: list[str], typed: list[str]) -> bool:
    """Whether `tallbayes` or `python -m tallbayes` runs, by `sys.argv` and `sys.orig_argv`.

    >>> is_command(["/usr/bin/tallbayes", "fit"], []), is_command(["-m"], ["python", "-m", "tallbayes"])
    (True, True)
    >>> is_command(["tallbayes_example.py"], ["python", "tallbayes_example.py"])
    False
    """
    return "tallbayes" in [Path(name).stem for name in program[:1]] or ("-m", "tallbayes") in pairwise(typed)


def started() -> None:
    """From here on the command itself sees to Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):  # if nobody can hear it, nothing is lost
        os.write(2, f"{NO_RESULT}\n".encode())
    os._exit(INTERRUPTED)  # nothing has been written, and what is half imported has nothing to tidy


if is_command(sys.argv, sys.orig_argv) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _leave)
