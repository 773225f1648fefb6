"""All coefficients of a spline at once, from the Gaussian that a sheet's likelihood comes to at its reference.

A sheet has, for each row and pair, the curvature v at the reference and u = slope + v t, with t what the reference adds
to the offset there. With B the columns on the sheet, the likelihood is about exp(u'B b - b'B'VB b / 2), so that with
the prior's precision P

    q(b) = N(H^-1 B'u, wide H^-1),    H = B'VB + P.

It does not look at the present coefficients. `gram` is B'VB and `slope` B'u; they follow the bases column by column.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled

Array = NDArray[np.float64]


class Products(NamedTuple):
    """Of the columns of a place on a sheet."""

    gram: Array  # (K + 1, K + 1)
    slope: Array  # (K + 1,)

    @classmethod
    def empty(cls, most: int) -> Products:
        """Room for them."""
        return cls(np.zeros((most + 1, most + 1)), np.zeros(most + 1))


class Gaussian(NamedTuple):
    """Room for q: mean, and the lower factor of H."""

    mean: Array  # (K + 1,)
    factor: Array  # (K + 1, K + 1)
    spare: Array  # (K + 1,)

    @classmethod
    def empty(cls, most: int) -> Gaussian:
        """Room for one."""
        return cls(np.zeros(most + 1), np.zeros((most + 1, most + 1)), np.zeros(most + 1))


@compiled()
def put_column(sheet, columns, size, j, column, products, spare):
    """Column j of `size` is this one: its products with all others, and with itself."""
    for i in range(spare.size):
        spare[i] = sheet.curvature[i] * column[i]
    slope = 0.0
    for i in range(spare.size):
        slope += sheet.pull[i] * column[i]
    products.slope[j] = slope
    for other in range(size):
        own, total = column if other == j else columns[other], 0.0
        for i in range(spare.size):
            total += spare[i] * own[i]
        products.gram[j, other] = total
        products.gram[other, j] = total


@compiled()
def take_column(size, j, products):
    """Column j of `size` goes, and the last takes its place."""
    last = size - 1
    products.slope[j] = products.slope[last]
    for other in range(last):
        products.gram[j, other] = products.gram[last, other]
        products.gram[other, j] = products.gram[other, last]
    products.gram[j, j] = products.gram[last, last]


@compiled()
def find(products, size, intercept_precision, precision, gaussian):
    """Mean and factor of q for `size` coefficients; returns whether H could be factored."""
    factor, mean = gaussian.factor, gaussian.mean
    for i in range(size):
        for j in range(i + 1):
            total = products.gram[i, j]
            if i == j:
                total += intercept_precision if i == 0 else precision
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if i != j:
                factor[i, j] = total / factor[j, j]
            elif total > 0.0:
                factor[i, i] = math.sqrt(total)
            else:
                return False
    for i in range(size):
        total = products.slope[i]
        for m in range(i):
            total -= factor[i, m] * mean[m]
        mean[i] = total / factor[i, i]
    _solve_upper(factor, size, mean)
    return True


@compiled()
def _solve_upper(factor, size, b):
    """b = L'^-1 b."""
    for back in range(size):
        i = size - 1 - back
        total = b[i]
        for m in range(i + 1, size):
            total -= factor[m, i] * b[m]
        b[i] = total / factor[i, i]


@compiled()
def log_q(gaussian, size, wide, b):
    """Log density of q, without (2 pi)^(-size/2)."""
    factor, squares, determinant = gaussian.factor, 0.0, 0.0
    for j in range(size):
        total = 0.0
        for i in range(j, size):
            total += factor[i, j] * (b[i] - gaussian.mean[i])
        squares += total * total
        determinant += math.log(factor[j, j])
    return determinant - 0.5 * size * math.log(wide) - 0.5 * squares / wide


@compiled()
def draw(gaussian, size, wide, rng, out):
    """Coefficients from q."""
    for j in range(size):
        gaussian.spare[j] = math.sqrt(wide) * rng.standard_normal()
    _solve_upper(gaussian.factor, size, gaussian.spare)
    for j in range(size):
        out[j] = gaussian.mean[j] + gaussian.spare[j]
