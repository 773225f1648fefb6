"""Sums of a number of each row times any basis, from tables: one look at all rows, then none for any basis.

Knots are few. So rows are sorted, for each set of variables that a basis may have, into the boxes that the knots make,
and a number g and its products with the variables are added up in each box, and then over all boxes below each corner.
The sum of g [x_u - t]+ [x_v - s]+ over all rows is made of these, since (x_u - t)(x_v - s) is x_u x_v - s x_u - t x_v
+ t s, and rows above a knot are all rows without those below it. Variables are shifted, so that little is lost where
they are far from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, INTEGERS, MATRIX, NUMBER, Table, struct
from tallbayes.families.compiled import compiled
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.threads import in_turns
from tallbayes.splines.basis import BASES, DEGREE, KNOT, MEAN, MOST, SD, SIGN, VARIABLE, count_below

Array = NDArray[np.float64]

SCRATCH = 4 * MOST  # numbers that a sum needs room for
MOST_NUMBERS = 1 << 24  # of all tables
MOST_KNOTS, FEWEST_KNOTS = 256, 16  # of a variable


class Sums(NamedTuple):
    """Tables of all sets of variables, one behind the other."""

    numbers: Array
    offsets: NDArray[np.int64]  # ((d + 1)^J,) where the table of a set begins
    knots: Array  # (d, most) different ones, ascending
    counts: NDArray[np.int64]  # (d,) of them
    shift: Array  # (d,)
    total: float  # of the number


SUMS = struct(Sums, COLUMN, INTEGERS, MATRIX, INTEGERS, COLUMN, NUMBER)
TABLES = Table(BASES)


def different(knots: Array) -> list[Array]:
    """The different knots of each variable."""
    return [np.unique(own) for own in knots]


def numbers_in(counts: Sequence[int], degree: int) -> int:
    """Of all tables for bases of up to so many variables with so many knots.

    >>> numbers_in([2, 3], 2)
    62
    """
    sets = (own for size in range(1, degree + 1) for own in combinations(counts, size))
    return sum(prod(count + 1 for count in own) << len(own) for own in sets)


def knots_for(x: Array, degree: int) -> int:
    """The most knots a variable, of values x (d, n), for which tables are not too large; 0 if there is no such number.

    >>> knots_for(np.random.default_rng(0).random((4, 1_000)), 3)
    64
    """
    values = [np.unique(own).size for own in x]
    count = MOST_KNOTS
    while count >= FEWEST_KNOTS:
        if numbers_in([min(count, own) for own in values], degree) <= MOST_NUMBERS:
            return count
        count //= 2
    return 0


class Boxes:
    """Rows sorted into boxes; it lives with them."""

    def __init__(self, arrays: Arrays, knots: Array, degree: int) -> None:
        each = different(knots)
        d = len(each)
        self._arrays, self._degree = arrays, degree
        self._counts = np.array([own.size for own in each], np.int64)
        self._knots = np.full((d, int(self._counts.max())), np.inf)
        self._shift = np.array([own[own.size // 2] for own in each])
        self._codes = [arrays.empty(arrays.size, dtype=np.uint16) for _ in each]
        for line, own in zip(self._knots, each, strict=True):
            line[: own.size] = own

        def sort(j: int) -> None:
            for start in range(0, arrays.size, 1 << 16):
                part = slice(start, start + (1 << 16))
                self._codes[j][part] = np.searchsorted(each[j], arrays.x[j, part])

        in_turns(sort, d)
        self._sets = [some for size in range(1, degree + 1) for some in combinations(range(d), size)]
        self._shapes = [(*(int(self._counts[v]) + 1 for v in some), 1 << len(some)) for some in self._sets]
        ends = np.cumsum([0, *map(prod, self._shapes)])
        self._offsets = np.zeros((d + 1) ** degree, np.int64)
        for some, start in zip(self._sets, ends[:-1].tolist(), strict=True):
            key = 0
            for variable in some:
                key = key * (d + 1) + variable + 1
            self._offsets[key] = start
        self._ends = ends

    def sums(self, number: Array) -> Sums:
        """Tables for a number of each row (n,)."""
        arrays, numbers = self._arrays, np.zeros(int(self._ends[-1]))

        def fill(turn: int) -> None:
            own, shape = self._sets[turn], self._shapes[turn]
            out = numbers[self._ends[turn] : self._ends[turn + 1]].reshape(-1, shape[-1])
            some = [*own, *own[-1:] * (MOST - len(own))]
            x, codes = ([part[v] for v in some] for part in (arrays.x, self._codes))
            add_up(len(own), *x, self._shift[some], *codes, *self._counts[some[1:]], number, out)
            table = out.reshape(shape)
            for axis in range(len(own)):
                np.cumsum(table, axis=axis, out=table)

        in_turns(fill, len(self._sets))
        total = float(numbers[: self._ends[1]].reshape(self._shapes[0])[-1, 0])
        return Sums(numbers, self._offsets, self._knots, self._counts, self._shift, total)


@compiled()
def add_up(degree, x, x2, x3, shift, codes, codes2, codes3, count2, count3, number, out):
    """Add the number of each row, and its products with one to three variables, to the row of out of its box."""
    for i in range(number.size):
        g, box = number[i], np.int64(codes[i])
        first = g * (x[i] - shift[0])
        if degree > 1:
            box = box * (count2 + 1) + codes2[i]
        if degree > 2:
            box = box * (count3 + 1) + codes3[i]
        own = out[box]
        own[0] += g
        own[1] += first
        if degree > 1:
            away = x2[i] - shift[1]
            own[2] += g * away
            own[3] += first * away
            if degree > 2:
                third = x3[i] - shift[2]
                own[4] += g * third
                own[5] += first * third
                own[6] += g * away * third
                own[7] += first * away * third


@TABLES.entry(NUMBER, SUMS, COLUMN, COLUMN)
def sum_of(sums, basis, scratch):
    """The sum over all rows of the number times the standardised column of a basis."""
    degree, d = int(basis[DEGREE]), sums.counts.size
    moments, stride, key, signs = 1 << degree, 1 << degree, 0, 1.0
    for rank in range(degree):
        # Tables have their variables in ascending order: find the one with this many below it, from both ends.
        for end in range(2):
            wanted = rank if end == 0 else degree - 1 - rank
            for j in range(degree):
                below = 0
                for other in range(degree):
                    below += basis[VARIABLE + other] < basis[VARIABLE + j]
                if below == wanted:
                    variable = int(basis[VARIABLE + j])
                    if end == 0:
                        key = key * (d + 1) + variable + 1
                    else:
                        scratch[4 * j] = stride
                        stride *= sums.counts[variable] + 1
                        scratch[4 * j + 1] = wanted
    for j in range(degree):
        variable = int(basis[VARIABLE + j])
        scratch[4 * j + 2] = count_below(sums.knots[variable], sums.counts[variable], basis[KNOT + j])
        scratch[4 * j + 3] = basis[KNOT + j] - sums.shift[variable]
        signs *= -1.0 if basis[SIGN + j] < 0.0 else 1.0
    start, total = sums.offsets[key], 0.0
    for corner in range(moments):
        place, sign = start, 1.0
        for j in range(degree):
            at, step = int(scratch[4 * j + 2]), int(scratch[4 * j])
            if (corner >> j) & 1 == 0:
                above = basis[SIGN + j] >= 0.0
                place += step * (sums.counts[int(basis[VARIABLE + j])] if above else at)
            elif basis[SIGN + j] > 0.0:
                place += step * at
                sign = -sign
            else:
                sign = 0.0
        if sign != 0.0:
            for moment in range(moments):
                factor = sign
                for j in range(degree):
                    if (moment >> int(scratch[4 * j + 1])) & 1 == 0:
                        factor *= -scratch[4 * j + 3]
                total += factor * sums.numbers[place + moment]
    return (signs * total - basis[MEAN] * sums.total) / basis[SD]
