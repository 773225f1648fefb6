"""Measures of rows, in stretches of a length, that are hard to draw in proportion to."""

import numpy as np

LENGTH = 64  # of a stretch: a few hundred rows have several


def gamma(n, seed=2):
    return np.random.default_rng(seed).gamma(0.3, size=n)


def holes(n, seed=3):
    """Nine rows in ten have weight zero."""
    return gamma(n) * (np.random.default_rng(seed).random(n) < 0.1)


def stretches_of_zeros(n):
    weights = gamma(n)
    weights[LENGTH : 3 * LENGTH] = 0
    weights[-5:] = 0
    return weights


WEIGHTS = {
    "equal": np.ones(300),
    "one row": np.ones(1),
    "one stretch": gamma(LENGTH),
    "one more than a stretch": gamma(LENGTH + 1),
    "uneven": gamma(1000),
    "zeros": holes(1000),
    "stretches of zeros": stretches_of_zeros(1000),
    "one of many": np.where(np.arange(500) == 77, 3.0, 0.0),
    "one heavy": np.where(np.arange(500) == 77, 1e12, 1.0),
    "many orders of magnitude": 10 ** np.random.default_rng(4).uniform(-200, 100, 500),
    "tiny": 1e-290 * gamma(200),
    "next to nothing": 1e-308 * gamma(200),
    "growing": np.arange(400.0),
    "twenty thousand": gamma(20_000),
}
