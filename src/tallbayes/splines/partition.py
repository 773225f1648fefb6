"""Rows sorted into cells of the covariate space, and what a cell's rows come to.

The cells are cut one at a time: the cell and column with the largest sum of squares around the cell's mean, in units of
the column's sd, are cut at that mean. So cells are small where rows are many, and also where rows are far out: products
of hinges are largest there.

In each cell the rows of each outcome are one pseudo-row. With w_i = |d loglik_i / d eta| at a reference fit and
q_i = w_i over their sum W, it lies at the mean of x_i weighted by q_i, and its linear predictor at the reference is the
mean of eta_i. Its weight is such that its derivative there is W. All in logs, since w_i may be tiny.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled, exp_negative, log1p_unit
from tallbayes.rows.subsample import scattered

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

LOOK = 20_000  # rows that tell the scale of a variable
LARGER = 1 + 1e-9  # than those before it: in units of their sd columns tie, and rounding must not choose among them
EVENLY = 0.5  # share of the pairs that are drawn with equal probabilities


class PseudoRows(NamedTuple):
    """One for each cell and outcome that it has."""

    x: Array  # (d, a)
    y: Array  # (a,)
    weights: Array  # (a,)
    eta: Array  # (a,) at the reference


class Pairs(NamedTuple):
    """Rows drawn at random, each to be held against its pseudo-row."""

    chosen: Integers  # (pairs,) rows
    x: Array  # (d, pairs)
    code: Integers  # (pairs,) the pseudo-row of each
    scale: Array  # (pairs,) one over the expected number of times that the row is drawn


class Partition:
    """The cells of rows x (d, n) with outcomes y.

    >>> partition = Partition(np.array([[0.0, 0.1, 5.0, 5.2]]), np.array([0.0, 1.0, 1.0, 1.0]), 2, 0, 0)
    >>> partition.outcome, partition.codes
    (array([0., 1., 1.]), array([0, 1, 2, 2], dtype=int32))
    >>> partition.pseudo_rows(np.zeros(4)).x.round(2)
    array([[0. , 0.1, 5.1]])
    """

    def __init__(
        self, x: Array, y: Array, cells: int, pairs: int, seed: int, count: Callable[[int], None] | None = None
    ) -> None:
        self._x, self._y, self._count = x, y, count
        unit = np.array([_unit(column) for column in x])
        keys = 2 * cut(x, unit, min(cells, y.size)) + (y > 0.5)
        size = np.bincount(keys)
        present = np.flatnonzero(size)
        number = np.zeros(size.size, np.int32)
        number[present] = np.arange(present.size)
        self.outcome, self.codes = (present % 2).astype(float), number[keys]
        center = np.stack([np.bincount(keys, column, size.size)[present] / size[present] for column in x])
        distance = _squared_distances(x, unit, self.codes, center)
        rng, total = np.random.default_rng(seed), max(float(distance.sum()), np.finfo(float).tiny)
        measure = EVENLY / y.size + (1 - EVENLY) * distance / total
        ends = np.cumsum(measure)
        chosen = np.searchsorted(ends, ends[-1] * rng.random(pairs)).clip(max=y.size - 1)
        far = chosen[distance[chosen] > 0]  # the others are their pseudo-rows
        self.pairs = Pairs(
            far, np.ascontiguousarray(x[:, far]), self.codes[far].astype(np.intp), 1 / (pairs * measure[far])
        )

    def pseudo_rows(self, eta: Array) -> PseudoRows:
        """Those at a reference fit with linear predictor eta (n,)."""
        a = self.outcome.size
        if self._count is not None:
            self._count(eta.size)
        top, total, mean = np.full(a, -np.inf), np.zeros(a), np.zeros(a)
        center = np.zeros((self._x.shape[0], a))
        _gather(self._x, self._y, eta, self.codes, top, total, mean, center)
        sign = 2 * self.outcome - 1
        return PseudoRows(center, self.outcome, np.exp(top + np.log(total) + np.logaddexp(0, sign * mean)), mean)


def _unit(column: Array) -> float:
    """One over the scale of a variable: its sd, unless a few rows far out make that too large; 0 if it is constant."""
    some = column[scattered(column.size, LOOK, np.random.default_rng(column.size))]
    low, high = np.quantile(some, [0.01, 0.99])
    sd = float(column.std()) if np.ptp(column) > 0 else 0.0
    scale = min(sd, float(high - low) / 2) if high > low else sd
    return 1 / scale if scale > 0 else 0.0


@compiled()
def cut(x, unit, cells):
    """The cell of each row; there are at most so many."""
    n = x.shape[1]
    order = np.arange(n)
    start, stop = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    gain, column, middle = np.zeros(cells), np.zeros(cells, np.int64), np.zeros(cells)
    stop[0], made = n, 1
    gain[0], column[0], middle[0] = _widest(x, unit, order)
    while made < cells:
        cell = int(np.argmax(gain[:made]))
        if not gain[cell] > 0.0:
            break
        values, rows = x[column[cell]], order[start[cell] : stop[cell]]
        low, high = 0, rows.size
        while low < high:
            if values[rows[low]] < middle[cell]:
                low += 1
            else:
                high -= 1
                rows[low], rows[high] = rows[high], rows[low]
        if low == 0 or low == rows.size:  # all but equal
            gain[cell] = 0.0
            continue
        start[made], stop[made] = start[cell] + low, stop[cell]
        stop[cell] = start[made]
        for half in (cell, made):
            gain[half], column[half], middle[half] = _widest(x, unit, order[start[half] : stop[half]])
        made += 1
    found = np.empty(n, np.int64)
    for cell in range(made):
        for i in range(start[cell], stop[cell]):
            found[order[i]] = cell
    return found


@compiled()
def _widest(x, unit, rows):
    """The largest sum of squares of a column on some rows, the column, and its mean."""
    best, which, where = 0.0, 0, 0.0
    for j in range(x.shape[0]):
        base, mean = x[j, rows[0]], 0.0
        for i in rows:
            mean += x[j, i] - base
        mean = base + mean / rows.size
        squares = 0.0
        for i in rows:
            squares += (x[j, i] - mean) ** 2
        squares *= unit[j] * unit[j]
        if squares > LARGER * best:
            best, which, where = squares, j, mean
    return best, which, where


@compiled()
def _squared_distances(x, unit, codes, center):
    """Of each row from the mean of its cell and outcome."""
    out = np.zeros(codes.size)
    for j in range(x.shape[0]):
        for i in range(codes.size):
            out[i] += ((x[j, i] - center[j, codes[i]]) * unit[j]) ** 2
    return out


@compiled()
def _gather(x, y, eta, codes, top, total, mean, center):
    """Sums over the rows of each pseudo-row, with weights w_i over the largest of them."""
    n = y.size
    share = np.empty(n)
    for i in range(n):
        wrong = eta[i] if y[i] < 0.5 else -eta[i]
        share[i] = min(wrong, 0.0) - log1p_unit(exp_negative(-abs(wrong)))
        top[codes[i]] = max(top[codes[i]], share[i])
    for i in range(n):
        share[i] = math.exp(share[i] - top[codes[i]])
        total[codes[i]] += share[i]
    for i in range(n):
        share[i] /= total[codes[i]]
        mean[codes[i]] += share[i] * eta[i]
    for j in range(x.shape[0]):
        for i in range(n):
            center[j, codes[i]] += share[i] * x[j, i]
