"""Warm-up: choose the step sizes that give most effective draws for the rows touched, then freeze them.

Effective draws grow with the expected squared jump, and the work with the rows touched: the surrogate's for every
proposal, all rows only for what passes stage 1. For a random walk with step s (in standard deviations) on a Gaussian
both are known: one coefficient at a time,

    acceptance(s) = (2/pi) atan(2/s),      jump(s) = s^2 (2/pi) [atan(2/s) - 2s / (s^2 + 4)],

and acceptance(s) = 2 Phi(-s/2), jump(s) = s^2 acceptance(s) for a block of many. A surrogate that errs by kappa per
unit of squared jump lets stage 2 accept 2 Phi(-sqrt(kappa d)/2) of moves with squared length d. So short trials measure
the acceptance of stage 1, which tells the s that the present scale amounts to, and the error of the surrogate; the best
s follows. For plain Metropolis-Hastings that is the usual optimum; with an accurate surrogate, where what is rejected
costs nearly nothing, it is a larger step. Work is counted, not timed, so that a seed gives the same draws everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tallbayes.sampling.kernel import Advance, Draws

Array = NDArray[np.float64]

LONG, SHORT = 500, 50  # draws of a warm-up with steps to tune, and of one that only settles
STEPS = np.geomspace(0.01, 20.0, 400)  # that are considered, in standard deviations
SHARES = np.linspace(0.2, 1.0, 81)  # of their best efficiency that updates may be left with
NEARLY_BEST = 0.97  # the smallest step with this share of the best efficiency is taken: the optimum is flat
TRIALS = 4  # each twice as long as the one before; together half of the warm-up
CALL_COST = 5_000  # what calling a pass costs, in row evaluations: keeps tiny data sets from looking free


def tune_steps(
    kernel: Any, state: Any, draws: int, advance: Advance, factor: Callable[[Any, Draws], Array]
) -> tuple[Any, Any]:
    """Multiply the proposal's scales, if it has any, with the factor that each trial gives; settle with the rest."""
    shortest = draws // (2 * (2**TRIALS - 1))
    if kernel.proposal.walks and shortest > 0:
        for trial in range(TRIALS):
            state, seen = advance(kernel, state, shortest * 2**trial)
            draws -= shortest * 2**trial
            kernel = replace(kernel, proposal=kernel.proposal.scaled(factor(kernel, seen)))
    return kernel, settled(kernel, state, draws, advance)


def settled(kernel: Any, state: Any, draws: int, advance: Advance) -> Any:
    """The state after so many more steps."""
    return advance(kernel, state, draws)[0] if draws > 0 else state


def best_steps(accepted: Array, by_column: bool) -> Array:
    """What to multiply scales with, by update, from the acceptance (steps, updates, chains) that a trial showed."""
    acceptance, jump = _walk(by_column)
    here = _step_with(acceptance, accepted.mean((0, 2)))
    return np.asarray(STEPS[_smallest_best(jump[None])] / STEPS[here])


def best_screened_steps(draws: Draws, by_column: bool, screens: Array, decides: Array) -> Array:
    """What to multiply scales with, by update, where a surrogate that touches `screens` rows spares `decides` rows."""
    acceptance, jump = _walk(by_column)
    here = _step_with(acceptance, np.exp(np.minimum(draws.log_first, 0.0)).mean((0, 2)))
    # The mean square of stage-2 log ratios, with one unit of prior observation so that few decisions are enough.
    errors = np.where(draws.decided, np.nan_to_num(draws.log_second, nan=0.0, posinf=30.0, neginf=-30.0), 0.0)
    error = (errors**2).sum((0, 2)) / (1 + draws.decided.sum((0, 2)))
    length = jump / acceptance  # squared length of moves that pass stage 1
    kappa = error / length[here]
    second = 2 * ndtr(-0.5 * np.sqrt(np.outer(kappa, length)))
    if not by_column:
        screens, decides = screens[:1], decides[:1]
    work = (screens + CALL_COST)[:, None] + np.outer(decides + CALL_COST, acceptance)
    return np.asarray(STEPS[_fair(jump * second, work)] / STEPS[here])


def _fair(efficiency: Array, work: Array) -> NDArray[np.intp]:
    """Index of the step of each update, so that all of them gain by what a sweep saves.

    Longer steps cost an update some of its efficiency, and save work for all. Each gives up the same share of its best,
    the one that leaves most for the work of a sweep.
    """
    kept = SHARES * efficiency.max(1, keepdims=True)  # (updates, shares)
    cost = np.where(efficiency[:, None] >= kept[..., None], work[:, None], np.inf)  # (updates, shares, steps)
    worth = SHARES / cost.min(2).sum(0)
    share = int((worth >= NEARLY_BEST * worth.max()).nonzero()[0][-1])  # the optimum is flat: give up as little
    return np.asarray(cost[:, share].argmin(1))


def _walk(by_column: bool) -> tuple[Array, Array]:
    """Acceptance and expected squared jump of a random walk on a Gaussian, for each of STEPS."""
    if by_column:
        acceptance = 2 / np.pi * np.arctan(2 / STEPS)
        return acceptance, STEPS**2 * (acceptance - 2 / np.pi * 2 * STEPS / (STEPS**2 + 4))
    acceptance = 2 * ndtr(-STEPS / 2)
    return acceptance, STEPS**2 * acceptance


def _step_with(acceptance: Array, seen: Array) -> NDArray[np.intp]:
    """Index of the step whose acceptance is closest to what was seen."""
    return np.asarray(np.abs(acceptance - seen[:, None]).argmin(1))


def _smallest_best(efficiency: Array) -> NDArray[np.intp]:
    """Index of the smallest step that is nearly best, for each row."""
    return np.asarray((efficiency >= NEARLY_BEST * efficiency.max(1, keepdims=True)).argmax(1))


def shares(total: int, parts: int) -> list[int]:
    """A number cut into parts that differ by one at most.

    >>> shares(10, 4)
    [2, 3, 2, 3]
    """
    ends = np.linspace(0, total, parts + 1).astype(int)
    return [int(step) for step in np.diff(ends)]
