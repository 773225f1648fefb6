"""Warm-up of reversible jump: from nothing to the posterior of a spline, and a surrogate to stay with.

With cells, the likelihood is first raised to a small power, as if there were few rows, and the power is doubled until
it is one. At every stage the pseudo-rows are made anew, each chain's where that chain is: so a subchain starts where
its surrogate has the gradient of all rows. At power one the reference becomes the mean of where the chain has been, and
then it stays. The length of subchains follows from the share that is accepted: if errors of the surrogate add up along
a subchain, it is 2 Phi(-sqrt(kappa L) / 2), and the best L has most accepted moves for the rows touched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from tallbayes.sampling.kernel import Advance, Draws
from tallbayes.sampling.warmup import settled, shares
from tallbayes.splines.cells import at_reference
from tallbayes.splines.reversible_jump_loop import COEFFICIENTS
from tallbayes.splines.sheet import Sheets

if TYPE_CHECKING:
    from tallbayes.splines.reversible_jump import ReversibleJumpKernel, State

Array = NDArray[np.float64]

FIRST = 2_000  # rows that the first likelihood is worth
RISING = 0.6  # share of the warm-up until the power is one
SETTLING = 8  # references at power one, before the last
LAST = 0.1  # share of the warm-up with the final kernel
AVERAGED = 16  # places of a chain that make its reference
LENGTHS = np.unique(np.geomspace(5, 500, 60).astype(int))
PASS, CALL = 3.5, 250_000  # what a decision costs a row, and besides, in units of a move's cost a row of the sheet
WALKS, TRIALS = 0.3, 8  # acceptance that random walks should have, and how often their step is changed


def tune_walk(
    kernel: ReversibleJumpKernel, state: State, draws: int, advance: Advance
) -> tuple[ReversibleJumpKernel, State]:
    """Use `draws` steps to find the step of random walks, if there are any; the kernel returned is final."""
    trial = draws // (2 * TRIALS) if kernel.law.walk > 0 else 0
    for _ in range(TRIALS if trial else 0):
        before = state.tally
        state, _ = advance(kernel, state, trial)
        draws -= trial
        kernel = _rescaled(kernel, before, state.tally)
    return kernel, settled(kernel, state, draws, advance)


def tune_cells(
    kernel: ReversibleJumpKernel, state: State, draws: int, advance: Advance
) -> tuple[ReversibleJumpKernel, State]:
    """Use `draws` steps to find a reference for the cells and the length of subchains; the kernel returned is final."""
    doublings = max(0, int(np.ceil(np.log2(kernel.model.rows.size / FIRST))))
    powers = np.repeat(0.5 ** np.arange(doublings, 0, -1), 2)
    rising, last = int(RISING * draws) if doublings else 0, int(LAST * draws)
    for power, steps in zip(powers, shares(rising, powers.size), strict=True):
        kernel, state, _ = _stage(kernel, state, state.theta[None], float(power), steps, advance)
    been = state.theta[None]
    for steps in shares(draws - rising - last, SETTLING):
        recent = been[len(been) // 2 :]
        chosen = recent[np.linspace(0, len(recent) - 1, min(AVERAGED, len(recent))).astype(int)]
        kernel, state, seen = _stage(kernel, state, chosen, 1.0, steps, advance)
        been = np.concatenate([been, seen])
    return kernel, settled(kernel, state, last, advance)


def _stage(
    kernel: ReversibleJumpKernel, state: State, been: Array, power: float, steps: int, advance: Advance
) -> tuple[ReversibleJumpKernel, State, Array]:
    """Some steps with each chain's reference the mean of where it has been (places, chains, width)."""
    if not steps:
        return kernel, state, been[:0]
    partition = kernel.surrogate.partition
    assert partition is not None
    each = tuple(at_reference(kernel.model, partition, been[:, chain], power) for chain in range(been.shape[1]))
    sheets = Sheets(kernel.surrogate.name, each, partition, kernel.surrogate.touched)
    kernel = replace(kernel, surrogate=sheets, power=power)
    before = state.tally
    state, seen = advance(kernel, kernel.enter(state), steps)
    if kernel.law.walk > 0:
        kernel = _rescaled(kernel, before, state.tally)
    if kernel.steered:
        kernel = replace(kernel, subchain=_length(kernel, seen))
    return kernel, state, seen.theta


def _length(kernel: ReversibleJumpKernel, seen: Draws) -> int:
    """The length of subchains with most accepted moves for the work, from the acceptance at the present length."""
    decided = seen.accepted[seen.decided]
    accepted = np.clip((decided.sum() + 0.5) / (decided.size + 1), 0.02, 0.98)
    kappa = 4 * ndtri(accepted / 2) ** 2 / kernel.subchain
    lengths = LENGTHS[(2 * kernel.subchain >= LENGTHS) & (kernel.subchain // 3 <= LENGTHS)]
    move = float(kernel.surrogate.of(0).weights.size)
    worth = lengths * ndtr(-np.sqrt(kappa * lengths) / 2) / (lengths * move + PASS * kernel.model.rows.size + CALL)
    return int(lengths[worth.argmax()])


def _rescaled(
    kernel: ReversibleJumpKernel, before: NDArray[np.int64], after: NDArray[np.int64]
) -> ReversibleJumpKernel:
    """With another step of the random walk, if too many or too few of its proposals were accepted."""
    tried, accepted = (after - before)[:, COEFFICIENTS].sum(0)
    factor = np.clip((accepted + 0.3) / (tried + 1) / WALKS, 0.3, 3.0)
    return replace(kernel, law=kernel.law._replace(walk=kernel.law.walk * float(factor)))
