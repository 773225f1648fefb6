"""Progress of passes over the data that take long: a line each, with rows a second and the time left.

Whoever goes through rows says so with `passing`; whether anybody is told is up to `showing`, and passes that are done
in a moment are not worth a line.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tallbayes.data.screen import shown

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

WORTH_A_LINE = 1.0  # seconds

_shown = threading.local()  # passes are shown to the thread that asked for it


@contextmanager
def showing(wanted: bool) -> Iterator[None]:
    """Show passes that this thread makes, or do not."""
    before = getattr(_shown, "wanted", False)
    _shown.wanted = wanted
    try:
        yield
    finally:
        _shown.wanted = before


@contextmanager
def passing(what: str, rows: int | None) -> Iterator[Callable[[int], None]]:
    """A pass over so many rows, if that is known; gives a function to be told of rows that are done, by any thread.

    >>> with passing("reading", 10) as done:
    ...     done(4)
    ...     done(6)
    """
    line = _Line(what, rows) if getattr(_shown, "wanted", False) else None
    try:
        yield _nothing if line is None else line.done
    finally:
        if line is not None:
            line.end()


def _nothing(rows: int) -> None:
    """Nobody is told."""


class _Line:
    """A line of progress, which appears when the pass has taken a moment."""

    def __init__(self, what: str, rows: int | None) -> None:
        self._what, self._rows, self._seen = what, rows, 0
        self._began, self._lock = time.perf_counter(), threading.Lock()
        self._place = ExitStack()
        self._bar: Progress | None = None
        self._task: Any = None

    def done(self, rows: int) -> None:
        """So many more."""
        with self._lock:
            self._seen += rows
            seconds = time.perf_counter() - self._began
            if self._bar is None and seconds > WORTH_A_LINE:
                self._bar = self._place.enter_context(shown(*_columns()))
                self._task = self._bar.add_task(self._what, total=self._rows, rate="")
            if self._bar is not None:
                rate = self._seen / seconds
                speed = f"{rate / 1e6:.1f} million" if rate >= 1e6 else f"{rate:,.0f}"
                self._bar.update(self._task, completed=self._seen, rate=f"{speed} rows a second")

    def end(self) -> None:
        """The line stays as it is."""
        with self._lock:
            self._place.close()


def _columns() -> tuple[ProgressColumn, ...]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    return (
        TextColumn("{task.description:20}"),
        BarColumn(bar_width=12),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
