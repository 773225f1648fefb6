"""Gaussian outcomes in groups: sums against dense formulas, draws against quadrature, and no row touched."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import harness
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tallbayes as tb
from tallbayes.engines.engine import Local
from tallbayes.gaussian import group_kernel as kernels
from tallbayes.gaussian.group_kernel import GaussianGroupKernel, given, log_prior
from tallbayes.gaussian.group_model import GaussianGroups
from tallbayes.gaussian.group_sums import GroupSums
from tallbayes.gaussian.log_linear import LogLinear
from tallbayes.sampling.kernel import Streams

ONES = np.ones(2)


@cache
def frame(rows: int = 45, groups: int = 7, seed: int = 1, spread: float = 1.5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"x": rng.normal(3, 2, rows), "g": rng.integers(groups, size=rows)})
    found.loc[: groups - 1, "g"] = np.arange(groups)
    found["y"] = 20 + 1.5 * found["x"] + spread * rng.normal(size=groups)[found["g"]] + rng.normal(0, 2, rows)
    found["w"] = rng.integers(1, 4, rows)
    return found


@cache
def model(kind: str = "normal") -> GaussianGroups:
    prior = {"x": tb.StudentT(3.0, 0.0, 0.5)} if kind == "heavy" else {"x": tb.Normal(0.5, 0.7)}
    return GaussianGroups("y ~ x + (1 | g)", frame(), prior, group_prior=tb.HalfCauchy(2.0))


def dense(one: GaussianGroups) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arrays = one.rows.arrays
    return arrays.x.T, arrays.y, np.eye(len(one.levels))[arrays.codes]


@pytest.mark.parametrize("shifted", [False, True])
def test_the_marginal_likelihood_is_that_of_the_outcomes_joint_normal_law(shifted):
    """Wherever rows are expanded."""
    one = model()
    x, y, z = dense(one)
    if shifted:
        at = np.concatenate([[15.0, 1.0], np.linspace(-2, 2, 7), [0.0]])
        one = GaussianGroups("y ~ x + (1 | g)", frame(), {"x": tb.Normal(0.5, 0.7)}, group_prior=tb.HalfCauchy(2.0))
        one.sums = GroupSums(y.size, kernels_expansion(one, at))
    zero, here = np.zeros(2), given(one, ONES)
    covariance = np.linalg.inv(one.prior.precision(zero))
    mean = covariance @ one.prior.gradient(zero)
    log_sd, u = np.linspace(-0.5, 2.0, 7), np.array([-9.0, -4.0, -1.3, 0.0, 0.7, 2.0, 6.0])
    truth = [
        stats.multivariate_normal.logpdf(
            y, x @ mean, np.exp(2 * s) * (np.eye(y.size) + np.exp(r) * z @ z.T) + x @ covariance @ x.T
        )
        for s, r in zip(log_sd, u, strict=True)
    ]
    found = here.heights(log_sd, u).value
    np.testing.assert_allclose(found - found[0], np.array(truth) - truth[0], rtol=1e-8, atol=1e-8)


def kernels_expansion(one: GaussianGroups, at: np.ndarray) -> Any:
    from tallbayes.groups.mode import expansion

    return expansion(at, one.derivatives(at))


def test_coefficients_and_effects_have_their_normal_law_given_both_sds():
    one, rng, count = model(), np.random.default_rng(2), 4_000
    x, y, z = dense(one)
    both, sd, tau = np.hstack([x, z]), 1.7, 2.3
    prior = np.zeros((9, 9))
    prior[:2, :2] = one.prior.precision(np.zeros(2))
    prior[2:, 2:] = np.eye(7) / tau**2
    precision = prior + both.T @ both / sd**2
    slope = np.concatenate([one.prior.gradient(np.zeros(2)), np.zeros(7)])
    mean = np.linalg.solve(precision, slope + both.T @ y / sd**2)
    kernel, log_sd, u = GaussianGroupKernel(one), np.full(1, np.log(sd)), np.full(1, 2 * np.log(tau / sd))
    here = given(one, ONES)
    drawn = kernel._others(
        here, here.heights(log_sd, u), np.zeros(count, np.intp), log_sd, u, rng.standard_normal((count, 9))
    )
    assert drawn[:, -1] == pytest.approx(sd)
    assert np.exp(drawn[:, -2]) == pytest.approx(tau)
    for center, right in ((mean, True), (mean * 1.05, False)):
        white = (drawn[:, :-2] - center) @ np.linalg.cholesky(precision)
        worst = min(stats.kstest(column, "norm").pvalue for column in white.T)
        assert bool(worst > harness.FALSE_ALARM) is right
        if right:
            assert np.abs(np.corrcoef(white.T) - np.eye(9)).max() < 6 / count**0.5


def test_interpolated_sums_are_the_sums():
    sums = model().sums
    u = np.random.default_rng(3).uniform(-12, 12, 400)
    found = sums.reduced(u)
    for place, one in enumerate(u):
        exact = sums.exactly(one)
        rows = np.concatenate([part[place].ravel() for part in found])
        np.testing.assert_allclose(rows, exact, rtol=1e-12, atol=1e-13 * np.abs(exact).max())


def test_a_law_with_pieces_of_exponentials():
    law = LogLinear(np.array([0.0, 1.0, 1.5, 3.0]), np.array([-1.0, 2.0, 2.0, -1.0]))
    grid = np.linspace(-30, 30, 400_001)
    density = np.exp(law.log_density(grid))
    below = np.cumsum(density) / density.sum()
    at = np.linspace(0.001, 0.999, 500)
    np.testing.assert_allclose(np.interp(law.inverse(at), grid, below), at, atol=2e-4)


@cache
def quadrature(one: GaussianGroups) -> tuple[Any, Any]:
    """Laws of log s and of log tau, from a grid of both."""
    log_sd, log_tau = np.linspace(-0.3, 1.8, 181), np.linspace(-9.0, 5.0, 701)
    s, t = (part.ravel() for part in np.meshgrid(log_sd, log_tau, indexing="ij"))
    u = 2 * (t - s)
    heights = (given(one, ONES).heights(s, u).value + log_prior(one, s, u)).reshape(log_sd.size, -1)
    density = np.exp(heights - heights.max())

    def law(grid: np.ndarray, mass: np.ndarray) -> Any:
        below = np.cumsum(mass) - 0.5 * mass
        return lambda at: np.interp(at, grid, below / mass.sum())

    return law(log_sd, density.sum(1)), law(log_tau, density.sum(0))


def last(kernel: Any, chains: int, steps: int) -> np.ndarray:
    streams = Streams.spawn(3, chains)
    return kernel.advance(kernel.start(streams), steps, streams)[1].theta[-1]


def worst_of(one: GaussianGroups, theta: np.ndarray) -> float:
    of_sd, of_tau = quadrature(one)
    return min(stats.kstest(np.log(theta[:, -1]), of_sd).pvalue, stats.kstest(theta[:, -2], of_tau).pvalue)


@pytest.mark.parametrize("spread", [1.5, 0.0])
def test_both_sds_have_their_posterior(spread):
    """Also where equal groups are likely, so that the effects' sd has a long way to zero."""
    one = model() if spread else GaussianGroups("y ~ x + (1 | g)", frame(spread=0.0), group_prior=tb.HalfNormal(3.0))
    assert worst_of(one, last(GaussianGroupKernel(one), 1_000, 6)) > harness.FALSE_ALARM


@pytest.mark.parametrize("wrong", ["no proposal density", "no derivative of the logarithm", "no prior of groups"])
def test_a_step_that_is_decided_wrongly_is_noticed(monkeypatch, wrong):
    one = model()
    quadrature(one)
    if wrong == "no proposal density":
        monkeypatch.setattr(kernels.Table, "log_density", lambda self, log_sd, u: np.zeros(u.size))
    elif wrong == "no derivative of the logarithm":
        monkeypatch.setattr(kernels, "log_prior", lambda one, s, u: log_prior(one, s, u) - s - 0.5 * u)
    else:
        prior = one.group_prior
        monkeypatch.setattr(
            kernels, "log_prior", lambda one, s, u: log_prior(one, s, u) - prior.log_density(np.exp(s + 0.5 * u))
        )
    kernel = GaussianGroupKernel(one)
    assert worst_of(one, last(kernel, 600, 6)) < harness.FALSE_ALARM


def test_student_t_priors_against_quadrature():
    """The coefficient with the Student-t prior, all others summed over on a grid: no scale mixture there."""
    one = model("heavy")
    x, y, z = dense(one)
    beta = np.linspace(-0.6, 2.0, 81)
    log_sd, log_tau = np.linspace(-0.2, 1.8, 31), np.linspace(-5.0, 4.0, 61)
    flat = one.prior.precision(np.zeros(2))[0, 0]  # of the intercept at the mean of x
    center = one.prior.mean[0]
    density = np.zeros(beta.size)
    shift = one.prior.means[1]
    for s in log_sd:
        for t in log_tau:
            inverse = np.linalg.inv(np.exp(2 * s) * np.eye(y.size) + np.exp(2 * t) * z @ z.T)
            ones = np.ones(y.size)
            left = y[:, None] - np.outer(x[:, 1] - shift, beta) - center  # with the intercept less its mean as unknown
            weight, pull = ones @ inverse @ ones + flat, ones @ inverse @ left
            heights = -0.5 * (left * (inverse @ left)).sum(0) + 0.5 * pull**2 / weight - 0.5 * np.log(weight)
            heights += 0.5 * np.linalg.slogdet(inverse)[1] + stats.t.logpdf(beta, 3, 0, 0.5)
            heights += one.sd_prior.log_density(np.exp(s)) + s + one.group_prior.log_density(np.exp(t)) + t
            density += np.exp(heights + 100)
    below = (np.cumsum(density) - 0.5 * density) / density.sum()
    drawn = last(GaussianGroupKernel(one), 500, 12)[:, 1]
    assert stats.kstest(drawn, lambda at: np.interp(at, beta, below)).pvalue > harness.FALSE_ALARM
    normal = GaussianGroups("y ~ x + (1 | g)", frame(), {"x": tb.Normal(0.0, 0.5)}, group_prior=tb.HalfCauchy(2.0))
    other = last(GaussianGroupKernel(normal), 500, 4)[:, 1]
    assert stats.kstest(other, lambda at: np.interp(at, beta, below)).pvalue < harness.FALSE_ALARM


@pytest.mark.parametrize("kind", ["normal", "heavy"])
def test_draws_do_not_depend_on_how_steps_are_split(kind):
    kernel = GaussianGroupKernel(model(kind))
    assert harness.same(harness.some_draws(kernel, [60]), harness.some_draws(kernel, [1] * 20 + [13, 27]))


def test_large_outcomes_cost_no_digits():
    data = frame(2_000, 30, 5)
    a, b = (
        GaussianGroups(
            "y ~ x + (1 | g)", data.assign(y=data["y"] + shift), tb.Normal(0, 1e9), group_prior="half_normal(3)"
        )
        for shift in (0.0, 1e7)
    )
    tops = [GaussianGroupKernel(one).top for one in (a, b)]
    np.testing.assert_allclose(tops[1][1:], tops[0][1:], rtol=1e-6)
    assert tops[1][0].beta - [1e7, 0.0] == pytest.approx(tops[0][0].beta, abs=1e-5)


def test_one_row_in_each_group_leaves_it_to_the_priors():
    """Then only the sum of both variances is known."""
    data = frame(60, 60, 7)
    fit = tb.fit("y ~ x + (1 | g)", data, family="gaussian", seed=1, draws=1_000, progress=False)
    assert fit.converged
    total = np.hypot(fit.posterior["1|g_sigma"], fit.posterior["sd"]).to_numpy()
    slope, level = np.polyfit(data["x"], data["y"], 1)
    assert total.mean() == pytest.approx((data["y"] - slope * data["x"] - level).std(), rel=0.1)


def test_many_rows_are_known_without_touching_any(tmp_path):
    data = frame(50_000, 40, 2)
    fit = tb.fit("y ~ x + (1 | g)", data, family="gaussian", seed=1, draws=300, progress=False)
    assert isinstance(fit, tb.GaussianGroupsFit)
    assert fit.converged
    assert fit.stats["rows_per_draw"] == 0
    assert fit.stats["passes"] <= 4
    found = fit.summary()
    assert found["mean"]["x"] == pytest.approx(1.5, abs=5 * found["sd"]["x"])
    assert found["mean"]["sd"] == pytest.approx(2.0, abs=5 * found["sd"]["sd"])
    rng = np.random.default_rng(2)
    rng.normal(size=50_000), rng.integers(40, size=50_000)
    truth = 1.5 * rng.normal(size=40)
    z = (found["mean"][-40:] - truth + (truth - found["mean"][-40:]).mean()) / found["sd"][-40:]
    assert stats.kstest(z, "norm").pvalue > harness.FALSE_ALARM
    fit.save(tmp_path / "fit.nc")
    again, new = tb.load(tmp_path / "fit.nc"), data[:4].assign(g=[0, 1, 39, 12345])
    for noise in (False, True):
        pd.testing.assert_frame_equal(again.predict(new, noise=noise), fit.predict(new, noise=noise))
    width = (lambda table: table["eti94_ub"] - table["eti94_lb"])(fit.predict(new))
    assert width[3] > 5 * width[0]  # nobody has seen its group
    noisy = (lambda table: table["eti94_ub"] - table["eti94_lb"])(fit.predict(new, noise=True))
    assert noisy[0] == pytest.approx(2 * 1.88 * 2.0, rel=0.05)
    fit.report(tmp_path / "page.html")
    assert "Groups: g" in (tmp_path / "page.html").read_text()


def test_rows_on_disk_and_with_workers_give_the_same_posterior(tmp_path):
    data = frame(40_000, 20, 3)
    data.to_parquet(tmp_path / "data.parquet")
    how = {"family": "gaussian", "seed": 1, "draws": 50, "chains": 2, "progress": False}
    memory = tb.fit("y ~ x + (1 | g)", data, **how)
    disk = tb.fit("y ~ x + (1 | g)", tmp_path / "data.parquet", memory="50MB", **how)
    workers = tb.fit("y ~ x + (1 | g)", str(tmp_path / "data.parquet"), engine=Local(2), **how)
    for other in (disk, workers):
        np.testing.assert_allclose(other.draws, memory.draws, rtol=1e-7)


def test_weights_count_rows():
    data = frame(60, 5, 6)
    how = {"family": "gaussian", "seed": 1, "draws": 200, "progress": False}
    how |= {"prior": tb.Normal(0, 100), "group_prior": "half_normal(3)"}
    a = tb.fit("y ~ x + (1 | g)", data, weights="w", **how)
    b = tb.fit("y ~ x + (1 | g)", data.loc[data.index.repeat(data["w"])], **how)
    np.testing.assert_allclose(a.summary()["mean"], b.summary()["mean"], rtol=1e-6)


def test_priors_follow_the_outcomes_and_arrays_will_do():
    one = GaussianGroups("y ~ x + (1 | g)", frame())
    scale = frame()["y"].std(ddof=0)
    assert one.group_prior.scale == pytest.approx(2.5 * scale, rel=1e-3)
    x = np.column_stack([np.ones(45), frame()["x"]])
    arrays = tb.GaussianGroups.from_arrays(x, frame()["y"], frame()["g"], coefficients=["Intercept", "x"])
    assert arrays.group_prior == one.group_prior
    fit = tb.sample(arrays, draws=100, seed=1, progress=False)
    usual = tb.sample(one, draws=100, seed=1, progress=False)
    np.testing.assert_allclose(fit.draws, usual.draws, rtol=1e-9)
    robust = tb.family("-2.5 * log1p((y - eta)**2 / (4 * s**2))", s=2.0)
    assert tb.Hierarchical("y ~ x + (1 | g)", frame(), robust).group_prior == one.group_prior


def test_what_is_refused():
    for method in ("mh", "thinned", tb.Consensus(2)):
        with pytest.raises(ValueError, match="is not for Gaussian outcomes"):
            tb.fit("y ~ x + (1 | g)", frame(), family="gaussian", method=method, progress=False)
    with pytest.raises(ValueError, match="linear combination"):
        tb.fit("y ~ x + x2 + (1 | g)", frame().assign(x2=frame()["x"] * 2), family="gaussian", progress=False)


def test_names_that_other_parameters_have_are_refused():
    data = frame()
    for formula, columns, model in (
        ("y ~ sd", {"sd": "x"}, tb.GaussianModel),
        ("y ~ sd + (1 | g)", {"sd": "x"}, tb.GaussianGroups),
        ("y ~ x + (1 | sd)", {"sd": "g"}, tb.GaussianGroups),
        ("y ~ `1|g_sigma` + (1 | g)", {"1|g_sigma": "x"}, tb.GaussianGroups),
    ):
        (name,) = columns
        with pytest.raises(ValueError, match=re.escape(f"column {name!r} has the name of another parameter")):
            model(formula, data.assign(**{name: data[columns[name]]}))
