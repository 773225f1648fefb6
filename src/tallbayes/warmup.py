"""Warm-up: choose the step sizes that give most effective draws for the rows touched, then freeze them.

A chain's effective draws grow with its expected squared jump, and the work with the rows it touches: the
surrogate's for every proposal, all rows only for what passes stage 1. Short runs at several multiples of the
starting scales measure both, and the multiple with the largest ratio wins. For plain Metropolis-Hastings, where
each proposal costs the same, that is the usual optimum; with an accurate surrogate, where most of what would be
rejected costs nearly nothing, it is a larger step. Work is counted, not timed, so that a seed gives the same draws
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.kernels import Draws
from tallbayes.kernels.metropolis import Metropolis
from tallbayes.kernels.two_stage import TwoStage
from tallbayes.proposals import OneAtATime, RandomWalk

Array = NDArray[np.float64]

TRIAL_SHARE = 10  # a trial takes one in so many of the warm-up's draws
SMALLEST, LARGEST = -6, 4  # powers of two that scales may be multiplied with
CALL_COST = 5_000  # what calling a pass costs, in row evaluations: keeps tiny data sets from looking free


Advance = Callable[[Any, Any, int], tuple[Any, Draws]]  # (kernel, state, steps) -> (state, draws)


def tune(kernel: Any, state: Any, draws: int, advance: Advance) -> tuple[Any, Any]:
    """Use `draws` steps to tune the proposal's scale, if it has one, and to settle; the kernel returned is final."""
    tunable = isinstance(kernel, Metropolis | TwoStage) and isinstance(kernel.proposal, OneAtATime | RandomWalk)
    trial = draws // TRIAL_SHARE
    if tunable and trial >= 2:
        powers, efficiencies = [-1, 0, 1], []
        for power in powers:
            efficiency, state = _trial(kernel, power, state, trial, advance)
            efficiencies.append(efficiency)
        while (draws - trial * len(powers)) >= trial:  # follow the overall best while it lies at an end
            best = powers[int(np.argmax([np.log(e).sum() for e in efficiencies]))]
            if best == powers[0] > SMALLEST:
                efficiency, state = _trial(kernel, best - 1, state, trial, advance)
                powers.insert(0, best - 1)
                efficiencies.insert(0, efficiency)
            elif best == powers[-1] < LARGEST:
                efficiency, state = _trial(kernel, best + 1, state, trial, advance)
                powers.append(best + 1)
                efficiencies.append(efficiency)
            else:
                break
        kernel = replace(kernel, proposal=kernel.proposal.scaled(2.0 ** _peak(powers, np.array(efficiencies))))
        draws -= trial * len(powers)
    if draws > 0:
        state, _ = advance(kernel, state, draws)
    return kernel, state


def _trial(kernel: Any, power: int, state: Any, steps: int, advance: Advance) -> tuple[Array, Any]:
    """Squared jump per row touched with the scales times 2^power: by coefficient, or one number for a block."""
    scaled = replace(kernel, proposal=kernel.proposal.scaled(2.0**power))
    state, draws = advance(scaled, state, steps)
    jumps = np.diff(draws.theta, axis=0) ** 2
    efficiency = (jumps.mean((0, 1)) + np.finfo(float).tiny) / _work(kernel, draws)
    if isinstance(kernel.proposal, RandomWalk):
        efficiency = np.exp(np.log(efficiency).mean(keepdims=True))
    return efficiency, state


def _work(kernel: Any, draws: Draws) -> Array:
    """Rows touched by each update of a step (one number if a step moves all coefficients at once)."""
    full = draws.decided.mean((0, 2)) * (kernel.model.rows.size + CALL_COST)
    if isinstance(kernel, TwoStage):
        full = full + (kernel.subchain or 1) * (kernel.surrogate.size + CALL_COST)
    return np.asarray(full)


def _peak(powers: list[int], efficiencies: Array) -> Array:
    """The power at which each coefficient's efficiency is largest, between trials by a parabola."""
    logs = np.log(efficiencies)
    best = logs.argmax(0)
    inner = best.clip(1, len(powers) - 2)
    columns = np.arange(logs.shape[1])
    below, at, above = (logs[inner + shift, columns] for shift in (-1, 0, 1))
    bend = below - 2 * at + above
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(bend < 0, 0.5 * (below - above) / bend, 0.0)
    return np.asarray(np.where(best == inner, inner + vertex.clip(-1, 1), best) + powers[0])
