"""Arrow-shaped Gaussians against dense matrices, derivatives by group against dummy columns, and the mode of both."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from harness import FALSE_ALARM
from scipy import stats
from scipy.special import expit

from tallbayes.families import LINKS, Binomial, Poisson
from tallbayes.families.poisson import Log
from tallbayes.groups.arrow import Expansion, gaussian
from tallbayes.groups.mode import CLOSE, STAYS, GroupMode, find_group_mode
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.result import group_facts
from tallbayes.groups.scale import HalfCauchy, HalfNormal, InverseSquare
from tallbayes.models.cautions import SeparationWarning
from tallbayes.models.first import LOOKED_AT
from tallbayes.models.priors import Normal, StudentT
from tallbayes.rows import threads
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.tasks import Derivatives, LogLikelihoodDerivatives

TAGS = {"poisson": Log()} | {link: kind() for link, kind in LINKS.items()}


# Arrows


def expansion(p: int, k: int, seed: int = 1, rows: int = 40) -> Expansion:
    """Of weighted rows with a dummy for each group; the last group has none and the first is large."""
    rng = np.random.default_rng([seed, p, k])
    codes = np.sort(np.concatenate([np.zeros(rows, int), rng.integers(max(1, k - 1), size=rows)]))
    x = np.concatenate([np.ones((1, codes.size)), rng.normal(size=(p - 1, codes.size))])
    weights = rng.gamma(1.0, size=codes.size)
    dummies = (codes == np.arange(k)[:, None]).astype(float)
    mixed, own = dummies @ (weights * x).T, dummies @ weights
    slopes = rng.normal(size=p + k)
    slopes[-1] = 0.0
    return Expansion(
        rng.normal(size=p), rng.normal(size=k), -17.0, slopes[:p], (x * weights) @ x.T, mixed, slopes[p:], own
    )


def dense(at: Expansion, prior_slope: np.ndarray, prior_precision: np.ndarray, tau: float):
    """Precision of (coefficients, effects) and slope of the log density at the expansion."""
    precision = np.block(
        [[at.curvature + prior_precision, at.mixed.T], [at.mixed, np.diag(at.effect_curvature + tau**-2)]]
    )
    return precision, np.concatenate([at.slope + prior_slope, at.effect_slope - at.effects / tau**2])


SHAPES = [(1, 2), (1, 7), (3, 2), (4, 30)]


@pytest.mark.parametrize(("p", "k"), SHAPES)
@pytest.mark.parametrize("tau", [1e-3, 0.1, 0.7, 20.0])
def test_an_arrow_is_the_dense_gaussian(p, k, tau):
    at, rng = expansion(p, k), np.random.default_rng(2)
    prior_slope, prior_precision = rng.normal(size=p), np.diag(rng.gamma(1.0, size=p))
    found = gaussian(at, prior_slope, prior_precision, tau)
    precision, slope = dense(at, prior_slope, prior_precision, tau)
    covariance = np.linalg.inv(precision)
    mean = covariance @ slope
    # Condition numbers reach 1e7 with the smallest tau, and inverting loses that much of 16 digits.
    close = {"rtol": 1e-7, "atol": 1e-9}
    np.testing.assert_allclose(found.step, mean[:p], **close)
    np.testing.assert_allclose(found.shift - found.shares @ found.step, mean[p:], **close)
    own = found.factor @ found.factor.T
    np.testing.assert_allclose(own, covariance[:p, :p], **close)
    np.testing.assert_allclose(np.linalg.inv(own), found.precision, **close)
    np.testing.assert_allclose(-found.shares @ own, covariance[p:, :p], **close)
    effects = np.diag(found.sd**2) + found.shares @ own @ found.shares.T
    np.testing.assert_allclose(effects, covariance[p:, p:], **close)
    # The integral over the coefficients leaves a (2 pi)^(p/2) that no tau changes.
    mass = at.value + 0.5 * slope @ mean - 0.5 * np.linalg.slogdet(precision)[1]
    mass -= 0.5 * (at.effects**2).sum() / tau**2 + k * np.log(tau)
    assert found.log_mass == pytest.approx(mass, rel=1e-7)


@pytest.mark.parametrize(("p", "k"), SHAPES)
def test_at_tau_zero_all_effects_are_zero(p, k):
    at, rng = expansion(p, k), np.random.default_rng(3)
    prior_slope, prior_precision = rng.normal(size=p), np.diag(rng.gamma(1.0, size=p))
    found = gaussian(at, prior_slope, prior_precision, 0.0)
    precision = at.curvature + prior_precision
    slope = at.slope + prior_slope + at.mixed.T @ at.effects
    np.testing.assert_allclose(found.step, np.linalg.solve(precision, slope), rtol=1e-9)
    np.testing.assert_allclose(found.precision, precision)
    assert (found.shift == -at.effects).all()
    assert not found.sd.any()
    assert not found.shares.any()
    there = at.value - at.effect_slope @ at.effects - 0.5 * at.effect_curvature @ at.effects**2
    mass = there + 0.5 * slope @ np.linalg.solve(precision, slope) - 0.5 * np.linalg.slogdet(precision)[1]
    assert found.log_mass == pytest.approx(mass, rel=1e-9)
    # Squares of tau enter: at 1e-7 they are below rounding.
    near = gaussian(at, prior_slope, prior_precision, 1e-7)
    for one, another in zip(found, near, strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-9, atol=2e-7)


def test_columns_in_unlike_units():
    """The same Gaussian when a column is given in thousandths of thousandths."""
    at, unit = expansion(3, 5), np.array([1.0, 1e-6, 1e5])
    other = at._replace(
        slope=at.slope * unit, curvature=at.curvature * np.outer(unit, unit), mixed=at.mixed * unit, beta=at.beta / unit
    )
    one = gaussian(at, np.zeros(3), 0.1 * np.eye(3), 0.5)
    another = gaussian(other, np.zeros(3), 0.1 * np.diag(unit**2), 0.5)
    np.testing.assert_allclose(another.step * unit, one.step, rtol=1e-9)
    np.testing.assert_allclose(another.sd, one.sd, rtol=1e-12)
    assert another.log_mass + np.log(unit).sum() == pytest.approx(one.log_mass, rel=1e-12)


# Derivatives by group

# Rows in each group: single rows, none at all, borders of blocks inside groups and between them, the last group short.
SIZES = [1, 10_000, 6_383, 0, 1, 1, 16_382, 16_385, 0, 3, 700, 0]


def grouped(link: str, sizes: list[int] = SIZES, p: int = 3, seed: int = 1) -> dict:
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    n = codes.size
    x = np.concatenate([np.ones((1, n)), rng.normal(size=(p - 1, n))])
    y = rng.poisson(1.0, n) if link == "poisson" else rng.integers(2, size=n)
    return {
        "x": x,
        "y": y.astype(float),
        "weights": rng.gamma(1.0, size=n) * (rng.random(n) > 0.1),
        "offset": rng.normal(size=n),
        "strata": {"g": codes},
        "group": "g",
        "groups": len(sizes),
    }


def with_dummies(tag, given: dict, params: np.ndarray) -> Derivatives:
    """From a design with a dummy column for each group, with NumPy; and sums of absolute values, for rounding."""
    dummies = (given["strata"]["g"] == np.arange(given["groups"])[:, None]).astype(float)
    design, weights = np.concatenate([given["x"], dummies]), given["weights"]
    p, found = len(given["x"]), []
    for theta in params:
        eta = theta[:-1] @ design + given["offset"]
        first, second, _ = tag.derivatives(given["y"], eta)
        whole = -(design * (weights * second)) @ design.T
        slopes = design @ (weights * first)
        by_group = np.column_stack([whole[p:, :p], slopes[p:], np.diag(whole)[p:]])
        found.append((weights @ tag.log_likelihood(given["y"], eta), slopes[:p], whole[:p, :p], by_group))
    return Derivatives(*(np.array(part) for part in zip(*found, strict=True)))


def some_params(given: dict, count: int = 5) -> np.ndarray:
    rng = np.random.default_rng(7)
    return 0.5 * rng.normal(size=(count, len(given["x"]) + given["groups"] + 1))


@pytest.mark.parametrize("link", TAGS)
def test_derivatives_by_group_are_those_of_dummy_columns(link):
    given = grouped(link)
    assert len(given["y"]) > 3 * LENGTH
    params = some_params(given)
    found = MemoryRows(**given).reduce(LogLikelihoodDerivatives(TAGS[link]), params)
    expected = with_dummies(TAGS[link], given, params)
    for one, another in zip(found, expected, strict=True):
        # Sums of 25,000 terms, of which the largest counts; e^eta has errors of 1e-15 in the tails.
        np.testing.assert_allclose(one, another, rtol=1e-10, atol=1e-10 * np.abs(another).max())
    empty = np.array(SIZES) == 0
    assert not found.by_group[:, empty].any()


@pytest.mark.parametrize("link", TAGS)
def test_derivatives_by_group_are_differences_of_values(link):
    """Central differences of the log-likelihood: errors of step^2 f''' / 6 and of rounding / step, a row."""
    given = grouped(link, [7, 1, 0, 40, 3])
    rows, ask, p = MemoryRows(**given), LogLikelihoodDerivatives(TAGS[link]), 3
    theta, step = some_params(given, 1)[0], 1e-4
    width = theta.size
    moved = rows.reduce(ask, np.concatenate([theta + step * np.eye(width), theta - step * np.eye(width)]))
    here = rows.reduce(ask, theta)
    assert here.value[0] == pytest.approx(moved.value.mean(), rel=1e-4)
    slopes = (moved.value[:width] - moved.value[width:]) / (2 * step)
    np.testing.assert_allclose(slopes[:p], here.gradient[0], atol=1e-5)
    np.testing.assert_allclose(slopes[p:-1], here.by_group[0, :, p], atol=1e-5)
    assert slopes[-1] == 0  # log tau does not touch the rows
    bends = -(moved.gradient[:width] - moved.gradient[width:]) / (2 * step)
    np.testing.assert_allclose(bends[p:-1], here.by_group[0, :, :p], atol=1e-5)
    own = -(moved.by_group[:width, :, p] - moved.by_group[width:, :, p]) / (2 * step)
    np.testing.assert_allclose(own[p:-1], np.diag(here.by_group[0, :, p + 1]), atol=1e-5)
    np.testing.assert_allclose(own[:p].T, here.by_group[0, :, :p], atol=1e-5)


def test_derivatives_by_group_of_trials():
    """A row with k successes among m trials has slope k - m p and curvature m p (1 - p)."""
    rng = np.random.default_rng(4)
    codes, trials = np.repeat(np.arange(4), [3, 1, 10, 6]), rng.integers(0, 9, 20)
    trials[:3] = 0  # a group whose rows say nothing
    data = {
        "g": codes,
        "m": trials,
        "k": rng.binomial(trials, 0.4),
        "x": rng.normal(size=20),
        "w": rng.gamma(2.0, size=20),
    }
    order = rng.permutation(20)
    model = Hierarchical(
        "k ~ x + (1 | g)",
        {name: values[order] for name, values in data.items()},
        Binomial("m"),
        weights="w",
        offset="x",
    )
    theta = np.array([-0.3, 0.8, 0.1, -0.5, 0.4, 0.9, -1.0])
    found = model.derivatives(theta).by_group[0]
    mean = expit(theta[0] + theta[1] * data["x"] + theta[2:6][codes] + data["x"])
    slope, bend = data["w"] * (data["k"] - trials * mean), data["w"] * trials * mean * (1 - mean)
    terms = np.array([bend, bend * data["x"], slope, bend])
    expected = np.array([[terms[j, codes == g].sum() for j in range(4)] for g in range(4)])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert not found[0].any()


@pytest.mark.parametrize("link", ["logit", "poisson"])
def test_same_bits_for_any_number_of_threads(link):
    given = grouped(link, [*SIZES, 16_000])
    params = some_params(given)
    assert given["y"].size * len(params) > threads.ALONE  # else one thread does it alone
    answers = []
    for count in (1, 2, 4):
        with threads.using(count):
            answers.append(MemoryRows(**given).reduce(LogLikelihoodDerivatives(TAGS[link]), params))
    for other in answers[1:]:
        for one, another in zip(answers[0], other, strict=True):
            assert (one == another).all()


# The mode


def simulated(
    sizes: list[int], tau: float, seed: int = 1, beta: tuple[float, ...] = (-0.5, 0.8), **options
) -> Hierarchical:
    """Rows of each group with effects from N(0, tau^2); with weights and offset that are no ones and zeros."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    x = np.concatenate([np.ones((1, codes.size)), rng.normal(size=(len(beta) - 1, codes.size))])
    weights, offset = rng.integers(1, 4, codes.size).astype(float), 0.3 * rng.normal(size=codes.size)
    eta = np.array(beta) @ x + (tau * rng.normal(size=len(sizes)))[codes] + offset
    y = (rng.random(codes.size) < expit(eta)).astype(float)
    return Hierarchical.from_arrays(x.T, y, codes, weights=weights, offset=offset, **options)


def found(model: Hierarchical, seed: int = 0) -> GroupMode:
    return find_group_mode(model)


def distance(mode: GroupMode, tau: float) -> float:
    """From where the log-likelihood is expanded to the mode given tau, in posterior standard deviations."""
    at, prior = mode.at, mode.model.prior
    precision, slope = dense(at, prior.gradient(at.beta), prior.precision(at.beta), tau)
    return float(np.sqrt(slope @ np.linalg.solve(precision, slope)))


PROBLEMS = {
    "fifty groups": ([60] * 50, 0.8, {}),
    "groups of one row": ([1] * 40 + [200] * 3, 0.5, {}),
    "two groups": ([300, 20], 1.0, {"group_prior": HalfNormal(1.0)}),
    "Student-t prior": ([30] * 20, 0.5, {"prior": StudentT(4.0, 0.0, 1.0)}),
    "inverse square": ([80] * 12, 0.8, {"group_prior": InverseSquare(0.01)}),
    "a first look": ([LOOKED_AT // 20] * 45, 0.4, {"prior": Normal(0.0, 2.0)}),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_slope_is_zero_at_the_mode(name):
    """For the tau with which the last climb began: it was then moved by less than STAYS."""
    sizes, tau, options = PROBLEMS[name]
    model = simulated(sizes, tau, **options)
    mode = found(model)
    distances = [distance(mode, mode.tau * np.exp(step)) for step in np.linspace(-STAYS, STAYS, 401)]
    assert min(distances) < 1.2 * CLOSE  # a fifth more for the steps of this grid
    # What is expanded there is the log-likelihood of all rows.
    here = model.derivatives(mode.theta)
    assert mode.at.value == here.value[0]
    assert (mode.at.slope == here.gradient[0]).all()
    assert (np.column_stack([mode.at.mixed, mode.at.effect_slope, mode.at.effect_curvature]) == here.by_group[0]).all()
    assert mode.theta[-1] == np.log(mode.tau)
    precision = dense(mode.at, np.zeros(2), model.prior.precision(mode.at.beta), mode.tau)[0]
    assert mode.conditional_sd == pytest.approx(np.diag(precision) ** -0.5, rel=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_tau_is_the_most_probable_by_the_expansion(name):
    sizes, tau, options = PROBLEMS[name]
    model = simulated(sizes, tau, **options)
    mode = found(model)
    grid = np.log(mode.tau) + np.linspace(-3, 3, 601)
    prior = model.group_prior.log_density(np.exp(grid)) + grid
    heights = np.array([mode.gaussian(np.exp(u)).log_mass for u in grid]) + prior
    # The last climb may have been for a tau that is STAYS away, and the grid of log tau has steps of 0.05.
    assert abs(grid[heights.argmax()] - np.log(mode.tau)) < 0.06
    weights = np.exp(heights - heights.max())
    center = weights @ grid / weights.sum()
    sd = np.sqrt(weights @ (grid - center) ** 2 / weights.sum())
    assert mode.weights.sum() == pytest.approx(1.0)
    if heights[0] < heights.max() - 20:  # else there is more than this grid has
        assert mode.weights @ mode.scales == pytest.approx(center, abs=0.01)
        assert np.sqrt(mode.weights @ (mode.scales - center) ** 2) == pytest.approx(sd, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_tau_is_near_the_truth(seed):
    """Inside the interval that has all but FALSE_ALARM of the posterior, which 50 groups make narrow."""
    mode = found(simulated([60] * 50, 0.8, seed=seed))
    below = np.interp(np.log(0.8), mode.scales, np.cumsum(mode.weights))
    assert FALSE_ALARM / 2 < below < 1 - FALSE_ALARM / 2
    sd = np.sqrt(mode.weights @ (mode.scales - mode.weights @ mode.scales) ** 2)
    assert 0.1 < sd < 0.2  # 1 / sqrt(2 groups) if effects were known
    assert mode.zero < 1e-10
    assert "the data rule out equal groups" in mode.said


def test_groups_that_are_all_equal():
    """The same rows in every group: nothing speaks for a tau above zero, and much against a large one."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=50), rng.integers(2, size=50)
    codes = np.repeat(np.arange(30), 50)
    given = {"weights": np.full(1500, 2.0), "offset": np.zeros(1500)}
    model = Hierarchical.from_arrays(np.column_stack([np.ones(1500), np.tile(x, 30)]), np.tile(y, 30), codes, **given)
    mode = found(model)
    assert 0.99 < mode.zero <= 1
    assert f"have {mode.zero:.2g} of the largest likelihood" in mode.said
    assert mode.tau < 0.3
    assert (np.abs(mode.at.effects) < CLOSE * mode.conditional_sd[2:]).all()
    np.testing.assert_allclose(mode.at.effects, mode.at.effects[0], atol=1e-12)


def test_draws_from_the_expansion():
    """Means and covariances against the mixture of dense Gaussians over tau."""
    mode = found(simulated([30, 4, 1, 60], 0.8, group_prior=HalfNormal(1.0)))
    size = 2_000
    draws = mode.draw([np.random.default_rng([1, i]) for i in range(size)])
    prior, p = mode.model.prior, 2
    means, covariances = [], []
    for log_tau in mode.scales:
        precision, slope = dense(mode.at, prior.gradient(mode.at.beta), prior.precision(mode.at.beta), np.exp(log_tau))
        covariances.append(np.linalg.inv(precision))
        means.append(np.concatenate([mode.theta[:-1] + covariances[-1] @ slope, [log_tau]]))
    center = mode.weights @ np.array(means)
    z = (draws.mean(0) - center) / (draws.std(0, ddof=1) / np.sqrt(size))
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARM / (2 * z.size))
    whole = np.einsum("i,ijk", mode.weights, covariances)
    spread = (np.array(means) - center)[:, :-1]
    whole += np.einsum("i,ij,ik", mode.weights, spread, spread)
    products = np.einsum("ij,ik->ijk", (draws - center)[:, :-1], (draws - center)[:, :-1])
    z = (products.mean(0) - whole) / (products.std(0, ddof=1) / np.sqrt(size))
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARM / (2 * z.size))
    assert np.isin(draws[:, -1], mode.scales).all()
    assert draws.shape == (size, p + 4 + 1)


def test_a_group_without_rows_gets_the_prior():
    """Its rows have weight zero."""
    rng = np.random.default_rng(6)
    codes, weights = np.repeat(np.arange(8), 30), np.ones(240)
    weights[codes == 3] = 0.0
    x = np.column_stack([np.ones(240), rng.normal(size=240)])
    y = (rng.random(240) < expit(rng.normal(size=8)[codes])).astype(float)
    model = Hierarchical.from_arrays(x, y, codes, weights=weights, offset=np.zeros(240), group_prior=HalfCauchy(1.0))
    mode = found(model)
    assert mode.at.effects[3] == 0
    assert mode.at.effect_curvature[3] == 0
    arrow = mode.gaussian(0.7)
    assert arrow.sd[3] == pytest.approx(0.7)
    assert not arrow.shares[3].any()
    facts = group_facts(mode)
    assert facts["rows"][1].tolist() == [30, 30, 30, 0, 30, 30, 30, 30]
    assert np.isnan([facts["outcome"][1][3], facts["alone"][1][3]]).all()


def test_facts_on_groups():
    """Total weight, mean outcome, and what the group's rows say alone: nothing where all outcomes are the same."""
    rng = np.random.default_rng(8)
    codes = np.repeat(np.arange(4), [2000, 5, 5, 1500])
    y = (rng.random(codes.size) < np.array([0.2, 0.5, 0.5, 0.6])[codes]).astype(float)
    y[codes == 1], y[codes == 2] = 0.0, 1.0
    weights = rng.integers(1, 3, codes.size).astype(float)
    model = Hierarchical.from_arrays(
        np.ones((codes.size, 1)), y, codes, weights=weights, offset=np.zeros(codes.size), group_prior=HalfNormal(2.0)
    )
    mode = found(model)
    facts = {name: values for name, (_, values) in group_facts(mode).items()}
    totals = np.bincount(codes, weights)
    assert facts["rows"] == pytest.approx(totals)
    outcome = np.bincount(codes, weights * y) / totals
    assert facts["outcome"] == pytest.approx(outcome)
    assert np.isnan(facts["alone"]).tolist() == [False, True, True, False]
    # One Newton step from the shrunken effect: what is left is of second order in the shrinkage.
    large = [0, 3]
    alone = np.log(outcome[large] / (1 - outcome[large])) - mode.at.beta[0]
    shrunk = np.abs(alone - mode.at.effects[large])
    assert (np.abs(facts["alone"][large] - alone) <= shrunk**2 + 1e-9).all()


def test_a_poisson_group_with_a_mean_of_one_has_an_estimate():
    rng = np.random.default_rng(9)
    codes = np.repeat(np.arange(3), 50)
    y = rng.poisson(2.0, 150).astype(float)
    y[codes == 0] = 1.0
    y[codes == 1] = 0.0
    model = Hierarchical.from_arrays(
        np.ones((150, 1)),
        y,
        codes,
        Poisson(),
        weights=np.full(150, 1.5),
        offset=np.zeros(150),
        group_prior=HalfNormal(1.0),
    )
    alone = group_facts(found(model))["alone"][1]
    assert np.isnan(alone).tolist() == [False, True, False]


def test_collinear_columns_are_refused():
    rng = np.random.default_rng(10)
    x = rng.normal(size=(60, 2))
    design = np.column_stack([np.ones(60), x, x[:, 0] - 2 * x[:, 1]])
    model = Hierarchical.from_arrays(
        design, rng.integers(2, size=60), np.arange(60) % 5, weights=np.ones(60), offset=np.zeros(60)
    )
    with pytest.raises(ValueError, match="column 'x3' is a linear combination of 'x1', 'x2'"):
        found(model)


def test_separation_is_told_of_coefficients_but_not_of_groups():
    """The prior of the effects holds a group without events; a column without events is held by its own prior alone."""
    rng = np.random.default_rng(11)
    codes, n = np.repeat(np.arange(6), 40), 240
    rare = (np.arange(n) % 40 < 4).astype(float)
    y = (rng.random(n) < 0.4).astype(float)
    y[codes == 2] = 0.0
    given = {"weights": np.full(n, 2.0), "offset": np.zeros(n)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found(Hierarchical.from_arrays(np.column_stack([np.ones(n), rare]), y, codes, **given))
    y[rare > 0] = 0.0
    with pytest.warns(SeparationWarning, match="no finite estimate of the coefficient of 'x1'"):
        found(Hierarchical.from_arrays(np.column_stack([np.ones(n), rare]), y, codes, **given))


def test_the_order_of_rows_and_the_names_of_groups_do_not_matter():
    rng = np.random.default_rng(12)
    codes = rng.integers(7, size=300)
    data = {"x": rng.normal(size=300), "y": rng.integers(2, size=300), "g": codes, "w": rng.gamma(2.0, size=300)}
    names = np.array(["f", "b", "a", "g", "c", "e", "d"])  # levels are sorted by name
    other = {name: values[::-1] for name, values in data.items()} | {"g": names[codes][::-1]}
    one, another = (
        found(Hierarchical("y ~ x + (1 | g)", given, weights="w", offset="x", group_prior=HalfNormal(1.0)))
        for given in (data, other)
    )
    assert another.tau == pytest.approx(one.tau, rel=1e-9)
    assert another.at.beta == pytest.approx(one.at.beta, rel=1e-9)
    assert another.at.effects[np.argsort(np.argsort(names))] == pytest.approx(one.at.effects, abs=1e-9)
