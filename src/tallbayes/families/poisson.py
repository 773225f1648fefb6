"""Counts with the log link: y ~ Poisson(e^eta), log-likelihood y eta - e^eta - log y!, without its last term."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tallbayes.families.chunks import largest, sum_derivatives, sum_values
from tallbayes.families.compiled import exp, inside
from tallbayes.families.quadrature import integrate
from tallbayes.families.terms import entry, table

Array = NDArray[np.float64]


class Log(NamedTuple):
    """Tag of Poisson counts."""

    @property
    def terms(self) -> NDArray[np.intp]:
        """What compiled loops ask for."""
        return table(*TERMS)

    @property
    def trust(self) -> str:
        """What is known of bounds on third derivatives."""
        return "proved"

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


@inside(forceinline=True)
def _value(y, eta):
    """-e^eta."""
    return -exp(eta)


@inside(forceinline=True)
def _derivatives(y, eta):
    mean = exp(eta)
    return -mean, -mean, mean


@inside(forceinline=True)
def _third(y, eta):
    return -exp(eta)


@inside(forceinline=True)
def _bound(y, low, high):
    return exp(high)


# By numba itself: what LLVM inlines into a loop of eight nodes it unrolls before, and then does not vectorise.
_inlined = njit(inline="always")(_third.py_func)


@entry
def chunk_value(y, eta, weights):
    return sum_values(_value, y, eta, weights)


@entry
def chunk_derivatives(y, eta, weights, first, second):
    return sum_derivatives(_derivatives, y, eta, weights, first, second)


@entry
def chunk_bounds(y, low, high, out):
    largest(_bound, y, low, high, out)


@entry
def value(y, eta):
    return y * eta - exp(eta)


@entry
def third(y, eta):
    return _third(y, eta)


@entry
def remainder(y, eta, h):
    return integrate(_inlined, y, eta, h)


TERMS = (chunk_value, chunk_derivatives, chunk_bounds, value, third, remainder)
