"""Gaussian outcomes: sums against dense formulas, draws against closed forms and quadrature, and no row touched."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import harness
import numpy as np
import pandas as pd
import pytest
from figures import sketched
from scipy import stats

import tallbayes as tb
from tallbayes.gaussian import kernel as kernels
from tallbayes.gaussian.kernel import GaussianKernel, given, log_posterior
from tallbayes.gaussian.model import GaussianModel
from tallbayes.sampling.kernel import Streams

ONES = np.ones(3)


@cache
def frame(rows: int = 40, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"x": rng.normal(3, 2, rows), "z": rng.exponential(size=rows)})
    found["y"] = 20 + 1.5 * found["x"] - found["z"] + rng.normal(0, 2, rows)
    found["w"] = rng.integers(1, 4, rows)
    return found


@cache
def model(heavy: bool = False, **options: Any) -> GaussianModel:
    prior = {"x": tb.StudentT(3.0, 0.0, 0.2), "z": tb.Normal(0.0, 1.0)} if heavy else {"x": tb.Normal(0.5, 0.7)}
    return GaussianModel("y ~ x + z", frame(), prior, **options)


def dense(one: GaussianModel) -> tuple[np.ndarray, np.ndarray]:
    arrays = one.rows.arrays
    return arrays.x.T, arrays.y


def test_the_marginal_likelihood_is_that_of_the_outcomes_joint_normal_law():
    one = model()
    x, y = dense(one)
    zero, here = np.zeros(3), given(one, ONES)
    covariance = np.linalg.inv(one.prior.precision(zero))
    mean = covariance @ one.prior.gradient(zero)
    log_sd = np.linspace(-0.5, 2.0, 7)
    truth = [
        stats.multivariate_normal.logpdf(y, x @ mean, np.exp(2 * s) * np.eye(y.size) + x @ covariance @ x.T)
        for s in log_sd
    ]
    found = here.log_likelihood(log_sd)
    np.testing.assert_allclose(found - found[0], np.array(truth) - truth[0], rtol=1e-8, atol=1e-8)


def test_coefficients_have_their_normal_law_given_the_sd():
    one, rng = model(), np.random.default_rng(2)
    x, y = dense(one)
    zero = np.zeros(3)
    precision = one.prior.precision(zero) + x.T @ x / 4.0
    mean = np.linalg.solve(precision, one.prior.gradient(zero) + x.T @ y / 4.0)
    drawn = given(one, ONES).coefficients(np.full(20_000, np.log(2.0)), rng.standard_normal((20_000, 3)))
    z = (drawn - mean) @ np.linalg.cholesky(precision)
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > harness.FALSE_ALARM
    assert np.abs(np.corrcoef(z.T) - np.eye(3)).max() < 6 / 20_000**0.5
    off = (drawn - mean * 1.02) @ np.linalg.cholesky(precision)
    assert min(stats.kstest(column, "norm").pvalue for column in off.T) < harness.FALSE_ALARM


def sd_law(one: GaussianModel) -> Any:
    grid = np.linspace(-1.0, 3.0, 20_001)
    heights = log_posterior(given(one, ONES), one.sd_prior, grid)
    below = np.cumsum(np.exp(heights - heights.max()))
    return lambda log_sd: np.interp(log_sd, grid, below / below[-1])


def last(kernel: GaussianKernel, chains: int, steps: int) -> np.ndarray:
    streams = Streams.spawn(3, chains)
    return kernel.advance(kernel.start(streams), steps, streams)[1].theta[-1]


def test_the_sd_has_its_posterior():
    one = model()
    log_sd = np.log(last(GaussianKernel(one), 3_000, 6)[:, -1])
    assert stats.kstest(log_sd, sd_law(one)).pvalue > harness.FALSE_ALARM


def test_a_step_that_is_decided_wrongly_is_noticed(monkeypatch):
    """Without the density of proposals, and without the derivative of the logarithm."""
    one = model()
    for wrong in ("df", "jacobian"):
        with monkeypatch.context() as patch:
            if wrong == "df":
                patch.setattr(kernels, "stdtrit", lambda df, p: 3 * stats.norm.ppf(p))
            else:
                patch.setattr(kernels, "log_posterior", lambda here, prior, s: log_posterior(here, prior, s) + 3 * s)
            log_sd = np.log(last(GaussianKernel(one), 1_000, 6)[:, -1])
        assert stats.kstest(log_sd, sd_law(one)).pvalue < harness.FALSE_ALARM, wrong


def test_student_t_priors_against_quadrature():
    """The coefficient with the Student-t prior, with all others and the sd summed over on a grid of its own."""
    one = model(True)
    x, y = dense(one)
    beta = np.linspace(-0.5, 2.0, 121)
    log_sd = np.linspace(-0.2, 2.2, 41)
    others = replace(one.prior, scale=np.where(np.isfinite(one.prior.df), 1e8, one.prior.scale), df=np.full(3, np.inf))
    precision, slope = others.precision(np.zeros(3)), others.gradient(np.zeros(3))
    b, s = np.meshgrid(beta, log_sd, indexing="ij")
    v = np.exp(2 * s)[..., None, None]
    full, lean = precision + x.T @ x / v, slope + x.T @ y / v[..., 0]
    keep = [0, 2]
    inner, left = full[..., keep, :][..., keep], lean[..., keep] - full[..., keep, 1] * b[..., None]
    quadratic = lean[..., 1] * b - 0.5 * full[..., 1, 1] * b * b
    quadratic += 0.5 * (left * np.linalg.solve(inner, left[..., None])[..., 0]).sum(-1)
    heights = quadratic - 0.5 * np.linalg.slogdet(inner)[1] - y.size * s - 0.5 * y @ y / v[..., 0, 0]
    heights += one.sd_prior.log_density(np.exp(s)) + s + stats.t.logpdf(b, 3, 0, 0.2)
    density = np.exp(heights - heights.max()).sum(1)
    below = np.cumsum(density) / density.sum()
    drawn = last(GaussianKernel(one), 1_000, 10)[:, 1]  # autocorrelations are 0.14, 0.03 and then nothing
    assert stats.kstest(drawn, lambda at: np.interp(at, beta, below)).pvalue > harness.FALSE_ALARM
    normal = GaussianModel("y ~ x + z", frame(), {"x": tb.Normal(0.0, 0.2), "z": tb.Normal(0.0, 1.0)})
    other = last(GaussianKernel(normal), 400, 5)[:, 1]
    assert stats.kstest(other, lambda at: np.interp(at, beta, below)).pvalue < harness.FALSE_ALARM


def test_draws_do_not_depend_on_how_steps_are_split():
    for heavy in (False, True):
        kernel = GaussianKernel(model(heavy))
        assert harness.same(harness.some_draws(kernel, [60]), harness.some_draws(kernel, [1] * 20 + [13, 27]))


def test_it_is_least_squares_where_rows_are_many_and_touches_none(tmp_path, monkeypatch):
    sketched(monkeypatch)
    data = frame(200_000, 2)
    fit = tb.fit("y ~ x + z", data, family="gaussian", seed=1, draws=1_000, progress=False)
    x = np.column_stack([np.ones(len(data)), data["x"], data["z"]])
    least, (residual,), *_ = np.linalg.lstsq(x, data["y"])
    variance = residual / (len(data) - 3)
    error = np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))
    summary = fit.summary()
    np.testing.assert_allclose(summary["mean"][:3], least, atol=0.1 * error.min())
    np.testing.assert_allclose(summary["sd"][:3], error, rtol=0.1)
    assert summary["mean"]["sd"] == pytest.approx(variance**0.5, rel=0.001)
    assert fit.stats["rows_per_draw"] == 0
    assert fit.stats["passes"] <= 3
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    assert isinstance(again, tb.GaussianFit)
    pd.testing.assert_frame_equal(again.predict(data[:5]), fit.predict(data[:5]))
    bins = fit.calibration()
    assert ((bins["lower"] < bins["observed"]) & (bins["observed"] < bins["upper"])).mean() > 0.7
    fit.report(tmp_path / "page.html")
    assert "Gaussian regression" in (tmp_path / "page.html").read_text()


def test_new_outcomes_lie_in_their_intervals():
    data, new = frame(5_000, 3), frame(20_000, 4)
    fit = tb.fit("y ~ x + z", data, family="gaussian", seed=1, draws=500, progress=False)
    for noise, low, high in ((True, 0.925, 0.955), (False, 0.0, 0.2)):
        found = fit.predict(new, noise=noise)
        inside = (found["eti94_lb"] < new["y"]) & (new["y"] < found["eti94_ub"])
        assert low < inside.mean() < high
    np.testing.assert_allclose(fit.predict(new, noise=True)["mean"], fit.predict(new)["mean"], atol=0.02)


def test_large_outcomes_cost_no_digits():
    data = frame(2_000, 5)
    a, b = (GaussianModel("y ~ x", data.assign(y=data["y"] + shift)).sums for shift in (0.0, 1e7))
    assert b.residual == pytest.approx(a.residual, rel=1e-8)
    np.testing.assert_allclose(b.least - [1e7, 0.0], a.least, atol=1e-6)


def test_weights_count_rows_and_offsets_shift_them():
    data = frame(60, 6)
    twice = data.loc[data.index.repeat(data["w"])]
    given_ = {"family": "gaussian", "seed": 1, "draws": 400, "progress": False, "prior": tb.Normal(0, 100)}
    a = tb.fit("y ~ x", data, weights="w", **given_)
    b = tb.fit("y ~ x", twice, **given_)
    np.testing.assert_allclose(a.summary()["mean"], b.summary()["mean"], rtol=1e-6)
    c = tb.fit("y ~ x + offset(z)", data.assign(y=data["y"] + data["z"]), **given_)
    d = tb.fit("y ~ x", data, **given_)
    np.testing.assert_allclose(c.summary()["mean"], d.summary()["mean"], rtol=0.02)


def test_what_is_refused():
    with pytest.raises(ValueError, match="is not for Gaussian outcomes"):
        tb.fit("y ~ x", frame(), family="gaussian", method="mh", progress=False)
    for make in (tb.GLM, tb.Hierarchical):
        with pytest.raises(ValueError, match=r"standard deviation to estimate"):
            make("y ~ x" + (" + (1 | w)" if make is tb.Hierarchical else ""), frame(), family="gaussian")
    with pytest.raises(ValueError, match="linear combination"):
        tb.fit("y ~ x + x2", frame().assign(x2=frame()["x"] * 2), family="gaussian", progress=False)
