"""The compiled loop of the thinned kernel for group effects: one chain, many sweeps (see `thinned.py`).

A chain is at beta = expansion + delta and theta_g = expansion + e_g - share_g' delta: what moves an effect is kept
apart from what the coefficients do to it, because those two are nearly independent.

A function compiles the slower the more arrays it is given, and whoever calls it compiles it again. So numbers of one
shape share an array, whose rows have names, and all moves but those of the effects are decided in one place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, compiled, inside
from tallbayes.families.terms import chunk_value, remainder
from tallbayes.groups.remainders import Always, Drawn
from tallbayes.groups.scale import ScaleCode, draw_log_scale, log_prior
from tallbayes.rows.passes import CHUNK, piece
from tallbayes.sampling.shape import Shape
from tallbayes.sampling.thinned_loop import (
    BAD_RATE,
    BROKEN_BOUND,
    DONE,
    STRETCH,
    Moves,
    breaks,
    distance_bound,
    prior_correction,
    propose,
    thin,
)

Array = NDArray[np.float64]

LOGISTIC = math.sqrt(3.0) / math.pi  # scale of a logistic density with unit variance
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
# The moves of a sweep; FLAT and what comes after it stretch one flat direction each.
COEFFICIENTS, EFFECTS, SCALE, TAU, FLAT = range(5)
STRETCHES = 3  # of each flat direction in a sweep

HERE, THERE = 0, 1  # rows of what a chain is at, and of what is proposed
MEAN, BENT, Z, V, NEW_V, STEP = range(6)  # rows of the room for vectors


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


class GroupTarget(NamedTuple):
    """All that the loop knows of the posterior."""

    expansion: Expansion
    drawn: Drawn
    always: Always
    prior: Array  # (7, p) what `prior_correction` needs; (7, 0) where all priors are Normal
    scale: ScaleCode  # prior of tau
    flat: Array  # (f, p) directions that the data leave flat, under Student-t priors
    pivots: NDArray[np.intp]  # (f,) the coefficient that only one of them has, with a one
    center: Array  # (p,) zeros
    shape: Shape  # of beta given e and tau, from which independent proposals are drawn
    moves: NDArray[np.intp]  # of a sweep, in their order


class Aim(NamedTuple):
    """How proposals are made; warm-up learns what the expansion does not know, and then it is frozen."""

    moves: Moves  # of the coefficients, in coordinates v: their Gaussian is standard in z = shift + spread v
    shift: Array  # (p,)
    spread: Array  # (p, p)
    back: Array  # (p, p) its inverse
    step: float  # of the walk in log tau
    drag: Array  # (p,) by how much the coefficients go with a unit of log tau


class Place(NamedTuple):
    """Where a chain is, and where a proposal would bring it; changed in place."""

    delta: Array  # (2, p)
    e: Array  # (2, k)
    shift: Array  # (2, k) share_g' delta
    always: Array  # (2, k) remainder of the rows that are always evaluated
    log_tau: Array  # (2,)


class Work(NamedTuple):
    """Room for what a move computes on its way."""

    root: Array  # (p, p)
    vectors: Array  # (6, p)
    log_ratios: Array  # (k,)
    buffer: Array  # (CHUNK,)

    @classmethod
    def room(cls, p: int, k: int) -> Work:
        """For p coefficients and k groups."""
        return cls(np.empty((p, p)), np.empty((6, p)), np.empty(k), np.empty(CHUNK))


@inside(**LEAN)
def always_remainder(terms, rows, g, delta, d, buffer):
    """Remainder of the rows of a group that are always evaluated, where its effect is d from its expansion."""
    x, y, weights, eta, value, first, second, starts = rows
    total = 0.0
    for low in range(starts[g], starts[g + 1], CHUNK):
        high = low + CHUNK if low + CHUNK < starts[g + 1] else starts[g + 1]
        moved = buffer[: high - low]
        for i in range(moved.size):
            moved[i] = d
        for j in range(delta.size):
            column, by = x[j, low:high], delta[j]
            for i in range(moved.size):
                moved[i] += by * column[i]
        for i in range(moved.size):
            h = moved[i]
            total -= value[low + i] + (first[low + i] - 0.5 * second[low + i] * h) * h
            moved[i] = eta[low + i] + h
        total += chunk_value(terms, y[low:high], moved, piece(weights, low, high))
    return total


@compiled(**LEAN)
def always_remainders(terms, rows, delta, d, buffer, out):
    """The same of all groups."""
    for g in range(d.size):
        out[g] = always_remainder(terms, rows, g, delta, d[g], buffer)


@inside(**LEAN)
def difference(terms, x, y, eta, i, delta, d, new_delta, new_d):
    """The difference of a row's remainders at two points."""
    for j in range(delta.size):
        d += x[j, i] * delta[j]
        new_d += x[j, i] * new_delta[j]
    return remainder(terms, y[i], eta[i], new_d) - remainder(terms, y[i], eta[i], d)


@inside(**LEAN)
def thinned_rows(terms, rows, groups, evaluated, g, lengths, here, there, rng, tally):
    """What the rows of a group that can be drawn add to the log ratio, from a few of them; and why it stopped.

    `lengths` are those of the old and the new delta and of their difference; `here` and `there` are (delta, e, d) of
    the two points. So many rows of the group are `evaluated` always.
    """
    if groups[TOTAL, g] == 0.0:
        return 0.0, DONE
    narrow, e, new_e = groups[NARROW, g], here[1] / groups[SD, g], there[1] / groups[SD, g]
    old, new, jump = lengths[0] * narrow, lengths[1] * narrow, lengths[2] * narrow
    old, new = math.sqrt(old * old + e * e), math.sqrt(new * new + new_e * new_e)
    spread = distance_bound(old, new, math.sqrt(jump * jump + (new_e - e) * (new_e - e)))
    rate = groups[TOTAL, g] * spread
    if not (rate >= 0.0):  # a NaN must not go unseen
        return 0.0, BAD_RATE
    x, y, weights, eta, bounds, table, starts = rows
    log_ratio, first, last = 0.0, starts[g], starts[g + 1]
    # This choice looks at the two points only, and from both sides it is the same.
    if old > groups[RADIUS, g] or new > groups[RADIUS, g] or rate > groups[LIMIT, g]:
        tally[0] += 2 * (last - first - evaluated)
        for i in range(first, last):
            if bounds[i] != 0.0:
                change = difference(terms, x, y, eta, i, here[0], here[2], there[0], there[2])
                log_ratio += change * weights[i] if weights.size > 0 else change
        return log_ratio, DONE
    time = rng.standard_exponential()  # events come at unit rate
    while time < rate:
        place = rng.random() * (last - first)
        i = int(place)
        if i >= last - first:
            i = last - first - 1
        i = first + (i if place - i < table[first + i, 0] else int(table[first + i, 1]))
        bound = bounds[i] * spread
        apart = difference(terms, x, y, eta, i, here[0], here[2], there[0], there[2])
        if breaks(bound, apart):
            return 0.0, BROKEN_BOUND
        keep, gain = thin(bound, apart)
        if rng.random() < keep:
            log_ratio += gain
        tally[0] += 1
        time += rng.standard_exponential()
    return log_ratio, DONE


@inside(**LEAN)
def decide(terms, drawn, always_rows, groups, lengths, place, log_ratio, log_ratios, rng, buffer, tally):
    """Decide on what is proposed: the share accepted, and why it stopped.

    All groups together, or, if there are `log_ratios` of what is not their rows', each group by itself.
    """
    deltas, e, shift, always, log_tau = place
    delta, new_delta, starts, accepted = deltas[HERE], deltas[THERE], always_rows.starts, 0
    for g in range(e.shape[1]):
        here = (delta, e[HERE, g], e[HERE, g] - shift[HERE, g])
        there = (new_delta, e[THERE, g], e[THERE, g] - shift[THERE, g])
        evaluated = starts[g + 1] - starts[g]
        change, why = thinned_rows(terms, drawn, groups, evaluated, g, lengths, here, there, rng, tally)
        if why != DONE:
            return 0.0, why
        always[THERE, g] = 0.0
        if evaluated > 0:
            always[THERE, g] = always_remainder(terms, always_rows, g, new_delta, there[2], buffer)
            change += always[THERE, g] - always[HERE, g]
            tally[0] += evaluated
        if log_ratios.size == 0:
            log_ratio += change
        elif math.log(rng.random()) < log_ratios[g] + change:
            e[HERE, g], always[HERE, g] = e[THERE, g], always[THERE, g]
            accepted += 1
    if log_ratios.size > 0:
        return accepted / log_ratios.size, DONE
    if not (math.log(rng.random()) < log_ratio):
        return 0.0, DONE
    for j in range(delta.size):
        delta[j] = new_delta[j]
    for g in range(e.shape[1]):
        e[HERE, g], shift[HERE, g], always[HERE, g] = e[THERE, g], shift[THERE, g], always[THERE, g]
    log_tau[HERE] = log_tau[THERE]
    return 1.0, DONE


@inside(**LEAN)
def square(matrix, v):
    """v' matrix v."""
    total = 0.0
    for i in range(v.size):
        row = 0.0
        for j in range(v.size):
            row += matrix[i, j] * v[j]
        total += v[i] * row
    return total


@inside(**LEAN)
def length_of(metric, v):
    """The length of a move of the coefficients."""
    found = square(metric, v)
    return math.sqrt(found) if found > 0.0 else 0.0


@inside(**LEAN)
def backward(root, v):
    """Replace v by root'^-1 v."""
    for i in range(v.size - 1, -1, -1):
        for j in range(i + 1, v.size):
            v[i] -= root[j, i] * v[j]
        v[i] /= root[i, i]


@inside(**LEAN)
def coefficient_gaussian(expansion, e, log_tau, root, mean, bent):
    """Cholesky root of the precision, and mean, of delta given e and tau; `bent` is the slope due to squares of e."""
    points, precisions, crossed, groups = expansion
    p, inverse = mean.size, math.exp(-2.0 * log_tau)
    for j in range(p):
        mean[j], bent[j] = points[SLOPE, j], 0.0
        for i in range(p):
            root[i, j] = precisions[PRECISION, i, j] + inverse * precisions[SHARES_SQUARED, i, j]
    for g in range(e.size):
        prior, half = inverse * (groups[EFFECT, g] + e[g]), 0.5 * e[g] * e[g]
        for j in range(p):
            mean[j] += e[g] * crossed[LEFT, g, j] + prior * crossed[SHARES, g, j]
            bent[j] += half * crossed[BENDS, g, j]
    for j in range(p):
        mean[j] += bent[j]
    for j in range(p):  # Cholesky's method, which solves for the mean by half on its way
        for k in range(j):
            for i in range(j, p):
                root[i, j] -= root[i, k] * root[j, k]
        root[j, j] = math.sqrt(root[j, j])
        mean[j] /= root[j, j]
        for i in range(j + 1, p):
            root[i, j] /= root[j, j]
            mean[i] -= root[i, j] * mean[j]
    backward(root, mean)


@inside(**LEAN)
def whiten(root, mean, delta, z):
    """z = root' (delta - mean)."""
    for i in range(z.size):
        z[i] = 0.0
        for j in range(i, z.size):
            z[i] += root[j, i] * (delta[j] - mean[j])


@inside(**LEAN)
def to_proposals(expansion, aim, place, work):
    """The coordinates in which new coefficients are proposed, (2, p) with room for those; and half the square of z."""
    root, vectors, delta = work.root, work.vectors, place.delta[HERE]
    mean, z, half = vectors[MEAN], vectors[Z], 0.0
    coefficient_gaussian(expansion, place.e[HERE], place.log_tau[HERE], root, mean, vectors[BENT])
    whiten(root, mean, delta, z)
    for i in range(delta.size):
        vectors[V, i] = 0.0
        for j in range(delta.size):
            vectors[V, i] += aim.back[i, j] * (z[j] - aim.shift[j])
        half += 0.5 * z[i] * z[i]
    return half


@inside(**LEAN)
def from_proposals(shares, aim, place, work):
    """New coefficients, with which the effects go by their shares; returns the log ratio but for rows and prior."""
    root, vectors, delta, new_delta, log_ratio = work.root, work.vectors, place.delta[HERE], place.delta[THERE], 0.0
    for i in range(delta.size):
        new_delta[i] = aim.shift[i]
        for j in range(delta.size):
            new_delta[i] += aim.spread[i, j] * vectors[NEW_V, j]
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
        place.e[THERE, g], place.shift[THERE, g] = place.e[HERE, g], new_shift
    return log_ratio


@inside(**LEAN)
def quadratic(slope, precision, delta):
    """The expansion along the coefficients with all effects where they are, prior included."""
    total = -0.5 * square(precision, delta)
    for j in range(delta.size):
        total += slope[j] * delta[j]
    return total


@inside(**LEAN)
def propose_drag(expansion, direction, further, carried, place):
    """Drag the coefficients along a direction; returns the log ratio but for rows and priors of beta and tau.

    If effects are carried along with the new tau, each keeps its place in its Gaussian given coefficients and tau; else
    they stay where they are.
    """
    points, precisions, crossed, groups = expansion
    deltas, e, shift, _, log_tau = place
    delta, new_delta = deltas[HERE], deltas[THERE]
    for j in range(delta.size):
        new_delta[j] = delta[j] + further * direction[j]
    log_ratio = quadratic(points[OWN_SLOPE], precisions[OWN_PRECISION], new_delta)
    log_ratio -= quadratic(points[OWN_SLOPE], precisions[OWN_PRECISION], delta)
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


@inside(_nrt=True)  # as for other loops, so that what draws the number is compiled once for all
def normal(rng):
    """A standard normal number."""
    return rng.standard_normal()


@inside(**LEAN)
def log_mixture(share, x, unit, effect, log_tau):
    """Log density of proposals for an effect: logistic with this unit, or else, a share of them, from its prior."""
    logistic = math.log((1.0 - share) / unit) - abs(x) - 2.0 * math.log1p(math.exp(-abs(x)))
    scaled = effect * math.exp(-log_tau)
    normal = math.log(share) - log_tau - 0.5 * scaled * scaled - HALF_LOG_2PI
    return (logistic if logistic > normal else normal) + math.log1p(math.exp(-abs(logistic - normal)))


@inside(**LEAN)
def propose_effects(expansion, place, rng, log_ratios):
    """A new effect for each group, and the log ratio of each but for its rows."""
    crossed, groups = expansion.crossed, expansion.groups
    deltas, e, shift, _, log_taus = place
    log_tau = log_taus[HERE]
    tau, inverse = math.exp(log_tau), math.exp(-2.0 * log_tau)
    for j in range(deltas.shape[1]):
        deltas[THERE, j] = deltas[HERE, j]
    for g in range(e.shape[1]):
        slope, base, d = groups[EFFECT_SLOPE, g], groups[EFFECT, g], e[HERE, g] - shift[HERE, g]
        for j in range(deltas.shape[1]):
            slope -= crossed[MIXED, g, j] * deltas[HERE, j]
        precision = groups[CURVATURE, g] + inverse
        mean = (slope - inverse * base) / precision
        unit, share = LOGISTIC / math.sqrt(precision), groups[FROM_PRIOR, g]
        if rng.random() < share:
            new_d = tau * normal(rng) - base
        else:
            u = rng.random()
            new_d = mean + unit * math.log(u / (1.0 - u))
        old, new = (d - mean) / unit, (new_d - mean) / unit
        log_ratios[g] = log_mixture(share, old, unit, base + d, log_tau)
        log_ratios[g] -= log_mixture(share, new, unit, base + new_d, log_tau)
        log_ratios[g] += 0.5 * precision * unit * unit * (old * old - new * new)
        e[THERE, g], shift[THERE, g] = new_d + shift[HERE, g], shift[HERE, g]


@compiled(**LEAN)
def advance(
    terms, expansion, drawn, always, prior, scale, flat, pivots, center, shape, moves,
    aim, place, work, first, second, theta, accepted, tally,
):  # fmt: skip
    """One sweep of these moves a row of `theta`; returns why it stopped."""
    points, precisions, crossed, groups = expansion
    delta, new_delta, e, shift, log_tau = place.delta[HERE], place.delta[THERE], place.e, place.shift, place.log_tau
    metric, vectors, p, k = precisions[METRIC], work.vectors, delta.size, e.shape[1]
    step = vectors[STEP]
    for sweep in range(theta.shape[0]):
        for number in range(moves.size):
            move, log_ratio, log_ratios = moves[number], 0.0, work.log_ratios[:0]
            if move == TAU:
                squares = 0.0
                for g in range(k):
                    squares += (groups[EFFECT, g] + e[HERE, g] - shift[HERE, g]) ** 2
                log_tau[HERE] = draw_log_scale(scale, k, squares, first)
                continue
            log_tau[THERE] = log_tau[HERE]
            if move == EFFECTS:
                log_ratios = work.log_ratios
                propose_effects(expansion, place, first, log_ratios)
            elif move == COEFFICIENTS:
                log_ratio = to_proposals(expansion, aim, place, work)
                log_ratio += propose(center, shape, aim.moves, vectors[V], first, vectors[NEW_V])
                log_ratio += from_proposals(crossed[SHARES], aim, place, work)
            else:
                if move == SCALE:
                    direction, further = aim.drag, aim.step * normal(first)
                    log_tau[THERE] += further
                    if log_tau[THERE] < scale.lowest:
                        second.random()
                        accepted[sweep, SCALE] = 0.0
                        continue
                    log_ratio = log_prior(scale, log_tau[THERE]) - log_prior(scale, log_tau[HERE]) - k * further
                else:
                    direction, pivot = flat[move - FLAT], pivots[move - FLAT]
                    log_ratio = STRETCH * normal(first)
                    further = math.expm1(log_ratio) * (points[THETA, pivot] + delta[pivot])
                log_ratio += propose_drag(expansion, direction, further, move == SCALE, place)
            if move != EFFECTS:
                log_ratio += prior_correction(prior, new_delta) - prior_correction(prior, delta)
            for j in range(p):
                step[j] = new_delta[j] - delta[j]
            lengths = (length_of(metric, delta), length_of(metric, new_delta), length_of(metric, step))
            share, why = decide(
                terms, drawn, always, groups, lengths, place, log_ratio, log_ratios, second, work.buffer,
                tally,
            )  # fmt: skip
            if why != DONE:
                return why
            if move < TAU:
                accepted[sweep, move] = share
        for j in range(p):
            theta[sweep, j] = points[THETA, j] + delta[j]
        for g in range(k):
            theta[sweep, p + g] = groups[EFFECT, g] + e[HERE, g] - shift[HERE, g]
        theta[sweep, p + k] = log_tau[HERE]
    return DONE


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
