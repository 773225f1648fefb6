"""Approximate draws held against the full data: what the check says is true, within its stated uncertainty."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from tallbayes.sampling.importance import TAIL_DF, Errors, Weighed, moments, seen, weigh

FALSE_ALARM = 1e-6
MEAN, SD = np.array([1.0, -2.0, 0.5]), np.array([1.0, 0.1, 3.0])


def log_posterior(theta):
    return stats.norm.logpdf(theta, MEAN, SD).sum(-1)


def draws(shift=0.0, stretch=1.0, count=20_000):
    z = np.random.default_rng(1).standard_normal((2, count, 3))
    return MEAN + SD * (shift + stretch * z)


def limit(errors, checks):
    return stats.norm.isf(FALSE_ALARM / (2 * checks)) * errors.uncertainty


def test_right_draws_are_found_right():
    errors = seen(draws(), log_posterior, 2_000, np.random.default_rng(2))
    assert errors.share > 0.85
    assert np.abs(errors.shift).max() < limit(errors, 6)
    assert np.abs(errors.stretch - 1).max() < limit(errors, 6)


@pytest.mark.parametrize(("shift", "stretch"), [(0.5, 1.0), (-1.0, 1.3), (0.0, 0.8)])
def test_wrong_draws_are_found_wrong_by_how_much(shift, stretch):
    errors = seen(draws(shift, stretch), log_posterior, 4_000, np.random.default_rng(2))
    assert np.abs(errors.shift - shift).max() < limit(errors, 18)
    assert np.abs(errors.stretch / stretch - 1).max() < 2 * limit(errors, 18)
    told = errors.said(("a", "b", "c"))
    assert "the largest error of a mean is" in told
    assert abs(shift) < 0.2 or f"{abs(errors.shift).max():.2f} posterior sds" in told


def test_a_hopeless_check_says_so():
    errors = seen(draws(shift=6.0), log_posterior, 400, np.random.default_rng(2))
    assert errors.share < 0.1
    assert "too little to tell the error, which may be large" in errors.said(("a", "b", "c"))


def test_draws_that_no_gaussian_fits_are_not_judged():
    stuck = draws()
    stuck[..., 1] = 0.3
    twice = np.repeat(draws()[:1, :2], 10, axis=1)  # two places only
    for found in (stuck, twice, draws()[:1, :2]):
        errors = seen(found, log_posterior, 100, np.random.default_rng(1))
        assert errors.share == 0
        assert "too little to tell" in errors.said(("a", "b", "c"))
        assert np.isinf(errors.uncertainty)


def test_resampling_gives_the_posterior():
    weighed = weigh(MEAN + 0.3 * SD, np.diag((1.2 * SD) ** 2), log_posterior, 20_000, np.random.default_rng(3))
    found = weighed.resample(4, 5_000, np.random.default_rng(4))
    assert found.shape == (4, 5_000, 3)
    error = stats.norm.isf(FALSE_ALARM / 12) / (weighed.share * 20_000) ** 0.5
    assert np.abs((found.mean((0, 1)) - MEAN) / SD).max() < 1.5 * error  # resampling adds a little
    assert np.abs(found.std((0, 1)) / SD - 1).max() < 1.5 * error
    np.testing.assert_allclose(weighed.mean, MEAN, atol=(error * SD).max())


def test_equal_weights_count_in_full():
    weighed = Weighed(np.arange(10.0)[:, None], np.full(10, 0.1))
    assert weighed.share == pytest.approx(1.0)
    assert weighed.mean == pytest.approx([4.5])
    assert sorted(weighed.resample(2, 5, np.random.default_rng(1)).ravel()) == list(range(10))


def test_moments_and_facts():
    mean, covariance = moments(draws(count=200_000))
    np.testing.assert_allclose(mean, MEAN, atol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), SD, rtol=0.02)
    facts = Errors(0.5, 400, np.zeros(2), np.ones(2)).facts(("a", "b"))
    assert facts["uncertainty"] == pytest.approx(200**-0.5)
    assert facts["shift"] == {"a": 0.0, "b": 0.0}


def test_weights_are_the_posterior_over_the_density_of_the_points():
    """Against scipy's density of a multivariate Student-t, for a covariance that is not diagonal."""
    rng = np.random.default_rng(5)
    root = rng.standard_normal((3, 3))
    center, scale = rng.standard_normal(3), root @ root.T + 0.1 * np.eye(3)
    found = weigh(center, scale, log_posterior, 200, rng)
    logs = log_posterior(found.points) - stats.multivariate_t(center, scale, TAIL_DF).logpdf(found.points)
    expected = np.exp(logs - logs.max())
    np.testing.assert_allclose(found.weights, expected / expected.sum(), rtol=1e-9)


def test_what_is_said_of_the_largest_error_holds_for_many_parameters():
    """The draws are right, and the largest of forty differences is far out by chance: the margin must allow for it."""
    p, repeats, inside = 20, 100, 0
    for repeat in range(repeats):
        rng = np.random.default_rng([7, repeat])
        right = rng.standard_normal((2, 1_000, p))
        errors = seen(right, lambda theta: -0.5 * (theta**2).sum(-1), 400, rng)
        mean, sd = int(np.abs(errors.shift).argmax()), int(np.abs(np.log(errors.stretch)).argmax())
        told = re.search(r"both give or take ([\d.]+)", errors.said(tuple(map(str, range(p)))))
        assert told is not None
        margin = float(told[1]) + 0.005  # it is rounded
        off = errors.shift[mean] - right.mean((0, 1))[mean], errors.stretch[sd] - right.std((0, 1))[sd]
        inside += max(map(abs, off)) < margin
    # Meant to hold in 95 of 100; with that probability fewer than 80 are seen in less than 1e-6 of all seeds.
    assert inside >= 80
