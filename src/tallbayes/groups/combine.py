"""From the draws of shards of whole groups to draws of all rows.

Coefficients and log tau are in all shards, and are combined as in `sampling/combine.py`. A group's effect is in one
shard only, where it was drawn with that shard's coefficients: so it is drawn anew from its exact density given what all
shards say (`given.py`). The scale is that of log tau, and a shard's share of the prior is that of the density of log
tau.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.steady import exp
from tallbayes.groups.given import Given
from tallbayes.groups.model import Hierarchical
from tallbayes.sampling.combine import Combined, combine_draws
from tallbayes.sampling.consensus import ConsensusKernel
from tallbayes.sampling.importance import seen

Array = NDArray[np.float64]

POINTS = 200  # with which draws are held against the full data; effects are integrated out, which costs passes


def combine_groups(kernel: ConsensusKernel, parts: list[Array], rng: np.random.Generator) -> Combined:
    """Draws of all rows from those of each shard (chain, draw, parameter)."""
    model = cast(Hierarchical, kernel.model)
    p, names = len(model.coefficients), (*model.coefficients, model.names[-1])
    given, around = model.rows.keep(Given, model.family.tag), np.empty(model.rows.groups)
    for shard, part in zip(kernel.kernels, parts, strict=True):
        around[cast(Hierarchical, shard.model).places] = part[..., p:-1].mean((0, 1))

    def marginal(shared: Array) -> Array:
        beta, log_tau = np.ascontiguousarray(shared[:, :p]), shared[:, p]
        tau = exp(log_tau)
        prior = model.prior.log_density(beta) + model.group_prior.log_density(tau) + log_tau
        return np.asarray(given.log_integral(beta, tau, around) + prior)

    shared = np.stack([np.concatenate([part[..., :p], part[..., -1:]], axis=2) for part in parts])
    if len(parts) == 1:
        return Combined(parts[0], seen(shared[0], marginal, POINTS, rng), names)
    found, errors = combine_draws(kernel.combiner, shared, marginal, POINTS, rng)

    theta = np.empty((*found.shape[:2], model.width))
    theta[..., :p], theta[..., -1] = found[..., :p], found[..., p]

    def effects(chain: int, own: np.random.Generator) -> None:
        beta, tau = np.ascontiguousarray(found[chain, :, :p]), exp(found[chain, :, p])
        theta[chain, :, p:-1] = given.draw(beta, tau, around, own)

    with ThreadPoolExecutor(kernel.workers) as pool:
        list(pool.map(effects, range(len(found)), rng.spawn(len(found))))
    return Combined(theta, errors, names)
