"""Pareto-smoothed importance sampling: the log predictive density of a row by the draws of all rows, it among them.

A draw has the weight 1 / p(y | theta) then. The largest weights, a tail of some 3 S^(1/2) of S draws, are replaced by
quantiles of a generalised Pareto distribution that is fitted to them. Its shape k says whether to trust the result: the
weights have 1 / k moments.

References: A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry (2024), "Pareto smoothed importance sampling";
J. Zhang and M. A. Stephens (2009), "A new and efficient estimation method for the generalized Pareto distribution".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST = 225  # effective draws with which the tail has 3 S^(1/2) of them, and not a fifth
SMALLEST = 5  # draws in a tail that a distribution can be fitted to
PRIOR_SHAPE, PRIOR_DRAWS = 0.5, 10.0  # what is believed of k before, worth so many draws of the tail


def tail_length(draws: int, efficiency: float) -> int:
    """How many of the draws are in the tail; `efficiency` is the effective share of them.

    >>> tail_length(4_000, 1.0), tail_length(100, 1.0)
    (189, 20)
    """
    return int(3 * (draws / efficiency) ** 0.5) if draws * efficiency > FEWEST else draws // 5


def good_shape(draws: int) -> float:
    """The largest k with which so many draws are enough.

    >>> round(good_shape(1_000), 3), good_shape(10_000)
    (0.667, 0.7)
    """
    return float(np.clip(1 - 1 / np.log10(draws), 0.0, 0.7)) if draws > 1 else 0.0


def left_out(values: Array, efficiency: float) -> tuple[Array, Array]:
    """Log predictive density of each row without it, and k, from log-likelihoods (row, draw).

    >>> values = np.random.default_rng(1).normal(-1.0, 0.1, (1, 1_000))
    >>> [part.round(2).tolist() for part in left_out(values, 1.0)]
    [[-1.01], [0.06]]
    """
    draws = values.shape[1]
    least = values.min(1)
    ratios = least[:, None] - values  # log weights, the largest of which is zero
    length = min(tail_length(draws, efficiency), draws - 1)
    if length < SMALLEST:
        return np.asarray(least + np.log(draws) - np.log(np.exp(ratios).sum(1))), np.full(len(values), np.inf)
    ratios.partition(draws - length - 1, axis=1)
    tail = np.sort(ratios[:, draws - length :], axis=1)
    smooth, k = smoothed(tail, ratios[:, draws - length - 1])
    # Weights of the others are those of importance sampling: each times its density is the same for all.
    total = (draws - length) + np.exp(smooth - tail).sum(1)
    return np.asarray(
        least + np.log(total) - np.log(np.exp(ratios[:, : draws - length]).sum(1) + np.exp(smooth).sum(1))
    ), k


def smoothed(tail: Array, below: Array) -> tuple[Array, Array]:
    """Log weights (row, tail) that ascend, smoothed; and k. `below` is the largest log weight beneath each tail."""
    cutoff = np.exp(below)[:, None]
    k, sigma = pareto(np.exp(tail) - cutoff)
    length = tail.shape[1]
    outside = -np.log1p(-(np.arange(length) + 0.5) / length)
    with np.errstate(all="ignore"):
        grown = np.where(k[:, None] == 0, outside, np.expm1(k[:, None] * outside) / k[:, None])
        found = np.log(cutoff + sigma[:, None] * grown)
    same = tail[:, -1] == tail[:, 0]  # weights that do not differ need no smoothing
    fitted = np.isfinite(k) & (sigma > 0) & ~same
    found = np.where(fitted[:, None], np.minimum(found, tail[:, -1:]), tail)
    return found, np.where(same, 0.0, np.where(fitted, k, np.inf))


def pareto(excess: Array) -> tuple[Array, Array]:
    """Shape k and scale of the generalised Pareto distribution of each row of numbers, which ascend.

    The posterior mean of a parameter b on a grid, and a weak prior of k, as in the references.
    """
    length = excess.shape[1]
    points = 30 + int(length**0.5)
    quartile, largest = excess[:, int(length / 4 + 0.5) - 1], excess[:, -1]
    with np.errstate(all="ignore"):
        grid = (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (3 * quartile[:, None]) + 1 / largest[:, None]
        shapes = np.stack([_shape(grid[:, point], excess) for point in range(points)], axis=1)
        height = length * (np.log(-grid / shapes) - shapes - 1)
        weights = np.exp(height - height.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        weights = np.where(weights < 10 * np.finfo(float).eps, 0.0, weights)
        b = (grid * weights).sum(1) / weights.sum(1)
        k = _shape(b, excess)
        return (length * k + PRIOR_DRAWS * PRIOR_SHAPE) / (length + PRIOR_DRAWS), -k / b


def _shape(b: Array, excess: Array) -> Array:
    return np.asarray(np.log1p(-b[:, None] * excess).mean(1))
