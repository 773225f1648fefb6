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

from tallbayes.groups.thinned import Grouped
from tallbayes.groups.thinned_loop import COEFFICIENTS, SCALE, Aim, whitened
from tallbayes.sampling.consensus import Consensus
from tallbayes.sampling.kernel import Draws, Streams
from tallbayes.sampling.proposals import OneAtATime, RandomWalk
from tallbayes.sampling.subsampling import FEWEST_ROWS, VARIANCE, Subsampling
from tallbayes.sampling.thinned import Thinned
from tallbayes.sampling.thinned_setup import typical_spread
from tallbayes.sampling.two_stage import TwoStage
from tallbayes.splines.reversible_jump import ReversibleJump
from tallbayes.splines.warmup import tune_splines

Array = NDArray[np.float64]
Advance = Callable[..., tuple[Any, Draws]]  # (kernel, state, steps, [streams]) -> (state, draws)

STEPS = np.geomspace(0.01, 20.0, 400)  # that are considered, in standard deviations
SHARES = np.linspace(0.2, 1.0, 81)  # of their best efficiency that updates may be left with
NEARLY_BEST = 0.97  # the smallest step with this share of the best efficiency is taken: the optimum is flat
TRIALS = 4  # each twice as long as the one before; together half of the warm-up
SHORTER = (1.0, 0.6, 0.35, 0.2, 0.12)  # steps of autoregressive proposals that are tried
STEP_COST = 10  # what a step of the thinned kernel costs besides its rows, in rows
LONGER = (1, 1, 2, 2, 3)  # trials of the thinned kernel for groups; together half of the warm-up
CORRELATED = 10  # draws of a trial that are worth one
WALKS = 0.35  # acceptance that the walk in log tau should have
GOOD, RARELY = 0.5, 0.15  # acceptance of the coefficients with which nothing is changed, and steps are made shorter
SIZES_TRIED = 3
CALL_COST = 5_000  # what calling a pass costs, in row evaluations: keeps tiny data sets from looking free


def tune(kernel: Any, state: Any, draws: int, advance: Advance) -> tuple[Any, Any]:
    """Use `draws` steps to tune the proposal's scale, if it has one, and to settle; the kernel returned is final."""
    if isinstance(kernel, Consensus):
        return kernel.each_by_itself(state, lambda inner, own, streams: tune(inner, own, draws, _on(advance, streams)))
    if isinstance(kernel, ReversibleJump):
        return tune_splines(kernel, state, draws, advance)
    if isinstance(kernel, Grouped):
        return _tune_grouped(kernel, state, draws, advance)
    if isinstance(kernel, Subsampling):
        return _tune_subsampling(kernel, state, draws, advance)
    if isinstance(kernel, Thinned):
        return _tune_thinned(kernel, state, draws, advance)
    shortest = draws // (2 * (2**TRIALS - 1))
    if isinstance(kernel.proposal, OneAtATime | RandomWalk) and shortest > 0:
        for trial in range(TRIALS):
            state, seen = advance(kernel, state, shortest * 2**trial)
            draws -= shortest * 2**trial
            kernel = replace(kernel, proposal=kernel.proposal.scaled(_factor(kernel, seen)))
    if draws > 0:
        state, _ = advance(kernel, state, draws)
    return kernel, state


def _on(advance: Advance, streams: Streams | None) -> Advance:
    """The same with the random numbers of a shard."""
    return lambda kernel, state, steps: advance(kernel, state, steps, streams=streams)


def _tune_thinned(kernel: Thinned, state: Any, draws: int, advance: Advance) -> tuple[Thinned, Any]:
    """Try shorter and shorter autoregressive steps while they give more effective draws for the rows touched.

    Where the surrogate is good, independent proposals are best by far; shorter steps are for posteriors that it does
    not fit. A chain whose squared jumps are a share e of those of independent draws has a lag-one correlation of 1 - e
    and at best e / (2 - e) effective draws a step. On posteriors that are hard to fit, half of that was seen; and with
    independent proposals, which stay for long where the surrogate is too low, about e^3.
    """
    trial = draws // (2 * len(SHORTER))
    best, chosen = 0.0, kernel
    pairs = np.random.default_rng(0).standard_normal((2, 500, kernel.mode.theta.size))
    # Only independent proposals reach long tails and further modes, whatever a short trial near one mode says.
    tried_steps = SHORTER[:1] if kernel.mode.flat or kernel.mode.others else SHORTER
    for step in tried_steps if trial else ():
        tried = replace(kernel, moves=kernel.moves._replace(step=step))
        here = state.theta
        state, seen = advance(tried, state, trial)
        draws -= trial
        whitened = np.linalg.solve(
            kernel.mode.factor, np.diff(seen.theta, axis=0, prepend=here[None]).reshape(-1, here.shape[1]).T
        )
        share = min(1.0, float((whitened**2).mean()) / 2)
        effective = share**3 if step == 1.0 else 0.5 * share / (2 - share)
        # Rows are drawn ahead, so what a short trial touched says little; what is to be expected is known.
        moved = (1 - step**2) ** 0.5 * pairs[0] + step * pairs[1]
        rows = kernel.target.always.y.size + kernel.target.total * typical_spread(np.stack([pairs[0], moved]))
        efficiency = effective / (rows + STEP_COST)
        if efficiency <= best:
            break
        best, chosen = efficiency, tried
    if draws > 0:
        state, _ = advance(chosen, state, draws)
    return chosen, state


def _tune_subsampling(kernel: Subsampling, state: Any, draws: int, advance: Advance) -> tuple[Subsampling, Any]:
    """Take as many rows as make the variance of the estimate of the log-likelihood VARIANCE, if that was left open."""
    trial = draws // (2 * SIZES_TRIED)
    for _ in range(SIZES_TRIED if trial and kernel.steered else 0):
        state, seen = advance(kernel, state, trial)
        draws -= trial
        needed = kernel.size * float(seen.variance[len(seen.variance) // 2 :].mean()) / VARIANCE
        kernel = replace(kernel, size=int(np.clip(needed, FEWEST_ROWS, kernel.model.rows.total_weight)))
    if draws > 0:
        state, _ = advance(kernel, state, draws)
    return kernel, state


def _tune_grouped(kernel: Grouped, state: Any, draws: int, advance: Advance) -> tuple[Grouped, Any]:
    """Learn where the coefficients are, which small groups move away from the expansion, and how far tau can go.

    Given effects and tau, z of the coefficients would be standard normal if the expansion were all; its mean and
    covariance in a trial, drawn towards that, are where the next one makes its proposals, unless they are accepted well
    as it is. The coefficients' slope on log tau tells how to drag them along.
    """
    shortest = draws // (2 * sum(LONGER))
    for length in LONGER if shortest else ():
        state, seen = advance(kernel, state, shortest * length)
        draws -= shortest * length
        kernel = replace(kernel, aim=_aim(kernel, seen))
    if draws > 0:
        state, _ = advance(kernel, state, draws)
    return kernel, state


def _aim(kernel: Grouped, seen: Draws) -> Aim:
    aim, p = kernel.aim, kernel.mode.at.beta.size
    settled = seen.theta[len(seen.theta) // 3 :].reshape(-1, seen.theta.shape[2])
    accepted, worth = seen.screened.mean((0, 2)), len(settled) / CORRELATED
    log_tau = settled[:, -1] - settled[:, -1].mean()
    drag = log_tau @ settled[:, :p] / max(float(log_tau @ log_tau), np.finfo(float).tiny) * worth / (worth + p)
    aim = aim._replace(step=aim.step * float(np.clip(accepted[SCALE] / WALKS, 0.5, 2.0)), drag=drag)
    if accepted[COEFFICIENTS] >= GOOD or len(settled) < 2:  # what a trial says is too noisy to better that
        return aim
    z = whitened(kernel.target.expansion, settled)
    covariance = (worth * np.cov(z, rowvar=False).reshape(p, p) + p * np.eye(p)) / (worth + p)
    spread = np.asarray(np.linalg.cholesky(covariance), dtype=float)
    back = np.asarray(np.linalg.inv(spread), dtype=float)
    nearer = aim.moves._replace(step=aim.moves.step * (0.6 if accepted[COEFFICIENTS] < RARELY else 1.0))
    return aim._replace(moves=nearer, shift=z.mean(0), spread=spread, back=back)


def _factor(kernel: Any, draws: Draws) -> Array:
    """What to multiply the scales with, by update: from the acceptance and surrogate error that a trial showed."""
    acceptance, jump = _walk(by_column=isinstance(kernel.proposal, OneAtATime))
    subchain = getattr(kernel, "subchain", None)
    if subchain or not isinstance(kernel, TwoStage):
        seen = draws.screened if subchain else np.exp(np.minimum(draws.log_first, 0.0))
        here = _step_with(acceptance, seen.mean((0, 2)))
        return np.asarray(STEPS[_smallest_best(jump[None])] / STEPS[here])
    here = _step_with(acceptance, np.exp(np.minimum(draws.log_first, 0.0)).mean((0, 2)))
    # The mean square of stage-2 log ratios, with one unit of prior observation so that few decisions are enough.
    errors = np.where(draws.decided, np.nan_to_num(draws.log_second, nan=0.0, posinf=30.0, neginf=-30.0), 0.0)
    error = (errors**2).sum((0, 2)) / (1 + draws.decided.sum((0, 2)))
    length = jump / acceptance  # squared length of moves that pass stage 1
    kappa = error / length[here]
    second = 2 * ndtr(-0.5 * np.sqrt(np.outer(kappa, length)))
    screens, decides = kernel.surrogate.sizes, kernel.model.rows.sizes
    if not isinstance(kernel.proposal, OneAtATime):
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
