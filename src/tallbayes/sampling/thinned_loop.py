"""The compiled loop of the thinned second stage: one chain, many steps (see `thinned.py` for what it does and why).

Positions are z with theta = mode + factor z, so that the surrogate is the standard Gaussian around `center`. The loop
stops and returns where it needs what only Python can give: more rows, or a pass over all of them. Where it stopped is
kept in a record of type CHAIN, and the next call goes on from there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, compiled, inside, small
from tallbayes.families.terms import chunk_value, linear_predictors, remainder
from tallbayes.rows.passes import CHUNK, piece
from tallbayes.sampling.shape import Shape, draw, log_density, normal, uniform

Array = NDArray[np.float64]

# Why the loop returned.
DONE, NEEDS_ROWS, NEEDS_PASS, BROKEN_BOUND, BAD_RATE = 0, 1, 2, 3, 4
# Where in a step it is.
PROPOSE, THIN, DECIDE = 0, 1, 2
STRETCH = 1.0  # sd of the log of the factor by which flat axes are stretched

# What rounding may add to a difference of two remainders, relative to c |z|^3, the bound of the larger one. Each has an
# error of some 1e-15 of that, and x'delta has one of 1e-16 times |x|'|delta|, which may be 10^5 times |x'delta|.
ROUNDING = 1e-9
MOST_AT_ONCE = 500.0  # rate of events that are counted at once: e^-500 is a number, e^-800 is not


# Rows of the array that says by how much priors differ from their quadratic approximations.
POINT, MEAN, SCALE, DF, EXPONENT, SLOPE, WEIGHT = range(7)


class Always(NamedTuple):
    """The rows that are always evaluated: their log-likelihood minus its expansion is their remainder."""

    x: Array  # (p, m)
    y: Array  # (m,)
    offset: Array  # (m,) or empty
    weights: Array  # (m,) or empty
    theta: Array  # (p,) where the log-likelihood is expanded
    linear: Array  # (p,) the part of it that is linear
    slope: Array  # (p,) in z, at theta
    curvature: Array  # (p, p) minus its second derivatives in z
    constant: float  # what makes their remainder zero at theta


class Target(NamedTuple):
    """All that the loop knows of the posterior."""

    theta: Array  # (p,) where the log-likelihood is expanded
    factor: Array  # (p, p)
    center: Array  # (p,) of the surrogate, as z
    prior: Array  # (7, p) what `prior_correction` needs; (7, 0) where all priors are Normal
    shape: Shape  # from which independent proposals are drawn
    always: Always
    flat: int  # leading axes that move none of the other rows, and do not count in lengths
    total: float  # C: sum of the weighted bounds of the other rows
    radius: float  # of the ball in which the bounds hold
    limit: float  # rate above which all rows are cheaper


class Moves(NamedTuple):
    """The mixture from which proposals are made."""

    step: float  # s of the autoregressive proposal; 1 stands for independent draws from the shape
    heavy: float  # probability of an independent Student-t proposal
    walk: float  # probability of a random walk along one axis
    df: int  # of the Student-t
    scale: float  # the walk's longest step
    flat: int = 0  # leading axes that are flat; if there are any, they are stretched in place of the Student-t

    @property
    def name(self) -> str:
        """What it is called in the result."""
        return "independence" if self.step == 1 else f"autoregressive, step {self.step:.2g}"


CHAIN = np.dtype(
    [
        ("always", "f8"),  # remainder of the rows always evaluated, at the current point
        ("new_always", "f8"),
        ("rest", "f8"),  # remainder of the other rows, NaN where it is not known
        ("new_rest", "f8"),
        ("log_ratio", "f8"),  # of the step under way
        ("spread", "f8"),  # B of the step under way
        ("events", "i8"),  # left in the step under way
        ("used", "i8"),  # rows of the pool
        ("stage", "i8"),
    ]
)


@inside()
def distance_bound(here, there, jump):
    """B: |R(z') - R(z)| <= c B for every row, given |z|, |z'| and |z' - z|.

    The difference is at most M a^3 / 2 times the integral of t^2 along the way from h to h'; its worst case reaches
    from the larger of the two lengths as far back as the distance goes, through zero if it is that long: B is the sum
    of the cubes of the two parts, and what rounding may add: the difference of close points is known to no better than
    that. It is part of B, which may be larger than it need be but must be the same in both directions. Numbers, or
    arrays of them for its `py_func`.
    """
    longest = 0.5 * (here + there + abs(here - there))
    beyond = jump - longest
    return jump * (longest * longest - longest * beyond + beyond * beyond) + ROUNDING * longest * longest * longest


@inside()
def thin(bound, apart):
    """An event of a row whose remainders are so far apart: the probability to keep it, and what it then adds."""
    forward, backward = (bound - apart, bound) if apart > 0.0 else (bound, bound + apart)
    return forward / bound, math.log(backward / forward) if forward > 0.0 else 0.0


@inside()
def breaks(bound, apart):
    """Whether a row's remainders are farther apart than its bound allows, or not numbers."""
    return not (abs(apart) <= bound)


@inside(inline="always")
def to_theta(factor, z, out):
    """out = factor z; the factor is stored transposed, one contiguous run for each entry of z."""
    p = z.size
    for i in range(p):
        out[i] = 0.0
    for j in range(p):
        for i in range(p):
            out[i] += factor[j, i] * z[j]


@inside(**LEAN)
def prior_correction(prior, delta):
    """Log prior minus its quadratic approximation, up to a constant: zero where all priors are Normal."""
    total = 0.0
    for j in range(prior.shape[1]):
        df, d = prior[DF, j], delta[j]
        if df < np.inf:
            u = (prior[POINT, j] + d - prior[MEAN, j]) / prior[SCALE, j]
            quadratic = (prior[SLOPE, j] - 0.5 * prior[WEIGHT, j] * d) * d
            total += -prior[EXPONENT, j] * math.log1p(u * u / df) - quadratic
    return total


@compiled()
def prior_corrections(prior, deltas, out):
    """The prior's correction of each row of `deltas`."""
    for k in range(out.size):
        out[k] = prior_correction(prior, deltas[k])


@inside(**LEAN)
def always_remainder(terms, always, z, delta, moved, buffer):
    """Remainder of the rows that are always evaluated; moved (p,) and buffer (CHUNK,) are room to work in."""
    p, value = z.size, always.constant
    for j in range(p):
        moved[j] = always.theta[j] + delta[j]
        value += always.linear[j] * moved[j]
    for low in range(0, always.y.size, CHUNK):
        high = low + CHUNK if low + CHUNK < always.y.size else always.y.size
        eta = buffer[: high - low]
        linear_predictors(terms, always.x, always.offset, moved, low, high, eta)
        value += chunk_value(terms, always.y[low:high], eta, piece(always.weights, low, high))
    for j in range(p):
        bend = 0.0
        for i in range(p):
            bend += always.curvature[j, i] * z[i]
        value -= z[j] * (always.slope[j] - 0.5 * bend)
    return value


@compiled()
def always_remainders(terms, always, z, deltas, out):
    """Remainder of the rows that are always evaluated, at each row of z and deltas."""
    moved, buffer = np.empty(z.shape[1]), np.empty(CHUNK)
    for k in range(out.size):
        out[k] = always_remainder(terms, always, z[k], deltas[k], moved, buffer)


@compiled()
def weighted_remainders(terms, y, eta, weights, moves, out):
    """Weighted sum of the remainders of some rows, for each row of moves (k, rows) of their linear predictors."""
    for k in range(out.size):
        total = 0.0
        for i in range(y.size):
            if moves[k, i] != 0.0:
                total += weights[i] * remainder(terms, y[i], eta[i], moves[k, i])
        out[k] = total


@inside(**LEAN)
def stretch(center, origin, flat, z, rng, new):
    """A proposal that moves along flat axes away from where the coefficients are zero, or towards it, by a factor.

    What is flat is a cone from about there, so that a chain stays inside if all axes are stretched; half of the times
    it is one of them only. A tail that falls as a power of the distance is crossed in a few such steps. The volume
    grows by the factor, once for each axis.
    """
    small()
    low, high = 0, flat
    if uniform(rng) < 0.5:
        low = int(flat * uniform(rng))
        high = low + 1
    log_factor = STRETCH * normal(rng)
    factor, here, there = math.exp(log_factor), 0.0, 0.0
    for j in range(z.size):
        new[j] = origin[j] + factor * (z[j] - origin[j]) if low <= j < high else z[j]
        here += (z[j] - center[j]) ** 2
        there += (new[j] - center[j]) ** 2
    return 0.5 * (here - there) + (high - low) * log_factor


@inside(**LEAN)
def propose(center, shape, moves, z, rng, new):
    """Fill `new` with a proposal; returns the log of q-ratio times p*-ratio, where p* is Gaussian around the center."""
    small()
    p = z.size
    u = uniform(rng)
    heavy, walk = u < moves.heavy, u < moves.heavy + moves.walk
    if heavy and moves.flat > 0:
        return stretch(center, shape.origin, moves.flat, z, rng, new)
    if heavy:
        squares = 0.0
        for _ in range(moves.df):
            squares += normal(rng) ** 2
        shrink = math.sqrt(moves.df / squares)
        for j in range(p):
            new[j] = center[j] + shrink * normal(rng)
    elif walk:
        for j in range(p):
            new[j] = z[j]
        new[int(p * uniform(rng))] += moves.scale * (2.0 * uniform(rng) - 1.0)
    elif moves.step == 1.0:
        draw(shape, rng, new)
    else:
        kept = math.sqrt(1.0 - moves.step * moves.step)
        for j in range(p):
            new[j] = center[j] + kept * (z[j] - center[j]) + moves.step * normal(rng)
        return 0.0  # reversible with respect to p*
    here, there = 0.0, 0.0
    for j in range(p):
        here += (z[j] - center[j]) ** 2
        there += (new[j] - center[j]) ** 2
    log_ratio = 0.5 * (here - there)
    if heavy:
        log_ratio += 0.5 * (moves.df + p) * (math.log1p(there / moves.df) - math.log1p(here / moves.df))
    elif not walk:
        log_ratio += log_density(shape, z) - log_density(shape, new)
    return log_ratio


@inside()
def poisson(rate, rng):
    """A Poisson number, counted one by one: less work than the rows that so many events ask for."""
    count = 0
    while rate > 0.0:
        part = rate if rate < MOST_AT_ONCE else MOST_AT_ONCE
        least, product = math.exp(-part), rng.random()
        while product > least:
            count += 1
            product *= rng.random()
        rate -= part
    return count


@compiled(**LEAN)
def advance(terms, target, moves, pool, chain, places, buffer, first, second, done, theta, log_ratios, accepted):
    """Steps from `done` on; returns why it stopped and the number of steps done.

    `places` (5, p) holds z, the proposed z, theta - mode for both, and room to work in; so does buffer (CHUNK,).
    """
    small()
    record = chain[0]
    z, new, delta, new_delta = places[0], places[1], places[2], places[3]
    p = z.size
    while done < log_ratios.size:
        if record.stage == PROPOSE:
            log_ratio = propose(target.center, target.shape, moves, z, first, new)
            to_theta(target.factor, new, new_delta)
            if target.prior.shape[1] > 0:
                log_ratio += prior_correction(target.prior, new_delta) - prior_correction(target.prior, delta)
            record.new_always = 0.0
            if target.always.y.size > 0:
                record.new_always = always_remainder(terms, target.always, new, new_delta, places[4], buffer)
                log_ratio += record.new_always - record.always
            record.log_ratio, record.events, record.new_rest = log_ratio, 0, np.nan
            record.stage = DECIDE
            if target.total != 0.0:  # also if it is not a number, which must not go unseen
                here, there, jump = 0.0, 0.0, 0.0
                for j in range(target.flat, p):
                    here += z[j] * z[j]
                    there += new[j] * new[j]
                    jump += (new[j] - z[j]) ** 2
                here, there, jump = math.sqrt(here), math.sqrt(there), math.sqrt(jump)
                record.spread = distance_bound(here, there, jump)
                rate = target.total * record.spread
                if not (rate >= 0.0):  # a NaN, of which `poisson` would make zero
                    return BAD_RATE, done
                # This choice looks at the two points only, and from both sides it is the same.
                if here > target.radius or there > target.radius or rate > target.limit:
                    return NEEDS_PASS, done
                record.events = poisson(rate, second)
                record.stage = THIN
        if record.stage == THIN:
            while record.events > 0:
                if record.used >= pool.y.size:
                    return NEEDS_ROWS, done
                k = record.used
                h, new_h = 0.0, 0.0
                for j in range(p):
                    h += pool.x[k, j] * delta[j]
                    new_h += pool.x[k, j] * new_delta[j]
                y, eta, bound = pool.y[k], pool.eta[k], pool.bound[k] * record.spread
                apart = remainder(terms, y, eta, new_h) - remainder(terms, y, eta, h)
                if breaks(bound, apart):
                    return BROKEN_BOUND, done
                keep, gain = thin(bound, apart)
                if uniform(second) < keep:
                    record.log_ratio += gain
                record.used += 1
                record.events -= 1
            record.stage = DECIDE
        accepted[done] = math.log(uniform(second)) < record.log_ratio
        if accepted[done]:
            for j in range(p):
                z[j], delta[j] = new[j], new_delta[j]
            record.always, record.rest = record.new_always, record.new_rest
        log_ratios[done] = record.log_ratio
        for j in range(p):
            theta[done, j] = target.theta[j] + delta[j]
        record.stage = PROPOSE
        done += 1
    return DONE, done
