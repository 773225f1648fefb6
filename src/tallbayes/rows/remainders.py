"""What the second-order expansion of a row's log-likelihood leaves out, and how large it can be.

With eta the row's linear predictor where it is expanded and f its log-likelihood, the remainder at eta + h is

    R(h) = integral from 0 to h of (h - s)^2 / 2 f'''(eta + s) ds,

computed by Gauss-Legendre quadrature in this form: nothing cancels, so that also tiny remainders have ten digits. Let
theta be the point of expansion, LL' a covariance and a = |L'x|. If theta moves by L z with |z| = rho <= radius, then
h = x'L z is at most a rho in size, and

    |R(h)| <= c rho^3,     c = M a^3 / 6,     M = the largest |f'''| on eta +- radius a.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import prange
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.families.compiled import compiled
from tallbayes.families.terms import bound3, third
from tallbayes.rows.passes import CHUNK, predictor
from tallbayes.rows.subsample import scattered
from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

# Gauss-Legendre on [0, 1]; eight nodes fill a vector register.
NODES, WEIGHTS = (1 + np.polynomial.legendre.leggauss(8)[0]) / 2, np.polynomial.legendre.leggauss(8)[1] / 2
CUBIC = WEIGHTS * (1 - NODES) ** 2 / 2
PANEL = 0.5  # length of a panel: third derivatives have singularities a few units off the real line
FAR = 16.0  # a way that is worth longer panels
SLACK = 1 + 1e-6  # bounds are multiplied by it, so that rounding does not break them
LOOKED_AT = 500_000  # rows from which the effect of a radius is estimated
CHECKED = 1 << 13  # rows whose bounds are checked in set-up
TRIANGLE = 24  # columns from which on a matrix product is faster than our own loops


@compiled()
def far_remainder(tag, y, eta, h):
    """R(h) for a long way: panels grow with the distance from zero, around which third derivatives have their peaks."""
    total, s, sign = 0.0, 0.0, 1.0 if h > 0.0 else -1.0
    while s != h:
        length = max(PANEL, 0.2 * abs(eta + s))
        end = h if abs(h - s) <= length else s + sign * length
        for k in range(8):
            at = s + NODES[k] * (end - s)
            total += WEIGHTS[k] * (end - s) * (h - at) * (h - at) * third(tag, y, eta + at)
        s = end
    return 0.5 * total


@compiled()
def remainder(tag, y, eta, h):
    """R(h), on short panels, where the integrand is nearly a polynomial."""
    total = 0.0
    if abs(h) <= PANEL:
        for k in range(8):
            total += CUBIC[k] * third(tag, y, eta + NODES[k] * h)
        return total * h * h * h
    if abs(h) > FAR:
        return far_remainder(tag, y, eta, h)
    panels = int(np.ceil(abs(h) / PANEL))
    for panel in range(panels):
        for k in range(8):
            u = (panel + NODES[k]) / panels
            total += WEIGHTS[k] * (1.0 - u) * (1.0 - u) * third(tag, y, eta + u * h)
    return 0.5 * total * h * h * h / panels


@compiled()
def difference(tag, y, eta, h, new_h):
    """R(new_h) - R(h); both at once keep the processor busier than one after the other."""
    if max(abs(h), abs(new_h)) > PANEL:
        return remainder(tag, y, eta, new_h) - remainder(tag, y, eta, h)
    total, new_total = 0.0, 0.0
    for k in range(8):
        total += CUBIC[k] * third(tag, y, eta + NODES[k] * h)
        new_total += CUBIC[k] * third(tag, y, eta + NODES[k] * new_h)
    return new_total * new_h * new_h * new_h - total * h * h * h


@compiled(parallel=True)
def _expand(x, offset, theta, factor, length, eta, reach):
    """eta = offset + x' theta and reach = |factor x| for every row."""
    p, n = x.shape
    for block in prange(-(-n // length)):
        buffer = np.empty(CHUNK)
        for start in range(block * length, min(n, (block + 1) * length), CHUNK):
            stop = min(n, start + CHUNK)
            predictor(x, offset, None, theta, start, stop, eta[start:stop])
            moved, squares = buffer[: stop - start], reach[start:stop]
            squares[:] = 0.0
            for j in range(p):
                predictor(x, None, None, factor[j], start, stop, moved)
                for i in range(moved.size):
                    squares[i] += moved[i] * moved[i]
            for i in range(squares.size):
                squares[i] = np.sqrt(squares[i])


@compiled()
def _chunk_bounds(tag, y, eta, reach, radius, out):
    """c of a few rows."""
    for i in range(out.size):
        a = reach[i]
        out[i] = SLACK / 6.0 * a * a * a * bound3(tag, y[i], eta[i] - radius * a, eta[i] + radius * a)


@compiled(parallel=True)
def _bounds(tag, y, eta, reach, radius, length, out):
    """c of every row."""
    n = eta.size
    for block in prange(-(-n // length)):
        part = slice(block * length, min(n, (block + 1) * length))
        _chunk_bounds(tag, y[part], eta[part], reach[part], radius, out[part])


@compiled()
def _expected(tag, y, weights, eta, reach, radii, spread, threshold, out):
    """For each radius: rows whose bound times spread exceeds the threshold, and the sum over the others."""
    n, buffer = eta.size, np.empty(CHUNK)
    out[:] = 0.0
    for start in range(0, n, CHUNK):
        part = slice(start, min(n, start + CHUNK))
        bounds = buffer[: part.stop - part.start]
        for k in range(radii.size):
            _chunk_bounds(tag, y[part], eta[part], reach[part], radii[k], bounds)
            if weights is not None:
                bounds *= weights[part]
            above, below = 0.0, 0.0
            for i in range(bounds.size):
                value = spread * bounds[i]
                below += value if value <= threshold else 0.0
                above += 0.0 if value <= threshold else 1.0
            out[k, 0] += above
            out[k, 1] += below


@compiled()
def largest_excess(tag, y, eta, bounds, moves, radius):
    """The largest |R| / (c radius^3) over some rows and several moves of their linear predictors."""
    worst = 0.0
    for i in range(eta.size):
        for k in range(moves.shape[1]):
            worst = max(worst, abs(remainder(tag, y[i], eta[i], moves[i, k])) / (bounds[i] * radius**3 + 1e-300))
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
        weights: Array | None,
        offset: Array | None,
        theta: Array,
        factor: Array,
        length: int,
        count: Callable[[int], None],
    ) -> None:
        self._tag, self._x, self._y, self._weights, self._offset = tag, x, y, weights, offset
        self._theta, self._factor, self._length, self._count = theta, factor, length, count
        self._eta, self._reach = np.empty(y.size), np.empty(y.size)
        if theta.size < TRIANGLE:
            _expand(x, offset, theta, np.ascontiguousarray(factor.T), length, self._eta, self._reach)
            return
        self._eta[:] = 0.0 if offset is None else offset
        for start in range(0, y.size, length):
            part = x[:, start : start + length]
            self._eta[start : start + length] += theta @ part
            moved = factor.T @ part
            self._reach[start : start + length] = np.sqrt(np.einsum("ij,ij->j", moved, moved))

    def bounds(self, radius: float) -> Array:
        """c of every row, for its unit weight."""
        out = np.empty(self._y.size)
        _bounds(self._tag, self._y, self._eta, self._reach, radius, self._length, out)
        return out

    def expected(self, radii: Array, spread: float, threshold: float, rng: np.random.Generator) -> Array:
        """For each radius, were bounds multiplied by `spread`: rows above the threshold, and the others' sum.

        Of many rows only some are looked at: this is an estimate of what a step costs, and decides on nothing else.
        """
        some = scattered(self._y.size, LOOKED_AT, rng)
        y, eta, reach = self._y[some], self._eta[some], self._reach[some]
        weights = None if self._weights is None else self._weights[some]
        out = np.empty((radii.size, 2))
        _expected(self._tag, y, weights, eta, reach, radii, spread, threshold, out)
        return out * (self._y.size / y.size)

    def weighted(self, bounds: Array) -> Array:
        """Bounds times the rows' weights."""
        return bounds if self._weights is None else bounds * self._weights

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
        return float(largest_excess(self._tag, self._y[rows], self._eta[rows], bounds[rows], moves, radius))
