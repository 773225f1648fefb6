"""Surrogates: unbiased over seeds, exact where they must be, and expansions against differences."""

import re

import harness
import numpy as np
import pytest

from tallbayes.data.options import shown
from tallbayes.models.glm import GLM
from tallbayes.models.mode import find_mode
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.tasks import Levels
from tallbayes.sampling.subsample import CaseControl, Stratified, Subsample
from tallbayes.sampling.surrogate import Custom, described
from tallbayes.sampling.taylor import RADIUS, Taylor

# A sum over n rows errs by less than 1,000 eps times the sum of its terms' sizes (test_rows says why).
ROUNDING = 1000 * np.finfo(float).eps
N = 500


def build(chosen, *given):
    return described(chosen).build(*given)


def simulated(weights=False, offset=False, levels=0):
    """Skewed data: a rare outcome, and a level with five rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=N)
    bank = np.where(np.arange(N) < 5, "d", np.array(list("abc"))[rng.integers(3, size=N)])
    x = rng.integers(levels, size=N).astype(float) if levels else x
    y = (rng.random(N) < 1 / (1 + np.exp(2 - x))).astype(float)
    y[:2] = [0, 1]
    data = {"x": x, "bank": bank, "y": y, "w": rng.gamma(0.5, size=N), "o": rng.normal(size=N)}
    named = {"weights": "w" if weights else None, "offset": "o" if offset else None, "strata": ["bank"]}
    return GLM("y ~ x + bank", data, **named)


@pytest.fixture(scope="module")
def models():
    made = {
        "plain": simulated(),
        "weights and offset": simulated(weights=True, offset=True),
        "collapsed": simulated(levels=3),
    }
    assert made["collapsed"].rows.size < N / 2
    return {name: (model, find_mode(model)) for name, model in made.items()}


def around(mode, count=4, spread=1.0, seed=3):
    """Points near the mode, at `spread` posterior standard deviations in each direction."""
    z = np.random.default_rng(seed).normal(size=(count, mode.theta.size))
    return mode.theta + spread * z @ mode.factor.T


def rounding(model, params):
    """How far rounding may take a log-likelihood over all rows."""
    sizes = [abs(model.log_likelihood(params)).max(), abs(np.asarray(params)).max(), 1]
    return ROUNDING * max(sizes) * max(model.rows.total_weight, model.rows.size)


SUBSAMPLES = [Subsample(50), CaseControl(40), Stratified(20, "bank"), Stratified(30, "outcome")]


@pytest.mark.parametrize("chosen", SUBSAMPLES, ids=str)
@pytest.mark.parametrize("name", [pytest.param("plain", marks=pytest.mark.long), "weights and offset", "collapsed"])
def test_subsamples_are_unbiased(name, chosen, models):
    model, mode = models[name]
    params, seeds = around(mode), 200
    truth = model.log_likelihood(params)
    made = [build(chosen, model, mode, np.random.default_rng([4, seed])) for seed in range(seeds)]
    found = np.array([surrogate.log_likelihood(params) for surrogate in made])
    # 5 standard errors: a false alarm in 4 x 6e-7 of all seeds.
    slack = 5 * found.std(0, ddof=1) / seeds**0.5 + rounding(model, params)
    assert (np.abs(found.mean(0) - truth) <= slack).all()


@pytest.mark.parametrize("name", ["plain", "weights and offset", "collapsed"])
def test_all_rows_give_the_full_log_likelihood(name, models):
    model, mode = models[name]
    params = around(mode)
    truth, slack = model.log_likelihood(params), rounding(model, params)
    everything = [Subsample(max(model.rows.size, int(model.rows.total_weight))), Stratified(N, "bank")]
    if name != "weights and offset":  # there the weight of the rows with y=0 is below their number
        everything.append(CaseControl(int(weights_by(model, "outcome")[0])))
    for chosen in everything:
        surrogate = build(chosen, model, mode, np.random.default_rng(5))
        assert np.abs(surrogate.log_likelihood(params) - truth).max() <= slack, chosen
        assert surrogate.size == model.rows.size


def weights_by(model, column):
    """Total weight of each level."""
    return np.array([level.weight for level in model.rows.reduce(Levels(column)).values()])


def zeros_by_bank(model):
    """Rows with y=0 of each bank."""
    rows = model.rows
    return np.bincount(rows.arrays.strata["bank"], rows.arrays.y == 0)


def test_sizes_and_counts(models):
    model, mode = models["plain"]
    ones = int(weights_by(model, "outcome")[1])
    banks = weights_by(model, "bank")
    plain, kept = Stratified(20, "bank", cases=False), Stratified(20, "bank")
    sizes = {Subsample(50): 50, CaseControl(40): 40 + ones, plain: np.minimum(banks, 20).sum()}
    sizes[kept] = ones + np.minimum(zeros_by_bank(model), 20).sum()
    for chosen, size in sizes.items():
        surrogate = build(chosen, model, mode, np.random.default_rng(6))
        assert surrogate.size == size
        assert surrogate.touched == 0
        before = model.rows.touched
        surrogate.log_likelihood(np.zeros((3, mode.theta.size)))
        assert surrogate.touched == 3 * size
        assert model.rows.touched == before  # stage 1 touches surrogate rows only


@pytest.mark.parametrize("chosen", [CaseControl(10), Stratified(3, "bank")], ids=str)
def test_the_ones_are_kept_exactly(models, chosen):
    # Far out where every row says y=0 with certainty, the log-likelihood is that of the rows with y=1 alone.
    model, mode = models["plain"]
    far = np.zeros((1, mode.theta.size))
    far[0, 0] = -60.0
    found = build(chosen, model, mode, np.random.default_rng(7)).log_likelihood(far)
    assert found == pytest.approx(model.log_likelihood(far), rel=ROUNDING)


@pytest.mark.parametrize("chosen", [*SUBSAMPLES, Taylor(), Taylor(100)], ids=str)
def test_same_seed_same_surrogate(chosen, models):
    model, mode = models["plain"]
    params = around(mode)
    first, again, other = (
        build(chosen, model, mode, np.random.default_rng(seed)).log_likelihood(params) for seed in (8, 8, 9)
    )
    assert (first == again).all()
    assert (first == other).all() == (chosen == Taylor())


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(
    "chosen", [*SUBSAMPLES, Taylor(), Taylor(100), lambda theta: -(theta**2).sum()], ids=lambda chosen: str(chosen)[:10]
)
def test_following_chains(chosen, by_column, models):
    model, mode = models["weights and offset"]
    surrogate = build(chosen, model, mode, np.random.default_rng(10))
    theta = around(mode, 3)
    follower = harness.Following(surrogate.follow(by_column), theta.copy())
    slack = rounding(model, theta)
    assert np.abs(follower.value - surrogate.log_likelihood(theta)).max() <= slack
    moved = theta.copy()
    moved[:, 1] += 0.1
    chains = np.array([0, 2])
    value = follower.at(moved, 1, chains)
    assert np.abs(value - surrogate.log_likelihood(moved[chains])).max() <= slack
    follower.accept(moved, 1, chains[1:], value[1:])
    theta[2] = moved[2]
    follower.refresh()
    assert np.abs(follower.value - surrogate.log_likelihood(theta)).max() <= slack


# Taylor


@pytest.mark.parametrize("name", ["plain", "weights and offset", "collapsed"])
def test_taylor_is_the_second_order_expansion(name, models):
    # Along a line f(t) = l(mode + t d): the surrogate is the parabola with the value, slope and bend of f at
    # 0. Central differences over h and 2h, extrapolated, err by h^4 times a fifth or sixth derivative of f
    # (below 10 at one posterior sd a step, for skewed data) and by rounding / h^2.
    model, mode = models[name]
    surrogate = build(Taylor(), model, mode, np.random.default_rng(11))
    assert (surrogate.size, surrogate.touched) == (0, 0)
    assert surrogate.log_likelihood(mode.theta[None]) == pytest.approx(mode.log_likelihood, rel=1e-15)
    h, eps = 0.02, np.finfo(float).eps
    for direction in around(mode, 5) - mode.theta:
        line = mode.theta + np.array([-2, -1, 0, 1, 2])[:, None] * h * direction
        f = model.log_likelihood(line)
        slope = (8 * (f[3] - f[1]) - (f[4] - f[0])) / (12 * h)
        bend = (16 * (f[3] + f[1]) - (f[4] + f[0]) - 30 * f[2]) / (12 * h**2)
        noise = 64 * eps * np.abs(f).max()
        length = 1 + np.sqrt(direction @ mode.precision @ direction)
        t = np.array([-1.0, 0.5, 3.0])
        found = surrogate.log_likelihood(mode.theta + t[:, None] * direction)
        slack = 10 * (h * length) ** 4 * length**2 * (np.abs(t) + t**2) + noise * (np.abs(t) / h + t**2 / h**2) + noise
        assert (np.abs(found - (f[2] + slope * t + bend * t**2 / 2)) <= slack).all()


@pytest.mark.parametrize("name", ["plain", "weights and offset", "collapsed"])
def test_taylor_with_all_remainders_is_exact_inside_the_radius(name, models):
    model, mode = models[name]
    surrogate = build(Taylor(remainders=N), model, mode, np.random.default_rng(12))
    plain = build(Taylor(), model, mode, np.random.default_rng(12))
    radius = RADIUS + mode.theta.size**0.5
    directions = around(mode, 20) - mode.theta
    directions /= np.sqrt(((directions @ mode.precision) * directions).sum(1))[:, None]
    inside, outside = mode.theta + 0.999 * radius * directions, mode.theta + 1.001 * radius * directions
    slack = 3 * rounding(model, inside)  # a log-likelihood and two expansions
    assert np.abs(surrogate.log_likelihood(inside) - model.log_likelihood(inside)).max() <= slack
    assert (surrogate.log_likelihood(outside) == plain.log_likelihood(outside)).all()
    both = np.concatenate([inside[:2], outside[:2]])
    mixed = np.concatenate([surrogate.log_likelihood(inside[:2]), plain.log_likelihood(outside[:2])])
    assert np.abs(surrogate.log_likelihood(both) - mixed).max() <= slack


@pytest.mark.parametrize("name", ["plain", "weights and offset"])
def test_remainders_are_unbiased_and_help(name, models):
    model, mode = models[name]
    params, seeds = around(mode, 20), 100
    truth = model.log_likelihood(params)
    made = [build(Taylor(remainders=60), model, mode, np.random.default_rng([13, seed])) for seed in range(seeds)]
    found = np.array([surrogate.log_likelihood(params) for surrogate in made])
    assert {surrogate.size for surrogate in made} == {60}
    # 5 standard errors: a false alarm in 20 x 6e-7 of all seeds.
    slack = 5 * found.std(0, ddof=1) / seeds**0.5 + 3 * rounding(model, params)
    assert (np.abs(found.mean(0) - truth) <= slack).all()
    # Errors up to a constant matter; on this skewed data 60 of 500 rows bring them down several times.
    plain = build(Taylor(), model, mode, np.random.default_rng(13)).log_likelihood(params)
    with_rows = (found - truth).std(1)
    assert np.median(with_rows) < (plain - truth).std() / 3


def test_counts_of_remainders(models):
    model, mode = models["plain"]
    surrogate = build(Taylor(remainders=60), model, mode, np.random.default_rng(14))
    before, own = model.rows.touched, surrogate.touched
    assert own == 60  # their own expansion
    surrogate.log_likelihood(around(mode, 3))
    assert surrogate.touched == own + 3 * 60
    assert model.rows.touched == before


# Functions, and what is refused


def test_any_function_is_a_surrogate(models):
    model, mode = models["plain"]
    surrogate = build(lambda theta: -0.5 * theta @ theta, model, mode, np.random.default_rng(15))
    assert isinstance(surrogate, Custom)
    assert (surrogate.size, surrogate.touched) == (0, 0)
    params = around(mode)
    assert surrogate.log_likelihood(params) == pytest.approx(-0.5 * (params**2).sum(1), rel=ROUNDING)
    exact = build(lambda theta: model.log_likelihood(theta)[0], model, mode, np.random.default_rng(15))
    assert exact.log_likelihood(params) == pytest.approx(model.log_likelihood(params), rel=ROUNDING)


@pytest.mark.parametrize("wrong", [None, 3, "taylor", object()], ids=["none", "number", "text", "object"])
def test_not_a_surrogate(wrong, models):
    model, mode = models["plain"]
    with pytest.raises(ValueError, match=f"surrogate must be .*, not {re.escape(shown(wrong))}"):
        build(wrong, model, mode, np.random.default_rng(16))


@pytest.mark.parametrize("size", [0, -1, 2.5, "many", None])
def test_impossible_sizes(size):
    for make in (Subsample, CaseControl, lambda size: Stratified(size, "bank")):
        with pytest.raises(ValueError, match=f"size must be a whole number of at least 1, not {size!r}"):
            make(size)


@pytest.mark.parametrize("remainders", [-1, 2.5, "all", None])
def test_impossible_remainders(remainders):
    with pytest.raises(ValueError, match=f"remainders must be a whole number of at least 0, not {remainders!r}"):
        Taylor(remainders)


@pytest.mark.parametrize("make", [Subsample, CaseControl, lambda size: Stratified(size, "bank"), Taylor])
def test_whole_numbers_of_numpy_are_whole_numbers(make, models):
    model, mode = models["plain"]
    surrogate = build(make(np.int64(30)), model, mode, np.random.default_rng(17))
    assert surrogate.size >= 30


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (Subsample(N + 1), "asks for 501 rows, but the data has only 500"),
        (CaseControl(N), "asks for 500 rows with outcome 0, but the data has only"),
        (Stratified(5, "city"), r"no stratum 'city' is kept with the rows; there are \['outcome', 'bank'\]"),
    ],
    ids=str,
)
def test_more_than_there_is(chosen, message, models):
    model, mode = models["plain"]
    with pytest.raises(ValueError, match=message):
        build(chosen, model, mode, np.random.default_rng(18))


def test_case_control_needs_outcomes_of_zero():
    rng = np.random.default_rng(1)
    model = GLM("y ~ x", {"x": rng.normal(size=50), "y": rng.integers(1, 5, 50)}, "poisson")
    with pytest.raises(ValueError, match="draws rows with outcome 0, and there are none"):
        build(CaseControl(5), model, find_mode(model), rng)


def test_case_control_with_small_weights():
    rng = np.random.default_rng(19)
    data = {"x": rng.normal(size=200), "y": np.arange(200) % 2, "w": np.full(200, 0.1)}
    model = GLM("y ~ x", data, weights="w")
    mode = find_mode(model)
    assert build(CaseControl(50), model, mode, rng).size == 150


def test_rows_without_third_derivative_are_left_out():
    # Rows of weight 0 have no remainder: asking for more than there are takes those that matter, at weight 1.
    rng = np.random.default_rng(20)
    weights = np.where(np.arange(40) < 20, 1.0, 0.0)
    rows = MemoryRows(rng.normal(size=(1, 40)), np.arange(40) % 2, weights)
    sample = rows.sample(30, rng, measure=harness.Known(weights))
    assert (sample.size, sample.total_weight) == (20, 20)


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_a_function_that_is_not_finite_is_refused(value):
    surrogate = Custom(lambda theta: value if theta[0] > 1 else 0.0)
    np.testing.assert_array_equal(surrogate.log_likelihood(np.zeros((2, 2))), [0, 0])
    with pytest.raises(ValueError, match=rf"finite number everywhere, but is {value} at \[2\. 0\.\]"):
        surrogate.log_likelihood(np.array([[0.0, 0.0], [2.0, 0.0]]))
