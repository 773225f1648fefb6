"""Bernoulli: derivatives by differences, the bound on the third derivative, extremes, and the compiled chunks."""

import numpy as np
import pytest

from tallbayes.families import LOGIT_BOUND3, LOGIT_PEAK, Bernoulli, Logit, resolve
from tallbayes.rows import LogLikelihood, LogLikelihoodDerivatives, MemoryRows

EPS = np.finfo(float).eps
FAMILY = Bernoulli()


def third(eta):
    """|third derivative|, written out so that nothing cancels: e (1 - e) / (1 + e)^3 with e = exp(-|eta|)."""
    e = np.exp(-np.abs(eta))
    return e * -np.expm1(-np.abs(eta)) / (1 + e) ** 3


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_derivatives_by_differences(y):
    # (f(eta + h) - f(eta - h)) / 2h errs by h^2/6 sup|f'''| from truncation, where no derivative of the
    # log-likelihood of order 3 to 5 exceeds 1/4, and by 4 eps (1 + |eta|) / 2h from rounding f, in long
    # double. h balances the two.
    eps = np.finfo(np.longdouble).eps
    h = eps ** np.longdouble(1 / 3)
    eta = np.linspace(-30, 30, 241).astype(np.longdouble)

    def functions(at):
        return (FAMILY.log_likelihood(y, at), *FAMILY.derivatives(y, at))

    rounding = 4 * eps * (1 + np.abs(eta)) / (2 * h)
    low, high, here = functions(eta - h), functions(eta + h), functions(eta)
    for order in (1, 2, 3):
        slope = (high[order - 1] - low[order - 1]) / (2 * h)
        assert (np.abs(slope - here[order]) <= h**2 / 24 + rounding).all(), f"derivative {order}"


def test_bound3_is_valid_and_tight():
    rng = np.random.default_rng(1)
    low = rng.uniform(-25, 25, 4000)
    high = low + 10 ** rng.uniform(-3, 1, low.size)
    bound = FAMILY.bound3(np.zeros(low.size), low, high)
    inside = third(low + (high - low) * np.linspace(0, 1, 401)[:, None]).max(0)
    # The family computes p (1 - p) with p rounded: an error of eps / 2 in 1 - p, which counts where p is near
    # 1.
    rounding = EPS + 4 * EPS * inside
    assert (bound >= inside - rounding).all()
    peak = (np.abs(low + high) / 2 - LOGIT_PEAK <= (high - low) / 2) & (
        LOGIT_PEAK - np.abs(low + high) / 2 <= (high - low) / 2
    )
    ends = np.maximum(third(low), third(high))
    assert peak.any()
    assert not peak.all()
    assert (np.abs(bound - ends)[~peak] <= rounding[~peak]).all()
    assert (bound <= LOGIT_BOUND3).all()


def test_bound3_at_the_peak():
    one = np.zeros(1)
    for sign in (-1, 1):
        at = np.array([sign * LOGIT_PEAK])
        assert FAMILY.bound3(one, at, at) == pytest.approx(third(at), rel=4 * EPS)
        assert FAMILY.bound3(one, at - 1e-3, at + 1e-3) == [LOGIT_BOUND3]
    assert third(LOGIT_PEAK) == pytest.approx(LOGIT_BOUND3, rel=4 * EPS)
    assert FAMILY.bound3(one, np.array([-1e6]), np.array([1e6])) == [LOGIT_BOUND3]


@pytest.mark.parametrize("low", [-51.0, -31.0, -21.0, 20.0, 30.0, 50.0])
def test_bound3_is_valid_in_both_tails(low):
    low, high = np.array([low]), np.array([low + 1])
    truth = max(third(low), third(high))
    assert FAMILY.bound3(np.zeros(1), low, high) >= truth * (1 - 1e-6)  # DESIGN 7.3 multiplies bounds by 1 + 1e-6


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("eta", [-1e6, -1e3, -708.5, 708.5, 1e3, 1e6])
def test_extreme_eta_stays_finite(y, eta):
    at = np.array([eta])
    wrong = (eta > 0) != (y == 1)
    value = -abs(eta) if wrong else 0.0
    slope = 2 * y - 1 if wrong else 0.0
    # What is not 0 or 1 here is below e^-708 = 3e-308 (where the compiled exp stops), times eta^2 = 1e12 at
    # most.
    tiny = 1e-290
    assert FAMILY.log_likelihood(y, at) == pytest.approx(value, abs=tiny)
    for found, expected in zip(FAMILY.derivatives(y, at), (slope, 0, 0), strict=True):
        assert found == pytest.approx(expected, abs=tiny)
    assert FAMILY.mean(at) == pytest.approx(float(eta > 0), abs=tiny)
    assert FAMILY.bound3(y, at, at) == pytest.approx(0, abs=tiny)
    rows = MemoryRows([[eta]], [y])
    assert rows.sum(LogLikelihood(Logit()), [[1.0]]) == pytest.approx(value, abs=tiny)
    compiled = rows.sum(LogLikelihoodDerivatives(Logit()), [[1.0]])
    assert compiled.value == pytest.approx(value, abs=tiny)
    assert compiled.gradient[0, 0] == pytest.approx(eta * slope, abs=tiny)
    assert compiled.curvature[0, 0, 0] == pytest.approx(0, abs=tiny)


@pytest.mark.parametrize("weight", [None, 2.5])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_compiled_chunks_agree_with_the_family(y, weight):
    # One row, x = 1 and offset 0, so that the sum is the row's own value. exp has an absolute error of 4e-16
    # and everything after it is a handful of roundings of numbers below 1 + |eta|.
    rng = np.random.default_rng(3)
    times = 1.0 if weight is None else weight
    for eta in np.concatenate([rng.uniform(-40, 40, 100), rng.normal(size=100), [0.0, -0.0]]):
        rows = MemoryRows([[1.0]], [y], None if weight is None else [weight])
        value = rows.sum(LogLikelihood(Logit()), [[eta]])
        found = rows.sum(LogLikelihoodDerivatives(Logit()), [[eta]])
        first, second, _ = FAMILY.derivatives(y, np.array([eta]))
        tolerance = 8 * EPS * (1 + abs(eta)) * times
        assert value == pytest.approx(times * FAMILY.log_likelihood(y, eta), abs=tolerance)
        assert found.value == pytest.approx(value, abs=tolerance)
        assert found.gradient[0] == pytest.approx(times * first, abs=tolerance)
        assert found.curvature[0, 0] == pytest.approx(-times * second, abs=tolerance)


@pytest.mark.parametrize("where", ["x", "theta"])
def test_not_a_number_is_seen(where):
    x, theta = np.ones((1, 700)), np.ones((1, 1))
    (x if where == "x" else theta)[0, 0] = np.nan
    rows = MemoryRows(x, np.arange(700) % 2)
    assert np.isnan(rows.sum(LogLikelihood(Logit()), theta)).all()
    found = rows.sum(LogLikelihoodDerivatives(Logit()), theta)
    assert np.isnan(found.value).all()
    assert np.isnan(found.gradient).all()


def test_simulate_has_the_right_frequencies():
    rng, eta, draws = np.random.default_rng(4), np.array([-4.0, -1.0, 0.0, 2.0]), 40_000
    y = FAMILY.simulate(rng, np.tile(eta, (draws, 1)))
    assert set(np.unique(y)) == {0.0, 1.0}
    p = 1 / (1 + np.exp(-eta))
    z = (y.mean(0) - p) / np.sqrt(p * (1 - p) / draws)
    assert (np.abs(z) < 5).all()  # a false alarm in 4 x 6e-7 of all seeds
    assert FAMILY.simulate(rng, np.array([-1e6, 1e6])).tolist() == [0, 1]
    same = [FAMILY.simulate(np.random.default_rng(5), np.zeros(20)).tolist() for _ in range(2)]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2, 3], r"outcome 'late' must be 0 or 1, but 2 rows are not \(first at row 2: 2\).*\(late > 0\)"),
        ([0, 1, 0.5], r"1 rows are not \(first at row 2: 0.5\)"),
        ([-1, 1, -1], r"2 rows are not \(first at row 0: -1\)"),
        ([0, np.nan, 1], r"1 rows are not \(first at row 1: nan\)"),
        ([0, 0, 0], "outcome 'late' is 0 in every row"),
        ([1, 1], "outcome 'late' is 1 in every row"),
    ],
)
def test_check_refuses(y, message):
    with pytest.raises(ValueError, match=message):
        FAMILY.check(np.array(y, float), "late")


def test_check_accepts():
    FAMILY.check(np.array([0.0, 1.0, 1.0]), "late")
    FAMILY.check(np.array([-0.0, 1.0]), "late")


def test_resolve():
    assert resolve("bernoulli") == FAMILY
    assert resolve(FAMILY) is FAMILY
    assert FAMILY.name == "bernoulli"
    for unknown in ("poisson", "Bernoulli", None):
        with pytest.raises(ValueError, match=f"family {unknown!r} is not known; choose 'bernoulli'"):
            resolve(unknown)
    with pytest.raises(ValueError, match="link 'probit' is not known; choose 'logit'"):
        Bernoulli("probit")
