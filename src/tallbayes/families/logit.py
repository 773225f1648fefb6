"""Outcomes 0 and 1 with the logit link: P(y = 1) = 1 / (1 + e^-eta), log-likelihood y eta - log(1 + e^eta)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from tallbayes.families.compiled import INSIDE, OPTIONS, exp_negative, log1p_unit
from tallbayes.families.terms import bound3, chunk_derivatives, chunk_value, has_tag, third, value

Array = NDArray[np.float64]

# The largest |third derivative|, 1/(6 sqrt 3), is at eta = +-log(2 + sqrt 3).
PEAK = math.log(2 + math.sqrt(3))
LARGEST = 1 / (6 * math.sqrt(3))


class Logit(NamedTuple):
    """Tag of the logit link."""

    @property
    def canonical(self) -> bool:
        """Whether the log-likelihood is y eta - b(eta)."""
        return True

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row."""
        return np.asarray(y * eta - np.logaddexp(0.0, eta))

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        e = np.exp(-np.abs(eta))  # no 1 - p anywhere: it would lose the tail where p is close to 1
        spread = e / (1 + e) ** 2
        first = np.where(y > 0.5, self.mean(-eta), -self.mean(eta))
        return first, -spread, np.asarray(spread * np.sign(eta) * (1 - e) / (1 + e))

    def mean(self, eta: Array) -> Array:
        """P(y = 1)."""
        e = np.exp(-np.abs(eta))
        return np.asarray(np.where(eta < 0, e, 1.0) / (1 + e))


@overload(chunk_value, jit_options=OPTIONS)
def _(tag, y, eta, weights):
    if not has_tag(tag, Logit):
        return None
    if isinstance(weights, types.NoneType):

        def unweighted(tag, y, eta, weights):
            # One logarithm for the product of all (1 + e^-|eta|): at most 2^512 for a chunk.
            product, positive = 1.0, 0.0
            for i in range(eta.size):
                positive += max(eta[i], 0.0)
                product *= 1.0 + exp_negative(-abs(eta[i]))
            return -positive - math.log(product)

        return unweighted

    def weighted(tag, y, eta, weights):
        total = 0.0
        for i in range(eta.size):
            total += weights[i] * (max(eta[i], 0.0) + log1p_unit(exp_negative(-abs(eta[i]))))
        return -total

    return weighted


@overload(chunk_derivatives, jit_options=OPTIONS)
def _(tag, y, eta, weights, first, second):
    if not has_tag(tag, Logit):
        return None
    no_weights = isinstance(weights, types.NoneType)

    def derivatives(tag, y, eta, weights, first, second):
        total = 0.0
        for i in range(eta.size):
            e = exp_negative(-abs(eta[i]))
            weight = 1.0 if no_weights else weights[i]
            total += weight * (max(eta[i], 0.0) + log1p_unit(e))
            small = e / (1.0 + e)
            first[i] = -weight * (small if eta[i] < 0.0 else 1.0 - small)
            second[i] = weight * small * (1.0 - small)
        return -total

    return derivatives


@overload(value, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Logit):
        return None

    def one(tag, y, eta):
        return y * eta - max(eta, 0.0) - log1p_unit(exp_negative(-abs(eta)))

    return one


@overload(third, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Logit):
        return None

    def derivative(tag, y, eta):
        e = exp_negative(-abs(eta))
        size = e * (1.0 - e) / ((1.0 + e) * (1.0 + e) * (1.0 + e))
        return size if eta > 0.0 else -size

    return derivative


@overload(bound3, jit_options=INSIDE)
def _(tag, y, low, high):
    if not has_tag(tag, Logit):
        return None

    def bound(tag, y, low, high):
        at_ends = max(abs(third(tag, y, low)), abs(third(tag, y, high)))
        peak = ((low <= PEAK) & (high >= PEAK)) | ((low <= -PEAK) & (high >= -PEAK))
        return LARGEST if peak else at_ends

    return bound
