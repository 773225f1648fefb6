"""From the draws of shards to draws of all rows.

Both combiners take the shards' posteriors for Gaussian, with the covariances V_s of their draws and W_s = V_s^-1. Then
the posterior of all rows is Gaussian with precision W = sum W_s, and

    average     theta = W^-1 sum W_s theta_s of one draw from each shard has that distribution;
    gaussian    draws come from it directly, with longer tails, and are resampled with weights p / q from all rows. That
                corrects them, as far as their weights are even.

Reference: S. L. Scott et al. (2016), "Bayes and Big Data: the consensus Monte Carlo algorithm".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.sampling.importance import POINTS, Errors, LogPosterior, moments, seen, spread_out, weigh

if TYPE_CHECKING:
    from tallbayes.sampling.consensus import ConsensusKernel

Array = NDArray[np.float64]

MOST_POINTS = 4_000  # of which the gaussian combiner's draws are taken
COMBINERS = ("average", "gaussian")
SAID = {
    "average": "their draws are averaged as if the posterior of each were Gaussian",
    "gaussian": "draws from the product of Gaussians that fit them are resampled with weights from all rows",
}


def precisions(draws: Array) -> Array:
    """W_s of each shard's draws (shard, chain, draw, parameter)."""
    _, chains, count, p = draws.shape
    if chains * count <= p:
        raise ValueError(f"{chains * count} draws of a shard are too few for the covariance of {p} parameters")
    found = np.empty((len(draws), p, p))
    for shard, one in enumerate(draws):
        if not spread_out(one):
            raise ValueError(f"chains on shard {shard + 1} of {len(draws)} hardly moved in some parameter; draw more")
        found[shard] = _inverse(moments(one)[1])
    return found


def _inverse(matrix: Array) -> Array:
    """Of a covariance or precision, whose entries may differ by many orders of magnitude."""
    scale = 1 / np.sqrt(np.diag(matrix))
    return np.asarray(scale[:, None] * np.linalg.inv(matrix * np.outer(scale, scale)) * scale)


def average(draws: Array) -> Array:
    """Averages of the shards' draws, one for each, weighted with their precisions: (chain, draw, parameter).

    >>> rng = np.random.default_rng(1)
    >>> shards = rng.normal([[0.0], [3.0]], [[1.0], [0.5]], (1, 1000, 2, 1)).transpose(2, 0, 1, 3)
    >>> combined = average(shards)
    >>> float(combined.mean().round(1)), float(combined.std().round(2))
    (2.4, 0.45)
    """
    if len(draws) == 1:
        return np.asarray(draws[0])
    weights = precisions(draws)
    shares = _inverse(weights.sum(0)) @ weights
    return np.asarray(np.einsum("sij,sctj->cti", shares, draws))


def noise(draws: Array) -> float:
    """The largest Monte Carlo error of an average's mean, in posterior sds; NaN for one chain or one shard.

    Weights are estimates too, and what they err by is multiplied by the distance of the shards' means from each other,
    which grows with the number of shards. No diagnostic of the averaged draws sees that, since all of them share the
    weights. So each chain is averaged with weights of its own, and the spread of the chains' means tells.
    """
    shards, chains, count, p = draws.shape
    if shards == 1 or chains == 1 or count <= p:
        return np.nan
    alone = np.array([average(draws[:, [chain]])[0] for chain in range(chains)])
    spread = alone.mean(1).std(0, ddof=1) / chains**0.5
    return float((spread / alone.std(1).mean(0)).max())


def product(draws: Array) -> tuple[Array, Array]:
    """Mean and covariance of the product of the Gaussians that fit the shards' draws."""
    weights = precisions(draws)
    covariance = _inverse(weights.sum(0))
    return covariance @ np.einsum("sij,sj->i", weights, draws.mean((1, 2))), covariance


class Combined(NamedTuple):
    """Draws of all rows, and how far they are off."""

    theta: Array  # (chain, draw, width)
    errors: Errors
    names: tuple[str, ...]  # of the parameters whose errors are known


def combine(kernel: ConsensusKernel, parts: list[Array], rng: np.random.Generator) -> Combined:
    """Draws of all rows from those of each shard (chain, draw, parameter)."""
    model = kernel.model
    found = combine_draws(kernel.combiner, np.stack(parts), model.log_posterior, POINTS, rng)
    return Combined(*found, model.names)


def combine_draws(
    combiner: str, draws: Array, log_posterior: LogPosterior, points: int, rng: np.random.Generator
) -> tuple[Array, Errors]:
    """Draws of all rows from those of the shards (shard, chain, draw, parameter), and how far they are off."""
    if combiner == "average":
        found = average(draws)
        return found, seen(found, log_posterior, points, rng)._replace(noise=noise(draws))
    chains, count = draws.shape[1:3]
    weighed = weigh(*product(draws), log_posterior, min(MOST_POINTS, chains * count), rng)
    found = weighed.resample(chains, count, rng)
    return found, Errors.seen(found, weighed, corrected=True)
