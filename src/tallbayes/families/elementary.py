"""Elementary functions that expressions may have, for compiled loops; each errs by a few units in the last place.

`compiled.py` has those that LLVM vectorises; where a function is rare, libm's will do.
"""

from __future__ import annotations

import math

from tallbayes.families import compiled
from tallbayes.families.compiled import exp_negative, inside, log1p_unit, normal_excess

HEIGHT = 0.3989422804014327  # of the Normal density at 0
# Bernoulli numbers over what Stirling's series has for log gamma: B_2k / (2k (2k - 1)).
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
FAR = 12.0  # from where on the series is exact


@inside(forceinline=True)
def log(u):
    """Natural logarithm; NaN of what is negative."""
    return compiled.log(u) if u > 0.0 else (-math.inf if u == 0.0 else math.nan)


@inside(forceinline=True)
def logistic(u):
    """1 / (1 + e^-u)."""
    e = exp_negative(-abs(u))
    return (e if u < 0.0 else 1.0) / (1.0 + e)


@inside(forceinline=True)
def softplus(u):
    """log(1 + e^u)."""
    return (u if u > 0.0 else 0.0) + log1p_unit(exp_negative(-abs(u)))


# What was lost in 1 + v comes back by v / ((1 + v) - 1), unless a compiler takes that for one. The logarithm is exact
# relatively only of what is above one: so of u < 0 it is minus that of 1 / (1 + u).
@inside(forceinline=True, fastmath=False)
def log1p(u):
    """log(1 + u) for u > -1."""
    whole = 1.0 + u
    v = -u / whole if u < 0.0 else u
    w = 1.0 + v
    lost = w - 1.0
    size = v if lost == 0.0 else (compiled.log(w) * (v / lost) if w < math.inf else w)
    return (-size if u < 0.0 else size) if whole > 0.0 else (-math.inf if whole == 0.0 else math.nan)


@inside(forceinline=True)
def expm1(u):
    """e^u - 1."""
    return math.expm1(u)


@inside(forceinline=True)
def erf(u):
    """Error function."""
    return math.erf(u)


@inside(forceinline=True)
def lgamma(u):
    """Log of the gamma function."""
    return math.lgamma(u)


@inside(forceinline=True)
def mills(u):
    """phi(u) / Phi(u)."""
    d = normal_excess(abs(u))
    bell = exp_negative(-0.5 * u * u)
    return d - u if u < 0.0 else HEIGHT * bell / (1.0 - bell * HEIGHT / (u + d))


@inside(forceinline=True)
def excess(u):
    """phi(u) / Phi(u) + u."""
    return normal_excess(-u) if u < 0.0 else mills(u) + u


@inside(forceinline=True)
def log_ndtr(u):
    """log Phi(u)."""
    d = normal_excess(abs(u))
    scaled = HEIGHT / (abs(u) + d)  # e^(u^2 / 2) Phi(-|u|)
    return compiled.log(scaled) - 0.5 * u * u if u < 0.0 else compiled.log(1.0 - exp_negative(-0.5 * u * u) * scaled)


@inside(forceinline=True)
def sign(u):
    """1, -1 or 0."""
    return 1.0 if u > 0.0 else (-1.0 if u < 0.0 else 0.0)


@inside()
def polygamma(order, u):
    """The derivative of this order of digamma, for u > 0: by the recurrence to where Stirling's series is exact."""
    if not u > 0.0:
        return math.nan
    factorial = 1.0
    for k in range(1, order + 1):
        factorial *= k
    side = -1.0 if order % 2 == 0 else 1.0  # of the derivatives of 1 / u, with what the recurrence takes away
    total = 0.0
    while u < FAR:
        total += side * factorial / u ** (order + 1)
        u += 1.0
    # d^(order + 1) of  (u - 1/2) log u - u + sum of c_k u^(1 - 2k).
    if order == 0:
        total += math.log(u) - 0.5 / u
    else:
        total += side * factorial * (1.0 / (order * u**order) + 0.5 / u ** (order + 1))
    for k in range(1, len(STIRLING) + 1):
        falling = 1.0
        for j in range(order + 1):
            falling *= 2 * k - 1 + j
        total += side * STIRLING[k - 1] * falling / u ** (2 * k + order)
    return total
