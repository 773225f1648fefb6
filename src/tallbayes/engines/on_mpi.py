"""The ranks of MPI as an engine: rank 0 drives, and all ranks, it included, hold parts.

A round is one broadcast to all ranks and one answer of each. A thread of rank 0 makes the rounds, so that Ctrl-C, which
comes to the main thread, never leaves one half made; what several threads ask for while one is made is the next one.
Orders to make parts are held back until something is asked, and go with that.
"""

from __future__ import annotations

import atexit
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count as numbers
from operator import itemgetter
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from tallbayes.engines.engine import Handle, Heard, nobody
from tallbayes.engines.mpi_link import mpi
from tallbayes.engines.mpi_rank import Failure, Job, Order, Round, joined, serve
from tallbayes.engines.wire import Message, pack, unpack

__all__ = ["MPIEngine", "serve"]


class Part:
    """A part by its number, and the rank that has it, which forgets it when nobody refers to it any more."""

    def __init__(self, number: int, rank: int) -> None:
        self.number, self.rank = number, rank


class Request(NamedTuple):
    """An order, the jobs of each rank, the parts that must be there until it is done, and who waits for it."""

    order: Order
    each: list[list[Job]] | None
    parts: Sequence[Part]
    answer: Future[list[Any]]
    heard: Heard = nobody


class MPIEngine:
    """All ranks of a communicator, of which this is the first; the others call `serve`.

    >>> engine = MPIEngine()
    >>> engine.call("listing", [("nothing.csv",)])
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'nothing.csv'
    on rank 0 of MPI:
    ...
    >>> engine.close()
    """

    name = "mpi"

    def __init__(self, comm: Any = None) -> None:
        library = mpi()
        comm = library.COMM_WORLD if comm is None else comm
        if comm.rank:
            raise RuntimeError(f"rank {comm.rank} is told what to do by rank 0, which has the engine: call serve there")
        if library.Query_thread() < library.THREAD_SERIALIZED:
            raise RuntimeError("this MPI allows no calls from threads; set mpi4py.rc.thread_level = 'multiple'")
        self.rounds = self.sent = self.received = 0
        self._rank, self._threads = joined(comm)
        self._ends = np.cumsum(self._threads) / sum(self._threads)
        self._number, self._forget = numbers(), deque[int]()
        self._held = list[Request]()  # which nobody waits for yet
        self._asked: SimpleQueue[list[Request] | None] = SimpleQueue()  # None is the last
        self._open, self._asking = True, threading.Lock()
        self._thread = threading.Thread(target=self._drive, name="tallbayes-mpi", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def workers(self) -> int:
        """See `Engine`: the threads of all ranks."""
        return sum(self._threads)

    def call(self, function: str, each: Sequence[Any]) -> list[Any]:
        """See `Engine`."""
        jobs = self._dealt([Job(place, message=pack(one)) for place, one in enumerate(each)])
        return [unpack(one) for one in self._request(Order("call", function, []), jobs, (), len(each))]

    def place(self, function: str, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`: runs of parts that follow each other are of the same rank."""
        made = self._parts(self._ranks(len(each)))
        jobs = [Job(place, -1, made[place].number, pack(one)) for place, one in enumerate(each)]
        self._hold(Order("place", function, []), self._dealt(jobs), made)
        return [Handle(part) for part in made]

    def remake(self, function: str, parts: Sequence[Any], common: Any, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`: by the ranks that have the parts."""
        ranks = [part.rank for part in parts]
        made = self._parts(ranks)
        each = [pack(one) for one in each]
        jobs = [Job(n, parts[n].number, made[n].number, each[n]) for n in range(len(parts))]
        order = Order("remake", function, [], pack(common))
        self._hold(order, self._by_rank(jobs, ranks), [*parts, *made])
        return [Handle(part) for part in made]

    def exchange(
        self, give: str, parts: Sequence[Any], plans: Sequence[Any], take: str, each: Sequence[Any]
    ) -> list[Handle]:
        """See `Engine`: pieces go from rank to rank."""
        givers, takers = [part.rank for part in parts], self._ranks(len(each))
        made = self._parts(takers)
        cuts = [Job(n, old=parts[n].number, message=pack(plan)) for n, plan in enumerate(plans)]
        takes = [Job(n, new=made[n].number, message=pack(one)) for n, one in enumerate(each)]
        order = Order("exchange", give, [], None, take, givers, takers)
        self._hold(order, self._by_rank([*cuts, *takes], [*givers, *takers]), [*parts, *made])
        return [Handle(part) for part in made]

    def ask(self, function: str, parts: Sequence[Any], given: Any, heard: Heard = nobody) -> list[Any]:
        """See `Engine`: the parts of a rank are heard together."""
        order = Order("ask", function, [part.number for part in parts], pack(given))
        return [unpack(one) for one in self._request(order, None, parts, len(parts), heard)]

    def close(self) -> None:
        """Tell the other ranks to stop; they are done with what they were told before."""
        atexit.unregister(self.close)
        with self._asking:
            if self._open:
                self._asked.put(None)
            self._open = False
        self._thread.join()

    def _ranks(self, count: int) -> list[int]:
        """Who has each of so many parts: runs, by the threads that ranks have."""
        found: list[int] = np.searchsorted(self._ends, (np.arange(count) + 0.5) / max(count, 1)).tolist()
        return found

    def _dealt(self, jobs: Sequence[Job]) -> list[list[Job]]:
        return self._by_rank(jobs, self._ranks(len(jobs)))

    def _by_rank(self, jobs: Sequence[Job], ranks: Sequence[int]) -> list[list[Job]]:
        found: list[list[Job]] = [[] for _ in self._threads]
        for job, rank in zip(jobs, ranks, strict=True):
            found[rank].append(job)
        return found

    def _parts(self, ranks: Sequence[int]) -> list[Part]:
        made = [Part(next(self._number), rank) for rank in ranks]
        for part in made:
            weakref.finalize(part, self._forget.append, part.number).atexit = False
        return made

    def _hold(self, order: Order, each: list[list[Job]], parts: Sequence[Part]) -> None:
        """What is to be done before anything that is asked for next."""
        with self._asking:
            self._held.append(Request(order, each, parts, Future()))

    def _request(
        self, order: Order, each: list[list[Job]] | None, parts: Sequence[Part], count: int, heard: Heard = nobody
    ) -> list[Message]:
        """The answers in the order of the parts; of several failures the first is raised."""
        with self._asking:
            if not self._open:
                raise RuntimeError("the engine is closed: the ranks of MPI have been told to stop")
            requests, self._held = [*self._held, Request(order, each, parts, Future(), heard)], []
            self._asked.put(requests)
        for request in requests:
            found = request.answer.result()
            failed = [(place, answer) for place, answer in found if isinstance(answer, Failure)]
            if failed:
                raise min(failed, key=itemgetter(0))[1].error()
        answers = dict(found)
        if len(answers) < count:
            raise RuntimeError("a rank has not made a part that it was told to make; the error came before")
        return [answers[place] for place in range(count)]

    def _drive(self) -> None:
        """Make rounds, until told to stop; an error here is none of a job, and ends all ranks."""
        link = self._rank.link
        try:
            while self._round(self._next()):
                continue
            link.broadcast(pack(None))
            link.close()
        except BaseException:
            traceback.print_exc()
            link.comm.Abort(1)

    def _next(self) -> list[Request]:
        """All that is asked for, when something is; nothing if the engine was closed."""
        found = list[Request]()
        requests = self._asked.get()
        while requests is not None:
            found += requests
            if self._asked.empty():
                return found
            requests = self._asked.get()
        for one in found:
            one.answer.set_exception(RuntimeError("the engine was closed before this was done"))
        return []

    def _round(self, requests: Sequence[Request]) -> bool:
        """Make a round; there is none where nothing is asked for."""
        if not requests:
            return False
        link = self._rank.link
        forget = [self._forget.popleft() for _ in range(len(self._forget))]
        told = Round([request.order for request in requests], forget, any(request.each for request in requests))
        each = [[request.each[rank] if request.each else [] for request in requests] for rank in range(link.size)]
        link.broadcast(pack(told))
        if told.each:
            link.finish([sent for rank in range(1, link.size) for sent in link.send(pack(each[rank]), rank)])
        answers = []
        for rank in range(link.size):
            answers.append(unpack(link.receive(rank)) if rank else self._rank.do(told, each[0]))
            for request, own in zip(requests, answers[-1], strict=True):
                for place, _ in own:
                    request.heard(place)
        self.rounds, self.sent, self.received = self.rounds + 1, link.sent, link.received
        for number, request in enumerate(requests):
            request.answer.set_result([one for own in answers for one in own[number]])
        return True
