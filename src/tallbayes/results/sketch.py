"""A random subsample of the rows of each group, of rows that come piece by piece and are never all at hand.

Each row has a random number, and those with the least of them are kept. So subsamples of parts join to one of all, and
a smaller one is part of a larger one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Sketch(NamedTuple):
    """Rows of a group with the least of random numbers that all rows have: a random subsample, of any size wanted."""

    priority: NDArray[np.uint64]
    weight: Array
    features: Array  # (row, side, feature)

    def least(self, size: int) -> Sketch:
        """So many of them."""
        if self.priority.size <= size:
            return self
        kept = np.sort(np.argpartition(self.priority, size)[:size])
        return Sketch(self.priority[kept], self.weight[kept], self.features[kept])

    def joined(self, later: Sketch, size: int) -> Sketch:
        """So many rows of both."""
        return Sketch(*(np.concatenate(parts) for parts in zip(self, later, strict=True))).least(size)


def least_of_each(values: NDArray[Any], codes: NDArray[np.intp], groups: int, size: int) -> list[NDArray[np.intp]]:
    """Of each group so many rows with the least values, or all if there are fewer, in their order.

    >>> least_of_each(np.array([0.3, 0.1, 0.2, 0.5]), np.array([0, 0, 0, 1]), 2, 2)
    [array([1, 2]), array([3])]
    """
    order, found = np.argsort(codes, kind="stable"), []
    for own in np.split(order, np.cumsum(np.bincount(codes, minlength=groups))[:-1]):
        found.append(own if own.size <= size else np.sort(own[np.argpartition(values[own], size)[:size]]))
    return found
