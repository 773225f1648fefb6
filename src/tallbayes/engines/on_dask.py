"""Dask's workers as an engine.

Parts are results of tasks that Dask keeps where they were made. If a worker dies, Dask makes its parts anew from what
they were made from, which are messages and files, and asks them again: nobody here has to know.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import getitem
from typing import Any

from tallbayes.engines import work
from tallbayes.engines.engine import Counted, Handle
from tallbayes.engines.wire import Message
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
        return self.unpacked(self.results([self.submit(answer, function, self.packed(one)) for one in each]))

    def place(self, function: str, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`."""
        return [Handle(self.submit(made, function, self.packed(one))) for one in each]

    def remake(self, function: str, parts: Sequence[Any], common: Any, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`."""
        shared, pairs = self.packed(common, len(parts)), zip(parts, each, strict=True)
        return [Handle(self.submit(remade, function, part, shared, self.packed(one))) for part, one in pairs]

    def exchange(
        self, give: str, parts: Sequence[Any], plans: Sequence[Any], take: str, each: Sequence[Any]
    ) -> list[Handle]:
        """See `Engine`: pieces go from worker to worker."""
        pairs = zip(parts, plans, strict=True)
        pieces = [self.submit(given, give, part, self.packed(plan)) for part, plan in pairs]
        return [
            Handle(self.submit(taken, take, self.packed(one), [self.submit(getitem, own, number) for own in pieces]))
            for number, one in enumerate(each)
        ]

    def ask(self, function: str, parts: Sequence[Any], given: Any) -> list[Any]:
        """See `Engine`."""
        message = self.packed(given, len(parts))
        return self.unpacked(self.results([self.submit(asked, function, part, message) for part in parts]))

    def submit(self, function: Any, *given: Any) -> Any:
        """The future of a call on some worker."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # rows of a frame in memory are part of it
            return self.client.submit(function, *given, pure=False)

    def results(self, futures: list[Any]) -> list[Any]:
        """What tasks gave, in order; an error of one of them is raised, and the others are not waited for."""
        from distributed import CancelledError, wait
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        waiting, since = set(futures), time.monotonic()
        try:
            while waiting:
                try:
                    done, waiting = wait(waiting, timeout=LOOK, return_when="FIRST_COMPLETED")
                except TimeoutError:
                    done = set()
                if any(future.status == "error" for future in done):
                    break
                if done or self.client.nthreads():
                    since = time.monotonic()
                elif time.monotonic() - since > self.patience:
                    raise RuntimeError(
                        f"the Dask cluster has had no worker for {self.patience:.0f} seconds; "
                        "start workers and fit again"
                    )
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


# What workers run: each task in one thread, since Dask runs as many tasks at a time as a worker has threads.


def answer(function: str, message: Message) -> Message:
    """See `work`."""
    with _alone():
        return work.answer(function, message)


def made(function: str, message: Message) -> Any:
    """See `work`."""
    with _alone():
        return work.made(function, message)


def remade(function: str, part: Any, common: Message, own: Message) -> Any:
    """See `work`."""
    with _alone():
        return work.remade(function, part, common, own)


def given(function: str, part: Any, message: Message) -> list[Message]:
    """See `work`."""
    with _alone():
        return work.given(function, part, message)


def taken(function: str, message: Message, pieces: Sequence[Message]) -> Any:
    """See `work`."""
    with _alone():
        return work.taken(function, message, pieces)


def asked(function: str, part: Any, message: Message) -> Message:
    """See `work`."""
    with _alone():
        return work.asked(function, part, message)


@contextmanager
def _alone() -> Iterator[None]:
    _tell_sizes()
    with threads.using(1):
        yield


def _tell_sizes() -> None:
    """Tell Dask how large parts are, so that it does not move them about."""
    from dask.sizeof import sizeof

    sizeof.register(work.Built, lambda part: part.nbytes)
