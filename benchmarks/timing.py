"""Timing on a noisy machine: interleave what is compared, and take the best of several."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def printed(code: str, *arguments: str, python: str = sys.executable, source: Path = SOURCE, cache: str = "") -> str:
    """The last line that code prints in a process of its own, with the package in `source` and a cache folder."""
    environment = os.environ | {"PYTHONPATH": str(source)} | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    done = subprocess.run([python, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip().rsplit("\n", 1)[-1]


def best(*functions: Callable[[], object], rounds: int = 10) -> list[float]:
    """Seconds of the fastest call of each function; every round makes a short burst of calls of each in turn.

    Before a burst all is still for a moment, because NumPy's threads spin on after their work. Its first call is not
    timed: it compiles, wakes the other cores and takes the caches back.
    """
    seconds = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            time.sleep(0.1)
            function()
            for _ in range(3):
                began = time.perf_counter()
                function()
                seconds[i] = min(seconds[i], time.perf_counter() - began)
    return seconds
