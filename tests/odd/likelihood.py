"""What a row says about its linear predictor, by family: the log-likelihood, up to a constant, and two derivatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]


def log_likelihoods(family: str, shape: float, y: Array, trials: Array, eta: Array, sd: Array | float) -> Array:
    """The log-likelihood of each row."""
    with np.errstate(all="ignore"):
        if family == "logit":
            return y * eta - trials * np.logaddexp(0, eta)
        if family == "probit":
            return y * special.log_ndtr(eta) + (trials - y) * special.log_ndtr(-eta)
        if family == "cloglog":
            rate = np.exp(eta)
            success = np.where(eta < -30, eta, np.log(-np.expm1(-np.maximum(rate, 1e-300))))
            return np.where(y > 0, y * success, 0.0) - np.where(y < trials, (trials - y) * rate, 0.0)
        if family == "poisson":
            return y * eta - np.exp(eta)
        if family == "negative_binomial":
            over = eta - np.log(shape)
            return -y * _log1p_exp(-over) - shape * _log1p_exp(over)
        if family == "gamma":
            return -shape * (eta + np.exp(np.log(y) - eta))
        if family == "gaussian":
            return -0.5 * ((y - eta) / sd) ** 2 - np.log(sd)
    raise ValueError(family)


def _log1p_exp(at: Array) -> Array:
    """log(1 + e^at), with all digits where e^at is small."""
    return np.where(at > 30, at + np.exp(-at), np.log1p(np.exp(np.minimum(at, 30))))


def derivatives(family: str, shape: float, y: Array, trials: Array, eta: Array, sd: float) -> tuple[Array, Array]:
    """The first derivative by the linear predictor, and minus the second."""
    with np.errstate(all="ignore"):
        if family == "logit":
            p = special.expit(eta)
            return y - trials * p, trials * p * special.expit(-eta)
        if family == "probit":
            one = np.exp(stats.norm.logpdf(eta) - special.log_ndtr(eta))
            zero = np.exp(stats.norm.logpdf(eta) - special.log_ndtr(-eta))
            return y * one - (trials - y) * zero, y * one * (eta + one) + (trials - y) * zero * (zero - eta)
        if family == "cloglog":
            rate = np.exp(np.clip(eta, -600, 600))
            part = np.where(rate > 1e-8, rate / np.expm1(np.minimum(rate, 700)), 1.0)
            bend = part * (rate / -np.expm1(-rate) - 1)
            return y * part - (trials - y) * rate, y * bend + (trials - y) * rate
        if family == "poisson":
            return y - np.exp(eta), np.exp(eta)
        if family == "negative_binomial":
            over = eta - np.log(shape)
            p, rest = special.expit(over), special.expit(-over)
            return y * rest - shape * p, (y + shape) * p * rest
        if family == "gamma":
            ratio = np.exp(np.log(y) - eta)
            return shape * (ratio - 1), shape * ratio
        if family == "gaussian":
            return (y - eta) / sd**2, np.full_like(eta, 1 / sd**2)
    raise ValueError(family)
