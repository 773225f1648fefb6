"""The compiled loop of subsampling Metropolis-Hastings: one chain, many steps (see `subsampling.py`)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.families.terms import linear_predictors, remainder, value

Array = NDArray[np.float64]


class Sample(NamedTuple):
    """The rows that estimate the log-likelihood, in columns."""

    x: Array  # (p, m)
    y: Array  # (m,)
    eta: Array  # (m,) linear predictor at the mode
    bound: Array  # (m,) that their probabilities are in proportion to, per weight

    def copy(self) -> Sample:
        """Another one with the same rows."""
        return Sample(*(part.copy() for part in self))


class Target(NamedTuple):
    """All that the loop knows of the posterior."""

    known: bool  # whether the estimate rests on the expansion
    theta: Array  # (p,) the mode
    log_likelihood: float  # there
    gradient: Array  # (p,) of the log-likelihood
    curvature: Array  # (p, p) minus its second derivatives
    prior_mean: Array  # (p,)
    prior_scale: Array  # (p,)
    prior_df: Array  # (p,) infinite where the prior is Normal
    prior_exponent: Array  # (p,) of 1 + z^2 / df, where it is not
    prior_means: Array  # (p,) of the columns, where the prior of the intercept is at these
    intercept: int  # its place
    factor: Array  # (p, p) of the random walk


@compiled()
def log_prior(target, theta):
    """Log prior density, up to a constant."""
    total, shift = 0.0, 0.0
    for j in range(theta.size):
        shift += target.prior_means[j] * theta[j]
    for j in range(theta.size):
        at = theta[j] + shift if j == target.intercept else theta[j]
        z = (at - target.prior_mean[j]) / target.prior_scale[j]
        df = target.prior_df[j]
        total += -0.5 * z * z if df == np.inf else -target.prior_exponent[j] * math.log1p(z * z / df)
    return total


@compiled()
def estimate(terms, target, total, sample, theta, buffer):
    """The estimate minus half its variance, and the variance.

    Drawn in proportion to weight times bound, a row's t is the total of these over its bound, times what is not known
    of its log-likelihood.
    """
    p, m = sample.x.shape
    moved, parts = buffer[0], buffer[1]
    base = 0.0
    if target.known:
        delta = theta - target.theta
        base = target.log_likelihood
        for j in range(p):
            bend = 0.0
            for k in range(p):
                bend += target.curvature[j, k] * delta[k]
            base += delta[j] * (target.gradient[j] - 0.5 * bend)
        linear_predictors(terms, sample.x, sample.eta[:0], delta, 0, m, moved)
        for i in range(m):
            parts[i] = total / sample.bound[i] * remainder(terms, sample.y[i], sample.eta[i], moved[i])
    else:
        linear_predictors(terms, sample.x, sample.eta[:0], theta - target.theta, 0, m, moved)
        for i in range(m):
            parts[i] = total / sample.bound[i] * value(terms, sample.y[i], sample.eta[i] + moved[i])
    mean = 0.0
    for i in range(m):
        mean += parts[i]
    mean /= m
    squares = 0.0
    for i in range(m):
        squares += (parts[i] - mean) ** 2
    variance = squares / (m * (m - 1.0))
    return base + mean - 0.5 * variance, variance


@compiled()
def take_rows(pool, used, low, high, sample):
    """The next rows of the pool into the places low..high of a sample."""
    for k in range(low, high):
        i = used[0] + k - low
        sample.y[k], sample.eta[k], sample.bound[k] = pool.y[i], pool.eta[i], pool.bound[i]
        for j in range(pool.x.shape[1]):
            sample.x[j, k] = pool.x[i, j]
    used[0] += high - low


@compiled()
def walk(terms, target, total, blocks, theta, at, sample, pool, used, first, second, done, path, facts):
    """Steps of one chain from `done` on; returns how many are done when the pool has no more rows for another one.

    Facts (steps, 3) are log ratio, whether accepted, and the variance where it then is.
    """
    p, m = sample.x.shape
    new, z, buffer = np.empty(p), np.empty(p), np.empty((2, m))
    longest = -(-m // blocks)
    kept_x, kept = np.empty((p, longest)), np.empty((3, longest))
    for step in range(done, facts.shape[0]):
        if used[0] + longest > pool.y.size:
            return step
        block = min(blocks - 1, int(blocks * second.random()))
        low, high = block * m // blocks, (block + 1) * m // blocks
        size = high - low
        for j in range(p):
            kept_x[j, :size] = sample.x[j, low:high]
        kept[0, :size] = sample.y[low:high]
        kept[1, :size] = sample.eta[low:high]
        kept[2, :size] = sample.bound[low:high]
        take_rows(pool, used, low, high, sample)
        for j in range(p):
            z[j] = first.standard_normal()
        for j in range(p):
            new[j] = theta[j]
            for k in range(p):
                new[j] += target.factor[j, k] * z[k]
        there, variance = estimate(terms, target, total, sample, new, buffer)
        prior = log_prior(target, new)
        log_ratio = there + prior - at[0] - at[1]
        accepted = math.log(first.random()) < log_ratio
        if accepted:
            theta[:] = new
            at[0], at[1], at[2] = there, prior, variance
        else:
            for j in range(p):
                sample.x[j, low:high] = kept_x[j, :size]
            sample.y[low:high] = kept[0, :size]
            sample.eta[low:high] = kept[1, :size]
            sample.bound[low:high] = kept[2, :size]
        path[step] = theta
        facts[step, 0], facts[step, 1], facts[step, 2] = log_ratio, 1.0 if accepted else 0.0, at[2]
    return facts.shape[0]
