"""The surrogate's shape along each axis: a density that is exponential on every cell of a grid.

The Gaussian at the mode knows no skewness. Along the axis of z_k, with all others at the mode, the posterior's log
density can be had from a few rows, and q(z) = prod q_k(z_k) with q_k close to it is a better place to draw independent
proposals from: a level with few events has one long tail, and q has it too. The log density of q_k is linear between
the knots of a grid and beyond its ends; that of the posterior is concave, so the tails of q_k are not shorter.

Reference for such densities: W. R. Gilks and P. Wild (1992), "Adaptive rejection sampling for Gibbs sampling".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

Array = NDArray[np.float64]

REACH, STEP = 8.0, 0.125  # of the grid, in posterior standard deviations
KNOTS = np.linspace(-REACH, REACH, int(2 * REACH / STEP) + 1)
FLATTEST = 0.1  # slope that a tail must have at least
LOWEST = -600.0  # log density below the peak: nothing is ever drawn there


class Shape(NamedTuple):
    """Densities q_k, one a row."""

    log_density: Array  # (p, knots)
    slopes: Array  # (p, 2) of the tails: rising from the left, falling to the right
    below: Array  # (p, knots) probability below each knot


def fit_shape(log_density: Array) -> Shape:
    """Densities with these logarithms at the knots, up to constants."""
    f = np.maximum(log_density - log_density.max(1, keepdims=True), LOWEST)
    slopes = np.maximum(np.stack([f[:, 1] - f[:, 0], f[:, -2] - f[:, -1]], axis=1) / STEP, FLATTEST)
    rise = np.diff(f, axis=1)
    steep = np.where(np.abs(rise) < 1e-6, 1.0, rise)
    cells = STEP * np.exp(f[:, :-1]) * np.where(np.abs(rise) < 1e-6, 1 + rise / 2, np.expm1(steep) / steep)
    masses = np.concatenate([np.exp(f[:, :1]) / slopes[:, :1], cells, np.exp(f[:, -1:]) / slopes[:, 1:]], axis=1)
    total = masses.sum(1, keepdims=True)
    return Shape(f - np.log(total), slopes, np.cumsum(masses, axis=1)[:, :-1] / total)


@compiled()
def log_density(shape, z):
    """log q(z)."""
    total, last = 0.0, KNOTS.size - 1
    for k in range(z.size):
        place = (z[k] + REACH) / STEP
        if place <= 0.0:
            total += shape.log_density[k, 0] + shape.slopes[k, 0] * STEP * place
        elif place >= last:
            total += shape.log_density[k, last] - shape.slopes[k, 1] * STEP * (place - last)
        else:
            i = int(place)
            share = place - i
            total += (1.0 - share) * shape.log_density[k, i] + share * shape.log_density[k, i + 1]
    return total


@compiled()
def draw(shape, rng, out):
    """A draw from q."""
    last = KNOTS.size - 1
    for k in range(out.size):
        u = rng.random()
        below = shape.below[k]
        if u < below[0]:
            out[k] = -REACH + math.log(u / below[0]) / shape.slopes[k, 0]
        elif u >= below[last]:
            out[k] = REACH - math.log((1.0 - u) / (1.0 - below[last])) / shape.slopes[k, 1]
        else:
            low, high = 0, last
            while high - low > 1:
                middle = (low + high) // 2
                if u < below[middle]:
                    high = middle
                else:
                    low = middle
            rise = (shape.log_density[k, low + 1] - shape.log_density[k, low]) / STEP
            mass = (u - below[low]) * math.exp(-shape.log_density[k, low])  # of what lies below, over the density
            out[k] = KNOTS[low] + (math.log1p(rise * mass) / rise if abs(rise) > 1e-6 else mass)


@compiled()
def draws(shape, rng, out):
    """Draws from q into the rows of `out`."""
    for point in out:
        draw(shape, rng, point)


@compiled()
def log_densities(shape, points):
    """log q of each row of `points`."""
    return np.array([log_density(shape, point) for point in points])
