"""Surrogates: approximate log-likelihoods that screen proposals. Immutable once built.

A surrogate is chosen by a small description (`Subsample(10_000)`, `Taylor()`) and built when model and mode are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import refuse
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

    def follow(self, by_column: bool) -> Follower:
        """The approximate log-likelihood of chains that move one column at a time or all at once."""


class Description(Protocol):
    """Says which surrogate to build."""

    def build(self, model: Any, mode: Any, rng: np.random.Generator) -> Surrogate:
        """Build it once, before sampling; `mode` is None where the model has no use for one."""


AnySurrogate = Description | Callable[[Array], float]


@dataclass(frozen=True)
class Custom:
    """A surrogate from any function of one parameter vector.

    >>> surrogate = Custom(lambda theta: -0.5 * (theta**2).sum())
    >>> surrogate.log_likelihood(np.array([[0.0, 1.0], [2.0, 0.0]]))
    array([-0.5, -2. ])
    """

    function: Callable[[Array], float]
    size = 0
    sizes = np.zeros(1)
    touched = 0

    @property
    def name(self) -> str:
        """See `Surrogate`."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def build(self, model: Any, mode: Any, rng: np.random.Generator) -> Custom:
        """There is nothing to build."""
        if not model.whole:
            raise ValueError(
                "a function of the parameters is a surrogate for all rows, not for a shard's; describe one, such as "
                "tb.Subsample(5_000)"
            )
        return self

    def log_likelihood(self, params: Array) -> Array:
        """See `Surrogate`. What is not finite would shut chains out of where the posterior is positive."""
        values = np.array([self._value(theta) for theta in params])
        if not np.isfinite(values).all():
            worst = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"surrogate {self.name!r} must be a finite number everywhere, but is {values[worst]} at "
                f"{np.array2string(params[worst], precision=4, threshold=8)}"
            )
        return values

    def _value(self, theta: Array) -> float:
        try:
            value = self.function(theta)
        except Exception as error:
            raise ValueError(
                f"surrogate {self.name!r} failed at {np.array2string(theta, precision=4, threshold=8)}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
            refuse(f"what surrogate {self.name!r} returns", "one number", value)
        return float(value)

    def follow(self, by_column: bool) -> Follower:
        """See `Surrogate`."""
        return Direct(self.log_likelihood)


def described(chosen: AnySurrogate) -> Description:
    """The description itself, or that of a function of the parameters."""
    if not isinstance(chosen, type):
        if hasattr(chosen, "build"):
            return chosen
        if callable(chosen):
            return Custom(chosen)
    kinds = "tb.Taylor, tb.CaseControl, tb.Subsample, tb.Stratified or a function of the parameters"
    refuse("surrogate", kinds, chosen)


def columns_of(chosen: AnySurrogate | None) -> tuple[str, ...]:
    """Columns of the data that a surrogate needs besides those of the formula; a user's own may name some or none."""
    return tuple(getattr(chosen, "columns", ()))


def is_close(surrogate: Surrogate) -> bool:
    """Whether it is so close to the log-likelihood that long subchains pay; a user's own need not say so."""
    return bool(getattr(surrogate, "close", False))
