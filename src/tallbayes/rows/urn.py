"""Rows drawn with replacement, with probabilities in proportion to a weight: the alias method.

A table of n entries holds for every row a probability and a partner: pick an entry uniformly, keep it with its
probability, else take its partner (A. J. Walker, 1977; M. D. Vose, 1991). There is one table a block of rows, which
stays in the cache while it is built, and one over the blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled, inside
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Count
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]


class Pool(NamedTuple):
    """Drawn rows, each contiguous in memory, in the order in which they were drawn."""

    x: Array  # (size, p)
    y: Array  # (size,)
    eta: Array  # (size,) linear predictor where the rows are expanded
    bound: Array  # (size,) of the remainder, for unit weight


@inside(inline="always")
def _table(weights, table, stack):
    """The alias table of some weights, (probability, partner) side by side in memory; returns their sum."""
    n, total = weights.size, 0.0
    for i in range(n):
        total += weights[i]
    if total == 0.0:
        return total
    small, large = 0, n  # stacks of the indices below and above the mean grow from both ends
    for i in range(n):
        table[i, 0], table[i, 1] = weights[i] * (n / total), i
        if table[i, 0] < 1.0:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < n:
        small -= 1
        low, high = stack[small], stack[large]
        table[low, 1] = high
        table[high, 0] -= 1.0 - table[low, 0]
        if table[high, 0] < 1.0:
            large += 1
            stack[small] = high
            small += 1
    for k in range(small):  # what rounding left over is one
        table[stack[k], 0] = 1.0
    return total


@compiled()
def tables(weights, starts, table, totals, begin, end):
    """One table a block, of the rows from its start to that of the next; and the sum of each block's weights."""
    for block in range(begin, end):
        start, stop = starts[block], starts[block + 1]
        totals[block] = _table(weights[start:stop], table[start:stop], np.empty(stop - start, np.int32))


@inside()
def pick(table, rng):
    """An entry of an alias table."""
    place = rng.random() * table.shape[0]
    i = int(place)
    if i == table.shape[0]:  # rounding
        i -= 1
    return i if place - i < table[i, 0] else int(table[i, 1])


class Lots(NamedTuple):
    """What compiled code draws rows from."""

    table: Array  # (n, 2) alias tables of the blocks of rows
    blocks: Array  # (blocks, 2) alias table of the blocks
    starts: NDArray[np.intp]  # of the blocks, and the end of the last
    x: Array  # (p, n)
    y: Array
    offset: Array
    bounds: Array  # of each row, for unit weight


@compiled()
def draw_lots(lots, theta, low, high, rng, x, y, eta, bound):
    """Draw rows into the places low..high of columns x (p, m), outcomes, linear predictors at theta, and bounds."""
    for k in range(low, high):
        block = pick(lots.blocks, rng)
        i = lots.starts[block] + pick(lots.table[lots.starts[block] : lots.starts[block + 1]], rng)
        y[k], bound[k] = lots.y[i], lots.bounds[i]
        total = lots.offset[i] if lots.offset.size > 0 else 0.0
        for j in range(theta.size):
            x[j, k] = lots.x[j, i]
            total += x[j, k] * theta[j]
        eta[k] = total


@compiled()
def _draw(table, blocks, starts, x, y, offset, bounds, theta, rng, pool_x, pool_y, pool_eta, pool_bound):
    """Draw rows into the pool: first a block, then a row of it."""
    p = x.shape[0]
    chosen = np.empty(pool_y.size, np.int64)
    for k in range(chosen.size):
        block = pick(blocks, rng)
        chosen[k] = starts[block] + pick(table[starts[block] : starts[block + 1]], rng)
    for j in range(p):
        column = x[j]
        for k in range(chosen.size):
            pool_x[k, j] = column[chosen[k]]
    for k in range(chosen.size):
        i = chosen[k]
        pool_y[k], pool_bound[k] = y[i], bounds[i]
        eta = offset[i] if offset.size > 0 else 0.0
        for j in range(p):
            eta += pool_x[k, j] * theta[j]
        pool_eta[k] = eta


class Urn:
    """Draws rows in proportion to weight times bound; `total` is the sum. Draws are independent, in random order."""

    def __init__(self, arrays: Arrays, count: Count, bounds: Array, theta: Array) -> None:
        weights = bounds * arrays.weights if arrays.weights.size else bounds
        if not np.isfinite(weights.sum()):
            raise ValueError("the weights with which rows are drawn must be finite")
        self._arrays, self._count, self._bounds, self._theta = arrays, count, bounds, np.array(theta, dtype=float)
        self.rows = int(np.count_nonzero(weights))  # that can be drawn
        self._starts = np.append(np.arange(0, arrays.size, LENGTH), arrays.size)
        self._table, totals = np.empty((arrays.size, 2)), np.empty(self._starts.size - 1)
        over_blocks(tables, totals.size, weights, self._starts, self._table, totals, evaluations=arrays.size)
        self._blocks, total = np.empty((totals.size, 2)), np.empty(1)
        tables(totals, np.array([0, totals.size]), self._blocks, total, 0, 1)
        self.total = float(total[0])

    @property
    def lots(self) -> Lots:
        """For compiled code that draws on its own; it must count its rows itself."""
        return Lots(self._table, self._blocks, self._starts, *self._rows)

    @property
    def _rows(self) -> tuple[Array, Array, Array, Array]:
        return self._arrays.x, self._arrays.y, self._arrays.offset, self._bounds

    def draw(self, size: int, rng: np.random.Generator) -> Pool:
        """So many rows, independently; the same row may come again."""
        if not self.total > 0:
            raise ValueError("no row has a positive weight, so none can be drawn")
        self._count(size)
        pool = Pool(np.empty((size, self._theta.size)), np.empty(size), np.empty(size), np.empty(size))
        _draw(self._table, self._blocks, self._starts, *self._rows, self._theta, rng, *pool)
        return pool
