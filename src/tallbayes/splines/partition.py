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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, INTEGER, INTEGERS, MATRIX, NOTHING, Table
from tallbayes.families.compiled import LEAN, compiled, exp_negative, log1p_unit
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.moments import ColumnMoments
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import Count
from tallbayes.rows.subsample import scattered
from tallbayes.splines.basis import Splines, mean_spline

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
    """The cells of rows; it lives with them.

    >>> from tallbayes.rows.memory import MemoryRows
    >>> partition = MemoryRows([[0.0, 0.1, 5.0, 5.2]], [0.0, 1.0, 1.0, 1.0]).keep(Partition, 2, 0, 0)
    >>> partition.outcome, partition.codes
    (array([0., 1., 1.]), array([0, 1, 2, 2], dtype=int32))
    >>> partition.pseudo_rows(np.zeros(4)).x.round(2)
    array([[0. , 0.1, 5.1]])
    """

    def __init__(self, arrays: Arrays, count: Count, cells: int, pairs: int, seed: int) -> None:
        count(arrays.size, 1)
        self._arrays, self._count, x, y = arrays, count, arrays.x, arrays.y
        parts = [slice(start, start + LENGTH) for start in range(0, y.size, LENGTH)]
        unit = units(arrays)
        self.codes, _ = cut(arrays, unit, min(cells, y.size))
        size, sums = np.zeros(2 * cells, np.intp), np.zeros((len(x), 2 * cells))
        for part in parts:
            self.codes[part] = keys = 2 * self.codes[part] + (y[part] > 0.5)
            size += np.bincount(keys, minlength=size.size)
            for column, own in zip(x, sums, strict=True):
                own += np.bincount(keys, column[part], size.size)
        present = np.flatnonzero(size)
        number = np.zeros(size.size, np.int32)
        number[present] = np.arange(present.size)
        self.outcome, center = (present % 2).astype(float), sums[:, present] / size[present]
        distance = arrays.empty(y.size)  # squared, of each row from the mean of its cell and outcome
        for part in parts:
            self.codes[part] = codes = number[self.codes[part]]
            distance[part] = (((x[:, part] - center[:, codes]) * unit[:, None]) ** 2).sum(0)
        rng, total = np.random.default_rng(seed), max(float(distance.sum()), np.finfo(float).tiny)
        ends = arrays.empty(y.size)
        for part in parts:
            ends[part] = EVENLY / y.size + (1 - EVENLY) * distance[part] / total
        np.cumsum(ends, out=ends)
        chosen = np.searchsorted(ends, ends[-1] * rng.random(pairs)).clip(max=y.size - 1)
        far = chosen[distance[chosen] > 0]  # the others are their pseudo-rows
        measure = EVENLY / y.size + (1 - EVENLY) * distance[far] / total
        self.pairs = Pairs(far, np.ascontiguousarray(x[:, far]), self.codes[far].astype(np.intp), 1 / (pairs * measure))

    def at(self, reference: Splines) -> tuple[PseudoRows, Array]:
        """Pseudo-rows where the reference fit is the mean of some splines, and its linear predictors of the pairs."""
        self._count(self._arrays.size * reference.sizes.size, 1)
        eta = mean_spline(self._arrays, reference)
        return self.pseudo_rows(eta), eta[self.pairs.chosen]

    def pseudo_rows(self, eta: Array) -> PseudoRows:
        """Those at a reference fit with linear predictor eta (n,)."""
        a = self.outcome.size
        self._count(eta.size, 1)
        top, total, mean = np.full(a, -np.inf), np.zeros(a), np.zeros(a)
        center = np.zeros((self._arrays.columns, a))
        share = self._arrays.empty(eta.size)
        _gather(self._arrays.x, self._arrays.y, eta, self.codes, top, total, mean, center, share)
        sign = 2 * self.outcome - 1
        return PseudoRows(center, self.outcome, np.exp(top + np.log(total) + np.logaddexp(0, sign * mean)), mean)


def units(arrays: Arrays) -> Array:
    """One over the scale of each variable: its sd, unless a few rows far out make that too large; 0 if constant."""
    sd = MemoryRows.of(arrays).reduce(ColumnMoments()).sd
    some = arrays.x[:, scattered(arrays.size, LOOK, np.random.default_rng(arrays.size))]
    low, high = np.quantile(some, [0.01, 0.99], axis=1)
    scale = np.where(high > low, np.minimum(sd, (high - low) / 2), sd)
    return np.divide(1, scale, out=np.zeros(scale.size), where=scale > 0)


def cut(arrays: Arrays, unit: Array, cells: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The cell of each row, of so many at most, and an order of the rows in which those of a cell are together."""
    size, ends = arrays.size, np.zeros((2, cells), np.int64)
    found, order = arrays.empty(size, dtype=np.int32), arrays.empty(size, dtype=np.int64)
    for start in range(0, size, LENGTH):
        order[start : start + LENGTH] = np.arange(start, min(size, start + LENGTH))
    ends[1, 0] = size
    measures = (np.full(cells, -1.0), np.zeros(cells, np.int64), np.zeros(cells))
    _cut(CUTS.addresses, arrays.x, unit, order, ends, *measures, found)
    return found, order


CUTS = Table()


@CUTS.entry(NOTHING, MATRIX, COLUMN, INTEGERS, INTEGER, INTEGER, INTEGER, COLUMN, INTEGERS, COLUMN)
def _measure(x, unit, order, start, stop, cell, gain, column, middle):
    """Of a cell with some rows: the largest sum of squares of a column, the column, and its mean."""
    best, which, where = 0.0, 0, 0.0
    for j in range(x.shape[0]):
        base, mean = x[j, order[start]], 0.0
        for i in range(start, stop):
            mean += x[j, order[i]] - base
        mean = base + mean / (stop - start)
        squares = 0.0
        for i in range(start, stop):
            apart = x[j, order[i]] - mean
            squares += apart * apart
        squares *= unit[j] * unit[j]
        if squares > LARGER * best:
            best, which, where = squares, j, mean
    gain[cell], column[cell], middle[cell] = best, which, where


@compiled(**LEAN)
def _cut(table, x, unit, order, ends, gain, column, middle, found):
    """Cells have rows order[start..stop]; gain is below zero where a cell has still to be measured."""
    start, stop, cell, made = ends[0], ends[1], 0, 1
    while made < gain.size:
        for side in range(2):
            half = cell if side == 0 else made - 1
            if gain[half] < 0.0:
                _measure(table, x, unit, order, start[half], stop[half], half, gain, column, middle)
        cell = 0
        for other in range(1, made):
            cell = other if gain[other] > gain[cell] else cell
        if not gain[cell] > 0.0:
            break
        values, low, high = x[column[cell]], start[cell], stop[cell]
        while low < high:
            if values[order[low]] < middle[cell]:
                low += 1
            else:
                high -= 1
                order[low], order[high] = order[high], order[low]
        if low == start[cell] or low == stop[cell]:  # all but equal
            gain[cell] = 0.0
            continue
        start[made], stop[made], stop[cell] = low, stop[cell], low
        gain[cell], gain[made] = -1.0, -1.0
        made += 1
    for cell in range(made):
        for i in range(start[cell], stop[cell]):
            found[order[i]] = cell


@compiled()
def _gather(x, y, eta, codes, top, total, mean, center, share):
    """Sums over the rows of each pseudo-row, with weights w_i over the largest of them; `share` is room for w_i."""
    n = y.size
    for i in range(n):
        wrong = eta[i] if y[i] < 0.5 else -eta[i]
        share[i] = (wrong if wrong < 0.0 else 0.0) - log1p_unit(exp_negative(-abs(wrong)))
        if share[i] > top[codes[i]]:
            top[codes[i]] = share[i]
    for i in range(n):
        share[i] = math.exp(share[i] - top[codes[i]])
        total[codes[i]] += share[i]
    for i in range(n):
        share[i] /= total[codes[i]]
        mean[codes[i]] += share[i] * eta[i]
    for j in range(x.shape[0]):
        for i in range(n):
            center[j, codes[i]] += share[i] * x[j, i]
