"""What the second-order expansion of a row's log-likelihood leaves out, and how large it can be.

With eta the row's linear predictor where it is expanded and f its log-likelihood, the remainder at eta + h is R(h) (see
`families/quadrature.py`). Let theta be the point of expansion, LL' a covariance and a = |L'x|. If theta moves by L z
with |z| = rho <= radius, then h = x'L z is at most a rho in size, and

    |R(h)| <= c rho^3,     c = M a^3 / 6,     M = the largest |f'''| on eta +- radius a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.families.compiled import compiled
from tallbayes.families.terms import chunk_bounds, linear_predictors, remainder
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import CHUNK, LENGTH
from tallbayes.rows.protocol import Count
from tallbayes.rows.subsample import scattered
from tallbayes.rows.tasks import moved
from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

SLACK = 1 + 1e-6  # bounds are multiplied by it, so that rounding does not break them
LOOKED_AT = 200_000  # rows from which the effect of a radius is estimated
CHECKED = 1 << 13  # rows whose bounds are checked in set-up
TRIANGLE = 24  # columns from which on a matrix product is faster than our own loops


@compiled()
def _expand(terms, x, offset, theta, factor, length, eta, reach, begin, end):
    """eta = offset + x' theta and reach = |factor x| for every row."""
    p, buffer, none, last = x.shape[0], np.empty(CHUNK), offset[:0], min(x.shape[1], end * length)
    for start in range(begin * length, last, CHUNK):
        stop = min(last, start + CHUNK)
        linear_predictors(terms, x, offset, theta, start, stop, eta[start:stop])
        moved, squares = buffer[: stop - start], reach[start:stop]
        for i in range(moved.size):
            squares[i] = 0.0
        for j in range(p):
            linear_predictors(terms, x, none, factor[j], start, stop, moved)
            for i in range(moved.size):
                squares[i] += moved[i] * moved[i]
        for i in range(squares.size):
            squares[i] = np.sqrt(squares[i])


@compiled()
def _bounds(terms, y, eta, reach, radius, length, out, begin, end):
    """c of every row."""
    last, lows, highs = min(eta.size, end * length), np.empty(CHUNK), np.empty(CHUNK)
    for start in range(begin * length, last, CHUNK):
        stop = min(last, start + CHUNK)
        low, high, bounds, at, away = (
            lows[: stop - start], highs[: stop - start], out[start:stop], eta[start:stop], reach[start:stop],
        )  # fmt: skip
        for i in range(bounds.size):
            low[i] = at[i] - radius * away[i]
            high[i] = at[i] + radius * away[i]
        chunk_bounds(terms, y[start:stop], low, high, bounds)
        for i in range(bounds.size):
            a = away[i]
            bounds[i] *= SLACK / 6.0 * a * a * a


@compiled()
def largest_excess(terms, y, eta, bounds, moves, radius):
    """The largest |R| / (c radius^3) over some rows and several moves of their linear predictors."""
    worst = 0.0
    for i in range(eta.size):
        for k in range(moves.shape[1]):
            excess = abs(remainder(terms, y[i], eta[i], moves[i, k])) / (bounds[i] * radius * radius * radius + 1e-300)
            worst = excess if not excess <= worst else worst  # also where it is not a number
    return worst


def expansion(arrays: Arrays, terms: Integers, theta: Array, factor: Array) -> tuple[Array, Array]:
    """Every row's linear predictor at theta, and a = |factor' x|."""
    eta, reach = np.empty(arrays.size), np.empty(arrays.size)
    if theta.size < TRIANGLE:
        across = np.ascontiguousarray(factor.T)
        arrays.over_blocks(_expand, terms, arrays.x, arrays.offset, theta, across, LENGTH, eta, reach)
        return eta, reach
    eta[:] = arrays.offset if arrays.offset.size else 0.0
    for start in range(0, arrays.size, LENGTH):
        part = arrays.x[:, start : start + LENGTH]
        eta[start : start + LENGTH] += theta @ part
        away = factor.T @ part
        reach[start : start + LENGTH] = np.sqrt(np.einsum("ij,ij->j", away, away))
    return eta, reach


def bounds_within(radius: float, arrays: Arrays, terms: Integers, eta: Array, reach: Array) -> Array:
    """c of every row within a radius, for its unit weight."""
    out = np.empty(arrays.size)
    arrays.over_blocks(_bounds, terms, arrays.y, eta, reach, radius, LENGTH, out)
    return out


class Split(NamedTuple):
    """Rows that are drawn, and rows that are always evaluated: together they must be all that have a positive bound."""

    urn: Urn
    always: Arrays
    rows: int  # with a positive bound, or always evaluated
    total: float  # of the weighted bounds of those that are drawn


class Remainders:
    """The remainders of rows that are expanded at theta; c depends on the radius within which it must hold.

    It lives with the rows, and what it knows of each row stays there.
    """

    def __init__(self, arrays: Arrays, count: Count, family: Tag, theta: Array, factor: Array) -> None:
        count(2 * arrays.size, 1)
        self._arrays, self._count, self._terms = arrays, count, family.terms
        self._theta, self._factor = np.array(theta, dtype=float), factor
        self._eta, self._reach = expansion(arrays, self._terms, self._theta, factor)

    def bounds(self, radius: float) -> Array:
        """c of every row, for its unit weight."""
        return bounds_within(radius, self._arrays, self._terms, self._eta, self._reach)

    def expected(self, radii: Array, spread: float, threshold: float, rng: np.random.Generator) -> Array:
        """For each radius, were bounds multiplied by `spread`: rows above the threshold, and the others' sum.

        Of many rows only some are looked at: this is an estimate of what a step costs, and decides on nothing else.
        """
        arrays = self._arrays
        some = scattered(arrays.size, LOOKED_AT, rng)
        y, eta, reach = arrays.y[some], self._eta[some], self._reach[some]
        weights = arrays.weights[some] if arrays.weights.size else 1.0
        out, bounds = np.empty((radii.size, 2)), np.empty(y.size)
        for k, radius in enumerate(radii.tolist()):
            _bounds(self._terms, y, eta, reach, radius, y.size, bounds, 0, 1)
            values = spread * bounds * weights
            held = values <= threshold
            out[k] = y.size - np.count_nonzero(held), values[held].sum()
        return out * (arrays.size / y.size)

    def split(self, radius: float, most: float, directions: Array, rng: np.random.Generator) -> Split:
        """Rows whose weighted bound exceeds `most`, or that some directions (p, f) move, from the others.

        Bounds of some of the others are checked.
        """
        arrays, bounds = self._arrays, self.bounds(radius)
        weighted = bounds * arrays.weights if arrays.weights.size else bounds
        always = np.flatnonzero(~(weighted <= most))  # also where it is not a number
        if directions.size:
            self._count(arrays.size, 1)
            always = np.union1d(always, np.flatnonzero(moved(arrays, directions)))
        rows = np.count_nonzero(weighted) + np.count_nonzero(weighted[always] == 0)
        bounds[always] = weighted[always] = 0.0
        total, urn = float(weighted.sum()), Urn(arrays, self._count, bounds, self._theta)
        if urn.rows:
            some = np.setdiff1d(scattered(arrays.size, CHECKED, rng), always)
            require_bounds(self.excess(bounds, radius, some, rng))
        self._count(always.size)
        return Split(urn, arrays.take(always), int(rows), total)

    def excess(self, bounds: Array, radius: float, rows: Integers, rng: np.random.Generator, points: int = 10) -> float:
        """The largest |R| over its bound at random points on the ball's surface, for some rows: at most one."""
        directions = rng.standard_normal((points, self._theta.size))
        directions *= radius / np.linalg.norm(directions, axis=1, keepdims=True)
        x = np.ascontiguousarray(self._arrays.x[:, rows])
        moves = np.ascontiguousarray((directions @ self._factor.T @ x).T)
        self._count(rows.size * points)
        return float(largest_excess(self._terms, self._arrays.y[rows], self._eta[rows], bounds[rows], moves, radius))


def require_bounds(worst: float) -> None:
    """Raise if some row's remainder exceeds its bound."""
    if not worst <= 1:
        raise FloatingPointError(f"a row's remainder is {worst:.3g} times its bound; please report this")


@dataclass(frozen=True)
class RemainderBounds:
    """A measure: c of each row that is expanded at theta, within a radius."""

    family: Tag
    theta: Array
    factor: Array
    radius: float
    looks = 2

    def of(self, arrays: Arrays) -> Array:
        """See `Measure`."""
        terms = self.family.terms
        return bounds_within(self.radius, arrays, terms, *expansion(arrays, terms, self.theta, self.factor))
