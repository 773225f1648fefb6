"""A thread that writes the files of a checkpoint while chains go on.

A disk takes its time to say that it has a file. Nobody waits for that, but whoever closes a checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Scribe:
    """Does what it is given, one after the other, in a thread of its own.

    What goes wrong is raised when it is given more, or closed; nothing that was to follow is done then.

    >>> written = []
    >>> scribe = Scribe()
    >>> done = scribe.give(lambda: written.append("state"))
    >>> scribe.close()
    >>> written, done.result() >= 0
    (['state'], True)
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "tallbayes-scribe")
        self._failure: BaseException | None = None
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since there was something to write."""
        return time.monotonic() - self._began

    def give(self, job: Callable[[], None]) -> Future[float]:
        """Have something done; the result is the seconds that it took."""
        self._raise()
        return self._thread.submit(self._do, job)

    def _do(self, job: Callable[[], None]) -> float:
        began = time.monotonic()
        if self._failure is None:
            try:
                job()
            except BaseException as error:
                self._failure = error
        return time.monotonic() - began

    def close(self) -> None:
        """Wait until all is done."""
        self._thread.shutdown()
        self._raise()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure
