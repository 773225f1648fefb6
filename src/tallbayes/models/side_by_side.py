"""Draws of many parameters, which are held in memory once and looked at a few parameters at a time.

Coefficients, effects and the sd of groups lie in arrays of their own. Side by side they are the draws of all
parameters; an array of them is a copy, and is only ever made of a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

AT_ONCE = 100_000  # draws to work on at a time


class SideBySide:
    """Arrays (chain, draw, parameter) that are read as if they were one.

    >>> both = SideBySide(np.zeros((2, 5, 1)), np.ones((2, 5, 3)))
    >>> both.shape
    (2, 5, 4)
    >>> np.asarray(both[:1, :1, :2])
    array([[[0., 1.]]])
    """

    def __init__(self, *arrays: NDArray[Any]) -> None:
        self.arrays = arrays
        self.shape = (*arrays[0].shape[:2], sum(array.shape[2] for array in arrays))

    def __getitem__(self, chosen: tuple[slice, slice, slice]) -> SideBySide:
        """Some chains, draws and parameters, of which nothing is copied."""
        chains, draws, parameters = chosen
        first, last, _ = parameters.indices(self.shape[2])
        begins = accumulate((array.shape[2] for array in self.arrays), initial=0)
        return SideBySide(
            *(
                array[chains, draws, max(0, first - begin) : max(0, last - begin)]
                for array, begin in zip(self.arrays, begins, strict=False)
            )
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """A copy in one array."""
        return np.concatenate(self.arrays, axis=2, out=np.empty(self.shape, dtype))


Parameters = Array | SideBySide  # draws (chain, draw, parameter)


def cuts(draws: Parameters, at_once: int = AT_ONCE, least: int = 1) -> list[slice]:
    """All parameters, cut into slices of at most `at_once` draws, but of `least` parameters if there are as many.

    >>> cuts(np.ones((4, 1_000, 3)), at_once=10_000)
    [slice(0, 1, None), slice(1, 3, None)]
    """
    chains, count, parameters = draws.shape
    most = max(1, at_once // max(1, chains * count))
    pieces = max(1, min(-(-parameters // most), parameters // least))
    return [slice(*ends) for ends in pairwise(parameters * i // pieces for i in range(pieces + 1))]


def batches(draws: Parameters) -> Iterator[Array]:
    """A few parameters after the other, as arrays.

    NumPy sums several parameters draw by draw, and a single one in pairs. So there are two at least, and sums are those
    of all at once.
    """
    return (np.ascontiguousarray(draws[:, :, some]) for some in cuts(draws, least=2))
