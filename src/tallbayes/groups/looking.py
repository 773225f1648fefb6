"""Some rows that show what the coefficients alone can do to the posterior, for the shape of their proposals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallbayes.groups.remainders import GroupExpansion, weighted
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.generators import of_block
from tallbayes.rows.looking import Look
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Parts

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LookAtCoefficients:
    """A task: some rows, each with a probability in proportion to what they can do to it, or for certain.

    The probability is a `share` of the weighted bound; the same key gives the same rows.
    """

    expansion: GroupExpansion
    share: float
    key: int

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return 2

    def over(self, arrays: Arrays, params: Array) -> Parts:
        """See `Task`."""
        share = self.share * weighted(arrays, self.expansion.alone(arrays, *self.expansion.of(arrays)))
        chosen = [np.empty(0, np.intp)]
        for block, start in enumerate(range(0, arrays.size, LENGTH)):
            own = share[start : start + LENGTH]
            chosen.append(start + np.flatnonzero(of_block((self.key, 0), arrays.block + block).random(own.size) < own))
        rows = np.concatenate(chosen)
        return 1 / np.minimum(share[rows], 1.0), *arrays.parts(rows)

    def answer(self, parts: Parts, params: Array, rows: Rows) -> Look:
        """See `Task`."""
        return Look(Arrays.joined(parts[1:], rows.strata, rows.groups), parts[0])
