"""Priors against scipy.stats and differences, by name, and what is refused."""

import numpy as np
import pytest
from scipy import stats

from tallbayes.priors import DEFAULT, Normal, Prior

EPS = np.finfo(float).eps
NAMES = ["Intercept", "fico", "dti"]
PRIOR = Prior.of({"fico": Normal(1, 0.01), "dti": Normal(-3.0, 1e4)}, NAMES)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (5, 3)])
def test_log_density(shape):
    theta = PRIOR.mean + PRIOR.sd * np.random.default_rng(1).normal(size=shape) * 3
    truth = stats.norm.logpdf(theta, PRIOR.mean, PRIOR.sd).sum(-1)
    found = PRIOR.log_density(theta)
    assert found.shape == shape[:-1]
    # z is rounded relative to |mean| / sd (100 at most here), squared; the rest is a dozen roundings of
    # numbers near 20.
    z = np.abs((theta - PRIOR.mean) / PRIOR.sd)
    tolerance = 4 * EPS * ((z * np.abs(theta / PRIOR.sd)).sum(-1) + z.sum(-1) ** 2 + 20)
    assert (np.abs(found - truth) <= tolerance).all()


def test_gradient_and_precision_by_differences():
    # Central differences of a quadratic have no truncation error at any step; with a step of one sd the
    # rounding is that of the log density, some 20 of size, over the step.
    theta = PRIOR.mean + PRIOR.sd * np.array([[0.5, -1.0, 2.0], [0.0, 3.0, -1.0]])
    for j, step in enumerate(np.diag(PRIOR.sd)):
        sd = PRIOR.sd[j]
        slope = (PRIOR.log_density(theta + step) - PRIOR.log_density(theta - step)) / (2 * sd)
        bend = (PRIOR.gradient(theta + step) - PRIOR.gradient(theta - step)) / (2 * sd)
        rounding = 4 * EPS * (20 + 4 * np.abs(theta[:, j] / sd) + 4 * abs(PRIOR.mean[j] / sd)) / sd
        assert (np.abs(slope - PRIOR.gradient(theta)[:, j]) <= 4 * rounding).all()
        assert (np.abs(bend[:, j] + PRIOR.precision[j]) <= rounding / sd).all()
        assert (np.delete(bend, j, 1) == 0).all()


def test_sample_has_the_right_moments():
    draws = PRIOR.sample(np.random.default_rng(2), 40_000)
    assert draws.shape == (40_000, 3)
    z = (draws - PRIOR.mean) / PRIOR.sd
    assert (np.abs(z.mean(0)) * 200 < 5).all()  # 5 standard errors: a false alarm in 3 x 6e-7 of all seeds
    assert (np.abs(z.var(0) - 1) * 200 / np.sqrt(2) < 5).all()
    assert (PRIOR.sample(np.random.default_rng(2), 7) == PRIOR.sample(np.random.default_rng(2), 7)).all()


@pytest.mark.parametrize(
    ("given", "mean", "sd"),
    [
        (None, [0, 0, 0], [10, 10, 10]),
        (Normal(), [0, 0, 0], [10, 10, 10]),
        (Normal(1, 2), [1, 1, 1], [2, 2, 2]),
        ({}, [0, 0, 0], [10, 10, 10]),
        ({"dti": Normal(1, 2)}, [0, 0, 1], [10, 10, 2]),
        ({"dti": Normal(1, 2), "Intercept": Normal(-1, 3)}, [-1, 0, 1], [3, 10, 2]),
    ],
)
def test_by_name(given, mean, sd):
    prior = Prior.of(given, NAMES)
    assert prior.mean.tolist() == mean
    assert prior.sd.tolist() == sd
    assert prior.mean.dtype == prior.sd.dtype == float
    assert Normal(0, 10) == DEFAULT


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"ficoo": Normal()}, ValueError, "prior given for 'ficoo', which is no coefficient.*did you mean 'fico'"),
        ({"zzz": Normal()}, ValueError, "there are Intercept, fico, dti"),
        ({"fico": 3}, TypeError, "a coefficient's prior must be tb.Normal, not int"),
        (2.5, TypeError, "prior must be tb.Normal or a dict of them by coefficient, not float"),
        ([Normal()] * 3, TypeError, "not list"),
    ],
)
def test_refused(given, error, message):
    with pytest.raises(error, match=message):
        Prior.of(given, NAMES)


def test_a_name_that_is_no_text_is_refused_by_name():
    with pytest.raises((TypeError, ValueError), match="prior given for 1"):
        Prior.of({1: Normal()}, NAMES)


@pytest.mark.parametrize("sd", [0, -1, np.inf, np.nan, -np.inf])
def test_impossible_sd(sd):
    with pytest.raises(ValueError, match=f"prior sd must be a positive number, not {sd}"):
        Normal(0, sd)


@pytest.mark.parametrize("mean", [np.inf, -np.inf, np.nan])
def test_impossible_mean(mean):
    with pytest.raises(ValueError, match=f"prior mean must be a finite number, not {mean}"):
        Normal(mean, 1)
