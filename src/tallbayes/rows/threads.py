"""Threads over blocks of rows: compiled loops release the interpreter lock, so that a small pool makes them parallel.

What a block gives does not depend on who computes it, nor on how many there are: a loop is given blocks by their
numbers, and each block has a place of its own for its result.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count as numbers
from typing import Any

RUNS = 4  # of blocks that a thread takes one after the other: the fast ones take more

# Row evaluations up to which one thread makes a pass alone: waking the others costs more than they save.
ALONE = 1 << 17

_own = threading.local()


@cache
def _available() -> int:
    if given := os.environ.get("TALLBAYES_THREADS"):
        if not given.strip().isdecimal() or int(given) == 0:
            raise ValueError(f"the environment variable TALLBAYES_THREADS must be a whole number from 1, not {given!r}")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Pool:
    """Threads that are started when they are first needed, and anew after a fork."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.__init__)  # type: ignore[misc]

    def submit(self, function: Callable[[], None]) -> Any:
        with self._starting:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(64, "tallbayes")  # as many are started as are ever busy at once
        return self._executor.submit(function)


_POOL = _Pool()


def count() -> int:
    """How many threads a pass or a number of chains may use; the environment variable TALLBAYES_THREADS sets it."""
    own: int | None = getattr(_own, "count", None)
    return _available() if own is None else own


@contextmanager
def using(threads: int) -> Iterator[None]:
    """Use so many threads for what this thread asks for.

    >>> with using(1):
    ...     count()
    1
    """
    before = count()
    _own.count = threads
    try:
        yield
    finally:
        _own.count = before


def over_blocks(function: Callable[..., Any], blocks: int, *arguments: Any, evaluations: int) -> None:
    """function(*arguments, begin, end) for runs of blocks that together are all of them."""
    threads = min(count(), blocks)
    if threads <= 1 or evaluations <= ALONE:
        function(*arguments, 0, blocks)
        return
    runs = min(blocks, RUNS * threads)
    ends = [blocks * run // runs for run in range(runs + 1)]
    in_turns(lambda turn: function(*arguments, ends[turn], ends[turn + 1]), runs)


def in_turns(function: Callable[[int], Any], turns: int) -> None:
    """function(0), function(1), ... in several threads, which take turns; an error ends all of them."""
    next_turn, stopped = numbers(), threading.Event()

    def work() -> None:
        try:
            with using(1):
                while not stopped.is_set() and (turn := next(next_turn)) < turns:
                    function(turn)
        except BaseException:
            stopped.set()
            raise

    others = [_POOL.submit(work) for _ in range(min(count(), turns) - 1)]
    try:
        work()
    finally:
        for other in others:
            other.exception()  # wait for it
    for other in others:
        other.result()
