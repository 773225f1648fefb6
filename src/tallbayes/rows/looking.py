"""A first look at the rows: some of them, for first guesses and for planning, and nothing else depends on them.

Each row is looked at with a probability of its own, whoever else is: half of the rows are spent on all alike, in
proportion to their weight, and half in proportion to their outcome too, because events are rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.rows.arrays import Arrays
from tallbayes.rows.generators import of_block
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Once

Array = NDArray[np.float64]

KEY = (0, 0)  # of the random numbers: all that look at the same rows see the same of them


class Look(NamedTuple):
    """Some of the rows, and one over the probability with which each is among them."""

    arrays: Arrays
    scale: Array

    @property
    def weighted(self) -> Arrays:
        """The rows weighted so that their sums estimate the sums over all rows."""
        return self.arrays.reweighted(self.arrays.own * self.scale)


@dataclass(frozen=True)
class FirstLook(Once):
    """A task: about `size` rows, given the mean outcome of all and their total weight.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> rows = MemoryRows(np.ones((1, 100_000)), np.arange(100_000) % 1_000 == 0)
    >>> look = rows.reduce(FirstLook(1_000, rows.mean_outcome, rows.total_weight))
    >>> bool(abs(look.scale.sum() / 100_000 - 1) < 0.3), bool(look.arrays.y.mean() > 0.05)
    (True, True)
    """

    size: int
    mean: float
    weight: float

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        chosen, scales = [np.empty(0, np.intp)], [np.empty(0)]
        mean = self.mean if self.mean > 0 else 1.0  # where there are no outcomes, all rows are alike
        for block in range(arrays.blocks):
            part = slice(block * LENGTH, (block + 1) * LENGTH)
            share = (1.0 + arrays.y[part] / mean) * (self.size / (2 * self.weight))
            if arrays.weights.size:
                share *= arrays.weights[part]
            picked = np.flatnonzero(of_block(KEY, arrays.block + block).random(share.size, dtype=np.float32) < share)
            chosen.append(part.start + picked)
            scales.append(1 / np.minimum(share[picked], 1.0))
        return np.concatenate(scales), *arrays.parts(np.concatenate(chosen))

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Look:
        """See `Task`."""
        return Look(Arrays.joined(parts[1:], rows.strata, rows.groups), parts[0])
