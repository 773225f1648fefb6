"""What the second-order expansion of a row's log-likelihood leaves out, and how large it can be.

With eta the row's linear predictor where it is expanded and f its log-likelihood, the remainder at eta + h is R(h) (see
`families/quadrature.py`). Let theta be the point of expansion, LL' a covariance and a = |L'x|. If theta moves by L z
with |z| = rho <= radius, then h = x'L z is at most a rho in size, and

    |R(h)| <= c rho^3,     c = M a^3 / 6,     M = the largest |f'''| on eta +- radius a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.families.compiled import compiled, inside
from tallbayes.families.terms import chunk_bounds, remainder
from tallbayes.rows.passes import CHUNK, linear
from tallbayes.rows.subsample import scattered
from tallbayes.rows.threads import over_blocks
from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

SLACK = 1 + 1e-6  # bounds are multiplied by it, so that rounding does not break them
LOOKED_AT = 500_000  # rows from which the effect of a radius is estimated
CHECKED = 1 << 13  # rows whose bounds are checked in set-up
TRIANGLE = 24  # columns from which on a matrix product is faster than our own loops


@compiled()
def _expand(x, offset, theta, factor, length, eta, reach, begin, end):
    """eta = offset + x' theta and reach = |factor x| for every row."""
    p, buffer, none, last = x.shape[0], np.empty(CHUNK), offset[:0], min(x.shape[1], end * length)
    for start in range(begin * length, last, CHUNK):
        stop = min(last, start + CHUNK)
        linear(x, offset, theta, start, stop, eta[start:stop])
        moved, squares = buffer[: stop - start], reach[start:stop]
        for i in range(moved.size):
            squares[i] = 0.0
        for j in range(p):
            linear(x, none, factor[j], start, stop, moved)
            for i in range(moved.size):
                squares[i] += moved[i] * moved[i]
        for i in range(squares.size):
            squares[i] = np.sqrt(squares[i])


@inside()
def _some_bounds(terms, y, eta, reach, radius, low, high, out):
    """c of a few rows; low and high are room to work in."""
    for i in range(out.size):
        low[i] = eta[i] - radius * reach[i]
        high[i] = eta[i] + radius * reach[i]
    chunk_bounds(terms, y, low, high, out)
    for i in range(out.size):
        a = reach[i]
        out[i] *= SLACK / 6.0 * a * a * a


@compiled()
def _bounds(terms, y, eta, reach, radius, length, out, begin, end):
    """c of every row."""
    last, low, high = min(eta.size, end * length), np.empty(CHUNK), np.empty(CHUNK)
    for start in range(begin * length, last, CHUNK):
        stop = min(last, start + CHUNK)
        size = stop - start
        _some_bounds(
            terms, y[start:stop], eta[start:stop], reach[start:stop], radius, low[:size], high[:size], out[start:stop]
        )


@compiled()
def _expected(terms, y, weights, eta, reach, radii, spread, threshold, out):
    """For each radius: rows whose bound times spread exceeds the threshold, and the sum over the others."""
    buffers = np.empty((3, CHUNK))
    for start in range(0, eta.size, CHUNK):
        stop = min(eta.size, start + CHUNK)
        low, high, bounds = buffers[0, : stop - start], buffers[1, : stop - start], buffers[2, : stop - start]
        for k in range(radii.size):
            _some_bounds(terms, y[start:stop], eta[start:stop], reach[start:stop], radii[k], low, high, bounds)
            above, below = 0.0, 0.0
            for i in range(bounds.size):
                value = spread * bounds[i]
                if weights.size > 0:
                    value *= weights[start + i]
                below += value if value <= threshold else 0.0
                above += 0.0 if value <= threshold else 1.0
            out[k, 0] += above
            out[k, 1] += below


@compiled()
def largest_excess(terms, y, eta, bounds, moves, radius):
    """The largest |R| / (c radius^3) over some rows and several moves of their linear predictors."""
    worst = 0.0
    for i in range(eta.size):
        for k in range(moves.shape[1]):
            excess = abs(remainder(terms, y[i], eta[i], moves[i, k])) / (bounds[i] * radius * radius * radius + 1e-300)
            worst = excess if not excess <= worst else worst  # also where it is not a number
    return worst


class Remainders:
    """The remainders of rows that are expanded at theta; c depends on the radius within which it must hold.

    It is made by `rows.remainders`, and what it knows of each row stays with the rows.
    """

    def __init__(
        self,
        tag: Tag,
        x: Array,
        y: Array,
        weights: Array,
        offset: Array,
        theta: Array,
        factor: Array,
        length: int,
        count: Callable[[int], None],
    ) -> None:
        self._terms, self._x, self._y, self._weights, self._offset = tag.terms, x, y, weights, offset
        self._theta, self._factor, self._length, self._count = theta, factor, length, count
        self._eta, self._reach = np.empty(y.size), np.empty(y.size)
        if theta.size < TRIANGLE:
            self._over_blocks(_expand, x, offset, theta, np.ascontiguousarray(factor.T), length, self._eta, self._reach)
            return
        self._eta[:] = offset if offset.size else 0.0
        for start in range(0, y.size, length):
            part = x[:, start : start + length]
            self._eta[start : start + length] += theta @ part
            moved = factor.T @ part
            self._reach[start : start + length] = np.sqrt(np.einsum("ij,ij->j", moved, moved))

    def _over_blocks(self, function: Callable[..., None], *arguments: Any) -> None:
        blocks = -(-self._y.size // self._length)
        over_blocks(function, blocks, *arguments, evaluations=self._y.size)

    def bounds(self, radius: float) -> Array:
        """c of every row, for its unit weight."""
        out = np.empty(self._y.size)
        self._over_blocks(_bounds, self._terms, self._y, self._eta, self._reach, radius, self._length, out)
        return out

    def expected(self, radii: Array, spread: float, threshold: float, rng: np.random.Generator) -> Array:
        """For each radius, were bounds multiplied by `spread`: rows above the threshold, and the others' sum.

        Of many rows only some are looked at: this is an estimate of what a step costs, and decides on nothing else.
        """
        some = scattered(self._y.size, LOOKED_AT, rng)
        y, eta, reach = self._y[some], self._eta[some], self._reach[some]
        weights = self._weights[some] if self._weights.size else self._weights
        out = np.zeros((radii.size, 2))
        _expected(self._terms, y, weights, eta, reach, radii, spread, threshold, out)
        return out * (self._y.size / y.size)

    def weighted(self, bounds: Array) -> Array:
        """Bounds times the rows' weights."""
        return bounds * self._weights if self._weights.size else bounds

    def urn(self, bounds: Array, chosen: Integers | None = None) -> Urn:
        """Rows to be drawn in proportion to their weighted bounds; those that are `chosen` are left out."""
        left = bounds
        if chosen is not None and chosen.size:
            left = bounds.copy()
            left[chosen] = 0.0
        return Urn(self.weighted(left), left, self._x, self._y, self._offset, self._theta, self._length, self._count)

    def excess(self, bounds: Array, radius: float, rows: Integers, rng: np.random.Generator, points: int = 10) -> float:
        """The largest |R| over its bound at random points on the ball's surface, for some rows: at most one."""
        directions = rng.standard_normal((points, self._theta.size))
        directions *= radius / np.linalg.norm(directions, axis=1, keepdims=True)
        x = np.ascontiguousarray(self._x[:, rows])
        moves = np.ascontiguousarray((directions @ self._factor.T @ x).T)
        self._count(rows.size * points)
        return float(largest_excess(self._terms, self._y[rows], self._eta[rows], bounds[rows], moves, radius))
