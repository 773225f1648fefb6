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

from tallbayes.families.addresses import COLUMN, GENERATOR, INTEGER, MATRIX, NOTHING, NUMBER, TRUTH, Table, struct
from tallbayes.families.compiled import inside
from tallbayes.splines.basis import normal
from tallbayes.splines.sheet import SHEETS

Array = NDArray[np.float64]

CHUNK = 1_024  # rows at a time


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


PRODUCTS, GAUSSIAN = struct(Products, MATRIX, COLUMN), struct(Gaussian, COLUMN, MATRIX, COLUMN)
JOINT = Table(SHEETS)


@JOINT.entry(NOTHING, COLUMN, COLUMN, MATRIX, INTEGER, INTEGER, COLUMN, PRODUCTS, COLUMN)
def put_column(curvature, pull, columns, size, j, column, products, spare):
    """Column j of `size` is this one: its products with all others, and with itself."""
    line, slope, own = products.gram[j], 0.0, 0.0
    for other in range(size):
        line[other] = 0.0
    for start in range(0, column.size, CHUNK):  # four columns at a time, with what they share near at hand
        stop = start + CHUNK if start + CHUNK < column.size else column.size
        v, part, other = spare[: stop - start], column[start:stop], 0
        bend, force = curvature[start:stop], pull[start:stop]
        for i in range(v.size):
            v[i] = bend[i] * part[i]
            slope += force[i] * part[i]
            own += v[i] * part[i]
        while other + 4 <= size:
            first, second = columns[other, start:stop], columns[other + 1, start:stop]
            third, fourth = columns[other + 2, start:stop], columns[other + 3, start:stop]
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for i in range(v.size):
                one += v[i] * first[i]
                two += v[i] * second[i]
                three += v[i] * third[i]
                four += v[i] * fourth[i]
            line[other] += one
            line[other + 1] += two
            line[other + 2] += three
            line[other + 3] += four
            other += 4
        while other < size:
            first, one = columns[other, start:stop], 0.0
            for i in range(v.size):
                one += v[i] * first[i]
            line[other] += one
            other += 1
    products.slope[j], line[j] = slope, own
    for other in range(size):
        products.gram[other, j] = line[other]


@JOINT.entry(NOTHING, PRODUCTS, INTEGER, INTEGER, PRODUCTS)
def copy_products(here, size, j, there):
    """The same products of `size` columns there; but if j is not zero, column j goes, and the last takes its place."""
    mine, own = here.gram, there.gram
    for i in range(size):
        row = size - 1 if i == j and j > 0 else i
        there.slope[i] = here.slope[row]
        for other in range(size):
            own[i, other] = mine[row, other]
        if j > 0:
            own[i, j] = mine[row, size - 1]


@JOINT.entry(TRUTH, PRODUCTS, INTEGER, NUMBER, NUMBER, GAUSSIAN)
def find(products, size, intercept_precision, precision, gaussian):
    """Mean and factor of q for `size` coefficients; returns whether H could be factored."""
    factor, mean, gram, slope = gaussian.factor, gaussian.mean, products.gram, products.slope
    for i in range(size):
        for j in range(i + 1):
            total = gram[i, j]
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
        total = slope[i]
        for m in range(i):
            total -= factor[i, m] * mean[m]
        mean[i] = total / factor[i, i]
    _solve_upper(factor, size, mean)
    return True


@inside()
def _solve_upper(factor, size, b):
    """b = L'^-1 b."""
    for back in range(size):
        i = size - 1 - back
        total = b[i]
        for m in range(i + 1, size):
            total -= factor[m, i] * b[m]
        b[i] = total / factor[i, i]


@JOINT.entry(NUMBER, GAUSSIAN, INTEGER, NUMBER, COLUMN)
def log_q(gaussian, size, wide, b):
    """Log density of q, without (2 pi)^(-size/2)."""
    factor, mean, squares, determinant = gaussian.factor, gaussian.mean, 0.0, 0.0
    for j in range(size):
        total = 0.0
        for i in range(j, size):
            total += factor[i, j] * (b[i] - mean[i])
        squares += total * total
        determinant += math.log(factor[j, j])
    return determinant - 0.5 * size * math.log(wide) - 0.5 * squares / wide


@JOINT.entry(NOTHING, GAUSSIAN, INTEGER, NUMBER, GENERATOR, COLUMN)
def draw(table, gaussian, size, wide, rng, out):
    """Coefficients from q."""
    mean, spare = gaussian.mean, gaussian.spare
    for j in range(size):
        spare[j] = math.sqrt(wide) * normal(table, rng)
    _solve_upper(gaussian.factor, size, spare)
    for j in range(size):
        out[j] = mean[j] + spare[j]
