"""The log-likelihood of several chains: where they are, and where they might go.

A kernel asks `at(theta, column, chains)` for the log-likelihood of proposed points and says with `accept` which
chains went there. Two ways to answer: `Direct` computes each point from scratch; `rows.Track` keeps every row's
linear predictor and serves moves of a single column at a fraction of the price. Full data and surrogates answer
alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.intp]


class Follower(Protocol):
    """Follows chains; `value` (chains,) is the log-likelihood where they are."""

    value: Array

    def at(self, theta: Array, column: int | None, chains: Integers) -> Array:
        """Log-likelihood of `chains` at their rows of `theta`, which differs from where they are in `column` only."""

    def accept(self, theta: Array, column: int | None, chains: Integers, value: Array) -> None:
        """These chains moved to their rows of `theta`, where the log-likelihood is `value`."""

    def refresh(self) -> None:
        """Forget accumulated rounding errors."""


class Direct:
    """Computes the log-likelihood of each point from scratch."""

    def __init__(self, log_likelihood: Callable[[Array], Array], theta: Array) -> None:
        self._log_likelihood = log_likelihood
        self.value = log_likelihood(theta)

    def at(self, theta: Array, column: int | None, chains: Integers) -> Array:
        """See `Follower`."""
        return self._log_likelihood(theta[chains])

    def accept(self, theta: Array, column: int | None, chains: Integers, value: Array) -> None:
        """See `Follower`."""
        self.value[chains] = value

    def refresh(self) -> None:
        """Nothing piles up here."""
