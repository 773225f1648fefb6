"""Warm-up of the thinned kernel for group effects.

It learns where the coefficients are, which small groups move away from the expansion, and how far tau can go. Given
effects and tau, z of the coefficients would be standard normal if the expansion were all; its mean and covariance in a
trial, drawn towards that, are where the next one makes its proposals, unless they are accepted well as it is. The
coefficients' slope on log tau tells how to drag them along.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tallbayes.groups.moves import whitened
from tallbayes.groups.thinned_loop import COEFFICIENTS, SCALE, Aim
from tallbayes.sampling.kernel import Advance, Draws
from tallbayes.sampling.warmup import settled

if TYPE_CHECKING:
    from tallbayes.groups.thinned import GroupKernel, State

LONGER = (1, 1, 2, 2, 3)  # trials; together half of the warm-up
CORRELATED = 10  # draws of a trial that are worth one
WALKS = 0.35  # acceptance that the walk in log tau should have
GOOD, RARELY = 0.5, 0.15  # acceptance of the coefficients with which nothing is changed, and steps are made shorter


def tune_groups(kernel: GroupKernel, state: State, draws: int, advance: Advance) -> tuple[GroupKernel, State]:
    """Use `draws` steps; the kernel returned is final."""
    shortest = draws // (2 * sum(LONGER))
    for length in LONGER if shortest else ():
        state, seen = advance(kernel, state, shortest * length)
        draws -= shortest * length
        kernel = replace(kernel, aim=_aim(kernel, seen))
    return kernel, settled(kernel, state, draws, advance)


def _aim(kernel: GroupKernel, seen: Draws) -> Aim:
    aim, p = kernel.aim, kernel.mode.at.beta.size
    last = seen.theta[len(seen.theta) // 3 :].reshape(-1, seen.theta.shape[2])
    accepted, worth = seen.screened.mean((0, 2)), len(last) / CORRELATED
    log_tau = last[:, -1] - last[:, -1].mean()
    drag = log_tau @ last[:, :p] / max(float(log_tau @ log_tau), np.finfo(float).tiny) * worth / (worth + p)
    aim = aim._replace(step=aim.step * float(np.clip(accepted[SCALE] / WALKS, 0.5, 2.0)), drag=drag)
    if accepted[COEFFICIENTS] >= GOOD or len(last) < 2:  # what a trial says is too noisy to better that
        return aim
    z = whitened(kernel.target.expansion, last)
    covariance = (worth * np.cov(z, rowvar=False).reshape(p, p) + p * np.eye(p)) / (worth + p)
    spread = np.asarray(np.linalg.cholesky(covariance), dtype=float)
    back = np.asarray(np.linalg.inv(spread), dtype=float)
    nearer = aim.moves._replace(step=aim.moves.step * (0.6 if accepted[COEFFICIENTS] < RARELY else 1.0))
    return aim._replace(moves=nearer, shift=z.mean(0), spread=spread, back=back)
