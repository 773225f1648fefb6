"""Warm-up of collapsed splines: from nothing to a reference to stay with, in a few rounds.

A round makes moves on the quadratic around the present reference, without asking any row, and takes as the next
reference the mean of the splines where all chains have been: that is Newton's method, with a posterior for each step.
Far from the top the quadratic is wrong, and its points err by more than it can be trusted: so the likelihood is first
raised to a small power, as if there were few rows, and the power grows until it is one. And like Newton's method it may
go too far, all the more where outcomes are rare: then the next reference is half way to that mean, or a quarter, where
the likelihood is largest. Some rounds later the reference has settled, and then it stays: nothing of it changes
while draws are kept.

On the way a chain may get caught by bases that do nearly as well as others, but are more. Where chains are at power
one, each of them is compared with the others: if it is far below one of them, however wide the posterior is where it
is, it goes on from there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.sampling.kernel import Advance
from tallbayes.sampling.warmup import shares
from tallbayes.splines.guide import Guide, learn_guide
from tallbayes.splines.model import MARS, splines

if TYPE_CHECKING:
    from tallbayes.splines.collapsed import CollapsedKernel, State

Array = NDArray[np.float64]

FIRST, GROWTH = 1_000, 2  # rows that the first likelihood is worth, and by how much the next is worth more
RISING = 0.5  # share of the warm-up until the power is one
SETTLING, SETTLED = 6, 0.8  # references at power one, and the share of the warm-up after which the last stays
AVERAGED = 16  # splines that make a reference
COMPARED, BEHIND = 8, 10.0  # places of a chain that are looked at, and by how much it must be below another one
HALVINGS = 10  # of a step that goes too far


def find_reference(
    kernel: CollapsedKernel, state: State, draws: int, advance: Advance
) -> tuple[CollapsedKernel, State, float]:
    """Use `draws` steps to find a reference; the kernel returned is final, and chains are where all rows let them.

    Also returned is the share of subchains that all rows have accepted then, or NaN if there were none.
    """
    free = replace(kernel, decided=False)
    rounds = max(1, int(np.ceil(np.log(kernel.model.rows.size / FIRST) / np.log(GROWTH))))
    powers = np.minimum(1.0, FIRST * float(GROWTH) ** np.arange(rounds) / kernel.model.rows.size)
    been = state.theta[None]
    schedule = [
        *zip(powers.tolist(), shares(int(RISING * draws), rounds), strict=True),
        *((1.0, steps) for steps in shares(int(SETTLED * draws) - int(RISING * draws), SETTLING)),
    ]
    eta = kernel.expansion.log_odds(splines(kernel.model.nothing[None], kernel.model.most))
    for power, steps in schedule:
        eta = next_reference(free, eta, been)
        free = replace(free, quadratic=free.expansion.around(eta, power), power=power)
        state, seen = advance(free, free.enter(state), steps)
        if steps:
            been = seen.theta[len(seen.theta) // 2 :]
            if power == 1.0:
                state = without_stragglers(free, state, been)
            free = replace(free, law=free.law._replace(guide=guided_by(kernel.model, been)))
    quadratic = free.expansion.around(next_reference(free, eta, been))
    final = replace(free, quadratic=quadratic, power=1.0, decided=True)
    last = draws - int(SETTLED * draws)
    state, seen = advance(replace(final, nudges=0.0), final.enter(state), last)
    return final, state, float(seen.accepted.mean()) if last else math.nan


def without_stragglers(kernel: CollapsedKernel, state: State, been: Array) -> State:
    """Chains go on from where the best one is if they are far below it, judged by where they have `been`.

    That is (places, chains, width).
    """
    chosen = been[np.linspace(0, len(been) - 1, min(COMPARED, len(been))).round().astype(int)]
    heights = np.mean([kernel.heights(theta) for theta in chosen], axis=0)
    best = int(heights.sum(0).argmax())
    behind = (heights < heights[:, [best]] - BEHIND).all(0)
    if not behind.any():
        return state
    return kernel.enter(state._replace(theta=np.where(behind[:, None], state.theta[best], state.theta)))


def guided_by(model: MARS, been: Array) -> Guide:
    """A guide to the bases of places (places, chains, width)."""
    every = splines(been, model.most)
    return learn_guide(model.reference, every.bases[np.arange(model.most) < every.sizes[:, None]])


def next_reference(kernel: CollapsedKernel, eta: Array, been: Array) -> Array:
    """From log-odds of all rows to the mean of some of these splines (places, chains, width), or part of the way."""
    flat = been.reshape(-1, been.shape[-1])
    chosen = flat[np.linspace(0, len(flat) - 1, min(AVERAGED, len(flat))).round().astype(int)]
    found = kernel.expansion.log_odds(splines(chosen, kernel.model.most))
    value = kernel.expansion.log_likelihood(found)
    for _ in range(HALVINGS):
        nearer = kernel.expansion.halfway(eta, found)
        there = kernel.expansion.log_likelihood(nearer)
        if there <= value:
            break
        found, value = nearer, there
    return found if math.isfinite(value) else eta
