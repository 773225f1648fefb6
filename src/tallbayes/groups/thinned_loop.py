"""The compiled loop of the thinned kernel for group effects: one chain, many sweeps (see `grouped.py`).

A chain is at beta = expansion + delta and theta_g = expansion + e_g - share_g' delta: what moves an effect is kept
apart from what the coefficients do to it, because those two are nearly independent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, compiled
from tallbayes.families.terms import chunk_value, remainder
from tallbayes.groups.remainders import Always, Drawn
from tallbayes.groups.scale import ScaleCode, draw_log_scale, log_prior
from tallbayes.rows.passes import CHUNK, linear, piece
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
COEFFICIENTS, EFFECTS, SCALE = 0, 1, 2  # the moves of a sweep
STRETCHES = 3  # of each flat direction in a sweep


class GroupRows(NamedTuple):
    """What decides on the moves of groups. Compiled functions take this and not the whole target, which is long."""

    sd: Array  # (k,) the unit in which lengths of e are measured
    narrow: Array  # (k,) 1 / v: how much a length of delta counts in a group
    radius: Array  # (k,) of the ball in which the bounds of a group's rows hold
    limit: Array  # (k,) rate above which a group's rows are all evaluated
    drawn: Drawn
    always: Always


class GroupTarget(NamedTuple):
    """All that the loop knows of the posterior."""

    theta: Array  # (p,) coefficients where the log-likelihood is expanded
    effects: Array  # (k,)
    own_slope: Array  # (p,) of log-likelihood and prior along beta, with all effects fixed
    own_precision: Array  # (p, p) minus their second derivatives
    slope: Array  # (p,) the same with e fixed
    precision: Array  # (p, p)
    shares: Array  # (k, p)
    shares_squared: Array  # (p, p) sum over groups of share share'
    mixed: Array  # (k, p) minus the mixed second derivatives of the log-likelihood
    left: Array  # (k, p) slope along beta that a unit of e brings: D share - mixed
    bends: Array  # (k, p) ... and that half its square brings
    effect_slope: Array  # (k,) of the log-likelihood
    effect_curvature: Array  # (k,) minus its second derivative
    from_prior: Array  # (k,) share of proposals for the effects that are drawn from their prior
    metric: Array  # (p, p) precision in which lengths of delta are measured
    prior: Array  # (7, p) what `prior_correction` needs; (7, 0) where all priors are Normal
    scale: ScaleCode  # prior of tau
    flat: Array  # (f, p) directions that the data leave flat, under Student-t priors
    pivots: NDArray[np.intp]  # (f,) the coefficient that only one of them has, with a one
    center: Array  # (p,) zeros
    shape: Shape  # of beta given e and tau, from which independent proposals are drawn
    rows: GroupRows


class Aim(NamedTuple):
    """How proposals are made; warm-up learns what the expansion does not know, and then it is frozen."""

    moves: Moves  # of the coefficients, in coordinates v: their Gaussian is standard in z = shift + spread v
    shift: Array  # (p,)
    spread: Array  # (p, p)
    back: Array  # (p, p) its inverse
    step: float  # of the walk in log tau
    drag: Array  # (p,) by how much the coefficients go with a unit of log tau


class Place(NamedTuple):
    """Where a chain is; changed in place."""

    delta: Array  # (p,)
    e: Array  # (k,)
    shift: Array  # (k,) share_g' delta
    always: Array  # (k,) remainder of the rows that are always evaluated
    log_tau: Array  # (1,)


class Work(NamedTuple):
    """Room for what a move computes on its way."""

    root: Array  # (p, p)
    mean: Array  # (p,)
    bent: Array  # (p,)
    v: Array  # (p,)
    new_v: Array  # (p,)
    delta: Array  # (p,)
    step: Array  # (p,)
    e: Array  # (k,)
    shift: Array  # (k,)
    always: Array  # (k,)
    buffer: Array  # (CHUNK,)

    @classmethod
    def room(cls, p: int, k: int) -> Work:
        """For p coefficients and k groups."""
        shapes = [(p, p)] + 6 * [(p,)] + 3 * [(k,)] + [(CHUNK,)]
        return cls(*(np.empty(shape) for shape in shapes))


@compiled(**LEAN)
def always_remainder(terms, rows, g, delta, d, buffer):
    """Remainder of the rows of a group that are always evaluated, where its effect is d from its expansion."""
    total = 0.0
    for low in range(rows.starts[g], rows.starts[g + 1], CHUNK):
        high = min(rows.starts[g + 1], low + CHUNK)
        eta, base = buffer[: high - low], rows.eta[low:high]
        linear(rows.x, rows.eta, delta, low, high, eta)
        value, first, second = rows.value[low:high], rows.first[low:high], rows.second[low:high]
        for i in range(eta.size):
            eta[i] += d
            h = eta[i] - base[i]
            total -= value[i] + (first[i] - 0.5 * second[i] * h) * h
        total += chunk_value(terms, rows.y[low:high], eta, piece(rows.weights, low, high))
    return total


@compiled()
def always_remainders(terms, rows, delta, d):
    """The same of all groups."""
    out, buffer = np.empty(d.size), np.empty(CHUNK)
    for g in range(d.size):
        out[g] = always_remainder(terms, rows, g, delta, d[g], buffer)
    return out


@compiled(**LEAN, forceinline=True)
def row_move(x, i, delta, d):
    """By how much the linear predictor of a row moves."""
    for j in range(delta.size):
        d += x[j, i] * delta[j]
    return d


@compiled(**LEAN)
def all_rows(terms, rows, g, delta, d, new_delta, new_d):
    """The difference of the remainders of all rows of a group that can be drawn."""
    total = 0.0
    for i in range(rows.starts[g], rows.starts[g + 1]):
        if rows.bound[i] != 0.0:
            h, new_h = row_move(rows.x, i, delta, d), row_move(rows.x, i, new_delta, new_d)
            change = remainder(terms, rows.y[i], rows.eta[i], new_h) - remainder(terms, rows.y[i], rows.eta[i], h)
            if rows.weights.size > 0:
                change *= rows.weights[i]
            total += change
    return total


@compiled(**LEAN, forceinline=True)
def thinned_rows(terms, groups, g, lengths, here, there, rng, tally):
    """What the rows of a group that can be drawn add to the log ratio, from a few of them; and why it stopped.

    `lengths` are those of the old and the new delta and of their difference; `here` and `there` are (delta, e, d) of
    the two points.
    """
    rows = groups.drawn
    if rows.totals[g] == 0.0:
        return 0.0, DONE
    narrow, sd = groups.narrow[g], groups.sd[g]
    e, new_e = here[1] / sd, there[1] / sd
    old = math.hypot(lengths[0] * narrow, e)
    new = math.hypot(lengths[1] * narrow, new_e)
    spread = distance_bound(old, new, math.hypot(lengths[2] * narrow, new_e - e))
    rate = rows.totals[g] * spread
    if not (rate >= 0.0):  # a NaN must not go unseen
        return 0.0, BAD_RATE
    # This choice looks at the two points only, and from both sides it is the same.
    if max(old, new) > groups.radius[g] or rate > groups.limit[g]:
        others = groups.always.starts
        tally[0] += 2 * (rows.starts[g + 1] - rows.starts[g] - others[g + 1] + others[g])
        return all_rows(terms, rows, g, here[0], here[2], there[0], there[2]), DONE
    log_ratio, first, last = 0.0, rows.starts[g], rows.starts[g + 1]
    time = rng.standard_exponential()  # events come at unit rate
    while time < rate:
        place = rng.random() * (last - first)
        i = min(int(place), last - first - 1)
        i = first + (i if place - i < rows.table[first + i, 0] else int(rows.table[first + i, 1]))
        h, new_h = row_move(rows.x, i, here[0], here[2]), row_move(rows.x, i, there[0], there[2])
        bound, y, eta = rows.bound[i] * spread, rows.y[i], rows.eta[i]
        apart = remainder(terms, y, eta, new_h) - remainder(terms, y, eta, h)
        if breaks(bound, apart):
            return 0.0, BROKEN_BOUND
        keep, gain = thin(bound, apart)
        if rng.random() < keep:
            log_ratio += gain
        tally[0] += 1
        time += rng.standard_exponential()
    return log_ratio, DONE


@compiled(**LEAN, forceinline=True)
def decide_group(terms, groups, g, lengths, here, there, always, rng, buffer, tally):
    """What a group's rows add to the log ratio, their new remainder where always evaluated, and why it stopped."""
    log_ratio, why = thinned_rows(terms, groups, g, lengths, here, there, rng, tally)
    new_always = 0.0
    evaluated = groups.always.starts[g + 1] - groups.always.starts[g]
    if evaluated > 0:
        new_always = always_remainder(terms, groups.always, g, there[0], there[2], buffer)
        log_ratio += new_always - always
        tally[0] += evaluated
    return log_ratio, new_always, why


@compiled(**LEAN)
def copy(source, out):
    """out[:] = source, which would allocate."""
    for i in range(out.size):
        out[i] = source[i]


@compiled(**LEAN)
def length_of(metric, delta):
    """The length of a move of the coefficients."""
    total = 0.0
    for i in range(delta.size):
        row = 0.0
        for j in range(delta.size):
            row += metric[i, j] * delta[j]
        total += delta[i] * row
    return math.sqrt(max(0.0, total))


@compiled(**LEAN)
def cholesky(a):
    """Replace the lower triangle of a by its Cholesky root."""
    p = a.shape[0]
    for j in range(p):
        for k in range(j):
            for i in range(j, p):
                a[i, j] -= a[i, k] * a[j, k]
        root = math.sqrt(a[j, j])
        for i in range(j, p):
            a[i, j] /= root


@compiled(**LEAN)
def forward(root, v):
    """Replace v by root^-1 v."""
    for i in range(v.size):
        for j in range(i):
            v[i] -= root[i, j] * v[j]
        v[i] /= root[i, i]


@compiled(**LEAN)
def backward(root, v):
    """Replace v by root'^-1 v."""
    for i in range(v.size - 1, -1, -1):
        for j in range(i + 1, v.size):
            v[i] -= root[j, i] * v[j]
        v[i] /= root[i, i]


@compiled(**LEAN)
def whiten(root, mean, delta, z):
    """z = root' (delta - mean)."""
    for i in range(z.size):
        z[i] = 0.0
        for j in range(i, z.size):
            z[i] += root[j, i] * (delta[j] - mean[j])


@compiled(**LEAN)
def product(matrix, v, out):
    """out = matrix v."""
    for i in range(v.size):
        out[i] = 0.0
        for j in range(v.size):
            out[i] += matrix[i, j] * v[j]


@compiled(**LEAN)
def square(v):
    """v'v."""
    total = 0.0
    for i in range(v.size):
        total += v[i] * v[i]
    return total


@compiled(**LEAN)
def coefficient_gaussian(target, e, log_tau, root, mean, bent):
    """Cholesky root of the precision, and mean, of delta given e and tau; `bent` is the slope due to squares of e."""
    p, k = mean.size, e.size
    inverse = math.exp(-2.0 * log_tau)
    for j in range(p):
        mean[j], bent[j] = target.slope[j], 0.0
        for i in range(p):
            root[i, j] = target.precision[i, j] + inverse * target.shares_squared[i, j]
    for g in range(k):
        prior, half = inverse * (target.effects[g] + e[g]), 0.5 * e[g] * e[g]
        for j in range(p):
            mean[j] += e[g] * target.left[g, j] + prior * target.shares[g, j]
            bent[j] += half * target.bends[g, j]
    for j in range(p):
        mean[j] += bent[j]
    cholesky(root)
    forward(root, mean)
    backward(root, mean)


@compiled(**LEAN)
def move_coefficients(terms, target, aim, place, work, first, second, tally):
    """New coefficients, and with them the effects by their shares; whether it was accepted, and why it stopped."""
    p, k = place.delta.size, place.e.size
    root, mean, bent, delta, step, shift = work.root, work.mean, work.bent, work.delta, work.step, work.shift
    coefficient_gaussian(target, place.e, place.log_tau[0], root, mean, bent)
    whiten(root, mean, place.delta, step)
    log_ratio = 0.5 * square(step)
    for j in range(p):
        step[j] -= aim.shift[j]
    product(aim.back, step, work.v)
    log_ratio += propose(target.center, target.shape, aim.moves, work.v, first, work.new_v)
    log_ratio += 0.5 * (square(work.new_v) - square(work.v))  # the proposal took the Gaussian to be standard in v
    product(aim.spread, work.new_v, delta)
    for j in range(p):
        delta[j] += aim.shift[j]
    log_ratio -= 0.5 * square(delta)
    backward(root, delta)
    for j in range(p):
        delta[j] += mean[j]
        step[j] = delta[j] - place.delta[j]
        log_ratio -= bent[j] * step[j]
    if target.prior.shape[1] > 0:
        log_ratio += prior_correction(target.prior, delta) - prior_correction(target.prior, place.delta)
    metric = target.metric
    lengths = (length_of(metric, place.delta), length_of(metric, delta), length_of(metric, step))
    for g in range(k):
        shift[g] = 0.0
        for j in range(p):
            shift[g] += target.shares[g, j] * delta[j]
        here = (place.delta, place.e[g], place.e[g] - place.shift[g])
        there = (delta, place.e[g], place.e[g] - shift[g])
        change, work.always[g], why = decide_group(
            terms, target.rows, g, lengths, here, there, place.always[g], second, work.buffer, tally
        )
        if why != DONE:
            return False, why
        log_ratio += change
    accepted = math.log(second.random()) < log_ratio
    if accepted:
        copy(delta, place.delta)
        copy(shift, place.shift)
        copy(work.always, place.always)
    return accepted, DONE


@compiled(**LEAN, forceinline=True)
def effect_slope(target, g, delta):
    """Slope of the log-likelihood's expansion along a group's effect, which is where it is expanded."""
    slope = target.effect_slope[g]
    for j in range(delta.size):
        slope -= target.mixed[g, j] * delta[j]
    return slope


@compiled(**LEAN, forceinline=True)
def log_mixture(share, x, unit, effect, log_tau):
    """Log density of proposals for an effect: logistic with this unit, or else, a share of them, from its prior."""
    logistic = math.log((1.0 - share) / unit) - abs(x) - 2.0 * math.log1p(math.exp(-abs(x)))
    scaled = effect * math.exp(-log_tau)
    normal = math.log(share) - log_tau - 0.5 * scaled * scaled - HALF_LOG_2PI
    return max(logistic, normal) + math.log1p(math.exp(-abs(logistic - normal)))


@compiled(**LEAN)
def move_effects(terms, target, place, work, first, second, tally):
    """A new effect for each group, decided one by one; the share accepted, and why it stopped."""
    k, accepted, log_tau = place.e.size, 0, place.log_tau[0]
    inverse = math.exp(-2.0 * log_tau)
    size = length_of(target.metric, place.delta)
    lengths = (size, size, 0.0)
    for g in range(k):
        base, d = target.effects[g], place.e[g] - place.shift[g]
        precision = target.effect_curvature[g] + inverse
        mean = (effect_slope(target, g, place.delta) - inverse * base) / precision
        unit, share = LOGISTIC / math.sqrt(precision), target.from_prior[g]
        if first.random() < share:
            new_d = math.exp(log_tau) * first.standard_normal() - base
        else:
            u = first.random()
            new_d = mean + unit * math.log(u / (1.0 - u))
        old, new = (d - mean) / unit, (new_d - mean) / unit
        log_ratio = log_mixture(share, old, unit, base + d, log_tau) - log_mixture(
            share, new, unit, base + new_d, log_tau
        )
        log_ratio += 0.5 * precision * unit * unit * (old * old - new * new)
        here, there = (place.delta, place.e[g], d), (place.delta, new_d + place.shift[g], new_d)
        change, always, why = decide_group(
            terms, target.rows, g, lengths, here, there, place.always[g], second, work.buffer, tally
        )
        if why != DONE:
            return 0.0, why
        if math.log(second.random()) < log_ratio + change:
            place.e[g], place.always[g] = there[1], always
            accepted += 1
    return accepted / k, DONE


@compiled(**LEAN)
def quadratic(target, delta):
    """The expansion along the coefficients with all effects where they are, prior included."""
    total = 0.0
    for i in range(delta.size):
        row = 0.0
        for j in range(delta.size):
            row += target.own_precision[i, j] * delta[j]
        total += delta[i] * (target.own_slope[i] - 0.5 * row)
    return total


@compiled(**LEAN)
def move_scale(terms, target, aim, place, work, first, second, tally):
    """A new tau that drags the coefficients and carries the effects along; whether accepted, and why it stopped.

    Each effect keeps its place in its Gaussian given coefficients and tau.
    """
    p, k, log_tau, delta = place.delta.size, place.e.size, place.log_tau[0], work.delta
    further = aim.step * first.standard_normal()
    new_log_tau = log_tau + further
    if new_log_tau < target.scale.lowest:
        second.random()
        return False, DONE
    for j in range(p):
        work.step[j] = aim.drag[j] * further
        delta[j] = place.delta[j] + work.step[j]
    log_ratio = log_prior(target.scale, new_log_tau) - log_prior(target.scale, log_tau) - k * further
    log_ratio += quadratic(target, delta) - quadratic(target, place.delta)
    if target.prior.shape[1] > 0:
        log_ratio += prior_correction(target.prior, delta) - prior_correction(target.prior, place.delta)
    metric = target.metric
    lengths = (length_of(metric, place.delta), length_of(metric, delta), length_of(metric, work.step))
    inverse, new_inverse = math.exp(-2.0 * log_tau), math.exp(-2.0 * new_log_tau)
    for g in range(k):
        slope, new_slope = effect_slope(target, g, place.delta), effect_slope(target, g, delta)
        base, curvature = target.effects[g], target.effect_curvature[g]
        mean, precision = (slope - inverse * base) / (curvature + inverse), curvature + inverse
        new_mean, new_precision = (new_slope - new_inverse * base) / (curvature + new_inverse), curvature + new_inverse
        narrower = math.sqrt(precision / new_precision)
        d = place.e[g] - place.shift[g]
        new_d = new_mean + narrower * (d - mean)
        log_ratio += math.log(narrower)
        log_ratio -= 0.5 * (new_inverse * (base + new_d) ** 2 - inverse * (base + d) ** 2)
        log_ratio += (new_slope - 0.5 * curvature * new_d) * new_d - (slope - 0.5 * curvature * d) * d
        work.shift[g] = 0.0
        for j in range(p):
            work.shift[g] += target.shares[g, j] * delta[j]
        work.e[g] = new_d + work.shift[g]
        here, there = (place.delta, place.e[g], d), (delta, work.e[g], new_d)
        change, work.always[g], why = decide_group(
            terms, target.rows, g, lengths, here, there, place.always[g], second, work.buffer, tally
        )
        if why != DONE:
            return False, why
        log_ratio += change
    accepted = math.log(second.random()) < log_ratio
    if accepted:
        copy(delta, place.delta)
        copy(work.e, place.e)
        copy(work.shift, place.shift)
        copy(work.always, place.always)
        place.log_tau[0] = new_log_tau
    return accepted, DONE


@compiled(**LEAN)
def stretch_flat(terms, target, place, work, f, first, second, tally):
    """A flat direction stretched by a factor, away from where its coefficient is zero or towards it; why it stopped.

    The effects stay where they are. A tail that falls as a power of the distance is crossed in a few such moves.
    """
    p, k, delta, direction = place.delta.size, place.e.size, work.delta, target.flat[f]
    pivot = target.pivots[f]
    log_factor = STRETCH * first.standard_normal()
    further = math.expm1(log_factor) * (target.theta[pivot] + place.delta[pivot])
    for j in range(p):
        work.step[j] = further * direction[j]
        delta[j] = place.delta[j] + work.step[j]
    log_ratio = log_factor + quadratic(target, delta) - quadratic(target, place.delta)
    log_ratio += prior_correction(target.prior, delta) - prior_correction(target.prior, place.delta)
    metric = target.metric
    lengths = (length_of(metric, place.delta), length_of(metric, delta), length_of(metric, work.step))
    for g in range(k):
        d, mixed, shift = place.e[g] - place.shift[g], 0.0, 0.0
        for j in range(p):
            mixed += target.mixed[g, j] * work.step[j]
            shift += target.shares[g, j] * delta[j]
        log_ratio -= d * mixed
        work.shift[g], work.e[g] = shift, d + shift
        here, there = (place.delta, place.e[g], d), (delta, work.e[g], d)
        change, work.always[g], why = decide_group(
            terms, target.rows, g, lengths, here, there, place.always[g], second, work.buffer, tally
        )
        if why != DONE:
            return why
        log_ratio += change
    if math.log(second.random()) < log_ratio:
        copy(delta, place.delta)
        copy(work.e, place.e)
        copy(work.shift, place.shift)
        copy(work.always, place.always)
    return DONE


@compiled(**LEAN)
def advance(terms, target, aim, place, work, first, second, theta, accepted, tally):
    """One sweep a row of `theta`; returns why it stopped."""
    p, k = place.delta.size, place.e.size
    for sweep in range(theta.shape[0]):
        squares = 0.0
        for g in range(k):
            squares += (target.effects[g] + place.e[g] - place.shift[g]) ** 2
        place.log_tau[0] = draw_log_scale(target.scale, k, squares, first)
        moved, why = move_scale(terms, target, aim, place, work, first, second, tally)
        if why != DONE:
            return why
        accepted[sweep, SCALE] = moved
        moved, why = move_coefficients(terms, target, aim, place, work, first, second, tally)
        if why != DONE:
            return why
        accepted[sweep, COEFFICIENTS] = moved
        for f in range(target.pivots.size):
            for _ in range(STRETCHES):
                why = stretch_flat(terms, target, place, work, f, first, second, tally)
                if why != DONE:
                    return why
        share, why = move_effects(terms, target, place, work, first, second, tally)
        if why != DONE:
            return why
        accepted[sweep, EFFECTS] = share
        for j in range(p):
            theta[sweep, j] = target.theta[j] + place.delta[j]
        for g in range(k):
            theta[sweep, p + g] = target.effects[g] + place.e[g] - place.shift[g]
        theta[sweep, p + k] = place.log_tau[0]
    return DONE


@compiled()
def whitened(target, theta):
    """z of the coefficients for parameter vectors (draws, p + k + 1): standard normal, if the expansion were all."""
    p, k = target.shares.shape[1], target.effects.size
    out, root, mean, bent = np.empty((theta.shape[0], p)), np.empty((p, p)), np.empty(p), np.empty(p)
    e = np.empty(k)
    for i in range(theta.shape[0]):
        delta = theta[i, :p] - target.theta
        for g in range(k):
            e[g] = theta[i, p + g] - target.effects[g]
            for j in range(p):
                e[g] += target.shares[g, j] * delta[j]
        coefficient_gaussian(target, e, theta[i, p + k], root, mean, bent)
        whiten(root, mean, delta, out[i])
    return out
