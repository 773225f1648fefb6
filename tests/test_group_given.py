"""Group effects given coefficients and tau: draws and integrals against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from hierarchy import model_named
from scipy import integrate, stats

from tallbayes.groups.given import Given
from tallbayes.rows.memory import MemoryRows

NAMES = ["logit", "weighted", "probit", "poisson", "intercept"]
FALSE_ALARM = 1e-6
DRAWS = 20_000


def given(model):
    return model.rows.keep(Given, model.family.tag)


def density(model, beta, tau, group):
    """The log density of a group's effect, by NumPy alone, with the constant of its prior."""
    rows = model.rows
    members = slice(rows.arrays.starts[group], rows.arrays.starts[group + 1])
    eta = beta @ rows.arrays.x[:, members] + (rows.arrays.offset[members] if rows.arrays.offset.size else 0.0)
    weights = rows.arrays.own[members]
    y = rows.arrays.y[members]

    def log_density(t):
        values = model.family.tag.log_likelihood(y, eta + np.asarray(t)[..., None])
        return values @ weights + stats.norm.logpdf(t, 0.0, tau)

    return log_density


def table(log_density):
    """Grid, cumulative probabilities and log integral."""
    grid = np.linspace(-25, 25, 100_001)
    heights = log_density(grid)
    mass = integrate.cumulative_simpson(np.exp(heights - heights.max()), x=grid, initial=0)
    return grid, mass / mass[-1], np.log(mass[-1]) + heights.max()


def points(model, rng, count):
    beta = rng.normal(0.0, 0.7, (count, len(model.coefficients)))
    return beta, np.exp(rng.normal(-0.3, 0.7, count))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("around", [0.0, 4.0])
def test_draws_have_the_density(name, around):
    model, rng = model_named(name), np.random.default_rng(3)
    beta, tau = (part[0] for part in points(model, rng, 1))
    repeated = np.tile(beta, (DRAWS, 1)), np.full(DRAWS, tau)
    start = np.full(model.rows.groups, around)
    drawn = given(model).draw(*repeated, start, rng)
    for group in range(model.rows.groups):
        grid, cumulative, _ = table(density(model, beta, tau, group))
        uniform = np.interp(drawn[:, group], grid, cumulative)
        assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM
    correlation = np.corrcoef(drawn, rowvar=False) - np.eye(model.rows.groups)
    assert np.abs(correlation).max() < stats.norm.isf(FALSE_ALARM / 2) / DRAWS**0.5  # groups are independent


def test_draws_with_a_wrong_tau_are_told_apart():
    model, rng = model_named("logit"), np.random.default_rng(3)
    beta, tau = (part[0] for part in points(model, rng, 1))
    drawn = given(model).draw(np.tile(beta, (DRAWS, 1)), np.full(DRAWS, 1.05 * tau), np.zeros(4), rng)
    grid, cumulative, _ = table(density(model, beta, tau, 1))  # a group of one row, whose prior says most
    assert stats.kstest(np.interp(drawn[:, 1], grid, cumulative), "uniform").pvalue < FALSE_ALARM


@pytest.mark.parametrize("name", NAMES)
def test_integrals_are_those_of_quadrature(name):
    model, rng = model_named(name), np.random.default_rng(4)
    beta, tau = points(model, rng, 4)
    found = given(model).log_integral(beta, tau, np.zeros(model.rows.groups))
    truth = [
        sum(table(density(model, b, t, group))[2] for group in range(model.rows.groups))
        for b, t in zip(beta, tau, strict=True)
    ]
    # Nine nodes around the mode; a row alone under a wide prior is far from Gaussian, as a group of many is not. The
    # check that this is for tells errors of a log density from about a tenth on.
    np.testing.assert_allclose(found, truth, atol=0.02)
    assert np.median(np.abs(found - truth)) < 1e-3


def test_rows_are_counted():
    model = model_named("logit")
    before = model.rows.touched
    given(model).draw(np.zeros((3, 2)), np.ones(3), np.zeros(4), np.random.default_rng(1))
    assert model.rows.touched - before >= 3 * model.rows.size


def test_many_rows_a_group_are_taken_by_chunks():
    rng = np.random.default_rng(7)
    codes = np.repeat([0, 1], [3_000, 700])
    y = (rng.random(3_700) < 0.3).astype(float)
    rows = MemoryRows(np.ones((1, 3_700)), y, strata={"g": codes}, group="g", groups=2)
    model = model_named("logit")
    found = rows.keep(Given, model.family.tag).log_integral(np.array([[-0.8]]), np.array([0.5]), np.zeros(2))
    grid = np.linspace(-3, 3, 20_001)
    truth = 0.0
    for group in (0, 1):
        ones, size = y[codes == group].sum(), (codes == group).sum()
        heights = ones * (grid - 0.8) - size * np.logaddexp(0, grid - 0.8) + stats.norm.logpdf(grid, 0, 0.5)
        truth += np.log(integrate.simpson(np.exp(heights - heights.max()), x=grid)) + heights.max()
    assert found[0] == pytest.approx(truth, abs=1e-6)
