"""Bases of multivariate adaptive regression splines: products of hinges and lines, and how they are drawn.

A factor of a basis is a hinge [s (x_v - t)]+ with a sign s and a knot t, or a line x_v - t (its sign is 0). Without
lines, what is straight would have to be made of hinges with knots at either end, in many ways that are nearly the
same: chains then take very long to go from one way to another. A variable of two values is always a line, which is zero
for the more frequent one, and any other is a line with a given probability. In a product it matters where a line is
zero, so it has a knot like a hinge: were that always the mean, many products would need further bases beside them.

A basis is a row of numbers, so that compiled code and draws can hold it: its degree J, then the variables, signs and
knots of up to three factors, then the mean and the sd by which its column is standardised. The last two are those of
the column on the reference rows, which are fixed before sampling, and so follow from the rest.

The prior draws J uniformly from 1 to the largest degree, J different variables, whether each is a line, the signs of
hinges, and knots, each of which is one of so many evenly spaced quantiles of its variable; all of it again until enough
reference rows are not zero. (A single line needs no more than two different values.) Bases are proposed from this very
law, so that its density cancels wherever they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, GENERATOR, INTEGER, MATRIX, NOTHING, NUMBER, TRUTH, Table, struct
from tallbayes.families.compiled import LEAN, OPTIONS, compiled, inside
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.threads import over_blocks

Array = NDArray[np.float64]

MOST = 3  # factors in a basis
DEGREE, VARIABLE, SIGN, KNOT, MEAN, SD, WIDTH = 0, 1, 4, 7, 10, 11, 12
SLICE = 512  # rows at a time
BLOCK = 8 * SLICE  # rows that one thread takes
SCALES = 8  # steps of knots reach up to a half, a quarter, ... of all ranks
# How a basis is varied: cumulative probabilities; adding is as likely as dropping.
STEP, REDRAW, BEND, TURN, MIRROR, ADD = 0.35, 0.45, 0.55, 0.6, 0.7, 0.85


class Reference(NamedTuple):
    """Where bases come from."""

    x: Array  # (d, rows)
    knots: Array  # (d, knots) of each variable, ascending: one that stands there twice is twice as probable
    degree: int  # the largest
    fewest: int  # rows that must not be zero
    lines: Array  # (d,) probability that a variable is a line, not a hinge

    @classmethod
    def of(cls, x: Array, count: int, degree: int, fewest: int, lines: float) -> Reference:
        """Knots are quantiles of the rows x (d, n); a variable of two values is always a line."""
        two = [np.unique(own).size <= 2 for own in x]
        knots = quantiles(x, count)
        for own, line, few in zip(x, knots, two, strict=True):
            if few and lines > 0:
                line[:] = _most_frequent(own)
        return cls(x, knots, degree, fewest, np.where(two, 1.0 if lines > 0 else 0.0, lines))


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
        self.write(np.require(x, float, ["C", "W"]), BLOCK, out)
        return out

    def write(self, x: Array, length: int, out: Array) -> None:
        """Write their values to out (splines, n), or their mean to out (1, n); rows x (d, n) in blocks of a length."""
        blocks = -(-x.shape[1] // length)
        data = (COLUMNS.addresses, *self, x, length, out)
        over_blocks(write_splines, blocks, *data, evaluations=self.sizes.size * x.shape[1])

    def mean(self, x: Array) -> Array:
        """Their mean on each row."""
        return np.asarray(self.each(x).mean(0))


def quantiles(x: Array, count: int) -> Array:
    """So many evenly spaced quantiles of each row of x (d, n), which are values of it; all values if these are few.

    >>> quantiles(np.array([[5.0, 1.0, 2.0, 4.0, 3.0]]), 2)
    array([[2., 4.]])
    """
    values = np.sort(x, axis=1)
    n = values.shape[1]
    if n <= count:
        return values
    return np.ascontiguousarray(values[:, ((np.arange(count) + 0.5) * n / count).astype(int)])


def _most_frequent(values: Array) -> float:
    different, counts = np.unique(values, return_counts=True)
    return float(different[counts.argmax()])


def log_prior(reference: Reference, basis: Array) -> float:
    """Log prior probability of a basis, before those with too many zeros are turned down.

    >>> x = np.arange(4.0)[None]
    >>> round(math.exp(-log_prior(Reference.of(x, 4, 1, 1, lines=0.5), np.array([1.0, 0, 0, 0, -1.0, 0, 0, 2.0]))))
    16
    """
    degree, total = int(basis[DEGREE]), 0.0
    for j in range(degree):
        variable = int(basis[VARIABLE + j])
        line = float(reference.lines[variable])
        same = float((reference.knots[variable] == basis[KNOT + j]).mean())
        total += math.log(same * (line if basis[SIGN + j] == 0 else (1 - line) / 2))
    return total - math.log(reference.degree * math.comb(len(reference.knots), degree))


def mean_spline(arrays: Arrays, splines: Splines) -> Array:
    """The mean of some splines on each row."""
    eta = arrays.empty(1, arrays.size)
    splines.write(arrays.x, LENGTH, eta)
    return np.asarray(eta[0])


REFERENCE = struct(Reference, MATRIX, MATRIX, INTEGER, INTEGER, COLUMN)
COLUMNS = Table()


@COLUMNS.entry(NOTHING, COLUMN, MATRIX, INTEGER, INTEGER, COLUMN)
def fill(basis, x, start, stop, out):
    """The standardised column of a basis on the rows start..stop of x (d, n)."""
    shift, unit = -basis[MEAN] / basis[SD], 1.0 / basis[SD]
    first, sign, knot, least = _hinge(basis, x, start, stop, 0)
    if basis[DEGREE] == 1.0:
        for i in range(out.size):
            h = sign * (first[i] - knot)
            out[i] = shift + unit * (h if h > least else least)
        return
    second, sign2, knot2, least2 = _hinge(basis, x, start, stop, 1)
    if basis[DEGREE] == 2.0:
        for i in range(out.size):
            h, h2 = sign * (first[i] - knot), sign2 * (second[i] - knot2)
            out[i] = shift + unit * ((h if h > least else least) * (h2 if h2 > least2 else least2))
        return
    third, sign3, knot3, least3 = _hinge(basis, x, start, stop, 2)
    for i in range(out.size):
        h, h2, h3 = sign * (first[i] - knot), sign2 * (second[i] - knot2), sign3 * (third[i] - knot3)
        hinges = (h if h > least else least) * (h2 if h2 > least2 else least2)
        out[i] = shift + unit * (hinges * (h3 if h3 > least3 else least3))


@inside(**LEAN, forceinline=True)  # of what it returns its callers count no references
def _hinge(basis, x, start, stop, j):
    """The variable of a factor, its sign, its knot, and the least value that it has: none if it is a line."""
    column, sign, knot = x[int(basis[VARIABLE + j]), start:stop], basis[SIGN + j], basis[KNOT + j]
    if sign == 0.0:
        return column, 1.0, knot, -np.inf
    return column, sign, knot, 0.0


@inside()
def count_below(values, count, knot):
    """How many of the first `count` values, which ascend, are below a knot."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < knot:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def write_splines(table, sizes, coefficients, bases, x, length, out, begin, end):
    """Splines on each row of x (d, n), in blocks of rows: out (splines, n), or (1, n) for their mean."""
    buffer, n = np.empty(SLICE), x.shape[1]
    share = 1.0 if out.shape[0] == sizes.size else 1.0 / sizes.size
    last = end * length if end * length < n else n
    for start in range(begin * length, last, SLICE):
        stop = start + SLICE if start + SLICE < last else last
        column = buffer[: stop - start]
        for which in range(sizes.size):
            line = out[which if out.shape[0] == sizes.size else 0, start:stop]
            constant = share * coefficients[which, 0]
            if which == 0 or out.shape[0] == sizes.size:
                for i in range(line.size):
                    line[i] = 0.0
            for i in range(line.size):
                line[i] += constant
            for m in range(sizes[which]):
                coefficient = share * coefficients[which, m + 1]
                fill(table, bases[which, m], x, start, stop, column)
                for i in range(line.size):
                    line[i] += coefficient * column[i]


BASES = Table(COLUMNS)


# Random numbers are drawn here only: where they are asked for, their code would be repeated each time. And with the
# options that other samplers have, what Numba has for them is compiled once.
@BASES.entry(NUMBER, GENERATOR, options=OPTIONS)
def uniform(rng):
    """From [0, 1)."""
    return rng.random()


@BASES.entry(NUMBER, GENERATOR, options=OPTIONS)
def normal(rng):
    """From N(0, 1)."""
    return rng.standard_normal()


@BASES.entry(NUMBER, GENERATOR, NUMBER, options=OPTIONS)
def gamma(rng, shape):
    """From Gamma(shape, 1)."""
    return rng.standard_gamma(shape)


@BASES.entry(TRUTH, REFERENCE, COLUMN, COLUMN)
def admit(table, reference, basis, buffer):
    """Whether enough reference rows are not zero; if so, set the mean and the sd of the basis."""
    rows = buffer.size
    basis[MEAN], basis[SD] = 0.0, 1.0
    fill(table, basis, reference.x, 0, rows, buffer)
    total, squares, there = 0.0, 0.0, 0
    for i in range(rows):
        total += buffer[i]
        squares += buffer[i] * buffer[i]
        there += buffer[i] != 0.0
    variance = squares / rows - (total / rows) ** 2
    few = there < reference.fewest and not (basis[DEGREE] == 1.0 and basis[SIGN] == 0.0)
    if few or not variance > 1e-12 * squares / rows:
        return False
    basis[MEAN], basis[SD] = total / rows, math.sqrt(variance)
    return True


@BASES.entry(NOTHING, REFERENCE, GENERATOR, COLUMN, INTEGER, INTEGER)
def _draw_hinge(table, reference, rng, basis, j, others):
    """The j-th factor from the prior, in a variable that the first `others`, but for itself, do not have."""
    d, taken, variable = reference.knots.shape[0], True, 0
    while taken:
        variable = int(d * uniform(table, rng))
        taken = False
        for other in range(others):
            taken = taken or (other != j and basis[VARIABLE + other] == variable)
    basis[VARIABLE + j] = variable
    _bend(table, reference, rng, basis, j)


@BASES.entry(NOTHING, REFERENCE, GENERATOR, COLUMN, INTEGER)
def _bend(table, reference, rng, basis, j):
    """Whether the j-th factor is a line, and if not its sign, and its knot, from the prior."""
    variable, count = int(basis[VARIABLE + j]), reference.knots.shape[1]
    if uniform(table, rng) < reference.lines[variable]:
        basis[SIGN + j] = 0.0
    else:
        basis[SIGN + j] = 1.0 if uniform(table, rng) < 0.5 else -1.0
    basis[KNOT + j] = reference.knots[variable, int(count * uniform(table, rng))]


@BASES.entry(TRUTH, REFERENCE, GENERATOR, COLUMN, COLUMN)
def try_basis(table, reference, rng, basis, buffer):
    """A basis from the prior, if it is admissible, which it returns."""
    for j in range(WIDTH):
        basis[j] = 0.0
    degree = 1 + int(reference.degree * uniform(table, rng))
    basis[DEGREE] = degree
    for j in range(degree):
        _draw_hinge(table, reference, rng, basis, j, j)
    return admit(table, reference, basis, buffer)


@BASES.entry(TRUTH, REFERENCE, GENERATOR, COLUMN, COLUMN)
def vary_basis(table, reference, rng, basis, buffer):
    """Change a factor, add one or drop one; returns whether that is possible and admissible.

    A factor is drawn anew, or all of it but its variable; or its knot steps, or a hinge's sign turns, where its knot
    is or with the knot at the opposite rank. Each is as probable as its reverse under the prior. A step begins at any
    of the places where the knot stands, just as the prior gives it so many chances. To add a factor, one of d - J
    variables is drawn and what the prior has for it; to drop it, one of J + 1 factors; and that is by how much the
    density of a basis falls with one more factor.
    """
    count, degree, how = reference.knots.shape[1], int(basis[DEGREE]), uniform(table, rng)
    j = int(degree * uniform(table, rng))
    if how < STEP or BEND <= how < MIRROR:
        if how >= BEND and basis[SIGN + j] == 0.0:
            return False
        values, knot = reference.knots[int(basis[VARIABLE + j])], basis[KNOT + j]
        low = count_below(values, count, knot)
        high = low
        while high < count and values[high] == knot:
            high += 1
        rank = low + int((high - low) * uniform(table, rng))
        if how < STEP:
            reach = 0.5 * count
            for _ in range(int(SCALES * uniform(table, rng))):
                reach *= 0.5
            step = 1 + int(reach * uniform(table, rng))
            rank += step if uniform(table, rng) < 0.5 else -step
            if rank < 0 or rank >= count:
                return False
        else:
            basis[SIGN + j] = -basis[SIGN + j]
            if how >= TURN:
                rank = count - 1 - rank
        basis[KNOT + j] = values[rank]
    elif how < REDRAW:
        _draw_hinge(table, reference, rng, basis, j, degree)
    elif how < BEND:
        _bend(table, reference, rng, basis, j)
    elif how < ADD:
        if degree == reference.degree:
            return False
        _draw_hinge(table, reference, rng, basis, degree, degree)
        basis[DEGREE] = degree + 1
    else:
        if degree == 1:
            return False
        last = degree - 1
        basis[VARIABLE + j], basis[VARIABLE + last] = basis[VARIABLE + last], 0.0
        basis[SIGN + j], basis[SIGN + last] = basis[SIGN + last], 0.0
        basis[KNOT + j], basis[KNOT + last] = basis[KNOT + last], 0.0
        basis[DEGREE] = last
    return admit(table, reference, basis, buffer)


@compiled()
def admissible_share(table, reference, rng, tries):
    """Of the bases that are drawn before those with too many zeros are turned down."""
    basis, buffer, found = np.zeros(WIDTH), np.empty(reference.x.shape[1]), 0
    for _ in range(tries):
        found += try_basis(table, reference, rng, basis, buffer)
    return found / tries
