"""Messages between the ranks of MPI: a head with all that is small, and large arrays behind it, as they are.

Nothing is pickled. Who waits naps: a rank that spins takes a core from those that compute.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.engines.wire import Message

Bytes = NDArray[np.uint8]

CUT = 1 << 30  # bytes at a time: MPI counts them in 32 bits
SMALL = 1 << 16  # bytes of arrays that travel in the head
FIRST = 4096  # bytes of a head that are broadcast before it is known how many there are
ALIGNED = 64

SPIN = 1e-3  # seconds that one waits without a nap: between two rounds of a sampler there is less
SHORTEST, LONGEST = 50e-6, 2e-3  # naps
SHARE = 32  # of the time waited is a nap: what comes is noticed that much later

_yield: Callable[[], object] = getattr(os, "sched_yield", lambda: None)  # to others on the same core


def mpi() -> Any:
    """MPI, as mpi4py has it."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # it may be there, and find no library
        raise ImportError(f"MPI needs mpi4py and an MPI library: pip install tallbayes[mpi] ({error})") from error
    return MPI


def patient(look: Callable[[], Any]) -> Any:
    """What a look finds, as soon as it finds something.

    >>> looks = iter([None, False, "here"])
    >>> patient(lambda: next(looks))
    'here'
    """
    began = time.perf_counter()
    while not (found := look()):
        waited = time.perf_counter() - began
        if waited < SPIN:
            _yield()
        else:
            time.sleep(min(LONGEST, max(SHORTEST, waited / SHARE)))
    return found


def apart(message: Message) -> list[Bytes]:
    """A message's head and its large arrays, as bytes.

    A head is its own length, the length of what JSON tells of it, that, the text, and small arrays.

    >>> head, large = apart(Message("text", [np.arange(3), np.ones(10_000)]))
    >>> head.size, large.size
    (88, 80000)
    >>> copy, empty = together(head)
    >>> empty[0][:] = large
    >>> copy.text, copy.arrays[0], copy.arrays[1].sum()
    ('text', array([0, 1, 2]), np.float64(10000.0))
    """
    text = message.text.encode()
    told = json.dumps([len(text), [[array.dtype.str, array.shape] for array in message.arrays]]).encode()
    parts, end = [told, text], 16 + len(told) + len(text)
    for array in message.arrays:
        if array.nbytes <= SMALL:
            parts += [bytes(-end % ALIGNED), array.tobytes()]
            end += -end % ALIGNED + array.nbytes
    head = np.frombuffer(bytearray().join([np.array([end, len(told)], np.int64).tobytes(), *parts]), np.uint8)
    return [head, *(array.reshape(-1).view(np.uint8) for array in message.arrays if array.nbytes > SMALL)]


def together(head: Bytes) -> tuple[Message, list[Bytes]]:
    """The message of a head, and where the bytes of its large arrays are to be put."""
    begin = 16 + int(head[8:16].view(np.int64)[0])
    length, kinds = json.loads(head[16:begin].tobytes())
    text, end = head[begin : begin + length].tobytes().decode(), begin + length
    arrays, empty = [], []
    for kind, shape in kinds:
        dtype = np.dtype(kind)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if size <= SMALL:
            end += -end % ALIGNED
            arrays.append(np.frombuffer(head, dtype, int(np.prod(shape, dtype=np.int64)), end).reshape(shape))
            end += size
        else:
            arrays.append(np.empty(shape, dtype))
            empty.append(arrays[-1].reshape(-1).view(np.uint8))
    return Message(text, arrays), empty


class Link:
    """A rank's way to all others."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm.Dup()  # what others send is none of ours
        self.rank, self.size = self.comm.rank, self.comm.size
        self.sent = self.received = 0  # bytes
        self._all = mpi().Request.Testall

    def broadcast(self, message: Message) -> None:
        """Tell all other ranks."""
        head, *large = apart(message)
        first = np.zeros(FIRST, np.uint8)
        first[: head.size] = head[:FIRST]
        for part in (first, head[FIRST:], *large):
            self._broadcast(part)
            self.sent += part.nbytes * (self.size - 1)

    def heard(self) -> Message:
        """What rank 0 tells all."""
        head = self._broadcast(np.empty(FIRST, np.uint8))
        size = int(head[:8].view(np.int64)[0])
        if size > FIRST:
            head = np.concatenate([head, np.empty(size - FIRST, np.uint8)])
            self._broadcast(head[FIRST:])
        message, empty = together(head)
        for part in empty:
            self._broadcast(part)
        return message

    def _broadcast(self, part: Bytes) -> Bytes:
        for cut in _cuts(part):
            patient(self.comm.Ibcast(cut, 0).Test)
        return part

    def send(self, message: Message, rank: int) -> list[tuple[Any, Bytes]]:
        """Begin to send to one rank; `finish` what this gives."""
        found = []
        for part in apart(message):
            self.sent += part.nbytes
            found += [(self.comm.Isend(cut, rank), cut) for cut in _cuts(part)]
        return found

    def finish(self, sending: list[tuple[Any, Bytes]]) -> None:
        """Wait until all is on its way: the bytes may then change."""
        patient(lambda: self._all([request for request, _ in sending]))

    def receive(self, rank: int) -> Message:
        """The next message of a rank."""
        status = mpi().Status()
        matched = patient(lambda: self.comm.Improbe(rank, 0, status))
        head = np.empty(status.Get_count(), np.uint8)
        matched.Recv(head)
        size = int(head[:8].view(np.int64)[0])
        if size > head.size:
            first, head = head, np.empty(size, np.uint8)
            head[: first.size] = first
            self._receive(head[first.size :], rank)
        message, empty = together(head)
        for part in empty:
            self._receive(part, rank)
        self.received += size + sum(part.nbytes for part in empty)
        return message

    def _receive(self, part: Bytes, rank: int) -> None:
        for cut in _cuts(part):
            patient(self.comm.Irecv(cut, rank).Test)

    def close(self) -> None:
        """Give the way up, all ranks at a time."""
        self.comm.Free()


def _cuts(part: Bytes) -> list[Bytes]:
    return [part[start : start + CUT] for start in range(0, part.size, CUT)]
