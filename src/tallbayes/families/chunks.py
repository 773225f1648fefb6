"""From functions of one row to functions of a chunk of rows, as loops that LLVM can vectorise.

They are inlined into the functions of a family's table (`terms.py`), with what the family says about one row.
"""

from __future__ import annotations

from numba import njit


@njit(inline="always")
def sum_values(value, y, eta, weights):
    """Weighted sum of value(y, eta); no weights are an empty array."""
    total = 0.0
    if weights.size == 0:
        for i in range(eta.size):
            total += value(y[i], eta[i])
    else:
        for i in range(eta.size):
            total += weights[i] * value(y[i], eta[i])
    return total


@njit(inline="always")
def sum_derivatives(derivatives, y, eta, weights, first, second):
    """The same where derivatives(y, eta) is (value, d/d eta, -d2/d eta2); the last two are written for every row."""
    total = 0.0
    if weights.size == 0:
        for i in range(eta.size):
            value, first[i], second[i] = derivatives(y[i], eta[i])
            total += value
    else:
        for i in range(eta.size):
            value, slope, bend = derivatives(y[i], eta[i])
            total += weights[i] * value
            first[i] = weights[i] * slope
            second[i] = weights[i] * bend
    return total


@njit(inline="always")
def largest(bound, y, low, high, out):
    """Fill `out` with bound(y, low, high) of each row."""
    for i in range(out.size):
        out[i] = bound(y[i], low[i], high[i])
