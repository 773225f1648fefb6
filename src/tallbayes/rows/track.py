"""A linear predictor that stays with the rows, for chains that move one coefficient at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.rows import passes
from tallbayes.rows.passes import in_order
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]
Integers = NDArray[np.intp]


class Track:
    """Follows chains that move one coefficient at a time (see `likelihood.Follower`).

    Every row's linear predictor is kept for every chain, so that a move reads two columns instead of all; the effect of
    a group moves its own rows only, and the effects' sd none. Rounding errors pile up with the moves; `refresh`
    computes the predictors anew.
    """

    def __init__(self, rows: Any, family: Tag, theta: Array) -> None:
        # The rows are MemoryRows, which make their tracks themselves and so come after this file.
        self._rows, self._family, self._theta = rows, family, np.array(theta, dtype=float)
        self.refresh()
        self.value = self.at(theta, 0, np.arange(len(theta)))

    def refresh(self) -> None:
        """Compute the linear predictors anew from the coefficients."""
        self._eta = self._rows._predictors(self._theta)

    def at(self, theta: Array, column: int | None, chains: Integers) -> Array:
        """Log-likelihood of `chains` at their rows of `theta`, which differs from where they are in `column` only."""
        rows = self._rows
        column, steps = self._moved(theta, column, chains)
        if column >= rows.columns:
            return np.asarray(self.value[chains] + self._shifted(column - rows.columns, chains, steps))
        rows.count(rows.size * chains.size)
        values = np.empty((rows._blocks, chains.size))
        data = (self._family.terms, rows._y, self._eta, rows._x[column], rows._weights, chains, steps)
        over_blocks(
            passes.moved_values, rows._blocks, *data, rows._length, values, evaluations=rows.size * chains.size
        )  # fmt: skip
        return np.asarray(rows.linear(self._family, theta[chains]) + in_order(values))

    def accept(self, theta: Array, column: int | None, chains: Integers, value: Array) -> None:
        """These chains moved to their rows of `theta`, where the log-likelihood is `value`."""
        rows = self._rows
        column, steps = self._moved(theta, column, chains)
        if column < rows.columns:
            data = (self._eta, rows._x[column], chains, steps, rows._length)
            over_blocks(passes.move, rows._blocks, *data, evaluations=rows.size * chains.size)
        else:
            for chain, step in zip(chains, steps, strict=True):
                self._eta[chain, self._members(column - rows.columns)] += step
        self._theta[chains, column] = theta[chains, column]
        self.value[chains] = value

    def _members(self, group: int) -> slice:
        """The rows of a group; of the effects' sd, which comes behind the groups, none."""
        starts = self._rows.starts
        return slice(int(starts[group]), int(starts[min(group + 1, self._rows.groups)]))

    def _shifted(self, group: int, chains: Integers, steps: Array) -> Array:
        """By how much the log-likelihood grows when the effect of a group does: only its rows are looked at."""
        rows, members = self._rows, self._members(group)
        size = members.stop - members.start
        rows.count(2 * size * chains.size)
        blocks = max(1, -(-size // rows._length))
        sums = np.zeros((blocks, chains.size))
        data = (self._family.terms, rows._y, self._eta, rows._weights, chains, steps, members.start, members.stop)
        over_blocks(
            passes.shifted_values, blocks, *data, rows._length, sums, evaluations=size * chains.size
        )  # fmt: skip
        slope = rows._linear[rows.columns + group] if self._family.canonical else 0.0
        return np.asarray(steps * slope + in_order(sums))

    def _moved(self, theta: Array, column: int | None, chains: Integers) -> tuple[int, Array]:
        """The column, and how far each chain moves in it."""
        if column is None:
            raise ValueError("a track serves moves of one column only")
        return column, np.asarray(theta[chains, column] - self._theta[chains, column])
