"""Priors against scipy.stats and differences, by name, and what is refused."""

import numpy as np
import pytest
from scipy import stats

from tallbayes.models.glm import GLM
from tallbayes.models.priors import Normal, Prior, StudentT, prior_from_text, without_texts
from tallbayes.rows.moments import Moments

EPS = np.finfo(float).eps
NAMES = ["Intercept", "fico", "dti"]
COLUMNS = Moments(
    mean=np.array([1.0, 700.0, 0.25]),
    sd=np.array([0.0, 50.0, 0.4]),
    low=np.array([1.0, 300.0, 0.0]),
    high=np.array([1.0, 850.0, 2.0]),
    two=np.array([False, False, True]),
)


def prior_of(given, names=NAMES):
    return Prior.of(without_texts(given), names, Moments(*(part[: len(names)] for part in COLUMNS)))


PRIOR = prior_of({"Intercept": Normal(0, 10), "fico": Normal(1, 0.01), "dti": Normal(-3.0, 1e4)})
MIXED = prior_of({"Intercept": StudentT(3, -1, 0.5), "fico": Normal(1, 2), "dti": StudentT(0.7, 0, 100)})
DEFAULTS = prior_of({"dti": StudentT(3, 1, 2)})  # those of the intercept, at the columns' means, and of fico


@pytest.mark.parametrize("shape", [(3,), (1, 3), (5, 3)])
def test_log_density(shape):
    theta = PRIOR.mean + PRIOR.scale * np.random.default_rng(1).normal(size=shape) * 3
    truth = stats.norm.logpdf(theta, PRIOR.mean, PRIOR.scale).sum(-1)
    found = PRIOR.log_density(theta)
    assert found.shape == shape[:-1]
    # z is rounded relative to |mean| / sd (100 at most here), squared; the rest is a dozen roundings of
    # numbers near 20.
    z = np.abs((theta - PRIOR.mean) / PRIOR.scale)
    tolerance = 4 * EPS * ((z * np.abs(theta / PRIOR.scale)).sum(-1) + z.sum(-1) ** 2 + 20)
    assert (np.abs(found - truth) <= tolerance).all()


@pytest.mark.parametrize("shape", [(3,), (1, 3), (50, 3)])
def test_log_density_of_mixed_priors(shape):
    theta = MIXED.mean + MIXED.scale * np.random.default_rng(1).standard_t(1, size=shape) * 3
    truth = stats.t.logpdf(theta[..., 0], 3, -1, 0.5) + stats.norm.logpdf(theta[..., 1], 1, 2)
    truth += stats.t.logpdf(theta[..., 2], 0.7, 0, 100)
    found = MIXED.log_density(theta)
    assert found.shape == shape[:-1]
    # scipy's density is a dozen roundings of numbers up to 100; ours as well.
    assert (np.abs(found - truth) <= 100 * EPS * (1 + np.abs(truth))).all()


def test_many_degrees_of_freedom_are_nearly_normal():
    # The log densities differ by (z^4 - 2 z^2 - 1) / 4 df, and lgamma(df / 2) has 1.2e7 df rounded away.
    theta, df = np.linspace(-3, 3, 7)[:, None], 1e6
    student, normal = (prior_of(one, ["a"]).log_density(theta) for one in (StudentT(df, 0, 1), Normal(0, 1)))
    assert np.abs(student - normal).max() <= 20 / df


@pytest.mark.parametrize("prior", ["normal", "mixed"])
def test_gradient_by_differences(prior):
    # Central differences over h scale err by h^2 / 6 times a third derivative, which is at most 2 (df + 1) / df^1.5
    # < 7 for df = 0.7, and by the rounding of the log density over h.
    prior, h = {"normal": PRIOR, "mixed": MIXED}[prior], 1e-4
    theta = prior.mean + prior.scale * np.array([[0.5, -1.0, 2.0], [0.0, 3.0, -1.0], [-9.0, 0.1, 40.0]])
    for j, step in enumerate(np.diag(h * prior.scale)):
        up, down = prior.log_density(theta + step), prior.log_density(theta - step)
        rounding = 8 * EPS * (np.abs(up) + np.abs(theta / prior.scale).max() * 10 + 20) / h
        slope = (up - down) / (2 * h)
        assert (np.abs(slope - prior.gradient(theta)[:, j] * prior.scale[j]) <= 7 * h**2 + rounding).all()


def test_precision_is_that_of_the_normal_with_the_same_slope():
    theta = MIXED.mean + MIXED.scale * np.random.default_rng(3).standard_t(1, size=(20, 3))
    matrices = np.array([MIXED.precision(row) for row in theta])
    precision = matrices.diagonal(axis1=1, axis2=2)
    assert (matrices == precision[..., None] * np.eye(3)).all()
    assert (precision > 0).all()
    for row, sd in zip(theta, precision**-0.5, strict=True):
        same = prior_of({name: Normal(m, s) for name, m, s in zip(NAMES, MIXED.mean, sd, strict=True)})
        assert same.gradient(row) == pytest.approx(MIXED.gradient(row), rel=8 * EPS)
    assert (precision[:, 1] == 1 / 4).all()  # minus the curvature of the Normal one
    assert PRIOR.precision(theta[0]) == pytest.approx(np.diag(PRIOR.scale**-2), rel=2 * EPS)
    at_mean = np.diag(MIXED.precision(MIXED.mean)) * MIXED.scale**2
    assert at_mean == pytest.approx([4 / 3, 1, 1.7 / 0.7], rel=8 * EPS)  # (df + 1) / df


def test_precision_is_at_least_the_curvature():
    # So a Newton step with it never overshoots where the density is not log-concave.
    z = np.linspace(-30, 30, 401)[:, None]
    prior = prior_of(StudentT(2, 0, 1), ["a"])
    curvature = -np.gradient(prior.gradient(z)[:, 0], z[:, 0])
    assert (curvature < 0).any()
    assert (np.array([prior.precision(row)[0, 0] for row in z])[1:-1] >= curvature[1:-1]).all()


def test_the_default_of_the_intercept_is_at_the_means_of_the_columns():
    """Against scipy's densities of (theta_0 + 700 theta_1 + theta_2 / 4, theta_1, theta_2)."""
    theta = np.random.default_rng(4).normal([-70.0, 0.1, 1.0], [30.0, 0.1, 3.0], (50, 3))
    at_means = theta[:, 0] + 700 * theta[:, 1] + 0.25 * theta[:, 2]
    truth = stats.norm.logpdf(at_means, 0, 10) + stats.norm.logpdf(theta[:, 1], 0, 5 / 50)
    truth += stats.t.logpdf(theta[:, 2], 3, 1, 2)
    np.testing.assert_allclose(DEFAULTS.log_density(theta), truth, rtol=1e-12)
    for row, slope in zip(theta, DEFAULTS.gradient(theta), strict=True):
        assert (DEFAULTS.gradient(row) == slope).all()  # alone or beside others
        steps = 1e-6 * np.eye(3) * np.array([10, 0.1, 2])
        around = [(DEFAULTS.log_density(row + h) - DEFAULTS.log_density(row - h)) / (2 * h.sum()) for h in steps]
        np.testing.assert_allclose(slope, around, rtol=1e-5, atol=1e-5)
        # A quadratic with that slope and precision has the density's mean as its top, where all but the Student-t
        # one are Normal.
        bends = [(DEFAULTS.gradient(row + h) - DEFAULTS.gradient(row - h)) / (2 * h.sum()) for h in steps[:2]]
        np.testing.assert_allclose(DEFAULTS.precision(row)[:2], -np.array(bends), rtol=1e-6, atol=1e-9)
    assert DEFAULTS.given == (False, False, True)
    assert (DEFAULTS.to_the_power(0.25).log_density(theta[:1]) - DEFAULTS.to_the_power(0.25).log_density(theta[1:2]))[
        0
    ] == pytest.approx((truth[0] - truth[1]) / 4)


def test_draws_of_defaults():
    draws = DEFAULTS.sample(np.random.default_rng(5), 20_000)
    at_means = draws[:, 0] + 700 * draws[:, 1] + 0.25 * draws[:, 2]
    for values, law in (
        (at_means, stats.norm(0, 10)),
        (draws[:, 1], stats.norm(0, 0.1)),
        (draws[:, 2], stats.t(3, 1, 2)),
    ):
        assert stats.kstest(values, law.cdf).pvalue > 1e-6 / 3  # a false alarm in 1e-6 of all seeds
    assert abs(stats.spearmanr(at_means, draws[:, 1]).statistic) * 20_000**0.5 < 5.2
    assert abs(stats.spearmanr(draws[:, 0], draws[:, 1]).statistic) > 0.9  # the control: the coefficient itself is not


def test_priors_are_told():
    assert prior_of(None).described() == ["Normal(0, 10) at the columns' means", "Normal(0, 0.1)", "Normal(0, 2.5)"]
    assert MIXED.described() == ["StudentT(3, -1, 0.5)", "Normal(1, 2)", "StudentT(0.7, 0, 100)"]
    assert prior_of(Normal(0, 12_345.6)).described() == ["Normal(0, 12,346)"] * 3


def test_sample_has_the_right_moments():
    draws = PRIOR.sample(np.random.default_rng(2), 40_000)
    assert draws.shape == (40_000, 3)
    z = (draws - PRIOR.mean) / PRIOR.scale
    assert (np.abs(z.mean(0)) * 200 < 5).all()  # 5 standard errors: a false alarm in 3 x 6e-7 of all seeds
    assert (np.abs(z.var(0) - 1) * 200 / np.sqrt(2) < 5).all()
    assert (PRIOR.sample(np.random.default_rng(2), 7) == PRIOR.sample(np.random.default_rng(2), 7)).all()


def test_sample_has_the_right_distributions():
    draws = MIXED.sample(np.random.default_rng(2), 20_000)
    assert draws.shape == (20_000, 3)
    truth = [stats.t(3, -1, 0.5), stats.norm(1, 2), stats.t(0.7, 0, 100)]
    for column, distribution in zip(draws.T, truth, strict=True):
        assert stats.kstest(column, distribution.cdf).pvalue > 1e-6 / 3  # a false alarm in 1e-6 of all seeds
    ranks = stats.spearmanr(draws).statistic
    assert (np.abs(ranks[np.triu_indices(3, 1)]) * 20_000**0.5 < 5.2).all()  # independent: 3 x 2e-7
    assert (MIXED.sample(np.random.default_rng(2), 7) == MIXED.sample(np.random.default_rng(2), 7)).all()


@pytest.mark.parametrize(
    ("given", "mean", "scale", "df"),
    [
        (None, [0, 0, 0], [10, 0.1, 2.5], [np.inf] * 3),
        (Normal(), [0, 0, 0], [10, 10, 10], [np.inf] * 3),
        (Normal(1, 2), [1, 1, 1], [2, 2, 2], [np.inf] * 3),
        (StudentT(4), [0, 0, 0], [2.5, 2.5, 2.5], [4, 4, 4]),
        ({}, [0, 0, 0], [10, 0.1, 2.5], [np.inf] * 3),
        ({"dti": Normal(1, 2)}, [0, 0, 1], [10, 0.1, 2], [np.inf] * 3),
        ({"dti": StudentT(1, 1, 2)}, [0, 0, 1], [10, 0.1, 2], [np.inf, np.inf, 1]),
        ({"dti": Normal(1, 2), "Intercept": StudentT(7, -1, 3)}, [-1, 0, 1], [3, 0.1, 2], [7, np.inf, np.inf]),
    ],
)
def test_by_name(given, mean, scale, df):
    prior = prior_of(given)
    assert (prior.mean.tolist(), prior.scale.tolist(), prior.df.tolist()) == (mean, scale, df)
    assert prior.mean.dtype == prior.scale.dtype == prior.df.dtype == float
    assert prior.normal == np.isinf(df).all()
    raw = isinstance(given, Normal | StudentT) or "Intercept" in (given or {})
    assert prior.means.tolist() == ([0, 0, 0] if raw else [0, 700, 0.25])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ficoo": Normal()}, "prior given for 'ficoo', which is not a coefficient.*did you mean 'fico'"),
        ({"zzz": StudentT(3)}, "there are Intercept, fico, dti"),
        ({"fico": 3}, "the prior of 'fico' must be tb.Normal, tb.StudentT, a text such as 'normal.0, 1.', not 3"),
        (2.5, "prior must be tb.Normal, .* or a dict of them by coefficient, not 2.5"),
        ([Normal()] * 3, "not a value of type list"),
    ],
)
def test_refused(given, message):
    with pytest.raises(ValueError, match=message):
        prior_of(given)


def test_a_name_that_is_no_text_is_refused_by_name():
    with pytest.raises(ValueError, match="a name in prior must be the name of a coefficient, not 1"):
        prior_of({1: Normal()})


@pytest.mark.parametrize("wrong", [0, -1, np.inf, np.nan, -np.inf])
def test_impossible_student_t(wrong):
    with pytest.raises(ValueError, match=f"prior df must be a positive number from 0.5 to .*, not {wrong}"):
        StudentT(wrong)
    with pytest.raises(ValueError, match=f"prior scale must be a positive number from 1e-100 to .*, not {wrong}"):
        StudentT(3, 0, wrong)
    if not np.isfinite(wrong):
        with pytest.raises(ValueError, match=f"prior mean must be a number .*, not {wrong}"):
            StudentT(3, wrong)


@pytest.mark.parametrize("sd", [0, -1, np.inf, np.nan, -np.inf])
def test_impossible_sd(sd):
    with pytest.raises(ValueError, match=f"prior sd must be a positive number from 1e-100 to .*, not {sd}"):
        Normal(0, sd)


@pytest.mark.parametrize("mean", [np.inf, -np.inf, np.nan])
def test_impossible_mean(mean):
    with pytest.raises(ValueError, match=f"prior mean must be a number .*, not {mean}"):
        Normal(mean, 1)


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("normal(0, 1)", Normal(0, 1)),
        (" Normal ( -1e-3,2.5 ) ", Normal(-1e-3, 2.5)),
        ("student_t(4, 0, 2.5)", StudentT(4, 0, 2.5)),
        ("STUDENT_T(.5,-1,1e2)", StudentT(0.5, -1, 100)),
    ],
)
def test_priors_from_text(text, prior):
    assert prior_from_text(text) == prior
    assert without_texts(text) == prior
    assert without_texts({"a": text, "b": Normal(1, 2)}) == {"a": prior, "b": Normal(1, 2)}
    assert without_texts(prior) is prior
    assert without_texts(None) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the prior '' is not like normal"),
        ("normal", r"the prior 'normal' is not like normal\(MEAN, SD\) or student_t\(DF, MEAN, SCALE\)"),
        ("normal()", "is not like normal"),
        ("normal(0)", "is not like normal"),
        ("normal(0, one)", "is not like normal"),
        ("student_t(4, 0)", "is not like normal"),
        ("cauchy(0, 1)", "is not like normal"),
        ("fico=normal(0, 1)", "is not like normal"),
        ("normal(0, -1)", "prior sd must be a positive number .*, not -1"),
        ("normal(nan, 1)", "prior mean must be a number .*, not nan"),
    ],
)
def test_texts_that_are_no_priors(text, message):
    with pytest.raises(ValueError, match=message):
        prior_from_text(text)


def test_models_take_priors_as_text():
    data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]}
    assert GLM("y ~ x", data, prior="normal(1, 2)").prior.mean.tolist() == [1, 1]
    mixed = GLM("y ~ x", data, prior={"x": "student_t(4, 0, 2.5)", "Intercept": Normal(3, 1)}).prior
    assert (mixed.mean.tolist(), mixed.scale.tolist(), mixed.df.tolist()) == ([3, 0], [1, 2.5], [np.inf, 4])
    assert GLM.from_arrays([[1.0], [2.0]], [0, 1], prior={"x0": "normal(0, 7)"}).prior.scale.tolist() == [7]
    with pytest.raises(ValueError, match="the prior 'cauchy' is not like"):
        GLM("y ~ x", "no_such_file.csv", prior="cauchy")  # before anything is read
