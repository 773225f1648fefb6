"""The compiled loop of the thinned second stage: one chain, many steps (see `thinned.py` for what it does and why).

Positions are z with theta = mode + factor z, so that the surrogate is the standard Gaussian around `center`. The loop
stops and returns where it needs what only Python can give: more rows, or a pass over all of them. Where it stopped is
kept in a record of type CHAIN, and the next call goes on from there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.rows.passes import block_values
from tallbayes.rows.remainders import difference, remainder
from tallbayes.sampling.shape import Shape, draw, log_density

Array = NDArray[np.float64]

# Why the loop returned.
DONE, NEEDS_ROWS, NEEDS_PASS, BROKEN_BOUND, BAD_RATE = 0, 1, 2, 3, 4
# Where in a step it is.
PROPOSE, THIN, DECIDE = 0, 1, 2
STRETCH = 1.0  # sd of the log of the factor by which flat axes are stretched

# What rounding may add to a difference of two remainders, relative to c |z|^3, the bound of the larger one. Each has an
# error of some 1e-15 of that, and x'delta has one of 1e-16 times |x|'|delta|, which may be 10^5 times |x'delta|.
ROUNDING = 1e-9


class Target(NamedTuple):
    """All that the loop knows of the posterior."""

    theta: Array  # (p,) where the log-likelihood is expanded
    factor: Array  # (p, p)
    center: Array  # (p,) of the surrogate, as z
    prior_mean: Array  # (p,)
    prior_scale: Array  # (p,)
    prior_df: Array  # (p,) infinite where the prior is Normal
    prior_exponent: Array  # (p,) of 1 + z^2 / df, where it is not
    prior_slope: Array  # (p,) of the log prior at theta
    prior_weight: Array  # (p,) precision that the surrogate gives to it there
    corrected: bool  # whether some prior is not Normal
    shape: Shape  # from which independent proposals are drawn
    always: tuple[Any, ...]  # x, y, offset and weights of the rows that are always evaluated
    always_linear: Array  # (p,) the part of their log-likelihood that is linear
    always_constant: float  # what makes their remainder zero at theta
    always_slope: Array  # (p,) of their log-likelihood in z, at theta
    always_curvature: Array  # (p, p) minus its second derivatives in z
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


@compiled()
def distance_bound(here, there, jump):
    """B: |R(z') - R(z)| <= c B for every row, given |z|, |z'| and |z' - z|.

    The difference is at most M a^3 / 2 times the integral of t^2 along the way from h to h'; its worst case reaches
    from the larger of the two lengths as far back as the distance goes, through zero if it is that long: B is the sum
    of the cubes of the two parts, and what rounding may add: the difference of close points is known to no better than
    that. It is part of B, which may be larger than it need be but must be the same in both directions. Numbers or
    arrays of them.
    """
    longest = np.maximum(here, there)
    beyond = jump - longest
    return jump * (longest * longest - longest * beyond + beyond * beyond) + ROUNDING * longest * longest * longest


@compiled()
def thin(bound, apart):
    """An event of a row whose remainders are so far apart: the probability to keep it, and what it then adds."""
    forward, backward = bound - max(0.0, apart), bound - max(0.0, -apart)
    return forward / bound, math.log(backward / forward) if forward > 0.0 else 0.0


@compiled()
def breaks(bound, apart):
    """Whether a row's remainders are farther apart than its bound allows, or not numbers."""
    return not (abs(apart) <= bound)


@compiled()
def to_theta(target, z, out):
    """out = factor z."""
    p = z.size
    for i in range(p):
        out[i] = 0.0
    for j in range(p):
        for i in range(p):
            out[i] += target.factor[j, i] * z[j]  # stored transposed: one contiguous run for each j


@compiled()
def prior_correction(target, delta):
    """Log prior minus its quadratic approximation, up to a constant: zero where all priors are Normal."""
    total = 0.0
    for j in range(delta.size):
        df = target.prior_df[j]
        if df < np.inf:
            u = (target.theta[j] + delta[j] - target.prior_mean[j]) / target.prior_scale[j]
            quadratic = target.prior_slope[j] * delta[j] - 0.5 * target.prior_weight[j] * delta[j] * delta[j]
            total += -target.prior_exponent[j] * math.log1p(u * u / df) - quadratic
    return total


@compiled()
def always_remainder(tag, target, z, delta):
    """Remainder of the rows that are always evaluated."""
    x, y, offset, weights = target.always
    p = z.size
    params, sums = np.empty((1, p)), np.empty(1)
    linear = 0.0
    for j in range(p):
        params[0, j] = target.theta[j] + delta[j]
        linear += target.always_linear[j] * params[0, j]
    block_values(tag, x, y, offset, weights, None, params, 0, x.shape[1], sums)
    quadratic = 0.0
    for j in range(p):
        bend = 0.0
        for i in range(p):
            bend += target.always_curvature[j, i] * z[i]
        quadratic += z[j] * (target.always_slope[j] - 0.5 * bend)
    return linear + sums[0] + target.always_constant - quadratic


@compiled()
def stretch(center, origin, flat, z, rng, new):
    """A proposal that moves along flat axes away from where the coefficients are zero, or towards it, by a factor.

    What is flat is a cone from about there, so that a chain stays inside if all axes are stretched; half of the times
    it is one of them only. A tail that falls as a power of the distance is crossed in a few such steps. The volume
    grows by the factor, once for each axis.
    """
    low, high = 0, flat
    if rng.random() < 0.5:
        low = min(flat - 1, int(flat * rng.random()))
        high = low + 1
    log_factor = STRETCH * rng.standard_normal()
    factor, here, there = math.exp(log_factor), 0.0, 0.0
    for j in range(z.size):
        new[j] = origin[j] + factor * (z[j] - origin[j]) if low <= j < high else z[j]
        here += (z[j] - center[j]) ** 2
        there += (new[j] - center[j]) ** 2
    return 0.5 * (here - there) + (high - low) * log_factor


@compiled()
def propose(center, shape, moves, z, rng, new):
    """Fill `new` with a proposal; returns the log of q-ratio times p*-ratio, where p* is Gaussian around the center."""
    p = z.size
    u = rng.random()
    heavy, walk = u < moves.heavy, u < moves.heavy + moves.walk
    if heavy and moves.flat > 0:
        return stretch(center, shape.origin, moves.flat, z, rng, new)
    if heavy:
        squares = 0.0
        for _ in range(moves.df):
            squares += rng.standard_normal() ** 2
        shrink = math.sqrt(moves.df / squares)
        for j in range(p):
            new[j] = center[j] + shrink * rng.standard_normal()
    elif walk:
        for j in range(p):
            new[j] = z[j]
        new[min(p - 1, int(p * rng.random()))] += moves.scale * (2.0 * rng.random() - 1.0)
    elif moves.step == 1.0:
        draw(shape, rng, new)
    else:
        kept = math.sqrt(1.0 - moves.step * moves.step)
        for j in range(p):
            new[j] = center[j] + kept * (z[j] - center[j]) + moves.step * rng.standard_normal()
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


@compiled()
def advance(tag, target, moves, pool, chain, places, first, second, done, theta, log_ratios, accepted):
    """Steps from `done` on; returns why it stopped and the number of steps done.

    `places` (4, p) holds z, the proposed z, and theta - mode for both.
    """
    record = chain[0]
    z, new, delta, new_delta = places[0], places[1], places[2], places[3]
    p = z.size
    while done < log_ratios.size:
        if record.stage == PROPOSE:
            log_ratio = propose(target.center, target.shape, moves, z, first, new)
            to_theta(target, new, new_delta)
            if target.corrected:
                log_ratio += prior_correction(target, new_delta) - prior_correction(target, delta)
            record.new_always = 0.0
            if target.always[0].shape[1] > 0:
                record.new_always = always_remainder(tag, target, new, new_delta)
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
                if not (rate >= 0.0):  # a NaN, of which rng.poisson would make zero
                    return BAD_RATE, done
                # This choice looks at the two points only, and from both sides it is the same.
                if max(here, there) > target.radius or rate > target.limit:
                    return NEEDS_PASS, done
                record.events = second.poisson(rate)
                record.stage = THIN
        if record.stage == THIN:
            while record.events > 0:
                if record.used == pool.y.size:
                    return NEEDS_ROWS, done
                k = record.used
                h, new_h = 0.0, 0.0
                for j in range(p):
                    h += pool.x[k, j] * delta[j]
                    new_h += pool.x[k, j] * new_delta[j]
                y, eta, bound = pool.y[k], pool.eta[k], pool.bound[k] * record.spread
                apart = difference(tag, y, eta, h, new_h)
                if breaks(bound, apart):
                    return BROKEN_BOUND, done
                keep, gain = thin(bound, apart)
                if second.random() < keep:
                    record.log_ratio += gain
                record.used += 1
                record.events -= 1
            record.stage = DECIDE
        accepted[done] = math.log(second.random()) < record.log_ratio
        if accepted[done]:
            z[:], delta[:] = new, new_delta
            record.always, record.rest = record.new_always, record.new_rest
        log_ratios[done] = record.log_ratio
        for j in range(p):
            theta[done, j] = target.theta[j] + delta[j]
        record.stage = PROPOSE
        done += 1
    return DONE, done


@compiled()
def log_weights(tag, target, pool, z):
    """log p / p* at each z, estimated from a pool.

    The pool's rows were drawn in proportion to their bounds, so the mean of R / c over them, times the total of the
    bounds, estimates the sum of R over all rows that are not always evaluated.
    """
    count, p = z.shape
    out, delta = np.zeros(count), np.empty(p)
    for k in range(count):
        to_theta(target, z[k], delta)
        for row in range(pool.y.size):
            h = 0.0
            for j in range(p):
                h += pool.x[row, j] * delta[j]
            share = remainder(tag, pool.y[row], pool.eta[row], h) / pool.bound[row]
            out[k] += share * target.total / pool.y.size
        if target.always[0].shape[1] > 0:
            out[k] += always_remainder(tag, target, z[k], delta)
        if target.corrected:
            out[k] += prior_correction(target, delta) - prior_correction(target, np.zeros(p))
    return out


@compiled()
def profile(tag, y, eta, moves, weights, grid):
    """Sums of remainders along each axis, (p, grid); a unit of z moves the weighted rows' eta by `moves` (rows, p)."""
    p = moves.shape[1]
    out = np.zeros((p, grid.size))
    for k in range(p):
        for i in range(y.size):
            if moves[i, k] != 0.0:
                for g in range(grid.size):
                    out[k, g] += weights[i] * remainder(tag, y[i], eta[i], grid[g] * moves[i, k])
    return out


@compiled()
def prior_profile(target, axes, grid):
    """The prior's correction along each axis, (p, grid); a unit of z moves the coefficients by a row of `axes`."""
    p = axes.shape[0]
    out = np.zeros((p, grid.size))
    if target.corrected:
        for k in range(p):
            for g in range(grid.size):
                out[k, g] = prior_correction(target, axes[k] * grid[g])
    return out
