"""Warm-up of collapsed splines: from nothing to a reference to stay with, in a few rounds.

A round makes moves on the quadratic around the present reference, without asking any row, and takes as the next
reference the mean of the splines where all chains have been: that is Newton's method, with a posterior for each step.
Far from the top the quadratic is wrong, and its points err by more than it can be trusted: so the likelihood is first
raised to a small power, as if there were few rows, and the power grows until it is one. Some rounds later the reference
has settled, and then it stays: nothing of it changes while draws are kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.sampling.kernel import Advance
from tallbayes.splines.model import splines

if TYPE_CHECKING:
    from tallbayes.splines.collapsed import CollapsedKernel, State

Array = NDArray[np.float64]

FIRST, GROWTH = 1_000, 4  # rows that the first likelihood is worth, and by how much the next is worth more
RISING = 0.3  # share of the warm-up until the power is one
SETTLING, SETTLED = 6, 0.8  # references at power one, and the share of the warm-up after which the last stays
AVERAGED = 16  # splines that make a reference


def find_reference(
    kernel: CollapsedKernel, state: State, draws: int, advance: Advance
) -> tuple[CollapsedKernel, State]:
    """Use `draws` steps to find a reference; the kernel returned is final, and chains are where all rows let them."""
    free = replace(kernel, decided=False)
    rounds = max(1, int(np.ceil(np.log(kernel.model.rows.size / FIRST) / np.log(GROWTH))))
    powers = np.minimum(1.0, FIRST * float(GROWTH) ** np.arange(rounds) / kernel.model.rows.size)
    been = state.theta[None]
    schedule = [
        *zip(powers.tolist(), _shares(int(RISING * draws), rounds), strict=True),
        *((1.0, steps) for steps in _shares(int(SETTLED * draws) - int(RISING * draws), SETTLING)),
    ]
    for power, steps in schedule:
        free = at_reference(free, been, power)
        state, seen = advance(free, free.enter(state), steps)
        been = seen.theta[len(seen.theta) // 2 :] if steps else been
    final = replace(at_reference(free, been, 1.0), decided=True)
    state, _ = advance(final, final.enter(state), draws - int(SETTLED * draws))
    return final, state


def at_reference(kernel: CollapsedKernel, been: Array, power: float) -> CollapsedKernel:
    """With the mean of some of these splines (places, chains, width) as the reference."""
    flat = been.reshape(-1, been.shape[-1])
    chosen = flat[np.linspace(0, len(flat) - 1, min(AVERAGED, len(flat))).round().astype(int)]
    quadratic = kernel.expansion.at(splines(chosen, kernel.model.most), power)
    return replace(kernel, quadratic=quadratic, power=power)


def _shares(total: int, parts: int) -> list[int]:
    """A number cut into parts that differ by one at most."""
    ends = np.linspace(0, total, parts + 1).astype(int)
    return [int(step) for step in np.diff(ends)]
