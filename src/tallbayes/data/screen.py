"""Where progress is shown: standard error, of which there is one, however many fits are under way.

The bars of all threads stand one below the other in a single live display: of two displays, each would write over the
other. What is only shown never ends a run, even if nobody can be shown anything any more.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress, ProgressColumn


def console() -> Console:
    """Standard error as it is now."""
    from rich.console import Console

    return Console(file=_Unbreakable(sys.stderr))  # type: ignore[arg-type]


@contextmanager
def shown(*columns: ProgressColumn) -> Iterator[Progress]:
    """A bar with these columns, below those that are there; its last state stays."""
    from rich.progress import Progress

    bar = Progress(*columns, console=console())
    _SCREEN.add(bar)
    try:
        yield bar
    finally:
        _SCREEN.remove(bar)


class _Screen:
    """All bars that are shown at the moment."""

    def __init__(self) -> None:
        self._lock, self._bars = threading.Lock(), list["Progress"]()
        self._live: Live | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """The bars are those of threads that a new process has not."""
        self._lock, self._bars, self._live = threading.Lock(), [], None

    def add(self, bar: Progress) -> None:
        from rich.console import Group
        from rich.live import Live

        with self._lock:
            self._bars.append(bar)
            if self._live is None:
                self._live = Live(get_renderable=lambda: Group(*self._bars), console=bar.console, refresh_per_second=10)
                self._live.start()

    def remove(self, bar: Progress) -> None:
        with self._lock:
            if self._live is None:  # this process was made after it was added
                return
            if len(self._bars) > 1:
                self._bars.remove(bar)
                self._live.console.print(bar)  # above the others
                return
            self._live.stop()
            if not self._live.console.is_interactive and not self._live.console.is_jupyter:
                self._live.console.print()
            self._bars, self._live = [], None


class _Unbreakable:
    """A file that takes all that is written, also if it is None, closed, or a terminal that is gone."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError, AttributeError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError, AttributeError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


_SCREEN = _Screen()
