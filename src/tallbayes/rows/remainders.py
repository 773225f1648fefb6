"""What the second-order expansion of a row's log-likelihood leaves out, and how large it can be.

With eta the row's linear predictor where it is expanded and f its log-likelihood, the remainder at eta + h is R(h) (see
`families/quadrature.py`). Let theta be the point of expansion, LL' a covariance and a = |L'x|. If theta moves by L z
with |z| = rho <= radius, then h = x'L z is at most a rho in size, and

    |R(h)| <= c rho^3,     c = M a^3 / 6,     M = the largest |f'''| on eta +- radius a.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.families.compiled import compiled
from tallbayes.families.terms import chunk_bounds, linear_predictors, remainder
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.looking import Look
from tallbayes.rows.passes import CHUNK, LENGTH
from tallbayes.rows.tasks import moved

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

SLACK = 1 + 1e-6  # bounds are multiplied by it, so that rounding does not break them
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


@dataclass(frozen=True, eq=False)
class RemainderBounds:
    """A measure: c of each row that is expanded at theta, within a radius.

    It is infinite for rows whose weighted c exceeds `most`, and for those that some `directions` (p, f) move.
    """

    family: Tag
    theta: Array
    factor: Array
    radius: float
    most: float = np.inf
    directions: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def looks(self) -> int:
        """See `Measure`."""
        return 3 if self.directions.size else 2

    def of(self, arrays: Arrays) -> Array:
        """See `Measure`."""
        terms = self.family.terms
        bounds = bounds_within(self.radius, arrays, terms, *expansion(arrays, terms, self.theta, self.factor))
        weighted = bounds * arrays.weights if arrays.weights.size else bounds
        apart = ~(weighted <= self.most)  # also where it is not a number
        if self.directions.size:
            apart |= moved(arrays, self.directions)
        bounds[apart] = np.inf
        return bounds

    def excess(self, arrays: Arrays, rng: np.random.Generator, points: int = 10) -> float:
        """The largest |R| over its bound at random points on the ball's surface, for some rows: at most one."""
        bounds, terms = self.of(arrays), self.family.terms
        held = np.flatnonzero(np.isfinite(bounds))
        some = arrays.take(held)
        directions = rng.standard_normal((points, self.theta.size))
        directions *= self.radius / np.linalg.norm(directions, axis=1, keepdims=True)
        moves = np.ascontiguousarray((directions @ self.factor.T @ some.x).T)
        eta = some.predictors(self.theta[None])[0]
        return float(largest_excess(terms, some.y, eta, bounds[held], moves, self.radius))


def expected(
    look: Look, family: Tag, theta: Array, factor: Array, radii: Array, spread: float, threshold: float
) -> Array:
    """For each radius, were bounds multiplied by `spread`: rows above the threshold, and the others' sum.

    Some rows are looked at only: this is an estimate of what a step costs, and decides on nothing else.
    """
    arrays, out = look.arrays, np.empty((radii.size, 2))
    eta, reach = expansion(arrays, family.terms, theta, factor)
    for k, radius in enumerate(radii.tolist()):
        values = spread * bounds_within(radius, arrays, family.terms, eta, reach) * arrays.own
        held = values <= threshold
        out[k] = look.scale[~held].sum(), (look.scale * values)[held].sum()
    return out


def require_bounds(worst: float) -> None:
    """Raise if some row's remainder exceeds its bound."""
    if not worst <= 1:
        raise FloatingPointError(f"a row's remainder is {worst:.3g} times its bound; please report this")
