"""Two dozen columns and more: bounds by matrix products, and the kernels for which thinning may be too dear."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from disjoint import Disjoint
from harness import FALSE_ALARM
from scipy import stats

import tallbayes as tb
from tallbayes.data.timing import Phases
from tallbayes.families import Logit
from tallbayes.models.mode import Mode, find_mode
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.remainders import TRIANGLE, RemainderBounds, expansion
from tallbayes.rows.urn import Lots
from tallbayes.sampling import metropolis, thinned_setup, two_stage
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.setup import RegressionSetup

COLUMNS, ROWS, CHAINS = TRIANGLE + 2, 1_501, 500
NOTICED = 1_600  # chains: broken kernels have p-values below 1e-8
KINDS = {"thinned": 20, "all rows thinned": 10, "two-stage": 10, "corrected": 5, "mh": 60, "one-at-a-time": 5}


@cache
def problem(family: str) -> tuple[Disjoint, Mode]:
    made = Disjoint.make(COLUMNS, ROWS, family)
    return made, find_mode(made.model)


def kernel_of(kind: str, family: str = "bernoulli") -> Any:
    """Those that method="auto" chooses from, and the thinned one with no row that is always evaluated."""
    made, mode = problem(family)
    model, rng = made.model, np.random.default_rng(2)
    if kind == "thinned":
        return thinned_setup.expand(model, mode, rng).kernel
    if kind == "all rows thinned":
        kernel = thinned_setup.expand(model, mode, rng, threshold=np.inf).kernel
        return replace(kernel, target=kernel.target._replace(limit=np.inf))
    setup = RegressionSetup(model, 1, Phases())
    if kind in ("two-stage", "corrected"):
        return setup._two_stage(mode, rng, tb.Taylor(50 if kind == "corrected" else 0), None, None)
    kernel, streams = setup._metropolis(mode, None if kind == "mh" else kind), Streams.spawn(3, 8)
    return kernel.tune(kernel.start(streams), 100, lambda made, at, steps: made.advance(at, steps, streams))[0]


# Where all rows are thinned they are drawn so often that it takes long; Poisson ones would take minutes.
CASES = [(kind, "bernoulli") for kind in ("thinned", "two-stage", "corrected", "mh")]
CASES += [pytest.param(kind, "bernoulli", marks=pytest.mark.long) for kind in ("all rows thinned", "one-at-a-time")]
CASES += [("one-at-a-time", "poisson")]
CASES += [pytest.param(kind, "poisson", marks=pytest.mark.long) for kind in ("thinned", "two-stage", "corrected", "mh")]


@pytest.mark.parametrize(("kind", "family"), CASES)
def test_chains_that_start_in_the_posterior_stay_there(kind, family):
    assert problem(family)[0].departure(kernel_of(kind, family), KINDS[kind], CHAINS, 7) > FALSE_ALARM


def test_a_second_stage_that_is_skipped_is_noticed(monkeypatch):
    monkeypatch.setattr(two_stage, "second_log_ratio", lambda full, surrogate: np.zeros_like(full[0]))
    assert problem("bernoulli")[0].departure(kernel_of("two-stage"), KINDS["two-stage"], 1_000, 7) < FALSE_ALARM


def test_a_likelihood_that_counts_for_more_is_noticed(monkeypatch):
    kernel = kernel_of("mh")
    monkeypatch.setattr(metropolis, "first_log_ratio", lambda log_q, proposed, current: 2 * (proposed - current))
    assert problem("bernoulli")[0].departure(kernel, KINDS["mh"], NOTICED, 7) < FALSE_ALARM


@pytest.mark.long
def test_linear_predictors_of_the_rows_that_are_off_are_noticed(monkeypatch):
    def off(arrays):
        return replace(arrays, offset=(arrays.offset if arrays.offset.size else np.zeros(arrays.size)) + 1.5)

    right = Lots.over
    monkeypatch.setattr(Lots, "over", lambda self, arrays, params: right(self, off(arrays), params))
    monkeypatch.setattr(RemainderBounds, "excess", lambda *arguments: 0.0)
    kernel = kernel_of("all rows thinned")
    assert problem("bernoulli")[0].departure(kernel, KINDS["all rows thinned"], 800, 7) < FALSE_ALARM


@pytest.mark.parametrize("p", [TRIANGLE, 31])
def test_linear_predictors_and_reach_are_those_of_numpy(p):
    """Several blocks, the last one short, and columns in units from 1e-8 to 1e8."""
    rng, n = np.random.default_rng(p), 40_003
    units = 10.0 ** rng.uniform(-8, 8, p)
    x = units[:, None] * rng.standard_normal((p, n))
    theta, factor = rng.standard_normal(p) / units, np.tril(rng.standard_normal((p, p))) / units[:, None]
    weights, offset = rng.gamma(1.0, size=n), 5 * rng.standard_normal(n)
    rows = MemoryRows(x, rng.integers(2, size=n).astype(float), weights, offset)
    assert n % LENGTH > 0
    assert n > LENGTH
    eta, reach = expansion(rows.arrays, Logit().terms, theta, factor)
    # Row by row in the precision of long doubles: no matrix product, no blocks.
    some = np.unique(np.append(rng.integers(n, size=500), [0, LENGTH - 1, LENGTH, n - 1]))
    for i in some:
        column = x[:, i].astype(np.longdouble)
        assert eta[i] == pytest.approx(float(offset[i] + (theta * column).sum()), abs=1e-12)
        moved = (factor.astype(np.longdouble) * column[:, None]).sum(0)
        assert reach[i] == pytest.approx(float(np.sqrt((moved**2).sum())), rel=1e-12)


def test_exact_draws_of_the_reference_are_told_apart_from_wider_ones():
    """The tests of the tails see draws that are a tenth too wide, and pass those that are right."""
    made = problem("bernoulli")[0]
    draws = made.draws(20_000, np.random.default_rng(1))
    assert made.p_value(draws) > FALSE_ALARM
    assert made.p_value(draws.mean(0) + 1.1 * (draws - draws.mean(0))) < FALSE_ALARM
    assert stats.kurtosis(draws / made.units @ made.rotation).max() > 0.1  # some coefficients are far from Gaussian
