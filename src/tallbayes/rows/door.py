"""What rows have in common wherever they are: they count what they are asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from numpy.typing import ArrayLike

from tallbayes.rows import threads
from tallbayes.rows.protocol import Found, Task


class Door:
    """The part of `Rows` that does not depend on where they are."""

    def __init__(self) -> None:
        self.touched, self.passes = 0, 0
        self._counting = threading.Lock()

    @property
    def told(self) -> dict[str, Any]:
        """See `Rows`."""
        return {}

    @property
    def hands(self) -> int:
        """See `RowsAtHand`."""
        return threads.count()

    def count(self, rows: int, passes: int = 0) -> None:
        """See `Rows`; chains may ask from several threads."""
        with self._counting:
            self.touched += rows
            self.passes += passes

    def reduce(self, task: Task[Found], params: ArrayLike | None = None) -> Found:
        """See `Rows`."""
        (found,) = self.reduce_all((task, params))
        return cast(Found, found)

    def reduce_all(self, *questions: tuple[Task[Any], ArrayLike | None]) -> tuple[Any, ...]:
        """See `Rows`."""
        raise NotImplementedError

    def aside(self, task: Task[Found]) -> Callable[[], Found]:
        """See `Rows`."""
        found = self.reduce(task)
        return lambda: found


def kept(columns: int, gone: Sequence[int]) -> list[int]:
    """Those of so many columns of a design that are left when some are gone.

    >>> kept(3, [1])
    [0, 2]
    """
    found = [column for column in range(columns) if column not in gone]
    if not found:
        raise ValueError("no column of the design is left: all are zero in every row")
    return found
