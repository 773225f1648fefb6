"""What a rank of MPI does: it keeps parts, and does with them what it is told, in threads."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from tallbayes.engines import work
from tallbayes.engines.mpi_link import Link, mpi
from tallbayes.engines.wire import Message, pack, unpack
from tallbayes.rows import threads

CORES = 1 << 14  # more than a machine has

# Errors that come to rank 0 as they are; others become the nearest of these, or RuntimeError.
KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ValueError,
        FileNotFoundError,
        MemoryError,
        OSError,
        RuntimeError,
        TypeError,
        NotImplementedError,
    )
}


class Failure(NamedTuple):
    """An error on its way to rank 0."""

    kind: str
    text: str
    where: str  # the rank, and the traceback there

    def error(self) -> Exception:
        """To be raised."""
        found = KINDS[self.kind](self.text)
        found.add_note(self.where)
        return found


class Job(NamedTuple):
    """What a rank does for one part."""

    place: int  # among the parts of an order
    old: int = -1  # the number of the part that it is done with
    new: int = -1  # the number of the part that is made
    message: Message | None = None


class Order(NamedTuple):
    """What all ranks are told to do: `ask` parts or `call` for answers, `place` or `remake` parts, or `exchange`."""

    kind: str
    function: str
    parts: list[int]  # that are asked
    common: Message | None = None
    take: str = ""  # what makes parts of pieces,
    givers: Sequence[int] = ()  # the ranks that cut pieces,
    takers: Sequence[int] = ()  # and those that take them


class Round(NamedTuple):
    """What all ranks are told at a time."""

    orders: list[Order]
    forget: list[int]  # parts that nobody needs any more
    each: bool  # whether each rank gets jobs of its own


Done = list[tuple[int, Any]]  # places and answers: a message, a failure, or None where a part was made


def failure(error: Exception, rank: int) -> Failure:
    """An error in words.

    >>> failure(KeyError("fico"), 2)[:2]
    ('RuntimeError', "KeyError: 'fico'")
    >>> failure(UnicodeError("no text"), 2)[:2]
    ('ValueError', 'no text')
    """
    kind = next((kind.__name__ for kind in type(error).__mro__ if KINDS.get(kind.__name__) is kind), None)
    text = str(error) if kind is not None else f"{type(error).__name__}: {error}"
    where = f"on rank {rank} of MPI:\n{''.join(traceback.format_exception(error))}"
    return Failure(kind or "RuntimeError", text, where)


def share_of_cores(comm: Any) -> int:
    """How many threads a rank may use: cores that several ranks of a machine may use are shared by them.

    Where TALLBAYES_THREADS says how many, that counts; all ranks come here together all the same.
    """
    node = comm.Split_type(mpi().COMM_TYPE_SHARED)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    own, all_ranks = np.zeros(CORES, np.int32), np.empty(CORES, np.int32)
    own[list(cores)] = 1
    node.Allreduce(own, all_ranks)
    node.Free()
    if os.environ.get("TALLBAYES_THREADS"):
        return threads.count()
    return max(1, int((1 / all_ranks[own > 0]).sum() + 1e-9))


class Rank:
    """The parts of a rank, by their numbers."""

    def __init__(self, link: Link, count: int) -> None:
        self.link, self.threads, self.parts = link, count, dict[int, Any]()

    def obey(self) -> bool:
        """Do what rank 0 says next, and answer; it may say that nothing comes any more."""
        told = unpack(self.link.heard())
        if told is None:
            return False
        own = unpack(self.link.receive(0)) if told.each else []
        self.link.finish(self.link.send(pack(self.do(told, own)), 0))
        return True

    def do(self, round: Round, own: Sequence[Sequence[Job]]) -> list[Done]:
        """What is asked of this rank: questions that follow each other at a time, and what makes parts in its turn."""
        for number in round.forget:
            self.parts.pop(number, None)
        done = list[Done]()
        for asking, orders in groupby(enumerate(round.orders), lambda one: one[1].kind in ("ask", "call")):
            for batch in [list(orders)] if asking else ([one] for one in orders):
                done += self._batch([order for _, order in batch], [own[n] if round.each else [] for n, _ in batch])
        return done

    def _batch(self, orders: Sequence[Order], own: Sequence[Sequence[Job]]) -> list[Done]:
        """Orders that do not wait for each other."""
        if orders[0].kind == "exchange":
            return [self._exchange(orders[0], own[0])]
        done: list[Done] = [[] for _ in orders]
        todo = list[tuple[int, Job, Callable[[], Any]]]()
        for number, order in enumerate(orders):
            jobs = own[number]
            if order.kind == "ask":
                jobs = [Job(place, old) for place, old in enumerate(order.parts) if old in self.parts]
            todo += [(number, job, self._ready(order, job)) for job in jobs]
        answers = self._all([run for *_, run in todo])
        for (number, job, _), answer in zip(todo, answers, strict=True):
            done[number].append((job.place, answer))
        return done

    def _ready(self, order: Order, job: Job) -> Callable[[], Any]:
        function, message = order.function, job.message
        if order.kind == "ask":
            return lambda: work.asked(function, self.parts[job.old], order.common)  # type: ignore[arg-type]
        assert message is not None
        if order.kind == "call":
            return lambda: work.answer(function, message)
        if order.kind == "place":
            return self._keeping(job, lambda: work.made(function, message))
        assert order.common is not None
        common = order.common
        return self._keeping(job, lambda: work.remade(function, self.parts[job.old], common, message))

    def _keeping(self, job: Job, make: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            self.parts[job.new] = make()

        return run

    def _all(self, runs: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each gives, or how it failed; all are tried, so that the first failure is always the same."""
        found: list[Any] = [None] * len(runs)

        def turn(number: int) -> None:
            try:
                with threads.using(max(1, self.threads // len(runs))):
                    found[number] = runs[number]()
            except Exception as error:
                found[number] = failure(error, self.link.rank)

        with threads.using(self.threads):
            threads.in_turns(turn, len(runs))
        return found

    def _exchange(self, order: Order, own: Sequence[Job]) -> Done:
        """Cut pieces, send them to the ranks that take them, and make parts of those that come.

        Who cannot cut a part sends nothing of it, and tells rank 0 why; who gets nothing makes nothing.
        """
        giving, taking = [job for job in own if job.old >= 0], [job for job in own if job.new >= 0]
        cut = self._all([self._cutting(order.function, job) for job in giving])
        failed = [(job.place, pieces) for job, pieces in zip(giving, cut, strict=True) if isinstance(pieces, Failure)]
        pieces = {
            (job.place, taker): piece
            for job, own_pieces in zip(giving, cut, strict=True)
            if not isinstance(own_pieces, Failure)
            for taker, piece in enumerate(own_pieces)
        }
        rank, sending = self.link.rank, []
        for other in sorted(set(order.takers) - {rank}) if giving else []:
            places = [key for key in pieces if order.takers[key[1]] == other]
            sending += self.link.send(pack([(key, pieces.pop(key)) for key in places]), other)
        for other in sorted(set(order.givers) - {rank}) if taking else []:
            pieces.update(unpack(self.link.receive(other)))
        self.link.finish(sending)
        takes = [self._taking(order, job, pieces) for job in taking]
        made = self._all([take for take in takes if take is not None])
        return failed + [(len(order.givers), answer) for answer in made]

    def _cutting(self, function: str, job: Job) -> Callable[[], list[Message]]:
        assert job.message is not None
        message = job.message
        return lambda: work.given(function, self.parts[job.old], message)

    def _taking(self, order: Order, job: Job, pieces: dict[tuple[int, int], Message]) -> Callable[[], None] | None:
        keys = [(place, job.place) for place in range(len(order.givers))]
        if not all(key in pieces for key in keys):
            return None
        assert job.message is not None
        message, own = job.message, [pieces.pop(key) for key in keys]
        return self._keeping(job, lambda: work.taken(order.take, message, own))


def serve(comm: Any = None) -> None:
    """Do what rank 0 tells until it tells to stop: what all ranks but it call, while it has an `MPIEngine`."""
    comm = mpi().COMM_WORLD if comm is None else comm
    try:
        rank = joined(comm)[0]
        with _deaf():
            while rank.obey():
                continue
        rank.link.close()
    except BaseException:  # nobody would answer from here on: end all ranks rather than have them wait
        traceback.print_exc()
        comm.Abort(1)


def joined(comm: Any) -> tuple[Rank, list[int]]:
    """A rank as all of them begin, at a time; and how many threads each of them has."""
    link, count = Link(comm), share_of_cores(comm)
    counts = np.empty(link.size, np.int64)
    link.comm.Allgather(np.array([count]), counts)
    return Rank(link, count), counts.tolist()


@contextmanager
def _deaf() -> Any:
    """Ctrl-C goes to all ranks, and rank 0 says what is to be done then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
