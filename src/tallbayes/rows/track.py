"""A linear predictor that stays with the rows, for chains that move one coefficient at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.rows import passes
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH, in_order
from tallbayes.rows.protocol import Count
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]
Integers = NDArray[np.intp]


@dataclass
class Trail:
    """Where chains are: plain arrays, which can be saved."""

    theta: Array  # (chains, width)
    value: Array  # (chains,) the log-likelihood there
    eta: Array = field(default_factory=lambda: np.empty((0, 0)))  # (chains, n) linear predictors, where they are kept


class Track:
    """Follows chains that move one coefficient at a time (see `models/likelihood.py`).

    A trail has every row's linear predictor, so that a move reads two columns instead of all; the effect of a
    group moves its own rows only, and the effects' sd none. Rounding errors pile up with the moves; `refresh` computes
    the predictors anew.
    """

    def __init__(self, arrays: Arrays, count: Count, family: Tag) -> None:
        self._arrays, self._count, self._family = arrays, count, family

    def start(self, theta: Array) -> Trail:
        """Chains at the rows of theta."""
        trail = Trail(self._arrays.vectors(theta), np.empty(len(theta)))
        self.refresh(trail)
        trail.value = self.at(trail, theta, 0, np.arange(len(theta)))
        return trail

    def refresh(self, trail: Trail) -> None:
        """Compute the linear predictors anew from the coefficients."""
        self._count(self._arrays.size * len(trail.theta), 1)
        shape = len(trail.theta), self._arrays.size
        trail.eta = self._arrays.predictors(trail.theta, trail.eta if trail.eta.shape == shape else None)

    def at(self, trail: Trail, theta: Array, column: int | None, chains: Integers) -> Array:
        """Log-likelihood of `chains` at their rows of `theta`, which differs from where they are in `column` only."""
        arrays = self._arrays
        column, steps = _moved(trail, theta, column, chains)
        if column >= arrays.columns:
            return np.asarray(trail.value[chains] + self._shifted(trail, column - arrays.columns, chains, steps))
        self._count(arrays.size * chains.size, 1)
        values = np.empty((arrays.blocks, chains.size))
        data = (self._family.terms, arrays.y, trail.eta, arrays.x[column], arrays.weights, chains, steps)
        arrays.over_blocks(passes.moved_values, *data, LENGTH, values, looks=chains.size)
        return np.asarray(arrays.outcomes.linear(self._family, theta[chains]) + in_order(values))

    def accept(self, trail: Trail, theta: Array, column: int | None, chains: Integers, value: Array) -> None:
        """These chains moved to their rows of `theta`, where the log-likelihood is `value`."""
        arrays = self._arrays
        column, steps = _moved(trail, theta, column, chains)
        if column < arrays.columns:
            data = (trail.eta, arrays.x[column], chains, steps, LENGTH)
            arrays.over_blocks(passes.move, *data, looks=chains.size)
        else:
            for chain, step in zip(chains, steps, strict=True):
                trail.eta[chain, self._members(column - arrays.columns)] += step
        trail.theta[chains, column] = theta[chains, column]
        trail.value[chains] = value

    @property
    def sizes(self) -> Array:
        """Rows touched when one entry of a parameter vector moves: all, or those of a group at both points, or none."""
        arrays = self._arrays
        every = np.full(arrays.columns, float(arrays.size))
        return np.concatenate([every, 2.0 * np.diff(arrays.starts), [0.0]]) if arrays.groups else every

    def _members(self, group: int) -> slice:
        """The rows of a group; of the effects' sd, which comes behind the groups, none."""
        starts = self._arrays.starts
        return slice(int(starts[group]), int(starts[min(group + 1, self._arrays.groups)]))

    def _shifted(self, trail: Trail, group: int, chains: Integers, steps: Array) -> Array:
        """By how much the log-likelihood grows when the effect of a group does: only its rows are looked at."""
        arrays, members = self._arrays, self._members(group)
        size = members.stop - members.start
        self._count(2 * size * chains.size)
        blocks = max(1, -(-size // LENGTH))
        sums = np.zeros((blocks, chains.size))
        data = (self._family.terms, arrays.y, trail.eta, arrays.weights, chains, steps, members.start, members.stop)
        over_blocks(passes.shifted_values, blocks, *data, LENGTH, sums, evaluations=size * chains.size)
        slope = arrays.outcomes.slope(self._family)[arrays.columns + group]
        return np.asarray(steps * slope + in_order(sums))


def _moved(trail: Trail, theta: Array, column: int | None, chains: Integers) -> tuple[int, Array]:
    """The column, and how far each chain moves in it."""
    if column is None:
        raise ValueError("a track serves moves of one column only")
    return column, np.asarray(theta[chains, column] - trail.theta[chains, column])
