"""Surrogates: approximate log-likelihoods that screen proposals. Immutable once built.

A surrogate is chosen by a small description (`Subsample(10_000)`, `Taylor()`) and built when model and mode are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.groups.mode import AnyMode
from tallbayes.models.glm import GLM
from tallbayes.models.likelihood import Direct, Follower

Array = NDArray[np.float64]


class Surrogate(Protocol):
    """An approximate log-likelihood."""

    @property
    def name(self) -> str:
        """How it was described."""

    @property
    def size(self) -> int:
        """Rows that one evaluation touches."""

    @property
    def sizes(self) -> Array:
        """Rows that it touches when one entry of a parameter vector moves, or (1,) for any."""

    @property
    def touched(self) -> int:
        """Rows touched so far."""

    def log_likelihood(self, params: Array) -> Array:
        """Approximate log-likelihood of each parameter vector, up to a constant."""

    def follow(self, theta: Array, by_column: bool) -> Follower:
        """The approximate log-likelihood of chains that move one column at a time or all at once."""


class Description(Protocol):
    """Says which surrogate to build."""

    def build(self, model: GLM, mode: AnyMode, rng: np.random.Generator) -> Surrogate:
        """Build it once, before sampling."""


class Custom:
    """A surrogate from any function of one parameter vector.

    >>> surrogate = Custom(lambda theta: -0.5 * (theta**2).sum())
    >>> surrogate.log_likelihood(np.array([[0.0, 1.0], [2.0, 0.0]]))
    array([-0.5, -2. ])
    """

    size = 0
    sizes = np.zeros(1)
    touched = 0

    def __init__(self, function: Callable[[Array], float]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def log_likelihood(self, params: Array) -> Array:
        """See `Surrogate`. What is not finite would shut chains out of where the posterior is positive."""
        values = np.array([float(self._function(theta)) for theta in params])
        if not np.isfinite(values).all():
            worst = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"surrogate {self.name!r} must be a finite number everywhere, but is {values[worst]} at "
                f"{np.array2string(params[worst], precision=4, threshold=8)}"
            )
        return values

    def follow(self, theta: Array, by_column: bool) -> Follower:
        """See `Surrogate`."""
        return Direct(self.log_likelihood, theta)


def build(
    chosen: Description | Callable[[Array], float], model: GLM, mode: AnyMode, rng: np.random.Generator
) -> Surrogate:
    """The surrogate that a description, or any function of the parameters, stands for."""
    if hasattr(chosen, "build"):
        return chosen.build(model, mode, rng)
    if callable(chosen):
        return Custom(chosen)
    raise TypeError(
        f"surrogate must be tb.Taylor, tb.CaseControl, tb.Subsample, tb.Stratified or a function of the parameters, "
        f"not {type(chosen).__name__}"
    )
