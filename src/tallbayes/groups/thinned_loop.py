"""The compiled loop of the thinned kernel for group effects: one chain, many sweeps (see `thinned.py`).

A function compiles the slower the more arrays it is given, and whoever calls it compiles it again. So numbers of one
shape share an array, whose rows have names, and all moves are decided in one place.

The loop stops and returns where rows are not in memory and Python has to fetch them: drawn rows of all groups, or all
rows of some groups. Where it stopped is kept in `Work`, and the next call goes on from there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import LEAN, compiled, inside, small
from tallbayes.families.terms import chunk_value, remainder
from tallbayes.groups.moves import (
    EFFECT,
    HERE,
    LIMIT,
    METRIC,
    MIXED,
    NARROW,
    NEW_V,
    RADIUS,
    SD,
    SHARES,
    THERE,
    THETA,
    TOTAL,
    Expansion,
    V,
    from_proposals,
    propose_drag,
    propose_effects,
    squares,
    to_proposals,
)
from tallbayes.groups.scale import ScaleCode, draw_log_scale, log_prior
from tallbayes.groups.split import Always, Drawn
from tallbayes.rows.passes import CHUNK, piece
from tallbayes.sampling.shape import Shape, normal, uniform
from tallbayes.sampling.thinned_loop import (
    BAD_RATE,
    BROKEN_BOUND,
    DONE,
    NEEDS_ROWS,
    STRETCH,
    Moves,
    breaks,
    distance_bound,
    prior_correction,
    propose,
    thin,
)

Array = NDArray[np.float64]

# The moves of a sweep; FLAT and what comes after it stretch one flat direction each.
COEFFICIENTS, EFFECTS, SCALE, TAU, FLAT = range(5)
STRETCHES = 3  # of each flat direction in a sweep
NEEDS_GROUPS = 5  # why the loop returned, besides the reasons of `sampling/thinned_loop.py`

OWN_RATIO, CHANGE = 0, 1  # rows of the room for groups: log ratios but for the rows, and what rows add
# Where the loop is: the sweep and the move; the group whose rows are next, or NO_GROUP where nothing is proposed; the
# number of groups of which all rows are asked for; and rows touched.
SWEEP, MOVE, GROUP, ASKED, TOUCHED = range(5)
NO_GROUP = -1
# What it has on its way: the log ratio but for the rows, and the time of a group's next event, or BEFORE all of them.
LOG_RATIO, TIME = range(2)
BEFORE = -1.0


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
    log_tau: Array  # (2,)


class Work(NamedTuple):
    """Room for what a move computes on its way, and where it is."""

    root: Array  # (p, p)
    vectors: Array  # (5, p)
    always: Array  # (2, k) remainders of the rows that are always evaluated
    groups: Array  # (2, k)
    asked: NDArray[np.bool_]  # (k,) groups of which all rows have to be evaluated, and are not in memory
    buffer: Array  # (CHUNK,)
    partial: Array  # (2,)
    at: NDArray[np.int64]  # (5,)

    @classmethod
    def room(cls, p: int, k: int) -> Work:
        """For p coefficients and k groups, before the first sweep."""
        partial, at = np.array([0.0, BEFORE]), np.array([0, 0, NO_GROUP, 0, 0])
        groups = np.zeros((2, k)), np.zeros((2, k)), np.zeros(k, bool)
        return cls(np.empty((p, p)), np.empty((5, p)), *groups, np.empty(CHUNK), partial, at)


@inside(**LEAN)
def always_remainder(terms, rows, g, delta, d, buffer):
    """Remainder of the rows of a group that are always evaluated, where its effect is d from its expansion."""
    x, y, weights, eta, first, second, values, starts = rows
    total = -values[g]
    for low in range(starts[g], starts[g + 1], CHUNK):
        high = low + CHUNK if low + CHUNK < starts[g + 1] else starts[g + 1]
        moved, base, slope, bend = buffer[: high - low], eta[low:high], first[low:high], second[low:high]
        for i in range(moved.size):
            moved[i] = d
        for j in range(0, delta.size - 1, 2):
            one, other, by, too = x[j, low:high], x[j + 1, low:high], delta[j], delta[j + 1]
            for i in range(moved.size):
                moved[i] += by * one[i] + too * other[i]
        if delta.size % 2 == 1:
            last, by = x[delta.size - 1, low:high], delta[delta.size - 1]
            for i in range(moved.size):
                moved[i] += by * last[i]
        for i in range(moved.size):
            h = moved[i]
            total -= (slope[i] - 0.5 * bend[i] * h) * h
            moved[i] = base[i] + h
        total += chunk_value(terms, y[low:high], moved, piece(weights, low, high))
    return total


@inside(**LEAN)
def difference(terms, x, y, eta, i, delta, d, new_delta, new_d):
    """The difference of a row's remainders at two points."""
    small()
    for j in range(delta.size):
        d += x[j, i] * delta[j]
        new_d += x[j, i] * new_delta[j]
    return remainder(terms, y[i], eta[i], new_d) - remainder(terms, y[i], eta[i], d)


@inside(**LEAN, forceinline=True)
def thinned_rows(terms, rows, groups, evaluated, g, lengths, delta, new_delta, e, new_e, d, new_d, rng, work):
    """Find what the rows of a group that can be drawn add to the log ratio, from a few of them; returns why it stopped.

    `lengths` are those of the old and the new delta and of their difference. So many rows of the group are `evaluated`
    always.
    """
    small()
    changes, partial, at = work.groups[CHANGE], work.partial, work.at
    log_ratio, time = 0.0, partial[TIME]
    if time >= 0.0:
        log_ratio = changes[g]
    changes[g] = 0.0
    if groups[TOTAL, g] == 0.0:
        return DONE
    narrow, sd = groups[NARROW, g], groups[SD, g]
    e, new_e = e / sd, new_e / sd
    old, new, jump = lengths[0] * narrow, lengths[1] * narrow, lengths[2] * narrow
    old, new = math.sqrt(old * old + e * e), math.sqrt(new * new + new_e * new_e)
    spread = distance_bound(old, new, math.sqrt(jump * jump + (new_e - e) * (new_e - e)))
    rate = groups[TOTAL, g] * spread
    if not (rate >= 0.0):  # a NaN must not go unseen
        return BAD_RATE
    x, y, weights, eta, bounds, table, starts, following = rows
    first, last = starts[g], starts[g + 1]
    # This choice looks at the two points only, and from both sides it is the same.
    if old > groups[RADIUS, g] or new > groups[RADIUS, g] or rate > groups[LIMIT, g]:
        if following.size > 0:
            work.asked[g] = True
            at[ASKED] += 1
            return DONE
        at[TOUCHED] += 2 * (last - first - evaluated)
        for i in range(first, last):
            if bounds[i] != 0.0:
                change = difference(terms, x, y, eta, i, delta, d, new_delta, new_d)
                log_ratio += change * weights[i] if weights.size > 0 else change
        changes[g] = log_ratio
        return DONE
    if time < 0.0:
        time = rng.standard_exponential()  # events come at unit rate
    while time < rate:
        if following.size > 0:
            i = following[g]
            if i == last:
                changes[g], partial[TIME] = log_ratio, time
                return NEEDS_ROWS
            following[g] += 1
        else:
            place = uniform(rng) * (last - first)
            i = int(place)
            if i >= last - first:
                i = last - first - 1
            i = first + (i if place - i < table[first + i, 0] else int(table[first + i, 1]))
        bound = bounds[i] * spread
        apart = difference(terms, x, y, eta, i, delta, d, new_delta, new_d)
        if breaks(bound, apart):
            return BROKEN_BOUND
        keep, gain = thin(bound, apart)
        if uniform(rng) < keep:
            log_ratio += gain
        at[TOUCHED] += 1
        time += rng.standard_exponential()
    changes[g], partial[TIME] = log_ratio, BEFORE
    return DONE


@inside(**LEAN)
def decide(terms, drawn, evaluated, groups, lengths, place, together, work, rng):
    """Decide on what is proposed: the share accepted, and why it stopped.

    All groups `together`, or each group by itself.
    """
    small()
    deltas, e, shift, log_tau = place
    always, log_ratios, changes, partial, at = (
        work.always, work.groups[OWN_RATIO], work.groups[CHANGE], work.partial, work.at
    )  # fmt: skip
    delta, new_delta, starts, accepted, log_ratio = deltas[HERE], deltas[THERE], evaluated.starts, 0, partial[LOG_RATIO]
    for g in range(at[GROUP], e.shape[1]):
        at[GROUP] = g
        own, new = e[HERE, g], e[THERE, g]
        why = thinned_rows(
            terms, drawn, groups, starts[g + 1] - starts[g], g, lengths, delta, new_delta, own, new,
            own - shift[HERE, g], new - shift[THERE, g], rng, work,
        )  # fmt: skip
        if why != DONE:
            return 0.0, why
    at[GROUP] = e.shape[1]
    if at[ASKED] > 0:
        return 0.0, NEEDS_GROUPS
    for g in range(e.shape[1]):
        change, count = changes[g], starts[g + 1] - starts[g]
        if count > 0:
            always[THERE, g] = always_remainder(
                terms, evaluated, g, new_delta, e[THERE, g] - shift[THERE, g], work.buffer
            )  # fmt: skip
            change += always[THERE, g] - always[HERE, g]
            at[TOUCHED] += count
        if together:
            log_ratio += change
        elif math.log(uniform(rng)) < log_ratios[g] + change:
            e[HERE, g], always[HERE, g] = e[THERE, g], always[THERE, g]
            accepted += 1
    if not together:
        return accepted / e.shape[1], DONE
    if not (math.log(uniform(rng)) < log_ratio):
        return 0.0, DONE
    for j in range(delta.size):
        delta[j] = new_delta[j]
    for g in range(e.shape[1]):
        e[HERE, g], shift[HERE, g], always[HERE, g] = e[THERE, g], shift[THERE, g], always[THERE, g]
    log_tau[HERE] = log_tau[THERE]
    return 1.0, DONE


@compiled(**LEAN)
def advance(
    terms, expansion, drawn, always, prior, scale, flat, pivots, center, shape, moves,
    aim, place, work, first, second, theta, accepted,
):  # fmt: skip
    """One sweep of these moves a row of `theta`; returns why it stopped."""
    small()
    points, precisions, crossed, groups = expansion
    deltas, e, shift, log_tau = place
    root, vectors, at = work.root, work.vectors, work.at
    delta, new_delta = deltas[HERE], deltas[THERE]
    p, k = delta.size, e.shape[1]
    if at[SWEEP] + at[MOVE] == 0 and at[GROUP] == NO_GROUP:
        for g in range(k):
            work.always[HERE, g] = always_remainder(
                terms, always, g, delta, e[HERE, g] - shift[HERE, g], work.buffer
            )  # fmt: skip
        at[TOUCHED] += always.y.size
    for sweep in range(at[SWEEP], theta.shape[0]):
        at[SWEEP] = sweep
        for number in range(at[MOVE], moves.size):
            at[MOVE] = number
            move, log_ratio = moves[number], 0.0
            if at[GROUP] == NO_GROUP:
                if move == TAU:
                    total = 0.0
                    for g in range(k):
                        total += (groups[EFFECT, g] + e[HERE, g] - shift[HERE, g]) ** 2
                    log_tau[HERE] = draw_log_scale(scale, k, total, first)
                    continue
                log_tau[THERE] = log_tau[HERE]
                if move == EFFECTS:
                    log_ratios = work.groups[OWN_RATIO]
                    propose_effects(crossed[MIXED], groups, deltas, e, shift, log_tau[HERE], first, log_ratios)
                elif move == COEFFICIENTS:
                    log_ratio = to_proposals(
                        expansion, aim.shift, aim.back, delta, e[HERE], log_tau[HERE], root, vectors
                    )  # fmt: skip
                    log_ratio += propose(center, shape, aim.moves, vectors[V], first, vectors[NEW_V])
                    log_ratio += from_proposals(
                        crossed[SHARES], aim.shift, aim.spread, deltas, e, shift, root, vectors
                    )  # fmt: skip
                else:
                    if move == SCALE:
                        direction, further = aim.drag, aim.step * normal(first)
                        log_tau[THERE] += further
                        if log_tau[THERE] < scale.lowest:
                            uniform(second)
                            accepted[sweep, SCALE] = 0.0
                            continue
                        log_ratio = log_prior(scale, log_tau[THERE]) - log_prior(scale, log_tau[HERE]) - k * further
                    else:
                        direction, pivot = flat[move - FLAT], pivots[move - FLAT]
                        log_ratio = log_factor = STRETCH * normal(first)
                        further = math.expm1(log_factor) * (points[THETA, pivot] + delta[pivot])
                    log_ratio += propose_drag(expansion, direction, further, move == SCALE, deltas, e, shift, log_tau)
                if move != EFFECTS:
                    log_ratio += prior_correction(prior, new_delta) - prior_correction(prior, delta)
                work.partial[LOG_RATIO], at[GROUP] = log_ratio, 0
            old, new, jump = squares(precisions[METRIC], deltas)
            lengths = (
                math.sqrt(old) if old > 0.0 else 0.0,
                math.sqrt(new) if new > 0.0 else 0.0,
                math.sqrt(jump) if jump > 0.0 else 0.0,
            )
            share, why = decide(terms, drawn, always, groups, lengths, place, move != EFFECTS, work, second)
            if why != DONE:
                return why
            at[GROUP] = NO_GROUP
            if move < TAU:
                accepted[sweep, move] = share
        at[MOVE] = 0
        for j in range(p):
            theta[sweep, j] = points[THETA, j] + delta[j]
        for g in range(k):
            theta[sweep, p + g] = groups[EFFECT, g] + e[HERE, g] - shift[HERE, g]
        theta[sweep, p + k] = log_tau[HERE]
    return DONE
