"""Proposals of the thinned kernel for group effects, compiled: where a move would lead, and its log ratio.

A chain is at beta = expansion + delta and theta_g = expansion + e_g - share_g' delta: what moves an effect is kept
apart from what the coefficients do to it, because those two are nearly independent. Log ratios are those of the
expansion; what rows add to it is found in `thinned_loop.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, compiled, inside, small
from tallbayes.sampling.shape import normal, uniform

Array = NDArray[np.float64]

LOGISTIC = math.sqrt(3.0) / math.pi  # scale of a logistic density with unit variance
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
NEGLIGIBLE = 40.0  # distance of the logarithms of two densities from which on the smaller adds nothing

HERE, THERE = 0, 1  # rows of what a chain is at, and of what is proposed
MEAN, BENT, Z, V, NEW_V = range(5)  # rows of the room for vectors


class Expansion(NamedTuple):
    """The expansion of the posterior, and of what it leaves out as much as bounds need."""

    points: Array  # (3, p): see below
    precisions: Array  # (4, p, p)
    crossed: Array  # (4, k, p)
    groups: Array  # (9, k)


# Rows of `points`: the coefficients where the log-likelihood is expanded; the slope there of log-likelihood and prior
# along beta, with all effects fixed; the same with e fixed.
THETA, OWN_SLOPE, SLOPE = range(3)
# Rows of `precisions`: minus the second derivatives that belong to the two slopes; the sum over groups of share share';
# the precision in which lengths of delta are measured.
OWN_PRECISION, PRECISION, SHARES_SQUARED, METRIC = range(4)
# Rows of `crossed`: by how much effects go with the coefficients; minus the mixed second derivatives of the
# log-likelihood; the slope along beta that a unit of e brings (D share - mixed), and that half its square brings.
SHARES, MIXED, LEFT, BENDS = range(4)
# Rows of `groups`: the effects where the log-likelihood is expanded; its slope there, and minus its second derivative;
# the share of proposals that are drawn from the prior; the unit in which lengths of e are measured; 1 / v, how much a
# length of delta counts; the radius of the ball in which the bounds of a group's rows hold; the rate above which its
# rows are all evaluated; the sum of their weighted bounds.
EFFECT, EFFECT_SLOPE, CURVATURE, FROM_PRIOR, SD, NARROW, RADIUS, LIMIT, TOTAL = range(9)


@inside(**LEAN)
def squares(matrix, deltas):
    """v' matrix v of the two rows and of their difference, for a symmetric matrix."""
    small()
    here, there, jump = 0.0, 0.0, 0.0
    for i in range(deltas.shape[1]):
        v, new, half = deltas[HERE, i], deltas[THERE, i], 0.5 * matrix[i, i]
        row, new_row, step = half * v, half * new, half * (new - v)
        for j in range(i):
            row += matrix[i, j] * deltas[HERE, j]
            new_row += matrix[i, j] * deltas[THERE, j]
            step += matrix[i, j] * (deltas[THERE, j] - deltas[HERE, j])
        here += 2.0 * v * row
        there += 2.0 * new * new_row
        jump += 2.0 * (new - v) * step
    return here, there, jump


@inside(**LEAN)
def backward(root, v):
    """Replace v by root'^-1 v."""
    small()
    for i in range(v.size - 1, -1, -1):
        left = v[i]
        for j in range(i + 1, v.size):
            left -= root[j, i] * v[j]
        v[i] = left / root[i, i]


@inside(**LEAN)
def coefficient_gaussian(expansion, e, log_tau, root, mean, bent):
    """Cholesky root of the precision, and mean, of delta given e and tau; `bent` is the slope due to squares of e."""
    small()
    points, precisions, crossed, groups = expansion
    effects, left, shares, bends = groups[EFFECT], crossed[LEFT], crossed[SHARES], crossed[BENDS]
    precision, shares_squared, inverse = precisions[PRECISION], precisions[SHARES_SQUARED], math.exp(-2.0 * log_tau)
    for j in range(mean.size):
        mean[j], bent[j] = points[SLOPE, j], 0.0
    for g in range(e.size):
        own = e[g]
        prior, half = inverse * (effects[g] + own), 0.5 * own * own
        for j in range(mean.size):
            mean[j] += own * left[g, j] + prior * shares[g, j]
            bent[j] += half * bends[g, j]
    for i in range(mean.size):  # Cholesky's method row by row, which solves for the mean by half on its way
        part = mean[i] + bent[i]
        for j in range(i + 1):
            total = precision[i, j] + inverse * shares_squared[i, j]
            for k in range(j):
                total -= root[i, k] * root[j, k]
            if j < i:
                total /= root[j, j]
                part -= total * mean[j]
            else:
                total = math.sqrt(total)
            root[i, j] = total
        mean[i] = part / root[i, i]
    backward(root, mean)


@inside(**LEAN)
def whiten(root, mean, delta, z):
    """z = root' (delta - mean)."""
    small()
    for i in range(z.size):
        total = 0.0
        for j in range(i, z.size):
            total += root[j, i] * (delta[j] - mean[j])
        z[i] = total


@inside(**LEAN)
def to_proposals(expansion, center, back, delta, e, log_tau, root, vectors):
    """Where the coefficients are in the coordinates v of their proposals; returns half the square of z."""
    small()
    mean, z, half = vectors[MEAN], vectors[Z], 0.0
    coefficient_gaussian(expansion, e, log_tau, root, mean, vectors[BENT])
    whiten(root, mean, delta, z)
    for i in range(delta.size):
        vectors[V, i] = 0.0
        for j in range(delta.size):
            vectors[V, i] += back[i, j] * (z[j] - center[j])
        half += 0.5 * z[i] * z[i]
    return half


@inside(**LEAN)
def from_proposals(shares, center, spread, deltas, e, shift, root, vectors):
    """New coefficients from a new v, with which effects go by their shares; returns what is left of the log ratio."""
    small()
    delta, new_delta, log_ratio = deltas[HERE], deltas[THERE], 0.0
    for i in range(delta.size):
        new_delta[i] = center[i]
        for j in range(delta.size):
            new_delta[i] += spread[i, j] * vectors[NEW_V, j]
        # The proposal took the Gaussian to be standard in v.
        log_ratio += 0.5 * (vectors[NEW_V, i] ** 2 - vectors[V, i] ** 2 - new_delta[i] * new_delta[i])
    backward(root, new_delta)
    for j in range(delta.size):
        new_delta[j] += vectors[MEAN, j]
        log_ratio -= vectors[BENT, j] * (new_delta[j] - delta[j])
    for g in range(shares.shape[0]):
        new_shift = 0.0
        for j in range(delta.size):
            new_shift += shares[g, j] * new_delta[j]
        e[THERE, g], shift[THERE, g] = e[HERE, g], new_shift
    return log_ratio


@inside(**LEAN)
def quadratic(slope, precision, deltas):
    """What the expansion along the coefficients, prior included, gains with all effects where they are."""
    small()
    here, there, _ = squares(precision, deltas)
    gain = 0.5 * (here - there)
    for j in range(slope.size):
        gain += slope[j] * (deltas[THERE, j] - deltas[HERE, j])
    return gain


@inside(**LEAN)
def propose_drag(expansion, direction, further, carried, deltas, e, shift, log_tau):
    """Drag the coefficients along a direction; returns the log ratio but for rows and priors of beta and tau.

    If effects are carried along with the new tau, each keeps its place in its Gaussian given coefficients and tau; else
    they stay where they are.
    """
    small()
    points, precisions, crossed, groups = expansion
    delta, new_delta = deltas[HERE], deltas[THERE]
    for j in range(delta.size):
        new_delta[j] = delta[j] + further * direction[j]
    log_ratio = quadratic(points[OWN_SLOPE], precisions[OWN_PRECISION], deltas)
    inverse, new_inverse = math.exp(-2.0 * log_tau[HERE]), math.exp(-2.0 * log_tau[THERE])
    for g in range(e.shape[1]):
        slope, drag, new_shift = groups[EFFECT_SLOPE, g], 0.0, 0.0
        for j in range(delta.size):
            slope -= crossed[MIXED, g, j] * delta[j]
            drag -= crossed[MIXED, g, j] * (new_delta[j] - delta[j])
            new_shift += crossed[SHARES, g, j] * new_delta[j]
        d = e[HERE, g] - shift[HERE, g]
        new_d = d
        if carried:
            base, curvature = groups[EFFECT, g], groups[CURVATURE, g]
            precision, new_precision = curvature + inverse, curvature + new_inverse
            mean, new_mean = (slope - inverse * base) / precision, (slope + drag - new_inverse * base) / new_precision
            narrower = math.sqrt(precision / new_precision)
            new_d = new_mean + narrower * (d - mean)
            log_ratio += math.log(narrower)
            log_ratio -= 0.5 * (new_inverse * (base + new_d) ** 2 - inverse * (base + d) ** 2)
            log_ratio += (slope - 0.5 * curvature * (new_d + d)) * (new_d - d)
        log_ratio += drag * new_d
        e[THERE, g], shift[THERE, g] = new_d + new_shift, new_shift
    return log_ratio


@inside(**LEAN)
def log_mixture(odds, x, scaled):
    """Log density of proposals for an effect, up to a constant: logistic at x, or else from its prior, normal.

    `odds` is the logarithm of how often they come from the prior, over how often not, times the ratio of the units.
    """
    small()
    logistic, normal = -abs(x) - 2.0 * math.log1p(math.exp(-abs(x))), odds - 0.5 * scaled * scaled - HALF_LOG_2PI
    larger, apart = logistic if logistic > normal else normal, abs(logistic - normal)
    return larger if apart > NEGLIGIBLE else larger + math.log1p(math.exp(-apart))


@inside(**LEAN)
def propose_effects(mixed, groups, deltas, e, shift, log_tau, rng, log_ratios):
    """A new effect for each group, and the log ratio of each but for its rows."""
    small()
    tau, inverse = math.exp(log_tau), math.exp(-2.0 * log_tau)
    for j in range(deltas.shape[1]):
        deltas[THERE, j] = deltas[HERE, j]
    for g in range(e.shape[1]):
        slope, base, d = groups[EFFECT_SLOPE, g], groups[EFFECT, g], e[HERE, g] - shift[HERE, g]
        for j in range(deltas.shape[1]):
            slope -= mixed[g, j] * deltas[HERE, j]
        precision = groups[CURVATURE, g] + inverse
        mean = (slope - inverse * base) / precision
        unit, share = LOGISTIC / math.sqrt(precision), groups[FROM_PRIOR, g]
        if uniform(rng) < share:
            new_d = tau * normal(rng) - base
        else:
            u = uniform(rng)
            new_d = mean + unit * math.log(u / (1.0 - u))
        old, new = (d - mean) / unit, (new_d - mean) / unit
        odds = math.log(share * unit / ((1.0 - share) * tau))
        log_ratios[g] = log_mixture(odds, old, (base + d) / tau) - log_mixture(odds, new, (base + new_d) / tau)
        log_ratios[g] += 0.5 * precision * unit * unit * (old * old - new * new)
        e[THERE, g], shift[THERE, g] = new_d + shift[HERE, g], shift[HERE, g]


@compiled()
def whitened(expansion, theta):
    """z of the coefficients for parameter vectors (draws, p + k + 1): standard normal, if the expansion were all."""
    points, crossed, groups = expansion.points, expansion.crossed, expansion.groups
    p, k = points.shape[1], groups.shape[1]
    out, root, mean, bent = np.empty((theta.shape[0], p)), np.empty((p, p)), np.empty(p), np.empty(p)
    delta, e = np.empty(p), np.empty(k)
    for i in range(theta.shape[0]):
        for j in range(p):
            delta[j] = theta[i, j] - points[THETA, j]
        for g in range(k):
            e[g] = theta[i, p + g] - groups[EFFECT, g]
            for j in range(p):
                e[g] += crossed[SHARES, g, j] * delta[j]
        coefficient_gaussian(expansion, e, theta[i, p + k], root, mean, bent)
        whiten(root, mean, delta, out[i])
    return out
