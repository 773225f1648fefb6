"""Seconds by phase of the work, with the time that compiling took kept apart."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numba.core import event


class Phases:
    """Adds up the seconds of each phase; compiling inside a phase counts as phase "compile".

    >>> phases = Phases({"design": 1.0})
    >>> with phases("mode"):
    ...     pass
    >>> sorted(phases.seconds)
    ['compile', 'design', 'mode']
    """

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        self.seconds = {"compile": 0.0} | dict(seconds or {})

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time a phase."""
        compiling = _Compiling()
        began = time.perf_counter()
        try:
            with event.install_listener("numba:compile", compiling):
                yield
        finally:
            spent = time.perf_counter() - began
            self.seconds["compile"] += compiling.seconds
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - compiling.seconds


class _Compiling(event.Listener):
    """Counts the seconds between the outermost start and end of compilation."""

    def __init__(self) -> None:
        self.seconds, self._depth, self._began = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began
