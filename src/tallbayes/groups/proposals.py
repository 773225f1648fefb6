"""Proposals for group effects: a sweep over coefficients, effects and their standard deviation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tallbayes.groups.scale import ScaleCode, log_density, new_log_scale
from tallbayes.sampling.proposals import Generators, Move, OneAtATime

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GroupSweep(OneAtATime):
    """A random walk on each coefficient and group effect in turn, then log tau from its density given the effects.

    That draw is a proposal like the others: its density cancels the posterior's, so that it is always accepted.
    """

    scale: ScaleCode = field(kw_only=True)  # prior of tau
    coefficients: int = field(kw_only=True)

    @property
    def updates(self) -> int:
        """One update a coefficient and effect, and one for tau."""
        return self.scales.size + 1

    def propose(self, theta: Array, update: int, rng: Generators) -> Move:
        """Move parameter number `update`."""
        if update < self.scales.size:
            return super().propose(theta, update, rng)
        effects, count = theta[:, self.coefficients : -1], theta.shape[1] - self.coefficients - 1
        squares = (effects**2).sum(1)
        moved = theta.copy()
        drawn = [new_log_scale(self.scale, count, *one) for one in zip(squares, rng, strict=True)]
        moved[:, -1] = drawn
        here, there = (
            np.array([log_density(self.scale, count, *one) for one in zip(squares, points[:, -1], strict=True)])
            for points in (theta, moved)
        )
        return Move(moved, here - there, update)

    def pick(self, theta: Array, rng: Generators) -> Move:
        """Move a parameter drawn at random for each chain."""
        updates = [int(generator.integers(self.updates)) for generator in rng]
        moves = [
            self.propose(theta[c : c + 1], update, [generator])
            for c, (update, generator) in enumerate(zip(updates, rng, strict=True))
        ]
        return Move(
            np.concatenate([move.theta for move in moves]), np.array([np.sum(move.log_q) for move in moves], float)
        )

    def scaled(self, by: float | Array) -> GroupSweep:
        """The same with the walks' scales multiplied."""
        factors = np.atleast_1d(by)
        return replace(self, scales=self.scales * (factors[:-1] if factors.size > 1 else factors))
