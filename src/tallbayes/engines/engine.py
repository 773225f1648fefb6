"""What an engine does: it runs functions of `work.py` where the rows are, and keeps what they make there.

What is kept is a part: rows to be read, or rows that have been built. A round is one `call` or `ask`: messages to
workers, and an answer to each, in the order of the parts, whoever was first. What is asked is a pure function of a part
and a message, so that an engine may ask again elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NewType, Protocol

from tallbayes.engines import work
from tallbayes.engines.wire import Message, pack, unpack

Handle = NewType("Handle", object)  # of a part
Heard = Callable[[int], None]  # is told the place of a part as soon as it has answered


def nobody(place: int) -> None:
    """Is not told who has answered."""


class Engine(Protocol):
    """Workers, and how to ask them."""

    name: str
    rounds: int  # so far
    sent: int  # bytes of messages to workers so far
    received: int  # and of their answers

    @property
    def workers(self) -> int:
        """How many parts can be worked on at a time, at present."""

    def call(self, function: str, each: Sequence[Any]) -> list[Any]:
        """The answers of a function for each of some arguments, each on some worker."""

    def place(self, function: str, each: Sequence[Any]) -> list[Handle]:
        """What a function makes of each of some arguments, kept where it is made."""

    def remake(self, function: str, parts: Sequence[Handle], common: Any, each: Sequence[Any]) -> list[Handle]:
        """What a function makes of each part, with arguments that all have in common and with its own."""

    def exchange(
        self, give: str, parts: Sequence[Handle], plans: Sequence[Any], take: str, each: Sequence[Any]
    ) -> list[Handle]:
        """New parts made of pieces of old ones.

        `give` cuts a part into as many pieces as there will be parts, by its plan; `take` makes a part of the pieces
        that are for it, in the order of those that gave them.
        """

    def ask(self, function: str, parts: Sequence[Handle], given: Any, heard: Heard = nobody) -> list[Any]:
        """The answers of all parts to the same question."""


class Counted:
    """Counts what travels; messages are packed and answers unpacked here, in any thread."""

    def __init__(self) -> None:
        self.rounds = self.sent = self.received = 0
        self._counting = threading.Lock()

    def packed(self, value: Any, times: int = 1) -> Message:
        """A message that is sent so many times."""
        message = pack(value)
        with self._counting:
            self.sent += times * message.size
        return message

    def unpacked(self, messages: Sequence[Message]) -> list[Any]:
        """Answers, after which a round is over."""
        with self._counting:
            self.rounds += 1
            self.received += sum(message.size for message in messages)
        return [unpack(message) for message in messages]


class Local(Counted):
    """Workers that are threads of this process: for tests, and for trying how a fit behaves on many machines.

    >>> Local().call("listing", [("nothing.csv",)])
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'nothing.csv'
    """

    name = "local"

    def __init__(self, workers: int = 2) -> None:
        super().__init__()
        self.workers = workers

    def _each(self, run: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        with ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(run, *given))

    def call(self, function: str, each: Sequence[Any]) -> list[Any]:
        """See `Engine`."""
        messages = [self.packed(one) for one in each]
        return self.unpacked(self._each(lambda message: work.answer(function, message), messages))

    def place(self, function: str, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`."""
        return self._each(lambda message: work.made(function, message), [self.packed(one) for one in each])

    def remake(self, function: str, parts: Sequence[Any], common: Any, each: Sequence[Any]) -> list[Handle]:
        """See `Engine`."""
        shared, messages = self.packed(common, len(parts)), [self.packed(one) for one in each]
        return self._each(lambda part, message: work.remade(function, part, shared, message), parts, messages)

    def exchange(
        self, give: str, parts: Sequence[Any], plans: Sequence[Any], take: str, each: Sequence[Any]
    ) -> list[Handle]:
        """See `Engine`."""
        messages = [self.packed(plan) for plan in plans]
        pieces = self._each(lambda part, message: work.given(give, part, message), parts, messages)
        wanted = [self.packed(one) for one in each]
        return self._each(lambda message, *own: work.taken(take, message, own), wanted, *pieces)

    def ask(self, function: str, parts: Sequence[Any], given: Any, heard: Heard = nobody) -> list[Any]:
        """See `Engine`."""
        message = self.packed(given, len(parts))

        def answer(place: int) -> Message:
            found = work.asked(function, parts[place], message)
            heard(place)
            return found

        return self.unpacked(self._each(answer, range(len(parts))))
