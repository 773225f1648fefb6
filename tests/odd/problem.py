"""What the right posterior is of, and what is known of it once it was sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class LogPosterior(Protocol):
    """A log posterior that can be asked for anywhere."""

    def log_posterior(self, theta: Array) -> Array:
        """That of parameters (draw, parameter) in the order of `Problem.names`, up to a constant."""

    def noise(self, theta: Array) -> float:
        """How far rounding may put it off."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What the right posterior is of: the design by coefficient, the outcomes, and what else enters."""

    columns: Mapping[str, Any]
    y: Any
    family: str = "logit"
    shape: float = 1.0
    trials: Any = None
    weights: Any = None
    offset: Any = None
    groups: tuple[str, Any] | None = None  # the name of the group's column, and the level of each row
    arrays: dict[str, Array] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        y = np.asarray(self.y, float)
        given = {"weights": (self.weights, 1.0), "offset": (self.offset, 0.0), "trials": (self.trials, 1.0)}
        for name, (values, plain) in given.items():
            self.arrays[name] = np.broadcast_to(np.asarray(plain if values is None else values, float), y.shape)
        self.arrays["y"] = y
        self.arrays["x"] = np.stack([np.broadcast_to(np.asarray(one, float), y.shape) for one in self.columns.values()])
        if self.groups is not None:
            self.arrays["codes"] = np.unique(self.groups[1], return_inverse=True)[1].astype(float)

    @property
    def levels(self) -> list[Any]:
        return [] if self.groups is None else sorted(set(self.groups[1]))

    @property
    def names(self) -> list[str]:
        """Of all parameters, as fits name them, but in an order of our own."""
        found = list(self.columns)
        if self.groups is not None:
            found += [f"1|{self.groups[0]}[{level}]" for level in self.levels]
        found += ["sd"] if self.family == "gaussian" else []
        return found + ([f"1|{self.groups[0]}_sigma"] if self.groups is not None else [])


@dataclass(frozen=True)
class Reference:
    """Posterior draws with weights that add up to one, and the log posterior."""

    draws: Array  # (draw, parameter)
    weights: Array
    target: LogPosterior

    def __post_init__(self) -> None:
        self.weights.flags.writeable = False

    @property
    def mean(self) -> Array:
        return self.weights @ self.draws

    @property
    def sd(self) -> Array:
        return np.sqrt(self.weights @ (self.draws - self.mean) ** 2)

    def error_of_mean(self) -> Array:
        return np.sqrt(self.weights**2 @ (self.draws - self.mean) ** 2)

    def error_of_sd(self) -> Array:
        scale = np.where(self.sd > 0, self.sd, 1.0)
        away = ((self.draws - self.mean) / scale) ** 2 - 1
        return np.sqrt(self.weights**2 @ away**2) * scale / 2

    @property
    def kurtosis(self) -> Array:
        return self.weights @ ((self.draws - self.mean) / np.where(self.sd > 0, self.sd, 1.0)) ** 4

    def quantiles(self, share: float) -> Array:
        """The points below which a share of each parameter is."""
        found = np.empty(self.draws.shape[1])
        for j, column in enumerate(self.draws.T):
            order = np.argsort(column)
            place = np.searchsorted(np.cumsum(self.weights[order]), share)
            found[j] = column[order[min(place, len(order) - 1)]]
        return found

    def error_of_share(self, ends: Array) -> Array:
        """The variance of the share below some points."""
        below = self.draws <= ends
        return self.weights**2 @ (below - self.weights @ below) ** 2
