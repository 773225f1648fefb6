"""Which bases are worth proposing: learned from where chains have been in warm-up, and fixed from then on.

A form is a set of variables with their signs. The guide q draws a form as often as chains had bases of that form, and
then each knot from a smoothed histogram of the knots that these had. Moves that propose from it are decided with the
ratio p0 / q, where p0 is the law of `basis.py` before bases with too many zeros are turned down: so a poor guide costs
time, and nothing else. Of a form that it has never seen, the guide proposes nothing.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.addresses import COLUMN, GENERATOR, INTEGERS, MATRIX, NUMBER, TRUTH, Table, struct
from tallbayes.families.compiled import inside
from tallbayes.splines.basis import (
    BASES,
    DEGREE,
    KNOT,
    MOST,
    REFERENCE,
    SIGN,
    VARIABLE,
    WIDTH,
    Reference,
    admit,
    count_below,
    uniform,
)

Array = NDArray[np.float64]

WIDTHS, SHARES = (1.0, 6.0, 40.0), (0.5, 0.25, 0.15)  # of kernels, in ranks of 256, and their shares; the rest is flat


class Guide(NamedTuple):
    """q, and by how much it differs from p0."""

    number: NDArray[np.int64]  # ((3 d + 1)^J,) of the form with some key, or -1
    forms: Array  # (forms, MOST) 3 variable + sign + 1 of each factor by ascending variables, or -1
    below: Array  # (forms,) cumulative probabilities
    gain: Array  # (forms,) log of the probability of a form over that under p0
    knots_below: Array  # (forms MOST, knots) cumulative probabilities
    knot_gain: Array  # (forms MOST, knots) log of the probability of a knot over that under p0


GUIDE = struct(Guide, INTEGERS, MATRIX, COLUMN, COLUMN, MATRIX, MATRIX)
GUIDES = Table(BASES)


def no_guide(reference: Reference) -> Guide:
    """One that has seen nothing."""
    return learn_guide(reference, np.zeros((0, WIDTH)))


def learn_guide(reference: Reference, bases: Array) -> Guide:
    """From bases (some, WIDTH) where chains have been."""
    d, count = reference.knots.shape
    degrees = bases[:, DEGREE].astype(int)
    hinges = 3 * bases[:, VARIABLE : VARIABLE + MOST] + bases[:, SIGN : SIGN + MOST] + 1
    hinges[np.arange(MOST) >= degrees[:, None]] = np.inf
    order = np.argsort(hinges, axis=1)
    hinges = np.take_along_axis(hinges, order, axis=1)
    hinges[np.isinf(hinges)] = -1
    at = np.take_along_axis(bases[:, KNOT : KNOT + MOST], order, axis=1)
    forms, which, seen = np.unique(hinges, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    number = np.full((3 * d + 1) ** reference.degree, -1, np.int64)
    gain, tables = np.zeros(len(forms)), np.full((len(forms) * MOST, count), 1 / count)
    chance = seen / max(1, seen.sum())
    for f, form in enumerate(forms):
        live = form[form >= 0].astype(int)
        key = 0
        for hinge in live:
            key = key * (3 * d + 1) + hinge + 1
        number[key] = f
        kinds = [reference.lines[h // 3] if h % 3 == 1 else (1 - reference.lines[h // 3]) / 2 for h in live.tolist()]
        prior = math.prod(kinds) / (reference.degree * math.comb(d, live.size))
        gain[f] = math.log(chance[f] / prior)
        for j, hinge in enumerate(live):
            tables[f * MOST + j] = _smoothed(reference.knots[hinge // 3], at[which == f, j])
    return Guide(number, forms, _cumulative(chance), gain, _cumulative(tables), np.log(tables * count))


def _cumulative(chances: Array) -> Array:
    """Cumulative probabilities, the last of which is one."""
    found = np.cumsum(chances, axis=-1)
    found[..., -1:] = 1.0
    return found


@cache
def _kernels(count: int) -> Array:
    """Where mass at a rank goes (to, from), of so many ranks; the same for all forms and rounds."""
    away = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    each = (np.exp(-away / (width * count / 256)) for width in WIDTHS)
    return np.asarray(sum(share * kernel / kernel.sum(0) for share, kernel in zip(SHARES, each, strict=True)))


def _smoothed(knots: Array, seen: Array) -> Array:
    """Probabilities of the knots of a variable, equal for those that are the same."""
    first, last = np.searchsorted(knots, seen, "left"), np.searchsorted(knots, seen, "right")
    count = knots.size
    histogram = np.zeros(count + 1)
    np.add.at(histogram, first, 1 / (last - first))
    np.add.at(histogram, last, -1 / (last - first))
    histogram = np.cumsum(histogram)[:-1]
    flat = (1 - sum(SHARES)) / count
    total = flat + (_kernels(count) * histogram).sum(1) / histogram.sum()
    _, same = np.unique(knots, return_inverse=True)
    even = np.bincount(same, total) / np.bincount(same)
    return np.asarray(even[same])


@GUIDES.entry(NUMBER, REFERENCE, GUIDE, COLUMN)
def log_gain(reference, guide, basis):
    """Log of q over p0 for a basis; minus infinity if its form was never seen."""
    (d, count), degree, key = reference.knots.shape, int(basis[DEGREE]), 0
    for rank in range(degree):
        for j in range(degree):
            if _rank(basis, degree, j) == rank:
                key = key * (3 * d + 1) + 3 * int(basis[VARIABLE + j]) + int(basis[SIGN + j]) + 2
    form = guide.number[key]
    if form < 0:
        return -np.inf
    total = guide.gain[form]
    for j in range(degree):
        at = count_below(reference.knots[int(basis[VARIABLE + j])], count, basis[KNOT + j])
        total += guide.knot_gain[form * MOST + _rank(basis, degree, j), at]
    return total


@inside()
def _rank(basis, degree, j):
    """How many variables of a basis come before that of its j-th hinge."""
    below = 0
    for other in range(degree):
        below += basis[VARIABLE + other] < basis[VARIABLE + j]
    return below


@GUIDES.entry(TRUTH, REFERENCE, GUIDE, GENERATOR, COLUMN, COLUMN)
def try_guided(table, reference, guide, rng, basis, buffer):
    """A basis from q, if it is admissible, which it returns."""
    for j in range(WIDTH):
        basis[j] = 0.0
    form = count_below(guide.below, guide.below.size, uniform(table, rng))
    degree, count = 0, reference.knots.shape[1]
    while degree < MOST and guide.forms[form, degree] >= 0.0:
        hinge = int(guide.forms[form, degree])
        variable = hinge // 3
        basis[VARIABLE + degree], basis[SIGN + degree] = variable, hinge - 3 * variable - 1
        at = count_below(guide.knots_below[form * MOST + degree], count, uniform(table, rng))
        basis[KNOT + degree] = reference.knots[variable, at]
        degree += 1
    basis[DEGREE] = degree
    return admit(table, reference, basis, buffer)
