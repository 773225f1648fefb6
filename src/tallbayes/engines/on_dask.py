"""Dask's workers as an engine.

Parts are results of tasks that Dask keeps where they were made. If a worker dies, Dask makes its parts anew from what
they were made from, which are messages and files, and asks them again: nobody here has to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from operator import getitem
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from tallbayes.data.quiet import without
from tallbayes.engines import work
from tallbayes.engines.engine import Counted, Handle, Heard, nobody
from tallbayes.rows import threads

LOOK = 0.5  # seconds between looks at whether there are workers
PATIENCE = 60.0  # seconds without any worker


class DaskEngine(Counted):
    """The workers of a cluster, reached through a `distributed.Client`."""

    name = "dask"

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        super().__init__()
        self.client, self.patience = client, patience
        _tell_sizes()

    @property
    def workers(self) -> int:
        """See `Engine`: as many as can work at a time."""
        return max(1, int(sum(self.client.nthreads().values())))

    def call(self, function: str, each: Sequence[Any]) -> list[Any]:
        """See `Engine`."""
        return self.unpacked(self.results(self._each(work.answer, function, map(self.packed, each))))

    def place(self, function: str, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`."""
        return self._each(work.made, function, map(self.packed, each))

    def remake(self, function: str, parts: Sequence[Any], common: Any, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`."""
        shared = self.packed(common, len(parts))
        return self._each(work.remade, function, parts, [shared] * len(parts), map(self.packed, each))

    def exchange(
        self, give: str, parts: Sequence[Any], plans: Sequence[Any], take: str, each: Sequence[Any]
    ) -> list[Handle]:
        """See `Engine`: pieces go from worker to worker."""
        cut = self._each(work.given, give, parts, map(self.packed, plans))
        numbers = [number for number in range(len(each)) for _ in cut]
        pieces = self.submit("piece", getitem, [*cut] * len(each), numbers)
        own = [pieces[start : start + len(cut)] for start in range(0, len(pieces), len(cut))]
        return self._each(work.taken, take, map(self.packed, each), own)

    def ask(self, function: str, parts: Sequence[Any], given: Any, heard: Heard = nobody) -> list[Any]:
        """See `Engine`."""
        message = self.packed(given, len(parts))
        futures = self._each(work.asked, function, parts, [message] * len(parts))
        return self.unpacked(self.results(futures, heard))

    def _each(self, way: Callable[..., Any], function: str, *columns: Iterable[Any]) -> list[Any]:
        """The futures of one of our functions, for each row of some columns of arguments."""
        listed = [list(column) for column in columns]
        count = len(listed[0])
        return self.submit(function, alone, [way] * count, [function] * count, *listed)

    def submit(self, name: str, function: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        """The futures of calls on some workers, all at once; Dask's dashboard shows the name."""
        if not columns[0]:
            return []
        keys = [f"{name}-{uuid4().hex}" for _ in columns[0]]
        with without("Sending large graph"):  # rows of a frame in memory are part of it
            found: list[Any] = self.client.map(function, *columns, key=keys, pure=False)
            return found

    def results(self, futures: list[Any], heard: Heard = nobody) -> list[Any]:
        """What tasks gave, in order; an error of one of them is raised, and the others are not waited for."""
        from distributed import CancelledError
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        try:
            self._wait(futures, heard)
            found: list[Any] = self.client.gather(futures)
            return found
        except (CancelledError, CommClosedError) as error:
            raise RuntimeError(
                f"the Dask scheduler is gone, and with it the rows; start a cluster and fit again ({error})"
            ) from error
        except KilledWorker as error:
            raise RuntimeError(
                "several workers of the Dask cluster died at the same task: they may have too little memory; "
                f"give them more, or more of them ({error})"
            ) from error
        except BaseException:
            self.client.cancel(futures)
            raise

    def _wait(self, futures: list[Any], heard: Heard) -> None:
        """Until all are done, or one has failed."""
        done = SimpleQueue[int]()
        for place, future in enumerate(futures):
            future.add_done_callback(lambda _, place=place: done.put(place))
        since = time.monotonic()
        for _ in futures:
            while (next_done := _next(done)) is None:
                if self.client.nthreads():
                    since = time.monotonic()
                elif time.monotonic() - since > self.patience:
                    raise RuntimeError(
                        f"the Dask cluster has had no worker for {self.patience:.0f} seconds; "
                        "start workers and fit again"
                    )
            if futures[next_done].status != "finished":
                return
            heard(next_done)


def _next(done: SimpleQueue[int]) -> int | None:
    """The next that is done, if it is soon."""
    try:
        return done.get(timeout=LOOK)
    except Empty:
        return None


def alone(way: Callable[..., Any], *given: Any) -> Any:
    """What a worker runs: in one thread, since Dask runs as many tasks at a time as a worker has threads."""
    _tell_sizes()
    with threads.using(1):
        return way(*given)


def _tell_sizes() -> None:
    """Tell Dask how large parts are, so that it does not move them about."""
    from dask.sizeof import sizeof

    sizeof.register(work.Built, lambda part: part.nbytes)
