"""Priors: independent densities, one for each coefficient."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Normal:
    """Normal prior for one coefficient, or for all of them.

    >>> Normal(0, 2.5)
    Normal(mean=0, sd=2.5)
    """

    mean: float = 0.0
    sd: float = 10.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.mean):
            raise ValueError(f"prior mean must be a finite number, not {self.mean}")
        if not (np.isfinite(self.sd) and self.sd > 0):
            raise ValueError(f"prior sd must be a positive number, not {self.sd}")


DEFAULT = Normal(0.0, 10.0)


@dataclass(frozen=True)
class Prior:
    """The joint prior of all coefficients: independent Normals with these means and sds.

    Every method takes one parameter vector of shape (p,) or several of shape (chains, p).
    """

    mean: Array
    sd: Array

    @classmethod
    def of(cls, prior: Normal | Mapping[str, Normal] | None, coefficients: Sequence[str]) -> Prior:
        """One prior for all coefficients, or priors by coefficient name (the rest get Normal(0, 10)).

        >>> Prior.of({"fico": Normal(0, 1)}, ["Intercept", "fico"]).sd
        array([10.,  1.])
        """
        if prior is None or isinstance(prior, Normal):
            chosen = [prior or DEFAULT] * len(coefficients)
        elif isinstance(prior, Mapping):
            for name in prior:
                if name not in coefficients:
                    near = difflib.get_close_matches(str(name), coefficients, 1)
                    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(coefficients)}"
                    raise ValueError(f"prior given for {name!r}, which is no coefficient of this model; {hint}")
            chosen = [prior.get(name, DEFAULT) for name in coefficients]
        else:
            raise TypeError(f"prior must be tb.Normal or a dict of them by coefficient, not {type(prior).__name__}")
        for one in chosen:
            if not isinstance(one, Normal):
                raise TypeError(f"a coefficient's prior must be tb.Normal, not {type(one).__name__}")
        return cls(np.array([one.mean for one in chosen], float), np.array([one.sd for one in chosen], float))

    def log_density(self, theta: Array) -> Array:
        """Log density, with its constant."""
        z = (theta - self.mean) / self.sd
        constant = np.log(self.sd).sum() + 0.5 * self.sd.size * np.log(2 * np.pi)
        return np.asarray(-0.5 * (z * z).sum(-1) - constant)

    def gradient(self, theta: Array) -> Array:
        """Gradient of the log density."""
        return (self.mean - theta) / self.sd**2

    @property
    def precision(self) -> Array:
        """Minus the curvature of the log density: one number a coefficient."""
        return 1 / self.sd**2

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draws of shape (size, p)."""
        return self.mean + self.sd * rng.standard_normal((size, self.mean.size))
