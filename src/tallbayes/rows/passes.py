"""The compiled loops behind Rows: one pass over all rows, for one or more parameter vectors.

The rows are cut into blocks whose bounds depend on the number of rows alone, and a block into chunks that stay in
the first-level cache. A block's sum is computed by one thread and the block sums are added in block order, so the
answer has the same bits for any number of threads. Each chunk of x is loaded from memory once for all parameter
vectors.

Shapes: x (p, n), one contiguous run per column; y (n,); params (k, p); offset and weights (n,) or None. Rows that come
in groups have codes (n,), the number of each row's group, in ascending order; their parameter vectors go on with one
effect a group.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numba import prange, types
from numba.extending import overload
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.families.terms import chunk_derivatives, chunk_value

CHUNK = 512
MOST_BLOCKS = 256

# Row evaluations up to which one thread makes a pass alone. It is hardly slower, and on a busy machine far faster:
# there a thread that waits for its share of a small pass waits for a time slice.
SERIAL = 1 << 17


def block_length(rows: int) -> int:
    """Rows in a block: whole chunks, at least 16 of them, and at most 256 blocks in all.

    >>> block_length(1000), block_length(2_297_813)
    (8192, 9216)
    """
    return CHUNK * max(16, -(-rows // (CHUNK * MOST_BLOCKS)))


def in_order(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of the blocks' sums, (blocks, ...) -> (...), added one after the other.

    NumPy's `sum` takes another order where a block has one number only: a parameter vector would have other bits alone
    than beside others.

    >>> in_order(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    return np.asarray(reduce(np.add, blocks))


def piece(array, start, stop):
    """array[start:stop], or None if there is no array."""
    raise NotImplementedError


@overload(piece)
def _(array, start, stop):
    if isinstance(array, types.NoneType):
        return lambda array, start, stop: None
    return lambda array, start, stop: array[start:stop]


@compiled()
def _set(eta, theta, x, start, stop):
    """eta = x' theta for four columns."""
    t0, t1, t2, t3 = theta[0], theta[1], theta[2], theta[3]
    x0, x1, x2, x3 = x[0, start:stop], x[1, start:stop], x[2, start:stop], x[3, start:stop]
    for i in range(eta.size):
        eta[i] = (t0 * x0[i] + t1 * x1[i]) + (t2 * x2[i] + t3 * x3[i])


@compiled()
def _add(eta, theta, x, j, start, stop):
    """eta += x' theta for up to four columns from j on; returns the next column."""
    left = x.shape[0] - j
    t0, x0 = theta[j], x[j, start:stop]
    if left == 1:
        for i in range(eta.size):
            eta[i] += t0 * x0[i]
        return j + 1
    t1, x1 = theta[j + 1], x[j + 1, start:stop]
    if left == 2:
        for i in range(eta.size):
            eta[i] += t0 * x0[i] + t1 * x1[i]
        return j + 2
    t2, x2 = theta[j + 2], x[j + 2, start:stop]
    if left == 3:
        for i in range(eta.size):
            eta[i] += (t0 * x0[i] + t1 * x1[i]) + t2 * x2[i]
        return j + 3
    t3, x3 = theta[j + 3], x[j + 3, start:stop]
    for i in range(eta.size):
        eta[i] += (t0 * x0[i] + t1 * x1[i]) + (t2 * x2[i] + t3 * x3[i])
    return j + 4


@compiled()
def predictor(x, offset, codes, theta, start, stop, eta):
    """eta = offset + x' theta + the group's effect on the rows start..stop, four columns at a time."""
    j = 0
    if offset is not None:
        for i in range(eta.size):  # an array that is copied into another would be copied twice, lest they overlap
            eta[i] = offset[start + i]
    elif x.shape[0] < 4:
        eta[:] = 0.0
    else:
        _set(eta, theta, x, start, stop)
        j = 4
    while j < x.shape[0]:
        j = _add(eta, theta, x, j, start, stop)
    if codes is not None:
        effects, group = theta[x.shape[0] :], codes[start:stop]
        for i in range(eta.size):
            eta[i] += effects[group[i]]


@compiled()
def block_values(tag, x, y, offset, weights, codes, params, start, stop, sums):
    """Log-likelihood of each parameter vector on the rows start..stop: sums (k,)."""
    buffer = np.empty(CHUNK)
    sums[:] = 0.0
    for low in range(start, stop, CHUNK):
        high = min(stop, low + CHUNK)
        eta = buffer[: high - low]
        for k in range(params.shape[0]):
            predictor(x, offset, codes, params[k], low, high, eta)
            sums[k] += chunk_value(tag, y[low:high], eta, piece(weights, low, high))


@compiled(parallel=True)
def values(tag, x, y, offset, weights, codes, params, length, sums):
    """Log-likelihood of each parameter vector by blocks: sums (blocks, k)."""
    n = x.shape[1]
    for block in prange(sums.shape[0]):
        start = block * length
        block_values(tag, x, y, offset, weights, codes, params, start, min(n, start + length), sums[block])


@compiled()
def serial_values(tag, x, y, offset, weights, codes, params, length, sums):
    """The same by one thread: for small data, waking the others costs more than they save."""
    n = x.shape[1]
    for block in range(sums.shape[0]):
        start = block * length
        block_values(tag, x, y, offset, weights, codes, params, start, min(n, start + length), sums[block])


@compiled()
def block_derivatives(tag, x, y, offset, weights, codes, params, start, stop, block, sums, gradients, lower, by_group):
    """Values, gradients and curvatures on the rows start..stop, which are one block; see `derivatives`."""
    p, buffers = x.shape[0], np.empty((4, CHUNK))
    sums[:] = 0.0
    gradients[:] = 0.0
    lower[:] = 0.0
    for low in range(start, stop, CHUNK):
        high = min(stop, low + CHUNK)
        size = high - low
        eta, first, second, scaled = buffers[0, :size], buffers[1, :size], buffers[2, :size], buffers[3, :size]
        for k in range(params.shape[0]):
            predictor(x, offset, codes, params[k], low, high, eta)
            sums[k] += chunk_derivatives(tag, y[low:high], eta, piece(weights, low, high), first, second)
            for a in range(p):
                xa = x[a, low:high]
                slope = 0.0
                for i in range(size):
                    slope += first[i] * xa[i]
                    scaled[i] = second[i] * xa[i]
                gradients[k, a] += slope
                _dots(scaled, x, low, high, lower[k, a, : a + 1])
            if codes is not None:
                begin = low
                while begin < high:
                    end = begin + 1
                    while end < high and codes[end] == codes[begin]:
                        end += 1
                    out, here = by_group[codes[begin] + block, k], slice(begin - low, end - low)
                    _dots(second[here], x, begin, end, out[:p])
                    out[p] += first[here].sum()
                    out[p + 1] += second[here].sum()
                    begin = end


@compiled(parallel=True)
def derivatives(tag, x, y, offset, weights, codes, params, length, sums, gradients, lower, by_group):
    """Values, gradients (blocks, k, p) and the lower triangles of minus the curvatures (blocks, k, p, p).

    By group (groups + blocks, k, p + 2): minus the mixed derivatives with the coefficients, the first derivative, and
    minus the second. Since codes ascend, the part of group g in block b has place g + b to itself.
    """
    n = x.shape[1]
    for b in prange(sums.shape[0]):
        start, stop = b * length, min(n, (b + 1) * length)
        block_derivatives(
            tag, x, y, offset, weights, codes, params, start, stop, b, sums[b], gradients[b], lower[b], by_group
        )


@compiled()
def serial_derivatives(tag, x, y, offset, weights, codes, params, length, sums, gradients, lower, by_group):
    """The same by one thread."""
    n = x.shape[1]
    for b in range(sums.shape[0]):
        start, stop = b * length, min(n, (b + 1) * length)
        block_derivatives(
            tag, x, y, offset, weights, codes, params, start, stop, b, sums[b], gradients[b], lower[b], by_group
        )


@compiled()
def _dots(scaled, x, start, stop, out):
    """Add to out[b] the product of `scaled` with column b, four columns at a time."""
    whole = out.size - out.size % 4
    for b in range(0, whole, 4):
        x0, x1, x2, x3 = (
            x[b, start:stop],
            x[b + 1, start:stop],
            x[b + 2, start:stop],
            x[b + 3, start:stop],
        )
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
def block_predictors(x, offset, codes, params, start, stop, eta):
    """The linear predictor of the rows start..stop and every parameter vector."""
    for low in range(start, stop, CHUNK):
        high = min(stop, low + CHUNK)
        for k in range(params.shape[0]):
            predictor(x, offset, codes, params[k], low, high, eta[k, low:high])


@compiled(parallel=True)
def predictors(x, offset, codes, params, length, eta):
    """The linear predictor of every row and parameter vector: eta (k, n)."""
    n = x.shape[1]
    for block in prange(-(-n // length)):
        block_predictors(x, offset, codes, params, block * length, min(n, (block + 1) * length), eta)


@compiled()
def block_moved_values(tag, y, eta, column, weights, chains, steps, start, stop, sums):
    """Log-likelihood at eta[chains[k]] + steps[k] * column on the rows start..stop, without changing eta."""
    buffer = np.empty(CHUNK)
    sums[:] = 0.0
    for low in range(start, stop, CHUNK):
        high = min(stop, low + CHUNK)
        moved, x = buffer[: high - low], column[low:high]
        for k in range(chains.size):
            here, step = eta[chains[k], low:high], steps[k]
            for i in range(moved.size):
                moved[i] = here[i] + step * x[i]
            sums[k] += chunk_value(tag, y[low:high], moved, piece(weights, low, high))


@compiled(parallel=True)
def moved_values(tag, y, eta, column, weights, chains, steps, length, sums):
    """Log-likelihood at eta[chains[k]] + steps[k] * column by blocks: sums (blocks, k)."""
    n = eta.shape[1]
    for block in prange(sums.shape[0]):
        start = block * length
        block_moved_values(tag, y, eta, column, weights, chains, steps, start, min(n, start + length), sums[block])


@compiled()
def serial_moved_values(tag, y, eta, column, weights, chains, steps, length, sums):
    """The same by one thread."""
    n = eta.shape[1]
    for block in range(sums.shape[0]):
        start = block * length
        block_moved_values(tag, y, eta, column, weights, chains, steps, start, min(n, start + length), sums[block])


@compiled()
def block_shifted_values(tag, y, eta, weights, chains, steps, start, stop, sums):
    """By how much the log-likelihood of the rows start..stop grows when eta[chains[k]] grows by steps[k]."""
    buffer = np.empty(CHUNK)
    sums[:] = 0.0
    for low in range(start, stop, CHUNK):
        high = min(stop, low + CHUNK)
        moved = buffer[: high - low]
        for k in range(chains.size):
            here, step = eta[chains[k], low:high], steps[k]
            for i in range(moved.size):
                moved[i] = here[i] + step
            part = piece(weights, low, high)
            sums[k] += chunk_value(tag, y[low:high], moved, part) - chunk_value(tag, y[low:high], here, part)


@compiled(parallel=True)
def shifted_values(tag, y, eta, weights, chains, steps, start, stop, length, sums):
    """The same by blocks: sums (blocks, k)."""
    for block in prange(sums.shape[0]):
        low = start + block * length
        high = min(stop, low + length)
        block_shifted_values(tag, y, eta, weights, chains, steps, low, high, sums[block])


@compiled()
def block_move(eta, column, chains, steps, start, stop):
    """eta[chains[k]] += steps[k] * column on the rows start..stop."""
    x = column[start:stop]
    for k in range(chains.size):
        here, step = eta[chains[k], start:stop], steps[k]
        for i in range(here.size):
            here[i] += step * x[i]


@compiled(parallel=True)
def move(eta, column, chains, steps, length):
    """eta[chains[k]] += steps[k] * column."""
    n = eta.shape[1]
    for block in prange(-(-n // length)):
        block_move(eta, column, chains, steps, block * length, min(n, (block + 1) * length))


@compiled(parallel=True)
def largest(x, length):
    """The largest absolute value of every column."""
    p, n = x.shape
    found = np.zeros((-(-n // length), p))
    for block in prange(found.shape[0]):
        for j in range(p):
            part = x[j, block * length : min(n, (block + 1) * length)]
            for i in range(part.size):
                found[block, j] = max(found[block, j], abs(part[i]))
    out = np.zeros(p)
    for block in range(found.shape[0]):
        out = np.maximum(out, found[block])
    return out


@compiled(parallel=True)
def products(x, v, length):
    """The product of every column with v."""
    p, n = x.shape
    sums = np.zeros((-(-n // length), p))
    for block in prange(sums.shape[0]):
        start, stop = block * length, min(n, (block + 1) * length)
        _dots(v[start:stop], x, start, stop, sums[block])
    return sums.sum(0)


@compiled(parallel=True)
def mix(bits, hashes):
    """Mix the bits of one more column into the 64-bit hashes of rows."""
    for i in prange(hashes.size):
        mixed = (hashes[i] ^ bits[i]) * np.uint64(0x9E3779B97F4A7C15)
        hashes[i] = (mixed ^ (mixed >> np.uint64(29))) + np.uint64(0xBF58476D1CE4E5B9)
