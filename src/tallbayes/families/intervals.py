"""Arithmetic of intervals for compiled loops: what an expression can be while its parts are anywhere in theirs.

An interval is a pair (low, high). Each operation gives one that surely holds the result, whatever was rounded: ends are
moved outwards by more than the operation errs. What is not known to be bounded is infinite or NaN at one end, and a NaN
stays: so a bound that is not a number is no bound. Options that let a compiler reorder sums are off here.
"""

from __future__ import annotations

import math

import numpy as np

from tallbayes.families import elementary
from tallbayes.families.compiled import exp as _exp
from tallbayes.families.compiled import inside
from tallbayes.families.compiled import log as _log

WIDER = 2.0**-48  # more than any operation errs, relatively; functions say if they err more
TINY = 1e-300  # and besides, for numbers that are hardly any

interval = inside(forceinline=True, fastmath=False)


@interval
def wider(low, high, error):
    """Ends moved outwards."""
    return low - error * abs(low) - TINY, high + error * abs(high) + TINY


@interval
def point(x):
    """A number that may have been rounded."""
    return wider(x, x, WIDER)


@interval
def total(low, high, size, terms):
    """A sum of so many terms, given the sum of their sizes; each addition errs by no more than a share of that."""
    away = 0.125 * WIDER * (terms + 8.0) * size + TINY
    return low - away, high + away


@interval
def size(a):
    """The largest size of anything in it, as a number."""
    one, two = abs(a[0]), abs(a[1])
    return max(one, two) + 0.0 * (one + two)  # a NaN stays


@interval
def positive(a):
    """What is known to be positive or zero."""
    return max(a[0], 0.0), a[1]


@interval
def product(low, high, factors):
    """A product of so many factors that are positive or zero, from the products of their ends."""
    error = 0.125 * WIDER * (factors + 8.0)
    return max(low * (1.0 - error) - TINY, 0.0), high * (1.0 + error) + TINY


@interval
def times_number(c, a):
    """A number times an interval."""
    one, two = c * a[0], c * a[1]
    return wider(one if c > 0.0 else two, two if c > 0.0 else one, 2 * WIDER)


@interval
def negative(a):
    """Minus it, which is exact."""
    return -a[1], -a[0]


@interval
def times(a, b):
    """Product."""
    one, two, three, four = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
    # Zero times infinity is NaN, which a comparison would drop; this keeps it.
    lost = 0.0 * (one + two + three + four)
    low = min(min(one, two), min(three, four)) + lost
    high = max(max(one, two), max(three, four)) + lost
    return wider(low, high, WIDER)


@interval
def inverse(a):
    """One over it; unbounded if zero is in it."""
    apart = (a[0] > 0.0) | (a[1] < 0.0)
    return wider(1.0 / a[1] if apart else -np.inf, 1.0 / a[0] if apart else np.inf, WIDER)


@interval
def square(a):
    """Its square."""
    one, two = a[0] * a[0], a[1] * a[1]
    inner = (a[0] <= 0.0) & (a[1] >= 0.0)
    low = 0.0 if inner else min(one, two)
    return max(low * (1.0 - WIDER) - TINY, 0.0), (max(one, two) + 0.0 * (one + two)) * (1.0 + WIDER) + TINY


@interval
def root_power(a, exponent):
    """A power that is not whole, of what is positive; otherwise nothing is known."""
    fine = a[0] > 0.0
    low, high = exponent * _log(a[0]), exponent * _log(a[1])
    error = 1e-15 * (1.0 + abs(exponent)) + 8e-16 * (abs(low) + abs(high))
    if exponent > 0.0:
        return wider(_exp(low) if fine else np.nan, _exp(high) if fine else np.nan, error)
    return wider(_exp(high) if fine else np.nan, _exp(low) if fine else np.nan, error)


@interval
def exp(a):
    """e^u."""
    low = _exp(a[0]) if a[0] > -700.0 else 0.0
    return wider(low, _exp(a[1]), 1e-15 + 4e-16 * (abs(a[0]) + abs(a[1])))


@interval
def expm1(a):
    """e^u - 1."""
    return wider(math.expm1(a[0]), math.expm1(a[1]), WIDER)


@interval
def log(a):
    """Logarithm; unbounded if something is not positive."""
    fine, low, high = a[0] > 0.0, _log(a[0]), _log(a[1])
    low, high = low - 1e-15 * (1.0 + abs(low)), high + 1e-15 * (1.0 + abs(high))
    return low if fine else -np.inf, high if fine else np.nan


@interval
def log1p(a):
    """log(1 + u); unbounded if 1 + u is not positive."""
    fine = a[0] > -1.0
    low, high = wider(elementary.log1p(a[0]), elementary.log1p(a[1]), WIDER)
    return low if fine else -np.inf, high if fine else np.nan


@interval
def logistic(a):
    """1 / (1 + e^-u)."""
    low = elementary.logistic(a[0]) if a[0] > -700.0 else 0.0
    return wider(low, elementary.logistic(a[1]), 3e-15 + 4e-16 * (abs(a[0]) + abs(a[1])))


@interval
def softplus(a):
    """log(1 + e^u)."""
    low = elementary.softplus(a[0]) if a[0] > -700.0 else 0.0
    return wider(low, elementary.softplus(a[1]), 3e-15 + 4e-16 * (abs(a[0]) + abs(a[1])))


@interval
def erf(a):
    """Error function."""
    return wider(math.erf(a[0]), math.erf(a[1]), WIDER)


@interval
def log_ndtr(a):
    """log Phi, which rises; for u > 0 it is the logarithm of a number that is rounded near one."""
    low, high = elementary.log_ndtr(a[0]), elementary.log_ndtr(a[1])
    return low - 4e-15 * (1.0 + abs(low)), min(high + 4e-15 * (1.0 + abs(high)), 0.0)


@interval
def _normal_error(a):
    """How much functions of the Normal distribution err, relatively: u^2 / 2 in an exponent is rounded."""
    return 1e-14 + 4e-16 * (a[0] * a[0] + a[1] * a[1])


@interval
def mills(a):
    """phi / Phi, which falls."""
    low = elementary.mills(a[1]) if a[1] < 37.0 else 0.0
    return wider(low, elementary.mills(a[0]), _normal_error(a))


@interval
def excess(a):
    """phi / Phi + u, which rises."""
    return wider(elementary.excess(a[0]), elementary.excess(a[1]), _normal_error(a))


@interval
def lgamma(a):
    """Log gamma of what is positive; it has its minimum at 1.46."""
    low, high = math.lgamma(a[0]), math.lgamma(a[1])
    inner = (a[0] < 1.4616321449683623) & (a[1] > 1.4616321449683623)
    fine = a[0] > 0.0
    error = 1e-13
    return (
        (-0.12148629053584962 if inner else min(low, high)) - error if fine else -np.inf,
        max(low, high) * (1.0 + WIDER) + error if fine else np.inf,
    )


@interval
def polygamma(order, a):
    """Digamma and its derivatives of what is positive: those of even order rise, and the others fall."""
    if not a[0] > 0.0:
        return -np.inf, np.inf
    one, two = elementary.polygamma(order, a[0]), elementary.polygamma(order, a[1])
    if order % 2 == 0:
        return one - 1e-13 * (1.0 + abs(one)), two + 1e-13 * (1.0 + abs(two))
    return wider(two, one, 1e-13)


@interval
def absolute(a):
    """Its size."""
    one, two = abs(a[0]), abs(a[1])
    inner = (a[0] <= 0.0) & (a[1] >= 0.0)
    return 0.0 if inner else min(one, two), max(one, two)


@interval
def sign(a):
    """Which side of zero it is on; if that is not known, nothing is."""
    side = 1.0 if a[0] > 0.0 else (-1.0 if a[1] < 0.0 else np.nan)
    return side, side


@interval
def largest(a):
    """The largest size of anything in it; infinite where it is not a number."""
    one, two = abs(a[0]), abs(a[1])
    found = one if one > two else two
    return found if one + two < np.inf else np.inf
