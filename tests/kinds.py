"""A small fit of every kind, for tests of what all of them have."""

from __future__ import annotations

import functools

import numpy as np

import tallbayes as tb
from tallbayes.groups.example import group_example
from tallbayes.results.example import example
from tallbayes.splines.example import example_mars

FEW = {"draws": 60, "chains": 2, "warmup": 50, "seed": 1, "progress": False}


@functools.cache
def data():
    """Outcomes of several kinds, columns with names that are hard to read, and a group."""
    rng = np.random.default_rng(0)
    x, z, weight = rng.normal(size=(3, 240))
    return {
        "x": x,
        "z": z,
        "my income": np.exp(0.3 * weight),
        "race": rng.choice(["a", "b", "c and d"], 240),
        "bank": rng.choice(["b01", "b02", "b03"], 240),
        "days": rng.uniform(0.5, 2.0, 240),
        "y": (rng.random(240) < 1 / (1 + np.exp(-x))).astype(int),
        "count": rng.poisson(np.exp(0.3 * x)),
        "size": 2 * x + rng.normal(size=240),
        "paid": rng.binomial(5, 0.4, 240),
        "loans": np.full(240, 5),
    }


def own():
    """A model of the user's own, with a number and an array."""
    prior, start = {"m": tb.Normal(), "b": tb.Normal()}, {"m": 0.0, "b": np.zeros((1, 2))}

    def log_likelihood(theta, rows):
        return -((rows.x - theta.m - theta.b[0, 0] - theta.b[0, 1] * rows.z) ** 2)

    return tb.sample(tb.Model(log_likelihood, prior, start, {name: data()[name] for name in "xz"}), method="mh", **FEW)


MAKERS = {
    "regression": example,
    "groups": lambda: group_example(3),
    "gaussian": lambda: tb.fit("size ~ x + race", data(), "gaussian", **FEW),
    "gaussian groups": lambda: tb.fit("size ~ x + (1 | bank)", data(), "gaussian", **FEW),
    "own": own,
    "splines": example_mars,
}


@functools.cache
def fitted(kind: str) -> tb.Fit:
    """The fit of a kind, made once."""
    return MAKERS[kind]()
