"""Outcomes 0 and 1 with the probit link: P(y = 1) = Phi(eta).

The log-likelihood is log Phi(e) with e = eta for y = 1 and e = -eta for y = 0. With the ratio m = phi(e) / Phi(e) its
derivatives in e are  m,  -m (m + e)  and  m ((m + e)(2m + e) - 1),  the last positive with one peak.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

from tallbayes.compiled import INSIDE, OPTIONS, erfcx, exp_negative, log
from tallbayes.families.terms import bound3, chunk_derivatives, chunk_value, has_tag, third, value

Array = NDArray[np.float64]

PEAK, LARGEST = 1.0023693422683706, 0.29571881919312310
FAR = -25.0  # below it the third derivative is the difference of nearly equal numbers, and a series is better


class Probit(NamedTuple):
    """Tag of the probit link."""

    @property
    def canonical(self) -> bool:
        """Whether the log-likelihood is y eta - b(eta)."""
        return False

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row."""
        from scipy.special import log_ndtr

        return np.asarray(log_ndtr(np.where(y > 0.5, eta, -eta)))

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        from scipy.special import log_ndtr

        sign = np.where(y > 0.5, 1.0, -1.0)
        e = sign * eta
        m = np.exp(-0.5 * e * e - 0.5 * np.log(2 * np.pi) - log_ndtr(e))
        return sign * m, -m * (m + e), sign * m * ((m + e) * (2 * m + e) - 1)

    def mean(self, eta: Array) -> Array:
        """P(y = 1)."""
        from scipy.special import ndtr

        return np.asarray(ndtr(eta))


@njit(inline="always")
def _tail(e):
    """phi(e) / Phi(e), and what the logarithm of Phi(e) is made of: log Phi(e) = log(inside) - outside."""
    scaled = 0.5 * erfcx(abs(e) * 0.7071067811865476)  # of the smaller side: exp(e^2 / 2) Phi(-|e|)
    bell = exp_negative(-0.5 * e * e)
    above = 1.0 - bell * scaled
    inside = scaled if e < 0.0 else above
    outside = 0.5 * e * e if e < 0.0 else 0.0
    ratio = 0.3989422804014327 * (1.0 if e < 0.0 else bell) / inside
    return ratio, inside, outside


@overload(chunk_value, jit_options=OPTIONS)
def _(tag, y, eta, weights):
    if not has_tag(tag, Probit):
        return None
    no_weights = isinstance(weights, types.NoneType)

    def total_value(tag, y, eta, weights):
        total = 0.0
        for i in range(eta.size):
            _, inside, outside = _tail(eta[i] if y[i] > 0.5 else -eta[i])
            total += (1.0 if no_weights else weights[i]) * (log(inside) - outside)
        return total

    return total_value


@overload(chunk_derivatives, jit_options=OPTIONS)
def _(tag, y, eta, weights, first, second):
    if not has_tag(tag, Probit):
        return None
    no_weights = isinstance(weights, types.NoneType)

    def derivatives(tag, y, eta, weights, first, second):
        total = 0.0
        for i in range(eta.size):
            sign = 1.0 if y[i] > 0.5 else -1.0
            e = sign * eta[i]
            ratio, inside, outside = _tail(e)
            weight = 1.0 if no_weights else weights[i]
            total += weight * (log(inside) - outside)
            first[i] = weight * sign * ratio
            second[i] = weight * ratio * (ratio + e)
        return total

    return derivatives


@overload(value, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Probit):
        return None

    def one(tag, y, eta):
        _, inside, outside = _tail(eta if y > 0.5 else -eta)
        return log(inside) - outside

    return one


@overload(third, jit_options=INSIDE)
def _(tag, y, eta):
    if not has_tag(tag, Probit):
        return None

    def derivative(tag, y, eta):
        sign = 1.0 if y > 0.5 else -1.0
        e = sign * eta
        ratio, _, _ = _tail(e)
        near = ratio * ((ratio + e) * (2.0 * ratio + e) - 1.0)
        a = 1.0 / max(abs(e), 1.0)
        u = a * a
        far = a * u * (2.0 - u * (24.0 - u * (300.0 - u * (4144.0 - u * (63540.0 - u * 1077384.0)))))
        return sign * (far if e < FAR else near)

    return derivative


@overload(bound3, jit_options=INSIDE)
def _(tag, y, low, high):
    if not has_tag(tag, Probit):
        return None

    def bound(tag, y, low, high):
        at_ends = max(abs(third(tag, y, low)), abs(third(tag, y, high)))
        peak = PEAK if y > 0.5 else -PEAK
        return LARGEST if (low <= peak) & (high >= peak) else at_ends

    return bound
