"""Items made ahead of time in a thread of their own: files are read while what was read before is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")

MOST = 2  # items that wait
PATIENCE = 0.1  # seconds after which a thread looks whether anybody still wants its items


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items in the same order; an error comes where it came, and whoever stops early stops the thread.

    >>> list(ahead(iter([1, 2, 3])))
    [1, 2, 3]
    """
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(MOST)
    stopped = threading.Event()

    def put(kind: str, item: Any) -> None:
        while not stopped.is_set():
            try:
                waiting.put((kind, item), timeout=PATIENCE)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=work, name="tallbayes reading", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
