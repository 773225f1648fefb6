"""Bases of multivariate adaptive regression splines: products of hinges [s (x_v - t)]+, and how they are drawn.

A basis is a row of numbers, so that compiled code and draws can hold it: its degree J, then the variables, signs and
knots of up to three hinges, then the mean and the sd by which its column is standardised. The last two are those of the
column on the reference rows, which are fixed before sampling, and so follow from the rest.

The prior draws J uniformly from 1 to the largest degree, J different variables, signs, and as knots the values of
reference rows drawn at random; all of it again until enough reference rows are not zero. Bases are proposed from this
very law, so that its density cancels wherever they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]

MOST = 3  # hinges in a basis
DEGREE, VARIABLE, SIGN, KNOT, MEAN, SD, WIDTH = 0, 1, 4, 7, 10, 11, 12
SLICE = 512  # rows at a time
SCALES = 8  # steps of knots reach up to a half, a quarter, ... of all ranks
STEP, REDRAW, ADD = 0.4, 0.6, 0.8  # how a basis is varied: cumulative probabilities; adding is as likely as dropping


class Reference(NamedTuple):
    """Where bases come from."""

    x: Array  # (d, rows)
    sorted: Array  # (d, rows) each variable by itself
    degree: int  # the largest
    fewest: int  # rows that must not be zero


class Splines(NamedTuple):
    """Several splines: eta(x) = b_0 + sum of b_m B_m(x) over the first k bases."""

    sizes: NDArray[np.intp]  # (splines,) k
    coefficients: Array  # (splines, K + 1) the intercept first
    bases: Array  # (splines, K, WIDTH)

    def some(self, which: NDArray[np.intp]) -> Splines:
        """Those with these numbers."""
        return Splines(self.sizes[which], self.coefficients[which], self.bases[which])

    def each(self, x: Array) -> Array:
        """Their values (splines, n) on rows x (d, n)."""
        out = np.empty((self.sizes.size, x.shape[1]))
        x = np.ascontiguousarray(x, dtype=float)
        over_blocks(each_spline, len(out), self, x, out, evaluations=out.size)
        return out

    def mean(self, x: Array) -> Array:
        """Their mean on each row."""
        return np.asarray(self.each(x).mean(0))


@compiled()
def fill(basis, x, start, stop, out):
    """The standardised column of a basis on the rows start..stop of x (d, n)."""
    shift, unit = -basis[MEAN] / basis[SD], 1.0 / basis[SD]
    first, sign, knot = x[int(basis[VARIABLE]), start:stop], basis[SIGN], basis[KNOT]
    if basis[DEGREE] == 1.0:
        for i in range(out.size):
            out[i] = shift + unit * max(sign * (first[i] - knot), 0.0)
        return
    second, sign2, knot2 = x[int(basis[VARIABLE + 1]), start:stop], basis[SIGN + 1], basis[KNOT + 1]
    if basis[DEGREE] == 2.0:
        for i in range(out.size):
            out[i] = shift + unit * (max(sign * (first[i] - knot), 0.0) * max(sign2 * (second[i] - knot2), 0.0))
        return
    third, sign3, knot3 = x[int(basis[VARIABLE + 2]), start:stop], basis[SIGN + 2], basis[KNOT + 2]
    for i in range(out.size):
        hinges = max(sign * (first[i] - knot), 0.0) * max(sign2 * (second[i] - knot2), 0.0)
        out[i] = shift + unit * (hinges * max(sign3 * (third[i] - knot3), 0.0))


@compiled()
def draw_basis(reference, rng, basis, buffer):
    """A basis from the prior; `MARS` has seen to it that this takes few tries."""
    while not _try_basis(reference, rng, basis, buffer):
        pass


@compiled()
def admissible_share(reference, rng, tries):
    """Of the bases that are drawn before those with too many zeros are turned down."""
    basis, buffer, found = np.zeros(WIDTH), np.empty(reference.x.shape[1]), 0
    for _ in range(tries):
        found += _try_basis(reference, rng, basis, buffer)
    return found / tries


@compiled()
def _try_basis(reference, rng, basis, buffer):
    for j in range(WIDTH):
        basis[j] = 0.0
    basis[DEGREE] = 1 + min(reference.degree - 1, int(reference.degree * rng.random()))
    for j in range(int(basis[DEGREE])):
        _draw_hinge(reference, rng, basis, j, j)
    return _admit(reference, basis, buffer)


@compiled()
def vary_basis(reference, rng, basis, buffer):
    """Step with a knot, draw a hinge anew, add one or drop one; returns whether that is possible and admissible.

    Each is as probable as its reverse under the prior. A step begins at any of the rows that have the value of the
    knot, just as the prior gives that value so many chances. To add a hinge, one of d - J variables is drawn, a sign
    and a knot; to drop it, one of J + 1 hinges; and that is by how much the density of a basis falls with one more
    hinge.
    """
    rows, degree, how = buffer.size, int(basis[DEGREE]), rng.random()
    j = min(degree - 1, int(degree * rng.random()))
    if how < STEP:
        values = reference.sorted[int(basis[VARIABLE + j])]
        low, high = np.searchsorted(values, basis[KNOT + j], "left"), np.searchsorted(values, basis[KNOT + j], "right")
        rank = low + min(high - low - 1, int((high - low) * rng.random()))
        step = 1 + int(rows * 0.5 ** (1 + int(SCALES * rng.random())) * rng.random())
        rank += step if rng.random() < 0.5 else -step
        if rank < 0 or rank >= rows:
            return False
        basis[KNOT + j] = values[rank]
    elif how < REDRAW:
        _draw_hinge(reference, rng, basis, j, degree)
    elif how < ADD:
        if degree == reference.degree:
            return False
        _draw_hinge(reference, rng, basis, degree, degree)
        basis[DEGREE] = degree + 1
    else:
        if degree == 1:
            return False
        for part in (VARIABLE, SIGN, KNOT):
            basis[part + j], basis[part + degree - 1] = basis[part + degree - 1], 0.0
        basis[DEGREE] = degree - 1
    return _admit(reference, basis, buffer)


@compiled()
def _draw_hinge(reference, rng, basis, j, others):
    """The j-th hinge from the prior, in a variable that the first `others`, but for itself, do not have."""
    d, rows = reference.x.shape
    taken = True
    while taken:
        variable = min(d - 1, int(d * rng.random()))
        taken = False
        for other in range(others):
            taken = taken or (other != j and basis[VARIABLE + other] == variable)
    basis[VARIABLE + j] = variable
    basis[SIGN + j] = 1.0 if rng.random() < 0.5 else -1.0
    basis[KNOT + j] = reference.x[variable, min(rows - 1, int(rows * rng.random()))]


@compiled()
def _admit(reference, basis, buffer):
    """Whether enough reference rows are not zero; if so, set the mean and the sd of the basis."""
    rows = buffer.size
    basis[MEAN], basis[SD] = 0.0, 1.0
    fill(basis, reference.x, 0, rows, buffer)
    total, squares, positive = 0.0, 0.0, 0
    for i in range(rows):
        total += buffer[i]
        squares += buffer[i] * buffer[i]
        positive += buffer[i] > 0.0
    variance = squares / rows - (total / rows) ** 2
    if positive < reference.fewest or not variance > 1e-12 * squares / rows:
        return False
    basis[MEAN], basis[SD] = total / rows, math.sqrt(variance)
    return True


@compiled()
def _add(splines, which, share, x, start, stop, buffer, out):
    """Add a share of one spline on the rows start..stop to out."""
    constant = share * splines.coefficients[which, 0]
    for i in range(out.size):
        out[i] += constant
    for m in range(splines.sizes[which]):
        column, coefficient = buffer[: out.size], share * splines.coefficients[which, m + 1]
        fill(splines.bases[which, m], x, start, stop, column)
        for i in range(out.size):
            out[i] += coefficient * column[i]


@compiled()
def mean_spline(splines, x, length, out, begin, end):
    """The mean of some splines on each row of x (d, n), in blocks of rows."""
    buffer, last = np.empty(SLICE), min(out.size, end * length)
    for start in range(begin * length, last, SLICE):
        stop = min(last, start + SLICE)
        for i in range(start, stop):
            out[i] = 0.0
        for which in range(splines.sizes.size):
            _add(splines, which, 1.0 / splines.sizes.size, x, start, stop, buffer, out[start:stop])


@compiled()
def each_spline(splines, x, out, begin, end):
    """Every spline from begin to end on each row: out (splines, n)."""
    buffer = np.empty(SLICE)
    for which in range(begin, end):
        for start in range(0, out.shape[1], SLICE):
            stop = min(out.shape[1], start + SLICE)
            for i in range(start, stop):
                out[which, i] = 0.0
            _add(splines, which, 1.0, x, start, stop, buffer, out[which, start:stop])
