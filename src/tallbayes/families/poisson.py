"""Counts with the log link: y ~ Poisson(e^eta), log-likelihood y eta - e^eta - log y!, without its last term."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from tallbayes.families.compiled import INSIDE, OPTIONS, exp
from tallbayes.families.terms import bound3, chunk_derivatives, chunk_value, has_tag, third, value

Array = NDArray[np.float64]


class Log(NamedTuple):
    """Tag of Poisson counts."""

    @property
    def canonical(self) -> bool:
        """Whether the log-likelihood is y eta - b(eta)."""
        return True

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row, without the constant."""
        with np.errstate(over="ignore"):
            return np.asarray(y * eta - np.exp(eta))

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        mean = self.mean(eta)
        return y - mean, -mean, -mean

    def mean(self, eta: Array) -> Array:
        """Expected count."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(eta))


@overload(chunk_value, jit_options=OPTIONS)
def _(tag, y, eta, weights):
    if not has_tag(tag, Log):
        return None
    no_weights = isinstance(weights, types.NoneType)

    def total_value(tag, y, eta, weights):
        total = 0.0
        for i in range(eta.size):
            total += (1.0 if no_weights else weights[i]) * exp(eta[i])
        return -total

    return total_value


@overload(chunk_derivatives, jit_options=OPTIONS)
def _(tag, y, eta, weights, first, second):
    if not has_tag(tag, Log):
        return None
    no_weights = isinstance(weights, types.NoneType)

    def derivatives(tag, y, eta, weights, first, second):
        total = 0.0
        for i in range(eta.size):
            mean = (1.0 if no_weights else weights[i]) * exp(eta[i])
            total += mean
            first[i] = -mean
            second[i] = mean
        return -total

    return derivatives


@overload(value, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Log):
        return None
    return lambda tag, y, eta: y * eta - exp(eta)


@overload(third, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Log):
        return None
    return lambda tag, y, eta: -exp(eta)


@overload(bound3, jit_options=INSIDE)
def _(tag, y, low, high):
    if not has_tag(tag, Log):
        return None
    return lambda tag, y, low, high: exp(high)
