"""Subsampling Metropolis-Hastings: estimators without bias, the right ratio, and how wrong it may be."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import harness
import numpy as np
import pytest
from scipy import stats

import tallbayes as tb
from tallbayes.families.compiled import compiled
from tallbayes.rows import threads
from tallbayes.rows import urn as drawing
from tallbayes.rows.urn import Pool
from tallbayes.sampling import subsampling_loop
from tallbayes.sampling.diagnostics import mcse
from tallbayes.sampling.estimators import spline
from tallbayes.sampling.kernel import Streams
from tallbayes.sampling.subsampling import BLOCKS, State, SubsamplingKernel, _Chain
from tallbayes.sampling.subsampling_loop import Sample

QUIET = {"seed": 1, "progress": False}
PROXIES = {"taylor": tb.TaylorProxy(60), "spline": tb.SplineProxy(60, points=80)}
each_proxy = pytest.mark.parametrize("proxy", PROXIES)


def simulated(rows=3_000, family="logit", seed=0):
    rng = np.random.default_rng(seed)
    x, level = rng.standard_normal(rows), rng.choice(["a", "b", "c"], rows, p=[0.6, 0.35, 0.05])
    eta = -1.2 + 0.6 * x + 0.4 * (level == "b")
    y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.random(rows) < 1 / (1 + np.exp(-eta))
    return {"x": x, "level": level, "y": y}


def model_of(family="logit", rows=300, **options):
    kind = "poisson" if family == "poisson" else tb.Bernoulli(family)
    return tb.GLM("y ~ x + level", simulated(rows, family), kind, **options)


def kernel_of(model, proxy, seed=1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)  # test problems are separated on purpose
        kernel = tb.Subsampling(proxy).kernel(model, seed=seed)
    assert isinstance(kernel, SubsamplingKernel)
    return kernel


# --- the estimators ---


def estimates(kernel, theta, count):
    """Independent estimates and their variances."""
    chains = kernel._entered(np.tile(theta, (count, 1)), 5).chains
    variance = np.array([chain.at[2] for chain in chains])
    return np.array([chain.at[0] for chain in chains]) + 0.5 * variance, variance


@each_proxy
@pytest.mark.parametrize(
    "family", ["logit", "poisson", *(pytest.param(name, marks=pytest.mark.long) for name in ("probit", "cloglog"))]
)
def test_estimates_and_their_variances_are_unbiased(proxy, family):
    weights, offset = np.random.default_rng(2).random((2, 300))
    model = model_of(family, weights=weights + 0.5, offset=offset)
    kernel, count = kernel_of(model, PROXIES[proxy]), 3_000
    theta = kernel.mode.theta + 1.5 * kernel.mode.sd * [1, -1, 1, -1]
    values, variances = estimates(kernel, theta, count)
    truth = harness.log_likelihood(model, theta[None])[0]
    limit = stats.norm.isf(harness.FALSE_ALARM / 4)
    assert abs(values.mean() - truth) < limit * values.std() / count**0.5
    # The variance of a variance from its own fourth moment, and that of the mean of the estimates of it.
    centred = (values - values.mean()) ** 2
    error = np.hypot(centred.std(), variances.std()) / count**0.5
    assert abs(centred.mean() - variances.mean()) < limit * error


def test_a_wrong_total_is_seen_by_the_test_of_bias():
    model = model_of()
    kernel, count = kernel_of(model, PROXIES["spline"]), 3_000
    values, _ = estimates(kernel, kernel.mode.theta, count)
    truth = 1.05 * harness.log_likelihood(model, kernel.mode.theta[None])[0]
    assert abs(values.mean() - truth) > stats.norm.isf(harness.FALSE_ALARM / 4) * values.std() / count**0.5


def test_the_expansion_leaves_far_less_to_estimate():
    model = model_of(rows=3_000)
    taylor, plain = (kernel_of(model, proxy) for proxy in PROXIES.values())
    theta = taylor.mode.theta + taylor.mode.sd
    assert estimates(taylor, theta, 200)[1].mean() < 1e-3 * estimates(plain, theta, 200)[1].mean()


def test_the_spline_predicts_log_likelihoods():
    model = model_of(rows=3_000)
    mode = harness.mode_of(model)
    x, y = model.rows.arrays.x, model.rows.arrays.y
    truth = np.abs(model.family.tag.log_likelihood(y, mode.theta @ x))
    found = spline(model, mode, 400, np.random.default_rng(1)).of(model.rows.arrays)
    assert (found > 0).all()
    assert np.corrcoef(found, truth)[0, 1] > 0.95


def test_the_spline_takes_rows_that_are_equal():
    """Categories alone: a handful of distinct rows, as often as you like."""
    data = {"level": np.tile(["a", "b"], 100), "y": np.arange(200) % 3 == 0}
    model = tb.GLM("y ~ level", data, weights=np.linspace(1, 2, 200))
    found = spline(model, harness.mode_of(model), 150, np.random.default_rng(1)).of(model.rows.arrays)
    assert np.isfinite(found).all()
    assert (found > 0).all()


# --- the chain ---


@each_proxy
def test_the_ratio_is_that_of_the_two_estimates(proxy):
    """Of every step, from the rows and points before and after it, computed with NumPy alone."""
    model = model_of(rows=200, prior=tb.StudentT(3, 0, 1))
    kernel = kernel_of(model, PROXIES[proxy])
    rng = Streams.spawn(3, 1)
    state, total = kernel.start(rng), kernel.estimator.urn.total
    mode = kernel.mode

    def corrected(theta, sample):
        delta = theta - mode.theta
        h = delta @ sample.x
        known = np.zeros(h.size)
        base = 0.0
        if proxy == "taylor":
            first, second, _ = model.family.tag.derivatives(sample.y, sample.eta)
            known = model.family.tag.log_likelihood(sample.y, sample.eta) + first * h + 0.5 * second * h**2
            base = mode.log_likelihood + mode.gradient @ delta - 0.5 * delta @ mode.curvature @ delta
        terms = total * (model.family.tag.log_likelihood(sample.y, sample.eta + h) - known) / sample.bound
        return base + terms.mean() - 0.5 * terms.var(ddof=1) / h.size

    moved = 0
    for _ in range(60):
        before, changed = state.chains[0], None
        state, draws = kernel.advance(state, 1, rng)
        after = state.chains[0]
        if not draws.accepted[0, 0, 0]:
            np.testing.assert_array_equal(after.sample.x, before.sample.x)  # the old rows are back
            np.testing.assert_array_equal(after.theta, before.theta)
            continue
        moved += 1
        changed = (after.sample.x != before.sample.x).any(0).sum()
        assert 0 < changed <= -(-kernel.size // kernel.blocks)
        values = [
            corrected(chain.theta, chain.sample) + harness.log_prior(model, chain.theta) for chain in (before, after)
        ]
        assert draws.log_first[0, 0, 0] == pytest.approx(values[1] - values[0], abs=1e-6)
        assert draws.variance[0, 0] == after.at[2]
    assert moved > 3


def test_a_small_variance_gives_the_posterior():
    """Against quadrature, with a variance of the estimate far below one."""
    model = harness.skewed_model()
    kernel = kernel_of(model, tb.TaylorProxy(120))
    chains = 400
    assert harness.largest_z(kernel, 100, chains, 5, harness.Quadrature.of(model)) < harness.z_limit(chains)
    rng = Streams.spawn(1, 50)
    assert kernel.advance(kernel.start(rng), 50, rng)[1].variance.mean() < 0.1


@pytest.mark.parametrize("broken", ["correction", "prior"])
def test_a_broken_ratio_gives_another_posterior(broken, monkeypatch):
    """Without the variance in the ratio, or without the prior, the check above fails."""
    model, chains = harness.skewed_model(), 400
    kernel = kernel_of(model, tb.TaylorProxy(40))
    if broken == "prior":
        flat = replace(model.prior, scale=1e6 * model.prior.scale)
        target = kernel.target._replace(prior_scale=flat.scale)
        monkeypatch.setattr(SubsamplingKernel, "target", target)
        assert harness.largest_z(kernel, 150, chains, 5, harness.Quadrature.of(model)) > harness.z_limit(chains)
        return
    few = replace(kernel, size=3)
    right, rough = (harness.largest_z(one, 300, chains, 5, harness.Quadrature.of(model)) for one in (kernel, few))
    assert rough > harness.z_limit(chains) > right


@cache
def rough():
    """A few rows, far too few for the correction: but log-likelihoods are negative, so that the target is proper."""
    return kernel_of(harness.skewed_model(), tb.SplineProxy(5))


@compiled()
def enter(terms, target, total, pool, theta, samples, at):
    """What `SubsamplingKernel._enter` does, for many chains, with rows of one pool after the other."""
    buffer, used = np.empty((2, samples.y.shape[1])), np.zeros(1, np.int64)
    for i in range(len(theta)):
        sample = Sample(samples.x[i], samples.y[i], samples.eta[i], samples.bound[i])
        subsampling_loop.take_rows(pool, used, 0, sample.y.size, sample)
        at[i, 1] = subsampling_loop.log_prior(target, theta[i])
        at[i, 0], at[i, 2] = subsampling_loop.estimate(terms, target, total, sample, theta[i], buffer)


def entered(kernel, theta, pool):
    """Where chains are that enter at some points: estimates and so on, and their rows."""
    n, p, m = *theta.shape, kernel.size
    assert pool.y.size >= n * m
    samples, at = Sample(np.empty((n, p, m)), *np.empty((3, n, m))), np.empty((n, 3))
    enter(kernel.model.family.tag.terms, kernel.target, kernel.estimator.urn.total, pool, theta, samples, at)
    return samples, at


@cache
def extended_draws(count, seed=7):
    """Independent chains (theta, rows) from prior x probabilities of the rows x exp(l - v/2), by rejection."""
    kernel, rng, kept, top = rough(), np.random.default_rng(seed), [], -np.inf
    while len(kept) < count:
        theta = kernel.model.prior.sample(rng, 20_000)
        pool = kernel.estimator.urn.pool((int(rng.integers(2**63)), 0), 0, 1, 20_000 * kernel.size)
        samples, at = entered(kernel, theta, pool)
        if at[:, 0].max() > top:  # the ceiling was too low: begin again with a higher one
            kept, top = [], at[:, 0].max() + 0.3
            continue
        chosen = np.flatnonzero(np.log(rng.random(len(at))) < at[:, 0] - top)
        kept += [chain_of(theta[i].copy(), at[i].copy(), Sample(*(part[i].copy() for part in samples))) for i in chosen]
    return kept[:count]


def chain_of(theta, at, sample):
    """A chain that has no rows to come yet."""
    return _Chain(theta, at, sample, Pool.empty(theta.size), np.zeros(1, np.int64), 0)


def test_chains_enter_as_those_of_the_kernel_do():
    kernel, theta = rough(), rough().model.prior.sample(np.random.default_rng(1), 20)
    chains, pool = kernel._entered(theta, 2).chains, Pool.empty(2)
    for i in range(20):
        pool = pool.then(kernel._refill(2, i, 20, 0).some(0, kernel.size))
    samples, at = entered(kernel, theta, pool)
    for i, chain in enumerate(chains):
        np.testing.assert_array_equal(chain.theta, theta[i])
        np.testing.assert_allclose(at[i], chain.at, rtol=1e-12)
        np.testing.assert_array_equal(samples.x[i], chain.sample.x)
        np.testing.assert_array_equal(samples.bound[i], chain.sample.bound)


def departure(step, chains=300, steps=4):
    """Smallest p-value, corrected for their number, that chains started in the extended target are still there."""
    kernel, drawn = rough(), extended_draws(3 * chains)
    start, fresh = drawn[:chains], drawn[chains:]
    state, rng = State(np.array([chain.theta for chain in start]), tuple(start), 9), Streams.spawn(8, chains)
    for _ in range(steps):
        state = step(kernel, state, rng)
    views = [lambda c: c.theta[0], lambda c: c.theta[1], lambda c: c.at[0], lambda c: c.at[2]]
    p_values = [
        stats.ks_2samp([view(c) for c in state.chains], [view(c) for c in fresh], method="asymp").pvalue
        for view in views
    ]
    return len(views) * min(p_values)


def forward(kernel, state, rng):
    return kernel.advance(state, 1, rng)[0]


def estimated_anew(kernel, state, rng):
    """The mistake of estimating the current state anew at each step."""
    return kernel.advance(kernel._entered(state.theta, state.key + 1), 1, rng)[0]


@pytest.mark.parametrize(("chains", "steps"), [(300, 4), pytest.param(1_500, 8, marks=pytest.mark.long)])
def test_chains_stay_in_the_extended_target(chains, steps):
    """The pair of theta and rows has a target of its own, and there the chain is exact, however few the rows."""
    assert departure(forward, chains, steps) > harness.FALSE_ALARM


def test_estimating_the_current_state_anew_leaves_it():
    assert departure(estimated_anew) < harness.FALSE_ALARM


def test_draws_do_not_depend_on_how_steps_are_split():
    kernel = kernel_of(model_of(), tb.TaylorProxy(30))
    draws = harness.some_draws(kernel, [130])
    assert harness.same(draws, harness.some_draws(kernel, [1, 99, 7, 23]))
    assert not harness.same(*(harness.some_draws(kernel, [5], seed) for seed in (3, 4)))


@pytest.mark.parametrize("rows", [None, 7, 3])
def test_draws_and_counts_do_not_depend_on_threads_and_calls(rows, monkeypatch):
    """Also where a pool has fewer rows for a chain than a step needs, which is four."""
    if rows:
        monkeypatch.setattr(drawing, "MOST_BYTES", rows * 4 * 8 * 7)  # four chains, and seven numbers a row
    kernel, found = kernel_of(model_of(), tb.TaylorProxy(200)), []
    for count, calls in ((1, [60]), (2, [60]), (4, [60]), (2, [5, 50, 5])):
        before = kernel.model.rows.touched
        with threads.using(count):
            found.append((harness.some_draws(kernel, calls, chains=4), kernel.model.rows.touched - before))
    assert all(harness.same(found[0][0], draws) for draws, _ in found)
    assert {touched for _, touched in found} == {4 * (60 + 1) * 200}


def test_no_row_of_a_pool_is_left_out_or_used_twice(monkeypatch):
    """What chains have had of their pools is, in its order, what the urn has given them."""
    kernel, given, taken = kernel_of(model_of(), tb.TaylorProxy(120)), {0: [], 1: []}, {0: [], 1: []}
    monkeypatch.setattr(drawing, "MOST_BYTES", 5 * 2 * 8 * 7)
    right = drawing.Urn.pool

    def recorded(self, key, chain, chains, ahead):
        pool = right(self, key, chain, chains, ahead)
        given[chain].append((key, pool.x))
        return pool

    monkeypatch.setattr(drawing.Urn, "pool", recorded)
    rng = Streams.spawn(3, 2)
    state = kernel.start(rng)
    for chain in (0, 1):
        taken[chain].append(state.chains[chain].sample.x.T)
    left = [chain.left.x for chain in state.chains]
    for _ in range(30):
        before = [len(given[chain]) for chain in (0, 1)]
        state, _ = kernel.advance(state, 1, rng)
        for chain in (0, 1):
            new = np.concatenate([left[chain], *(x for _, x in given[chain][before[chain] :])])
            left[chain] = state.chains[chain].left.x
            assert 2 <= len(new) - len(left[chain]) <= 3
            taken[chain].append(new[: len(new) - len(left[chain])])
            np.testing.assert_array_equal(new[len(new) - len(left[chain]) :], left[chain])
    for chain in (0, 1):
        whole = np.concatenate([x for _, x in given[chain]])
        np.testing.assert_array_equal(np.concatenate([*taken[chain], left[chain]]), whole)
        assert [key[1] for key, _ in given[chain]] == list(range(len(given[chain])))


def test_another_size_begins_with_other_rows():
    """A pool that chains have had rows of before the size was changed is none that they get rows of afterwards."""
    kernel = kernel_of(model_of(), tb.TaylorProxy(60))
    rng = Streams.spawn(3, 2)
    state, _ = kernel.advance(kernel.start(rng), 10, rng)
    again, _ = replace(kernel, size=90).advance(state, 1, rng)
    assert again.key != state.key
    assert [chain.sample.y.size for chain in again.chains] == [90, 90]
    same, _ = kernel.advance(state, 1, rng)
    assert same.key == state.key


def test_there_are_as_many_blocks_as_rows_allow():
    assert kernel_of(model_of(rows=3_000), tb.TaylorProxy(1_000)).blocks == BLOCKS
    assert kernel_of(model_of(), tb.TaylorProxy(7)).blocks == 7


# --- what users see ---


def test_agrees_with_an_exact_method_where_the_variance_is_small():
    data = simulated(20_000)
    exact = tb.fit("y ~ x + level", data, draws=4_000, **QUIET)
    fit = tb.fit("y ~ x + level", data, method="subsampling", draws=10_000, **QUIET)
    found = fit.stats["approximation"]
    assert found["variance"] < 1
    error = np.hypot(mcse(fit.draws), mcse(exact.draws))
    z = (fit.draws.mean((0, 1)) - exact.draws.mean((0, 1))) / error
    assert np.abs(z).max() < stats.norm.isf(harness.FALSE_ALARM / 8)
    assert np.abs(fit.draws.std((0, 1)) / exact.draws.std((0, 1)) - 1).max() < 0.15
    assert fit.stats["rows_per_draw"] == found["size"]


def test_the_variance_steers_the_size():
    data = simulated(3_000)
    steered = tb.fit("y ~ x + level", data, method=tb.Subsampling(tb.SplineProxy()), draws=500, **QUIET)
    given = tb.fit("y ~ x + level", data, method=tb.Subsampling(tb.SplineProxy(200)), draws=500, **QUIET)
    assert steered.stats["approximation"]["size"] == 3_000  # it asks for more than there are
    assert given.stats["approximation"]["size"] == 200
    assert given.stats["approximation"]["variance"] > steered.stats["approximation"]["variance"] > 3
    assert "far too much" in given.stats["approximation"]["said"][0]
    easy = tb.fit("y ~ x + level", data, method="subsampling", draws=500, **QUIET)
    assert easy.stats["approximation"]["variance"] < 2


def test_rows_too_few_to_tell_their_own_variance_are_not_praised():
    """Four rows run away from the posterior, with a variance that looks small where they are alike.

    They do so for nine seeds in ten.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        fit = tb.sample(harness.skewed_model(), tb.Subsampling(tb.TaylorProxy(4)), 3_000, seed=1, progress=False)
    found = fit.stats["approximation"]
    assert fit.draws.std((0, 1)).max() > 5
    assert fit.sample_stats["log_likelihood_variance"].median() < 1
    assert "too few to tell the variance of the estimate; use at least 20" in found["said"][0]
    assert "too little to tell the error, which may be large" in found["said"][1]


def test_the_summary_says_what_is_approximate():
    fit = tb.fit("y ~ x", simulated(), method="subsampling", draws=300, **QUIET)
    told = repr(fit)
    assert "subsampling Metropolis-Hastings, approximate" in told
    assert "with a variance of" in told
    assert "checked against all rows" in told
    assert fit.sample_stats["log_likelihood_variance"].shape == (4, 300)
    assert not fit.stats["exact"]


@pytest.mark.parametrize("options", [{"subchain": 3}, {"shards": 3}, {"surrogate": tb.Taylor()}])
def test_options_of_other_methods_are_refused(options):
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        tb.Subsampling(**options)


def test_groups_are_refused():
    data = {**simulated(100), "bank": np.arange(100) % 9}
    with pytest.raises(ValueError, match="not for models with group terms"):
        tb.fit("y ~ x + (1 | bank)", data, method="subsampling", progress=False)


def test_sizes_must_allow_a_variance():
    with pytest.raises(ValueError, match="size must be a whole number from 2 to 1,000,000, not 1"):
        tb.TaylorProxy(1)
    with pytest.raises(ValueError, match="points must be a whole number from 2 to 10,000"):
        tb.SplineProxy(points=1)


def test_the_prior_is_that_of_the_model():
    model = model_of(prior={"x": tb.StudentT(3, 0.5, 0.7), "Intercept": tb.Normal(1, 2)})
    kernel = kernel_of(model, tb.TaylorProxy(30))
    theta = np.random.default_rng(1).normal(0, 2, (10, 4))
    found = np.array([subsampling_loop.log_prior(kernel.target, one) for one in theta])
    assert np.ptp(found - harness.log_prior(model, theta)) < 1e-10
