"""Things that are made for all chains at once, and kept until each of them has asked for its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Own = TypeVar("Own")
Key = tuple[int, int]


class Shared(Generic[Own]):
    """Gives chains what is theirs; the oldest that nobody has asked for goes where there are more than `most`.

    It is made again if a chain asks once more, so that a key must always make the same.

    >>> shared = Shared(most=2)
    >>> [shared.of((1, 0), chain, lambda: ["a", "b"]) for chain in (0, 1)]
    ['a', 'b']
    >>> len(shared)  # all have theirs: nothing is kept
    0
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock, self._waiting = most, threading.Lock(), dict[Key, dict[int, Own]]()

    def __len__(self) -> int:
        return len(self._waiting)

    def of(self, key: Key, chain: int, make: Callable[[], Sequence[Own]]) -> Own:
        """What a chain gets of what is made for all."""
        with self._lock:
            if chain not in self._waiting.get(key, {}):
                self._waiting[key] = dict(enumerate(make()))
                if len(self._waiting) > self._most:
                    del self._waiting[next(iter(self._waiting))]
            found = self._waiting[key].pop(chain)
            if not self._waiting[key]:
                del self._waiting[key]
        return found
