"""Seconds by phase of the work, with the time that compiling took kept apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numba.core import event

from tallbayes.data.screen import console

WORTH_A_WORD = 0.3  # seconds of compiling


class Phases:
    """Adds up the seconds of each phase; compiling inside a phase counts as phase "compile".

    A phase inside another counts for itself: all together are the seconds of the outermost.

    >>> phases = Phases({"design": 1.0})
    >>> with phases("mode"):
    ...     pass
    >>> sorted(phases.seconds)
    ['compile', 'design', 'mode']
    """

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        self.seconds = {"compile": 0.0} | dict(seconds or {})
        self._inside = (0.0, 0.0)  # seconds of phases inside the present one, and what compiling took of them

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time a phase."""
        compiling, before, self._inside = _Compiling(), self._inside, (0.0, 0.0)
        began = time.perf_counter()
        try:
            with event.install_listener("numba:compile", compiling):
                yield
        finally:
            spent = time.perf_counter() - began
            inside, compiled = self._inside
            own = compiling.seconds - compiled
            self.seconds["compile"] += own
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - inside - own
            self._inside = (before[0] + spent, before[1] + compiling.seconds)


@contextmanager
def telling(wanted: bool) -> Iterator[None]:
    """While it compiles for the first time on a machine, a line says so: nobody should wait for no reason."""
    if not wanted:
        yield
        return
    with event.install_listener("numba:compile", _Telling()):
        yield


class _Compiling(event.Listener):
    """Counts the seconds between the outermost start and end of compilation."""

    def __init__(self) -> None:
        self.seconds, self._depth, self._began = 0.0, 0, 0.0
        self._counting = threading.Lock()  # chains in several threads may all be first to need a function

    def on_start(self, event: Any) -> None:
        with self._counting:
            if self._depth == 0:
                self._began = time.perf_counter()
            self._depth += 1

    def on_end(self, event: Any) -> None:
        with self._counting:
            self._depth -= 1
            if self._depth == 0:
                self.seconds += time.perf_counter() - self._began


class _Telling(_Compiling):
    """Says once that it compiles; what comes from the disk takes no time, and is not worth a word."""

    def __init__(self) -> None:
        super().__init__()
        self._told = False

    def on_start(self, event: Any) -> None:
        super().on_start(event)
        if self.seconds > WORTH_A_WORD and not self._told:
            console().print("Compiling for this machine; this happens once, and the result is kept on disk.")
            self._told = True
