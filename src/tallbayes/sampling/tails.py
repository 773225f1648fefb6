"""Tails under Student-t priors: how long the proposals' must be, and whether they reach the posterior's.

With Normal priors a look a few standard deviations out is enough, since log densities are concave. A Student-t prior
falls as a power of the distance. Where it has a say in a coefficient at all, all rows are asked how high the posterior
is along that coefficient, at distances that double until nothing is left. Where it is much higher than the density of
the proposals, and holds a mass worth naming, a chain that got there would stay for long, and one that did not would
never know.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.cautions import TailWarning, warn
from tallbayes.models.priors import Prior
from tallbayes.sampling import shape as shapes

if TYPE_CHECKING:
    from tallbayes.sampling.thinned import ThinnedKernel

Array = NDArray[np.float64]

LONGEST_TAIL = 1.1  # power of the distance with which proposals fall at least, or they would have no density
HAS_A_SAY = 0.04  # posterior sd over prior scale above which the prior shapes the tails
DRAWN = 64  # proposals that tell how high the posterior is above their density where most of them are
DOUBLED = 18  # distances at most
STUCK, WORTH = math.log(30.0), math.log(1e-4)  # steps that a chain would stay, and mass at a distance, that matter


def tail_powers(prior: Prior, factor: Array) -> Array:
    """With what power of the distance the prior falls along each axis, at least; infinite where it is Normal."""
    powers = np.where(np.isinf(prior.df), np.inf, np.maximum(2 * prior.exponent, LONGEST_TAIL))
    return np.asarray(np.where(factor != 0, powers[:, None], np.inf).min(0))


def warn_of_tails(kernel: ThinnedKernel, rng: np.random.Generator) -> None:
    """Warn of coefficients whose tails the proposals do not reach."""
    names = [repr(kernel.model.coefficients[j]) for j in unreached(kernel, rng)]
    if names:
        warn(
            f"the Student-t prior gives {', '.join(names)} long tails that the proposals hardly reach: their intervals "
            "cannot be vouched for; use a Normal prior, or one with more degrees of freedom",
            TailWarning,
        )


def unreached(kernel: ThinnedKernel, rng: np.random.Generator) -> list[int]:
    """The coefficients along which the posterior has mass far above the density of the proposals.

    Looked at is each coefficient alone, and with all others following it as the Gaussian has it. Those that flat
    directions move are left out: they have proposals of their own.
    """
    model, mode = kernel.model, kernel.mode
    asks = np.isfinite(model.prior.df) & (mode.sd > HAS_A_SAY * model.prior.scale)
    asks &= ~(mode.factor[:, : mode.flat] != 0).any(1)
    columns = np.repeat(np.flatnonzero(asks), 4)
    if not columns.size:
        return []
    covariance = mode.factor @ mode.factor.T
    alone, together = np.diag(mode.conditional_sd), covariance / mode.sd
    rays = np.stack([side * kind[:, j] for j in columns[::4] for kind in (alone, together) for side in (-1, 1)])
    near = np.empty((DRAWN, mode.theta.size))
    shapes.draws(kernel.target.shape, rng, near)
    usual = float(np.median(_log_excess(kernel, near)))
    top, found = float(model.log_posterior(mode.theta[None])[0]), set[int]()
    distance = shapes.REACH
    for _ in range(DOUBLED):
        z = np.ascontiguousarray(np.linalg.solve(mode.factor, (distance * rays).T).T)
        heights = model.log_posterior(mode.theta + distance * rays) - top
        excess = heights + top - shapes.log_densities(kernel.target.shape, z) - usual
        mass = heights + math.log(distance)
        found |= set(columns[(mass > WORTH) & (excess > STUCK)].tolist())
        alive = mass > WORTH
        columns, rays, distance = columns[alive], rays[alive], 2 * distance
        if not columns.size:
            break
    return sorted(found)


def _log_excess(kernel: ThinnedKernel, z: Array) -> Array:
    """Log of the posterior over the density of the proposals."""
    theta = kernel.mode.theta + z @ kernel.mode.factor.T
    return np.asarray(kernel.model.log_posterior(theta) - shapes.log_densities(kernel.target.shape, z))
