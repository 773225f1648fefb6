"""Compiled passes over rows: linear predictors, log-likelihoods and their derivatives.

Rows are x (p, n), one contiguous run a column, with outcomes y (n,) and optionally weights, offsets and the numbers of
groups: what is absent is an empty array. Each pass is for the blocks begin..end; a block is worked off in chunks that
stay in the cache, and every block's sum is kept by itself, so that a sum over blocks does not depend on the threads.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, compiled, inside
from tallbayes.families.terms import chunk_derivatives, chunk_value, linear_predictors

CHUNK = 512
LENGTH = 32 * CHUNK  # rows of a block, whatever their number: sums have one order wherever rows are


def in_order(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of the blocks' sums, (blocks, ...) -> (...), added one after the other.

    NumPy's `sum` takes another order where a block has one number only: a parameter vector would have other bits alone
    than beside others.

    >>> in_order(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    return np.asarray(reduce(np.add, blocks, np.zeros(blocks.shape[1:])))


def joined_groups(groups: int, numbers: NDArray[np.intp], parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Parts (several, k, ...) of groups with these numbers -> (k, groups, ...), added in their order.

    >>> joined_groups(3, np.array([0, 1, 1, 2]), np.array([[1.0], [2.0], [3.0], [4.0]]))
    array([[1., 5., 4.]])
    """
    joined = np.zeros((groups, *parts.shape[1:]))
    runs = np.flatnonzero(np.diff(numbers, prepend=-2, append=-2) != 1)  # of numbers that follow each other
    for start, stop in pairwise(runs):
        joined[numbers[start] : numbers[stop - 1] + 1] += parts[start:stop]
    return np.ascontiguousarray(joined.swapaxes(0, 1))


@inside(inline="always")
def piece(array, start, stop):
    """array[start:stop], or the empty array if there is none."""
    return array[start:stop] if array.size > 0 else array


@inside(**LEAN)
def add_effects(codes, effects, start, stop, eta):
    """Add the group's effect to eta on the rows start..stop, if there are groups."""
    if codes.size > 0:
        group = codes[start:stop]
        for i in range(eta.size):
            eta[i] += effects[group[i]]


@compiled()
def values(terms, x, y, offset, weights, codes, params, length, sums, begin, end):
    """Log-likelihood of each parameter vector by blocks: sums (blocks, k)."""
    buffer, n = np.empty(CHUNK), x.shape[1]
    for block in range(begin, end):
        for k in range(params.shape[0]):
            sums[block, k] = 0.0
        stop = min(n, (block + 1) * length)
        for low in range(block * length, stop, CHUNK):
            high = min(stop, low + CHUNK)
            eta, part = buffer[: high - low], piece(weights, low, high)
            for k in range(params.shape[0]):
                linear_predictors(terms, x, offset, params[k], low, high, eta)
                add_effects(codes, params[k, x.shape[0] :], low, high, eta)
                sums[block, k] += chunk_value(terms, y[low:high], eta, part)


@inside(**LEAN)
def dots(scaled, x, start, stop, out):
    """Add to out[b] the product of `scaled` with column b, four columns at a time."""
    whole = out.size - out.size % 4
    for b in range(0, whole, 4):
        x0, x1, x2, x3 = x[b, start:stop], x[b + 1, start:stop], x[b + 2, start:stop], x[b + 3, start:stop]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for i in range(scaled.size):
            s0 += scaled[i] * x0[i]
            s1 += scaled[i] * x1[i]
            s2 += scaled[i] * x2[i]
            s3 += scaled[i] * x3[i]
        out[b] += s0
        out[b + 1] += s1
        out[b + 2] += s2
        out[b + 3] += s3
    for b in range(whole, out.size):
        x0, s0 = x[b, start:stop], 0.0
        for i in range(scaled.size):
            s0 += scaled[i] * x0[i]
        out[b] += s0


@compiled()
def derivatives(terms, x, y, offset, weights, codes, params, length, sums, gradients, lower, by_group, begin, end):
    """Values, gradients (blocks, k, p) and the lower triangles of minus the curvatures (blocks, k, p, p), all zeros.

    By group (groups + blocks, k, p + 2): minus the mixed derivatives with the coefficients, the first derivative, and
    minus the second. Since codes ascend, the part of group g in block b has place g + b to itself.
    """
    p, n, buffers = x.shape[0], x.shape[1], np.empty((4, CHUNK))
    for block in range(begin, end):
        stop = min(n, (block + 1) * length)
        for low in range(block * length, stop, CHUNK):
            high = min(stop, low + CHUNK)
            size = high - low
            eta, first, second, scaled = buffers[0, :size], buffers[1, :size], buffers[2, :size], buffers[3, :size]
            part = piece(weights, low, high)
            for k in range(params.shape[0]):
                linear_predictors(terms, x, offset, params[k], low, high, eta)
                add_effects(codes, params[k, x.shape[0] :], low, high, eta)
                sums[block, k] += chunk_derivatives(terms, y[low:high], eta, part, first, second)
                for a in range(p):
                    xa, slope = x[a, low:high], 0.0
                    for i in range(size):
                        slope += first[i] * xa[i]
                        scaled[i] = second[i] * xa[i]
                    gradients[block, k, a] += slope
                    dots(scaled, x, low, high, lower[block, k, a, : a + 1])
                if codes.size > 0:
                    begins = low
                    while begins < high:
                        ends = begins + 1
                        while ends < high and codes[ends] == codes[begins]:
                            ends += 1
                        out, slope, bend = by_group[codes[begins] + block, k], 0.0, 0.0
                        for i in range(begins - low, ends - low):
                            slope += first[i]
                            bend += second[i]
                        dots(second[begins - low : ends - low], x, begins, ends, out[:p])
                        out[p] += slope
                        out[p + 1] += bend
                        begins = ends


@compiled()
def predictors(terms, x, offset, codes, params, length, eta, begin, end):
    """The linear predictor of every row and parameter vector: eta (k, n)."""
    stop = min(x.shape[1], end * length)
    for low in range(begin * length, stop, CHUNK):
        high = min(stop, low + CHUNK)
        for k in range(params.shape[0]):
            linear_predictors(terms, x, offset, params[k], low, high, eta[k, low:high])
            add_effects(codes, params[k, x.shape[0] :], low, high, eta[k, low:high])


@compiled()
def moved_values(terms, y, eta, column, weights, chains, steps, length, sums, begin, end):
    """Log-likelihood at eta[chains[k]] + steps[k] * column by blocks, without changing eta: sums (blocks, k)."""
    buffer, n = np.empty(CHUNK), y.size
    for block in range(begin, end):
        for k in range(chains.size):
            sums[block, k] = 0.0
        stop = min(n, (block + 1) * length)
        for low in range(block * length, stop, CHUNK):
            high = min(stop, low + CHUNK)
            moved, x, part = buffer[: high - low], column[low:high], piece(weights, low, high)
            for k in range(chains.size):
                here, step = eta[chains[k], low:high], steps[k]
                for i in range(moved.size):
                    moved[i] = here[i] + step * x[i]
                sums[block, k] += chunk_value(terms, y[low:high], moved, part)


@compiled()
def shifted_values(terms, y, eta, weights, chains, steps, first, last, length, sums, begin, end):
    """By how much the log-likelihood of the rows first..last grows when eta[chains[k]] grows by steps[k], by blocks."""
    buffer = np.empty(CHUNK)
    for block in range(begin, end):
        for k in range(chains.size):
            sums[block, k] = 0.0
        stop = min(last, first + (block + 1) * length)
        for low in range(first + block * length, stop, CHUNK):
            high = min(stop, low + CHUNK)
            moved, part = buffer[: high - low], piece(weights, low, high)
            for k in range(chains.size):
                here, step = eta[chains[k], low:high], steps[k]
                for i in range(moved.size):
                    moved[i] = here[i] + step
                change = chunk_value(terms, y[low:high], moved, part) - chunk_value(terms, y[low:high], here, part)
                sums[block, k] += change


@compiled()
def move(eta, column, chains, steps, length, begin, end):
    """eta[chains[k]] += steps[k] * column."""
    start, stop = begin * length, min(column.size, end * length)
    x = column[start:stop]
    for k in range(chains.size):
        here, step = eta[chains[k], start:stop], steps[k]
        for i in range(here.size):
            here[i] += step * x[i]


@compiled()
def products(x, v, length, sums, begin, end):
    """The product of every column with v by blocks: sums (blocks, p), all zeros."""
    for block in range(begin, end):
        start, stop = block * length, min(x.shape[1], (block + 1) * length)
        dots(v[start:stop], x, start, stop, sums[block])
