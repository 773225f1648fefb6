"""Rows that something is wrong with, counted over pieces of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Where = Callable[[int], str]  # how a message names a row of a piece


def row(number: int) -> str:
    """The name of a row where all rows are one piece.

    >>> row(3)
    'row 3'
    """
    return f"row {number}"


def rows_from(start: int) -> Where:
    """Names of the rows of a piece that begins at this row.

    >>> rows_from(10)(2)
    'row 12'
    """
    return lambda place: row(start + place)


def among(where: Where, kept: NDArray[np.intp]) -> Where:
    """Names of those rows of a piece that are kept.

    >>> among(row, np.array([1, 4]))(1)
    'row 4'
    """
    return lambda place: where(int(kept[place]))


class Tally:
    """How many rows are wrong, and the first of them: its name and its value.

    >>> tally = Tally()
    >>> tally.add(np.array([False, True, True]), row, np.array([0.0, 5.0, 7.0]))
    >>> tally.count, tally.first, tally.value
    (2, 'row 1', 5.0)
    """

    def __init__(self) -> None:
        self.count, self.first, self.value = 0, "", float("nan")

    def add(self, wrong: NDArray[np.bool_], where: Where, values: NDArray[Any] | None = None) -> None:
        """Count the rows of a piece that are wrong."""
        found = int(np.count_nonzero(wrong))
        if found and not self.count:
            place = int(wrong.argmax())
            self.first, self.value = where(place), float("nan" if values is None else values[place])
        self.count += found

    def then(self, later: Tally) -> None:
        """Count what was counted in later rows."""
        if not self.count:
            self.first, self.value = later.first, later.value
        self.count += later.count
