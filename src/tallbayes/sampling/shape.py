"""The surrogate's shape along each axis: a density that is exponential on every cell of a grid.

The Gaussian at the mode knows no skewness. Along the axis of z_k, with all others at the mode, the posterior's log
density can be had from a few rows, and q(z) = prod q_k(z_k) with q_k close to it is a better place to draw independent
proposals from: a level with few events has one long tail, and q has it too. The log density of q_k is linear between
the knots of a grid. Beyond its ends a tail goes on with the slope s that it has there,

    log q_k(x) = log q_k(0) - alpha log(1 + s x / alpha)        at a distance x from the end,

which is exponential for an infinite alpha. Where all priors are Normal the posterior's log density is concave, so that
exponential tails are not shorter than its own. A Student-t prior falls as a power of the distance, and where the data
leave a direction flat so does the posterior: there alpha is the power of the prior.

A posterior may have further modes, which no grid around the first would resolve. Each is a component of its own, a
Student-t with the Gaussian's shape at that mode, and q is the mixture of them all.

Reference for such densities: W. R. Gilks and P. Wild (1992), "Adaptive rejection sampling for Gibbs sampling".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, compiled, inside, small

Array = NDArray[np.float64]

REACH, STEP = 8.0, 0.125  # of the grid, in posterior standard deviations
KNOTS = np.linspace(-REACH, REACH, int(2 * REACH / STEP) + 1)
FLATTEST = 0.1, 1e-3  # slope that a tail must have at least where it begins: if it is exponential, and if not
LOWEST = -600.0  # log density below the peak: nothing is ever drawn there
OTHER_DF = 4  # of further components


class Others(NamedTuple):
    """Further components of q, one for each further mode."""

    shares: Array  # (m,) of the proposals
    center: Array  # (m, p)
    spread: Array  # (m, p, p) z = center + spread t, with t a Student-t
    back: Array  # (m, p, p) its inverse
    log_constant: Array  # (m,) of the density


class Shape(NamedTuple):
    """Densities q_k, one a row, and further components."""

    log_density: Array  # (p, knots)
    slopes: Array  # (p, 2) of the tails: rising from the left, falling to the right
    below: Array  # (p, knots) probability below each knot
    powers: Array  # (p,) alpha of the tails
    origin: Array  # (p,) z of coefficients that are zero
    others: Others


def no_others(p: int) -> Others:
    """For a posterior with one mode."""
    return Others(np.empty(0), np.empty((0, p)), np.empty((0, p, p)), np.empty((0, p, p)), np.empty(0))


def components(shares: Sequence[float], centers: Sequence[Array], spreads: Sequence[Array]) -> Others:
    """Components with these shares of the proposals, around these points, with these factors of their covariances."""
    p = len(centers[0])
    back = np.array([np.linalg.inv(spread) for spread in spreads])
    constant = math.lgamma((OTHER_DF + p) / 2) - math.lgamma(OTHER_DF / 2) - 0.5 * p * math.log(OTHER_DF * math.pi)
    log_scale = np.linalg.slogdet(back)[1]
    return Others(np.array(shares, float), np.array(centers), np.array(spreads), back, constant + log_scale)


def fit_shape(
    log_density: Array, powers: Array | None = None, origin: Array | None = None, others: Others | None = None
) -> Shape:
    """Densities with these logarithms at the knots, up to constants; without `powers` their tails are exponential."""
    p = len(log_density)
    powers = np.full(p, np.inf) if powers is None else powers
    f = np.maximum(log_density - log_density.max(1, keepdims=True), LOWEST)
    flattest = np.where(np.isinf(powers), *FLATTEST)[:, None]
    slopes = np.maximum(np.stack([f[:, 1] - f[:, 0], f[:, -2] - f[:, -1]], axis=1) / STEP, flattest)
    with np.errstate(invalid="ignore"):
        longer = np.where(np.isinf(powers), 1.0, powers / (powers - 1))[:, None]
    rise = np.diff(f, axis=1)
    steep = np.where(np.abs(rise) < 1e-6, 1.0, rise)
    cells = STEP * np.exp(f[:, :-1]) * np.where(np.abs(rise) < 1e-6, 1 + rise / 2, np.expm1(steep) / steep)
    ends = np.exp(f[:, [0, -1]]) / slopes * longer
    masses = np.concatenate([ends[:, :1], cells, ends[:, 1:]], axis=1)
    total = masses.sum(1, keepdims=True)
    below = np.cumsum(masses, axis=1)[:, :-1] / total
    origin, others = np.zeros(p) if origin is None else origin, no_others(p) if others is None else others
    # Compiled loops know contiguous arrays only; others would be another type to them.
    f, slopes, below, powers, origin = (
        np.array(part, dtype=float, order="C") for part in (f - np.log(total), slopes, below, powers, origin)
    )
    return Shape(f, slopes, below, powers, origin, others)


@inside()
def uniform(rng):
    """A uniform number, for lean functions: by a function that others have compiled as well, since they are not."""
    return rng.random()


@inside()
def normal(rng):
    """A standard normal number, likewise."""
    return rng.standard_normal()


@inside()
def tail(slope, power, distance):
    """By how much the log density falls at a distance from the end of the grid."""
    return slope * distance if power == np.inf else power * math.log1p(slope * distance / power)


@inside()
def distance(slope, power, share):
    """How far out a tail is when only a share of it is left."""
    if power == np.inf:
        return -math.log(share) / slope
    return power / slope * math.expm1(-math.log(share) / (power - 1.0))


@inside(inline="always")
def log_other(others, c, z):
    """Log density of a further component."""
    p, squares = z.size, 0.0
    for i in range(p):
        t = 0.0
        for j in range(p):
            t += others.back[c, i, j] * (z[j] - others.center[c, j])
        squares += t * t
    return others.log_constant[c] - 0.5 * (OTHER_DF + p) * math.log1p(squares / OTHER_DF)


@inside(**LEAN)
def log_density(shape, z):
    """log q(z)."""
    small()
    found = log_product(shape, z)
    shares = shape.others.shares
    if shares.size > 0:
        rest = 1.0
        for c in range(shares.size):
            rest -= shares[c]
        found += math.log(rest)
        for c in range(shares.size):
            other = math.log(shares[c]) + log_other(shape.others, c, z)
            found = (found if found > other else other) + math.log1p(math.exp(-abs(found - other)))
    return found


@inside(inline="always")
def log_product(shape, z):
    """Log of the product of all q_k."""
    total, last = 0.0, KNOTS.size - 1
    for k in range(z.size):
        place = (z[k] + REACH) / STEP
        if place <= 0.0:
            total += shape.log_density[k, 0] - tail(shape.slopes[k, 0], shape.powers[k], -STEP * place)
        elif place >= last:
            total += shape.log_density[k, last] - tail(shape.slopes[k, 1], shape.powers[k], STEP * (place - last))
        else:
            i = int(place)
            share = place - i
            total += (1.0 - share) * shape.log_density[k, i] + share * shape.log_density[k, i + 1]
    return total


@inside(**LEAN)
def draw(shape, rng, out):
    """A draw from q."""
    small()
    if shape.others.shares.size > 0:
        u = uniform(rng)
        for c in range(shape.others.shares.size):
            if u < shape.others.shares[c]:
                draw_other(shape.others, c, rng, out)
                return
            u -= shape.others.shares[c]
    draw_product(shape, rng, out)


@inside(inline="always")
def draw_other(others, c, rng, out):
    """A draw from a further component."""
    p, squares = out.size, 0.0
    for _ in range(OTHER_DF):
        squares += normal(rng) ** 2
    shrink = math.sqrt(OTHER_DF / squares)
    for i in range(p):
        out[i] = others.center[c, i]
    for j in range(p):
        t = shrink * normal(rng)
        for i in range(p):
            out[i] += others.spread[c, i, j] * t


@inside(inline="always")
def draw_product(shape, rng, out):
    """A draw from the product of all q_k."""
    last = KNOTS.size - 1
    for k in range(out.size):
        u = uniform(rng)
        below = shape.below[k]
        if u < below[0]:
            out[k] = -REACH - distance(shape.slopes[k, 0], shape.powers[k], u / below[0])
        elif u >= below[last]:
            out[k] = REACH + distance(shape.slopes[k, 1], shape.powers[k], (1.0 - u) / (1.0 - below[last]))
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
    small()
    for k in range(len(out)):  # rows by index are contiguous to numba, as a chain's position is: one specialisation
        draw(shape, rng, out[k])


@compiled()
def log_densities(shape, points):
    """log q of each row of `points`."""
    small()
    found = np.empty(len(points))
    for k in range(len(points)):
        found[k] = log_density(shape, points[k])
    return found
