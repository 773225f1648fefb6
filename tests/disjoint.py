"""Posteriors of many coefficients that are known: each row speaks of one coefficient, so each is a quadrature alone.

Row i has one number z_i in the column of its level, so the coefficients phi of the levels are independent a posteriori,
and each has a one-dimensional density. With an orthogonal matrix A and units u, the model is fitted with the columns
A z / u instead, which are dense and in unlike units. Its coefficients theta = u A phi have the priors N(0, (s u)^2)
where those of phi have N(0, s^2), and phi = A' (theta / u) is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from tallbayes.models.glm import GLM
from tallbayes.models.priors import Normal
from tallbayes.sampling.kernel import Streams

PRIOR_SD = 2.0
TAILS = (0.005, 0.05)


def log_likelihood(family: str, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Up to what does not depend on eta."""
    return y * eta - (np.exp(eta) if family == "poisson" else np.logaddexp(0.0, eta))


@dataclass(frozen=True)
class Disjoint:
    """A model, and its posterior by quadrature."""

    model: GLM
    rotation: np.ndarray  # (p, p) A
    units: np.ndarray  # (p,)
    grid: np.ndarray  # (p, m) values of each phi
    probability: np.ndarray  # (p, m)

    @classmethod
    def make(
        cls, p: int, rows: int, family: str = "bernoulli", intercept: float = -2.5, wild: float = 4.0, seed: int = 1
    ) -> Disjoint:
        """Levels of unlike size, weights and offsets, columns in units from 10^-wild to 10^wild."""
        rng = np.random.default_rng([seed, p, rows])
        level = rng.choice(p, rows, p=rng.dirichlet(np.full(p, 5.0)))
        z = rng.choice([-1.0, 1.0], rows, p=[0.25, 0.75]) * rng.gamma(4.0, 0.25, rows)
        weights, offset = rng.integers(1, 3, rows).astype(float), intercept + 0.5 * rng.standard_normal(rows)
        eta = offset + z * rng.normal(0.0, 0.7, p)[level]
        y = (rng.poisson(np.exp(eta)) if family == "poisson" else rng.random(rows) < special.expit(eta)).astype(float)
        rotation = stats.ortho_group.rvs(p, random_state=rng)
        units = 10.0 ** rng.uniform(-wild, wild, p)
        prior = {f"x{j}": Normal(0.0, PRIOR_SD * unit) for j, unit in enumerate(units)}
        design = z[:, None] * rotation.T[level] / units
        model = GLM.from_arrays(design, y, family, prior, weights=weights, offset=offset)
        grid, probability = np.empty((2, p, 4_001))
        for j in range(p):
            own = level == j

            def height(phi: np.ndarray, own: np.ndarray = own) -> np.ndarray:
                terms = log_likelihood(family, y[own], offset[own] + z[own] * phi[:, None])
                return terms @ weights[own] - 0.5 * (phi / PRIOR_SD) ** 2

            rough = np.linspace(-8, 8, 4_001) * PRIOR_SD
            heights = height(rough)
            inside = rough[heights > heights.max() - 40]
            grid[j] = np.linspace(inside[0], inside[-1], grid.shape[1])
            heights = height(grid[j])
            probability[j] = np.exp(heights - heights.max())
            probability[j] /= probability[j].sum()
        return cls(model, rotation, units, grid, probability)

    def draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws of theta (size, p) from the posterior."""
        phi = np.empty((size, len(self.grid)))
        for j, (values, probability) in enumerate(zip(self.grid, self.probability, strict=True)):
            phi[:, j] = np.interp(rng.random(size), np.cumsum(probability) - 0.5 * probability, values)
        return phi @ self.rotation.T * self.units

    def p_value(self, theta: np.ndarray) -> float:
        """Smallest p-value that independent draws (draw, p) are from the posterior, corrected for their number.

        For each coefficient a Kolmogorov-Smirnov test, and binomial tests of the shares in both tails: all exact.
        """
        phi, found = theta / self.units @ self.rotation, []
        for j, (values, probability) in enumerate(zip(self.grid, self.probability, strict=True)):
            place = np.interp(phi[:, j], values, np.cumsum(probability) - 0.5 * probability)
            found.append(stats.kstest(place, "uniform").pvalue)
            for far in (place, 1 - place):
                found += [stats.binomtest(int((far < tail).sum()), len(far), tail).pvalue for tail in TAILS]
        return float(min(1.0, len(found) * min(found)))

    def departure(self, kernel: Any, steps: int, chains: int, seed: int) -> float:
        """p-value that chains which start in the posterior are still there."""
        streams = Streams.spawn(seed, chains)
        start = self.draws(chains, np.random.default_rng([seed, 1]))
        return self.p_value(kernel.advance(kernel.start(streams, theta=start), steps, streams)[0].theta)
