"""Timing on a noisy machine: interleave what is compared, and take the best of several."""

from __future__ import annotations

import time
from collections.abc import Callable


def best(*functions: Callable[[], object], rounds: int = 15) -> list[float]:
    """Seconds of the fastest call of each function; every round calls all of them in turn."""
    for function in functions:
        function()  # compile, and warm the caches
    seconds = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            began = time.perf_counter()
            function()
            seconds[i] = min(seconds[i], time.perf_counter() - began)
    return seconds
