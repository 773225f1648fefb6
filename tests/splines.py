"""Small spline problems, exact draws from their priors and posteriors, and how kernels for splines are tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from scipy import stats

from tallbayes.families.addresses import Table
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.methods import MH, Auto, TwoStage
from tallbayes.sampling.subsample import Subsample
from tallbayes.splines.basis import BASES, WIDTH, Reference, try_basis
from tallbayes.splines.cells import Cells, at_reference
from tallbayes.splines.collapsed import CollapsedKernel
from tallbayes.splines.collapsed_loop import Place
from tallbayes.splines.guide import learn_guide
from tallbayes.splines.model import MARS, splines
from tallbayes.splines.quadratic import Expansion
from tallbayes.splines.reversible_jump import ReversibleJumpKernel
from tallbayes.splines.sheet import Sheets

INTERCEPT_SD = 2.0  # narrower than the model's, so that draws from the prior often fit a few rows


@cache
def tiny_model(rows: int = 8, most: int = 3, seed: int = 4, variables: int = 2, lines: float = 0.5) -> MARS:
    """A few rows and variables; every row is a reference row."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, variables)).round(1)  # some values twice
    y = x[:, 0] + 0.5 * rng.normal(size=rows) > 0.2
    return MARS(x, y, max_bases=most, precision=(2.0, 2.0), max_interaction=3, lines=lines)


def larger_model(rows: int = 60, most: int = 4, seed: int = 1) -> MARS:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    y = rng.random(rows) < 1 / (1 + np.exp(-x[:, 0] + np.maximum(x[:, 1], 0)))
    return MARS(x, y, max_bases=most, precision=(2.0, 2.0))


def kernel_for(model: MARS, how: str, **changes: Any) -> ReversibleJumpKernel:
    """A kernel of each kind, with a poor surrogate where it has one."""
    half = model.rows.size * 5 // 8
    if how in ("plain", "plain-walk"):
        kernel: Any = MH("random-walk" if how == "plain-walk" else None).kernel(model, seed=7)
        kernel = replace(kernel, rounds=3)
    elif how == "subsample":
        kernel = replace(TwoStage(Subsample(half)).kernel(model, seed=7), rounds=3)
    elif how == "subsample-subchain":
        kernel = TwoStage(Subsample(half), subchain=5).kernel(model, seed=7)
    else:
        cells = TwoStage(Cells(3, 10), "random-walk" if "walk" in how else None, 5).kernel(model, seed=7)
        partition = cells.surrogate.partition
        assert partition is not None
        start = np.random.default_rng(3)
        theta = draw_prior(model, 4, start)  # references that differ, as those of chains do
        sheets = tuple(at_reference(model, partition, theta[i : i + 2]) for i in (0, 2))
        kernel = replace(cells, surrogate=Sheets("cells", sheets, partition))
        if how == "plain-joint":
            kernel = replace(kernel, subchain=0, rounds=3)
    walk = 1.2 if kernel.law.walk > 0 else 0.0
    return replace(kernel, law=kernel.law._replace(intercept_sd=INTERCEPT_SD, walk=walk), **changes)


def collapsed_kernel(model: MARS, points: int = 3, **changes: Any) -> CollapsedKernel:
    """Coefficients integrated out on a poor quadratic: few points, around the mean of two draws from the prior.

    The guide knows thirty bases from the prior.
    """
    kernel: Any = Auto().kernel(model, seed=7)
    expansion = model.rows.keep(Expansion, model.reference, points, 1)
    quadratic = expansion.at(splines(draw_prior(model, 2, np.random.default_rng(1)), model.most))
    guide = learn_guide(model.reference, prior_bases(model.reference, 30, np.random.default_rng(2)))
    moves = np.cumsum([0.15, 0.15, 0.1, 0.25, 0.05, 0.1, 0.1, 0.1])
    law = kernel.law._replace(intercept_sd=INTERCEPT_SD, moves=moves, guide=guide)
    changes = {"moves": 5, "nudges": 0.1} | changes
    return replace(kernel, law=law, expansion=expansion, quadratic=quadratic, **changes)


def placed(kernel: CollapsedKernel, theta: np.ndarray) -> Place:
    """A parameter vector on the quadratic of a kernel."""
    place = kernel._place()
    kernel._put(theta, place, kernel._room())
    return place


KINDS = ("plain", "plain-walk", "plain-joint", "subsample", "subsample-subchain", "cells", "cells-walk")


def from_python(entry: Any, table: Table) -> Callable[..., Any]:
    """A function that compiled code calls by its address, for tests to call."""

    @njit
    def call(addresses, *arguments):
        return entry(addresses, *arguments)

    return lambda *arguments: call(table.addresses, *arguments)


@njit
def fill_bases(table, reference, counts, rng, out, buffer):
    """So many bases from the prior."""
    for i in range(counts.size):
        for m in range(counts[i]):
            while not try_basis(table, reference, rng, out[i, m], buffer):
                pass


def prior_bases(reference: Reference, size: int, rng: np.random.Generator) -> np.ndarray:
    """So many bases (size, WIDTH)."""
    out = np.zeros((1, size, WIDTH))
    fill_bases(BASES.addresses, reference, np.array([size]), rng, out, np.empty(reference.x.shape[1]))
    return out[0]


def draw_prior(model: MARS, size: int, rng: np.random.Generator) -> np.ndarray:
    """Parameter vectors from the prior (k uniform), with INTERCEPT_SD."""
    most, (shape, rate) = model.most, model.precision
    k = rng.integers(0, most + 1, size)
    precision = rng.gamma(shape, 1 / rate, size)
    live = np.arange(most) < k[:, None]
    beta = np.where(live, rng.standard_normal((size, most)) / np.sqrt(precision)[:, None], 0.0)
    bases = np.zeros((size, most, WIDTH))
    fill_bases(BASES.addresses, model.reference, k, rng, bases, np.empty(model.reference.x.shape[1]))
    parts = [k, precision, INTERCEPT_SD * rng.standard_normal(size), *beta.T]
    return np.concatenate([np.stack(parts, axis=1), bases.reshape(size, -1)], axis=1)


def log_likelihood(model: MARS, theta: np.ndarray) -> np.ndarray:
    """Written with NumPy alone, but for the values of splines."""
    x, y = model.rows.arrays.x, model.rows.arrays.y
    eta = splines(theta, model.most).each(x)
    return (y * eta - np.logaddexp(0, eta)).sum(-1)


@cache
def _pool(model: MARS, power: float) -> tuple[np.random.Generator, list[np.ndarray]]:
    """A generator, and what has been drawn with it: the same for all tests of a model."""
    return np.random.default_rng([2, 1]), []


def exact_draws(model: MARS, size: int, power: float = 1.0) -> np.ndarray:
    """Independent draws from the posterior: keep a draw from the prior with probability L^power, which is below one."""
    rng, kept = _pool(model, power)
    while sum(map(len, kept)) < size:
        theta = draw_prior(model, 100_000, rng)
        kept.append(theta[np.log(rng.random(len(theta))) < power * log_likelihood(model, theta)])
    return np.concatenate(kept)[:size]


POINTS = np.array([[-1.0, 0.0, 1.5], [0.5, -0.7, 0.2], [1.0, -1.0, 0.3], [-0.4, 0.9, -1.2]])  # (variables, points)


def views(model: MARS, theta: np.ndarray) -> list[np.ndarray]:
    """Numbers that tell distributions of splines apart: k first, then continuous ones."""
    log_odds = splines(theta, model.most).each(POINTS[: len(model.names)])
    knots = theta[:, model.most + 3 :].reshape(len(theta), model.most, WIDTH)
    squares = (theta[:, 3 : model.most + 3] ** 2).sum(1) + 1e-9 * theta[:, 2]  # no ties at k = 0
    degrees = knots[:, :, 0].sum(1) + 1e-9 * theta[:, 2]
    return [theta[:, 0], theta[:, 1], *log_odds.T, log_likelihood(model, theta) + 1e-9 * theta[:, 2], squares, degrees]


def difference(model: MARS, final: np.ndarray, fresh: np.ndarray) -> float:
    """Smallest p-value that two samples of parameter vectors have the same law, corrected for their number.

    The number of bases by a chi-squared test, the others by Kolmogorov-Smirnov.
    """
    one, two = views(model, final), views(model, fresh)
    counts = np.array([np.bincount(v[0].astype(int), minlength=model.most + 1) for v in (one, two)])
    p_values = [stats.chi2_contingency(counts[:, counts.sum(0) > 0]).pvalue]
    p_values += [stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(one[1:], two[1:], strict=True)]
    return float(min(1.0, len(p_values) * min(p_values)))


def departure(kernel: ReversibleJumpKernel | CollapsedKernel, steps: int, chains: int, seed: int) -> float:
    """p-value that chains started in the posterior are still there after some steps."""
    start, fresh = np.split(exact_draws(kernel.model, 3 * chains, kernel.power), [chains])
    rng = Streams.spawn(seed, chains)
    state, _ = kernel.advance(kernel.start(rng, theta=start), steps, rng)
    return difference(kernel.model, state.theta, fresh)
