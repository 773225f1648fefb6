"""What the rows of a group say about its effect, given the coefficients and tau: exact draws of it, and its integral.

Given these, the effect of group g has the log density

    f(t) = sum of loglik_i(x_i' beta + t) over the group's rows - t^2 / (2 tau^2),

which is concave. Draws need three of its tangents (`tangents.py`). The integral of e^f, by Gauss-Hermite quadrature
around the mode, is what the group adds to the likelihood of beta and tau. Both evaluate all rows of the group, some
five to ten times.

Reference: Q. Liu and D. A. Pierce (1994), "A note on Gauss-Hermite quadrature".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.families.compiled import compiled, inside
from tallbayes.families.terms import chunk_derivatives, linear_predictors
from tallbayes.groups.tangents import APART, draw, envelope
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.passes import CHUNK, piece
from tallbayes.rows.protocol import Count

Array = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.hermite.hermgauss(9)
LOG_WEIGHTS = np.log(WEIGHTS) + NODES**2
EVALUATED = 6  # times that a group's rows are looked at for a draw of its effect, about
NEAR = 0.1  # slope at what is taken for the mode, in units of the density's width


@inside()
def _bend(terms, y, weights, eta, start, stop, linear, inverse, t, buffers):
    """f, f' and -f'' at t, of the rows start..stop with linear predictors eta without the effect."""
    value, slope, bend = t * (linear - 0.5 * inverse * t), linear - inverse * t, inverse
    for low in range(start, stop, CHUNK):
        high = min(stop, low + CHUNK)
        moved, first, second = buffers[0, : high - low], buffers[1, : high - low], buffers[2, : high - low]
        for i in range(moved.size):
            moved[i] = eta[low - start + i] + t
        value += chunk_derivatives(terms, y[low:high], moved, piece(weights, low, high), first, second)
        for i in range(moved.size):
            slope += first[i]
            bend += second[i]
    return value, slope, bend


@inside()
def _settle(terms, y, weights, eta, start, stop, linear, inverse, t, buffers):
    """Near the mode, from t on: where, and f, f' and -f'' there."""
    value, slope, bend = _bend(terms, y, weights, eta, start, stop, linear, inverse, t, buffers)
    for _ in range(100):
        if abs(slope) < NEAR * math.sqrt(bend):
            break
        t += max(-2.0, min(2.0, slope / bend))
        value, slope, bend = _bend(terms, y, weights, eta, start, stop, linear, inverse, t, buffers)
    return t, value, slope, bend


@compiled()
def draw_effects(terms, x, y, offset, weights, starts, linear, beta, tau, settled, rng, out):
    """Effects (draws, groups) given beta (draws, p) and tau (draws,); `settled` (groups,) is where modes may be.

    `linear` (groups,) are the slopes of the part of the log-likelihood that is linear in the effects.
    """
    buffers, room = np.empty((3, CHUNK)), np.empty(np.diff(starts).max())
    for k in range(tau.size):
        inverse = 1.0 / tau[k] ** 2
        for g in range(starts.size - 1):
            start, stop = starts[g], starts[g + 1]
            eta = room[: stop - start]
            linear_predictors(terms, x, offset, beta[k], start, stop, eta)
            t, top, slope, bend = _settle(terms, y, weights, eta, start, stop, linear[g], inverse, settled[g], buffers)
            settled[g] = t
            width = APART / math.sqrt(bend)
            left, left_slope, _ = _bend(terms, y, weights, eta, start, stop, linear[g], inverse, t - width, buffers)
            right, right_slope, _ = _bend(terms, y, weights, eta, start, stop, linear[g], inverse, t + width, buffers)
            made = envelope(width, left - top, left_slope, slope, right - top, right_slope, -math.inf)
            while True:
                step, height = draw(made, left_slope, slope, right_slope, -math.inf, rng)
                value, _, _ = _bend(terms, y, weights, eta, start, stop, linear[g], inverse, t + step, buffers)
                if math.log(rng.random()) < value - top - height:
                    break
            out[k, g] = t + step


@compiled()
def log_integral(terms, x, y, offset, weights, starts, linear, beta, tau, settled, out):
    """The log-likelihood of beta (k, p) and tau (k,), effects integrated out, but for the part linear in beta."""
    buffers, room, heights = np.empty((3, CHUNK)), np.empty(np.diff(starts).max()), np.empty(NODES.size)
    for k in range(tau.size):
        inverse = 1.0 / tau[k] ** 2
        out[k] = 0.0
        for g in range(starts.size - 1):
            start, stop = starts[g], starts[g + 1]
            eta = room[: stop - start]
            linear_predictors(terms, x, offset, beta[k], start, stop, eta)
            t, _, _, bend = _settle(terms, y, weights, eta, start, stop, linear[g], inverse, settled[g], buffers)
            settled[g] = t
            unit, top = math.sqrt(2.0 / bend), -math.inf
            for a in range(NODES.size):
                at = t + unit * NODES[a]
                value, _, _ = _bend(terms, y, weights, eta, start, stop, linear[g], inverse, at, buffers)
                heights[a] = value + LOG_WEIGHTS[a]
                top = max(top, heights[a])
            total = 0.0
            for a in range(NODES.size):
                total += math.exp(heights[a] - top)
            out[k] += top + math.log(unit * total) - math.log(tau[k]) - 0.5 * math.log(2.0 * math.pi)


class Given:
    """Effects given coefficients and tau; it lives with the rows, since a group's rows must be at hand."""

    def __init__(self, arrays: Arrays, count: Count, family: Tag) -> None:
        self._arrays, self._count, self._family = arrays, count, family

    def draw(self, beta: Array, tau: Array, around: Array, rng: np.random.Generator) -> Array:
        """Effects of all groups (draws, groups), given coefficients (draws, p) and tau; modes are `around`."""
        self._count(EVALUATED * self._arrays.size * tau.size)
        out = np.empty((tau.size, self._arrays.groups))
        draw_effects(*self._rows, beta, tau, around.copy(), rng, out)
        return out

    def log_integral(self, beta: Array, tau: Array, around: Array) -> Array:
        """Log-likelihood of coefficients (k, p) and tau (k,), the effects of all groups integrated out."""
        self._count(len(NODES) * self._arrays.size * tau.size)
        out = np.empty(tau.size)
        log_integral(*self._rows, beta, tau, around.copy(), out)
        whole = np.concatenate([beta, np.zeros((tau.size, self._arrays.groups + 1))], axis=1)
        return self._arrays.outcomes.linear(self._family, whole) + out

    @property
    def _rows(self) -> tuple[Any, ...]:
        arrays = self._arrays
        slopes = arrays.outcomes.slope(self._family)[arrays.columns : -1]
        return self._family.terms, arrays.x, arrays.y, arrays.offset, arrays.weights, arrays.starts, slopes
