"""Proposals: where a chain might go next, and the log of the proposal densities' ratio, log q(back) - log q(there).

`propose` makes the update number 0, 1, ... of a draw, in a fixed order; a kernel that decides after each update may
use it. `pick` makes one update chosen at random, so that a sequence of picks is reversible with respect to whatever
each accepted update is reversible to: this is what runs inside a subchain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Generators = list[np.random.Generator]  # one a chain


class Move(NamedTuple):
    """A proposed point for each chain."""

    theta: Array  # (chains, p)
    log_q: Array | float  # (chains,) log q(theta' -> theta) - log q(theta -> theta')
    column: int | None = None  # the only coefficient that differs, if it is the same for all chains


class Proposal(Protocol):
    """Makes moves for several chains at once, each from its own generator."""

    @property
    def name(self) -> str:
        """What it is called in results, and where it is chosen by text."""

    @property
    def updates(self) -> int:
        """Updates a draw."""

    @property
    def by_column(self) -> bool:
        """Whether `propose` moves one coefficient at a time."""

    @property
    def walks(self) -> bool:
        """Whether its steps have a length, which warm-up can tune: then it has `scaled(by)`."""

    def propose(self, theta: Array, update: int, rng: Generators) -> Move:
        """The given update of a draw."""

    def pick(self, theta: Array, rng: Generators) -> Move:
        """One update chosen at random."""


class Start(Protocol):
    """Where chains start."""

    def draw(self, rng: Generators) -> Array:
        """A parameter vector for each generator."""


def _normals(rng: Generators, size: int) -> Array:
    return np.array([generator.standard_normal(size) for generator in rng])


@dataclass(frozen=True)
class OneAtATime:
    """A random walk on each coefficient in turn, with a scale of its own."""

    scales: Array
    name = "one-at-a-time"
    by_column = True
    walks = True

    @property
    def updates(self) -> int:
        """One update a coefficient."""
        return self.scales.size

    def propose(self, theta: Array, update: int, rng: Generators) -> Move:
        """Move coefficient number `update`."""
        moved = theta.copy()
        moved[:, update] += self.scales[update] * _normals(rng, 1)[:, 0]
        return Move(moved, 0.0, update)

    def pick(self, theta: Array, rng: Generators) -> Move:
        """Move a coefficient drawn at random for each chain."""
        moved = theta.copy()
        columns = np.array([generator.integers(self.scales.size) for generator in rng])
        moved[np.arange(len(rng)), columns] += self.scales[columns] * _normals(rng, 1)[:, 0]
        return Move(moved, 0.0)

    def scaled(self, by: float | Array) -> OneAtATime:
        """The same with its scales multiplied."""
        return replace(self, scales=self.scales * by)


class _Block:
    """What proposals that move all coefficients at once have in common."""

    updates = 1
    by_column = False
    walks = False

    def propose(self, theta: Array, update: int, rng: Generators) -> Move:
        """Move all coefficients."""
        return self.pick(theta, rng)

    def pick(self, theta: Array, rng: Generators) -> Move:
        """Move all coefficients."""
        raise NotImplementedError


@dataclass(frozen=True)
class RandomWalk(_Block):
    """theta' = theta + scale * factor z, z standard normal."""

    factor: Array
    scale: float
    name = "random-walk"
    walks = True

    def pick(self, theta: Array, rng: Generators) -> Move:
        """Move all coefficients."""
        return Move(theta + self.scale * _normals(rng, theta.shape[1]) @ self.factor.T, 0.0)

    def scaled(self, by: float | Array) -> RandomWalk:
        """The same with its scale multiplied."""
        return replace(self, scale=self.scale * np.asarray(by).item())


@dataclass(frozen=True)
class Independence(_Block):
    """theta' = center + factor t, with t Student-t with `df` degrees of freedom (normal if infinite)."""

    center: Array
    factor: Array
    df: float = np.inf
    name = "independence"

    def __post_init__(self) -> None:
        if not self.df > 0:
            raise ValueError(f"degrees of freedom must be positive, not {self.df}")

    def pick(self, theta: Array, rng: Generators) -> Move:
        """Move all coefficients."""
        z = _normals(rng, theta.shape[1])
        if np.isfinite(self.df):
            z /= np.sqrt([generator.chisquare(self.df) / self.df for generator in rng])[:, None]
        here = np.asarray(np.linalg.solve(self.factor, (theta - self.center).T).T)
        return Move(self.center + z @ self.factor.T, self._log_density(here) - self._log_density(z))

    def draw(self, rng: Generators) -> Array:
        """A point for each generator."""
        return self.pick(np.tile(self.center, (len(rng), 1)), rng).theta

    def _log_density(self, z: NDArray[np.floating[Any]]) -> Array:
        squares = (z * z).sum(1)
        if np.isfinite(self.df):
            return np.asarray(-0.5 * (self.df + z.shape[1]) * np.log1p(squares / self.df))
        return np.asarray(-0.5 * squares)


@dataclass(frozen=True)
class Scattered:
    """Starting points farther apart than the posterior is wide, one mode after the other, where there are several.

    Chains that begin in the same Gaussian agree for as long as none of them leaves it; these do not.
    """

    modes: tuple[Independence, ...]

    def draw(self, rng: Generators) -> Array:
        """A point for each generator."""
        at = [self.modes[c % len(self.modes)] for c in range(len(rng))]
        return np.concatenate([one.draw([generator]) for one, generator in zip(at, rng, strict=True)])


@dataclass(frozen=True)
class Mixture(_Block):
    """One of two block proposals, the first with the given probability: each is reversible, so their mixture is."""

    first: _Block
    second: _Block
    probability: float = 0.5
    name = "mixture"

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"a mixture's probability must lie between 0 and 1, not {self.probability}")

    def pick(self, theta: Array, rng: Generators) -> Move:
        """Move all coefficients."""
        heads = np.array([generator.random() < self.probability for generator in rng])
        moves = self.first.pick(theta, rng), self.second.pick(theta, rng)
        log_q = np.where(heads, moves[0].log_q, moves[1].log_q)
        return Move(np.where(heads[:, None], moves[0].theta, moves[1].theta), log_q)
