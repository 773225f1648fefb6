"""The log-likelihood of several chains: where they are, and where they might go.

A kernel asks `at(trail, theta, column, chains)` for the log-likelihood of proposed points and says with `accept` which
chains went there. Two ways to answer: `Direct` computes each point from scratch; a `Track`, which lives with the rows,
keeps every row's linear predictor and serves moves of a single column at a fraction of the price. Full data and
surrogates answer alike. What changes as chains move is in their trail: plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.families import Tag
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.tasks import LogLikelihood
from tallbayes.rows.track import Track, Trail

Array = NDArray[np.float64]
Integers = NDArray[np.intp]


class Follower(Protocol):
    """Follows chains; all that it knows of them is in their trail."""

    def start(self, theta: Array) -> Trail:
        """Chains at the rows of theta."""

    def at(self, trail: Trail, theta: Array, column: int | None, chains: Integers) -> Array:
        """Log-likelihood of `chains` at their rows of `theta`, which differs from where they are in `column` only."""

    def accept(self, trail: Trail, theta: Array, column: int | None, chains: Integers, value: Array) -> None:
        """These chains moved to their rows of `theta`, where the log-likelihood is `value`."""

    def refresh(self, trail: Trail) -> None:
        """Forget accumulated rounding errors."""


class Likelihood(Protocol):
    """The log-likelihood of some rows."""

    @property
    def rows(self) -> RowsAtHand:
        """All of them, or a weighted subsample."""

    @property
    def sizes(self) -> Array:
        """Rows touched when one entry of a parameter vector moves, or (1,) for any."""

    def log_likelihood(self, params: ArrayLike) -> Array:
        """Of each parameter vector: one pass over the rows."""

    def follow(self, by_column: bool) -> Follower:
        """That of chains that move one column at a time or all at once."""


@dataclass(frozen=True)
class FamilyLikelihood:
    """That of linear predictors under a family."""

    rows: RowsAtHand
    tag: Tag

    @property
    def sizes(self) -> Array:
        """See `Likelihood`."""
        return self.rows.keep(Track, self.tag).sizes

    def log_likelihood(self, params: ArrayLike) -> Array:
        """See `Likelihood`."""
        return np.asarray(self.rows.reduce(LogLikelihood(self.tag), params))

    def follow(self, by_column: bool) -> Follower:
        """See `Likelihood`."""
        return self.rows.keep(Track, self.tag) if by_column else Direct(self.log_likelihood)


@dataclass(frozen=True)
class Direct:
    """Computes the log-likelihood of each point from scratch."""

    log_likelihood: Callable[[Array], Array]

    def start(self, theta: Array) -> Trail:
        """See `Follower`."""
        return Trail(np.array(theta, dtype=float), self.log_likelihood(theta))

    def at(self, trail: Trail, theta: Array, column: int | None, chains: Integers) -> Array:
        """See `Follower`."""
        return self.log_likelihood(theta[chains])

    def accept(self, trail: Trail, theta: Array, column: int | None, chains: Integers, value: Array) -> None:
        """See `Follower`."""
        trail.theta[chains], trail.value[chains] = theta[chains], value

    def refresh(self, trail: Trail) -> None:
        """Nothing piles up here."""
