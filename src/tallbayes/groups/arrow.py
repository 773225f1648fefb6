"""Gaussians with an arrow-shaped precision: a dense block for p coefficients, a diagonal for k groups.

The second-order expansion of a log-likelihood with group effects theta_g ~ N(0, tau^2) at some point has the precision

    [ A + P      C'         ]        A (p, p) curvature of the coefficients, P their prior precision,
    [ C     diag(D + 1/tau^2) ]      C (k, p) mixed, D (k,) that of the effects.

Given the coefficients the effects are independent, so eliminating them costs k p^2. All formulas are written such that
they hold at tau = 0 too, where all effects are zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Expansion(NamedTuple):
    """Value, slopes and curvatures of the log-likelihood where coefficients and effects are those given."""

    beta: Array  # (p,)
    effects: Array  # (k,)
    value: float
    slope: Array  # (p,)
    curvature: Array  # (p, p) A
    mixed: Array  # (k, p) C
    effect_slope: Array  # (k,)
    effect_curvature: Array  # (k,) D


class Arrow(NamedTuple):
    """The Gaussian that an expansion and the priors make of coefficients and effects."""

    shares: Array  # (k, p) theta_g falls by share' (beta - expansion's beta)
    sd: Array  # (k,) of the effects given the coefficients
    shift: Array  # (k,) mean of the effects minus where they are expanded, for coefficients where they are expanded
    precision: Array  # (p, p) of the coefficients, with the effects integrated out
    factor: Array  # (p, p) of its inverse
    step: Array  # (p,) mean of the coefficients minus where they are expanded
    log_mass: float  # log integral of exp(expansion) x N(effects; 0, tau^2) x quadratic prior of the coefficients


def gaussian(at: Expansion, prior_slope: Array, prior_precision: Array, tau: float) -> Arrow:
    """The Gaussian for this tau; the prior of the coefficients is given by slope and precision at the expansion."""
    spread = 1 + at.effect_curvature * tau**2
    variance = tau**2 / spread
    shares = variance[:, None] * at.mixed
    shift = (tau**2 * at.effect_slope - at.effects) / spread
    precision = at.curvature + prior_precision - at.mixed.T @ shares
    right = at.slope + prior_slope - at.mixed.T @ shift
    scale = 1 / np.sqrt(np.diag(precision))
    root = np.linalg.cholesky(precision * np.outer(scale, scale))
    factor = scale[:, None] * np.linalg.inv(root).T
    whitened = factor.T @ right
    slope, bend = at.effect_slope, at.effect_curvature * at.effects
    groups = (slope**2 * tau**2 - (2 * slope + bend) * at.effects) / spread - np.log(spread)
    log_mass = 0.5 * (groups.sum() + whitened @ whitened) + np.log(np.abs(np.diag(factor))).sum()
    return Arrow(shares, np.sqrt(variance), shift, precision, factor, factor @ whitened, at.value + float(log_mass))
