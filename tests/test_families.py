"""Families against decimal arithmetic (`precise.py`): NumPy, compiled chunks, third derivatives and their bounds.

`EXP` is how far the compiled exp may be off, relatively, as its docstring says (test_compiled shows it).
"""

import itertools

import numpy as np
import pytest
from entries import applied, bounds, thirds, values
from precise import TAGS, expansion, third

from tallbayes.families import (
    Bernoulli,
    Binomial,
    Logit,
    Poisson,
    check,
    cloglog,
    from_json,
    logit,
    probit,
    resolve,
    to_json,
    with_trials,
)
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.tasks import LogLikelihood, LogLikelihoodDerivatives

EPS = np.finfo(float).eps
OUTCOMES = [(link, y) for link in TAGS for y in ((0.0, 1.0) if link != "poisson" else (0.0, 3.0))]
each_outcome = pytest.mark.parametrize(("link", "y"), OUTCOMES)


def EXP(t):  # noqa: N802
    return 5.5e-16 + 2.3e-16 * np.abs(t)


def representable(link, y, eta):
    """Those eta whose third derivative is a normal number in double precision (probit: e^-(e^2)/2, cloglog: e^-t)."""
    if link == "probit":
        return eta[(2 * y - 1) * eta < 37]
    return eta[eta < 6.5] if link == "cloglog" and y else eta


# The reference and the NumPy versions


@each_outcome
def test_the_reference_has_the_derivatives_of_its_values(link, y):
    # Central differences over h err by h^2 / 6 times a higher derivative, relative to the value below 1e4 here.
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 80
        h = Decimal("1e-20")
        for eta in (-20, -3.5, -0.5, 0, 0.25, 1, 2.5):
            here = expansion(link, y, Decimal(eta))
            low, high = expansion(link, y, Decimal(eta) - h), expansion(link, y, Decimal(eta) + h)
            for order in (1, 2, 3):
                slope = (high[order - 1] - low[order - 1]) / (2 * h)
                assert abs(slope - here[order]) < Decimal("1e-34") * (1 + abs(here[order])), (eta, order)


@each_outcome
def test_numpy_versions(link, y):
    # A handful of roundings of terms of size 1 and of their results. In the probit, e^2 in an exponent is rounded.
    tag = TAGS[link]
    eta = np.concatenate([np.linspace(-12, 3, 61), np.random.default_rng(1).normal(size=30), [0.0]])
    found = np.array([tag.log_likelihood(y, eta), *tag.derivatives(np.full(eta.size, y), eta)])
    truth = np.array([[float(part) for part in expansion(link, y, at)] for at in eta]).T
    lost = 1 + eta**2 if link == "probit" else 1 + np.abs(eta) + np.exp(eta)
    assert (np.abs(found - truth) <= 8 * EPS * lost * (1 + np.abs(truth))).all()


@pytest.mark.parametrize("link", TAGS)
def test_mean(link):
    eta = np.array([-30.0, -2.0, 0.0, 0.7, 3.0])
    for at, mean in zip(eta, TAGS[link].mean(eta), strict=True):
        truth = -expansion(link, 0.0, at)[0]  # minus log P(y = 0)
        assert mean == pytest.approx(float(truth if link == "poisson" else 1 - (-truth).exp()), rel=1e-13)


# Compiled chunks


@pytest.mark.parametrize("weight", [None, 2.5])
@each_outcome
def test_compiled_chunks(link, y, weight):
    # One row with x = 1, so that the sum is the row's own term. Terms of size 1 + |eta| + |value| are rounded a dozen
    # times, and exp errs by EXP.
    rng = np.random.default_rng(3)
    rows, times = MemoryRows([[1.0]], [y], None if weight is None else [weight]), weight or 1.0
    request = [kind(TAGS[link]) for kind in (LogLikelihood, LogLikelihoodDerivatives)]
    for eta in np.concatenate([rng.uniform(-40, 40, 40), rng.normal(size=40), [0.0, -0.0, -0.6931, -0.6932]]):
        if link == "cloglog" and eta > 6.5:
            continue
        value, first, second, _ = (times * float(part) for part in expansion(link, y, eta))
        size = times * (1 + abs(eta)) + abs(value) * (1 + abs(eta)) + abs(second)
        slack = 16 * EPS * size
        alone, found = rows.reduce(request[0], [[eta]]), rows.reduce(request[1], [[eta]])
        assert alone == pytest.approx(value, abs=slack)
        assert times * applied(values, TAGS[link], y, np.array([eta]))[0] == pytest.approx(value, abs=slack)
        assert found.value == pytest.approx(value, abs=slack)
        assert found.gradient[0, 0] == pytest.approx(first, abs=slack)
        assert found.curvature[0, 0, 0] == pytest.approx(-second, abs=slack)


@pytest.mark.parametrize(("link", "weighted"), list(itertools.product(TAGS, [False, True])))
def test_compiled_sums_over_chunks(link, weighted):
    # A thousand rows in two chunks of unlike length, against NumPy: less than 1,000 roundings of each term (test_rows).
    rng = np.random.default_rng([4, weighted])
    n, tag = 1000, TAGS[link]
    x, theta = np.stack([np.ones(n), rng.normal(size=n)]), np.array([[0.3, -0.6], [-1.0, 0.9]])
    y = rng.poisson(1.0, n).astype(float) if link == "poisson" else (rng.random(n) < 0.4).astype(float)
    weights = rng.uniform(0, 3, n) if weighted else None
    found = MemoryRows(x, y, weights).reduce(LogLikelihoodDerivatives(tag), theta)
    times = np.ones(n) if weights is None else weights
    for k, eta in enumerate(theta @ x):
        first, second, _ = tag.derivatives(y, eta)
        size = 1000 * EPS * (times * (1 + y) * (2 + np.abs(eta) + np.exp(np.abs(eta)))).sum() * 10
        assert found.value[k] == pytest.approx((times * tag.log_likelihood(y, eta)).sum(), abs=size)
        assert found.gradient[k] == pytest.approx(x @ (times * first), abs=size)
        assert found.curvature[k] == pytest.approx((x * -(times * second)) @ x.T, abs=size)


# Third derivatives


def third_slack(link, y, eta, truth):
    """How far rounding may take the compiled third derivative."""
    if link == "poisson" or (link == "cloglog" and not y):
        return EXP(eta) * np.abs(truth)
    if link == "logit":  # at 0, where it changes its sign, 1 - e is as exact as e
        return (EXP(eta) + 4 * EPS) * np.abs(truth) + 1e-16
    if link == "cloglog":  # t e^-t, where t has the error of exp and counts in the exponent; two changes of sign
        t = np.exp(eta)
        return (64 * EPS + (1 + t) * (EXP(eta) + EPS)) * np.abs(truth) + np.minimum(t, 1) * 4 * EPS * (eta < 3)
    # Probit: in the right tail, e^(-e^2 / 2) has the error of exp and of its rounded argument.
    e = (2 * y - 1) * eta
    return (64 * EPS + np.where(e < 0, 0, EXP(e**2))) * np.abs(truth)


@each_outcome
def test_third_derivatives_in_both_tails(link, y):
    joins = [np.log(0.5) * (1 + step) for step in (-1e-12, 0.0, 1e-12)]
    near_zero = np.outer([-1, 1], 10.0 ** np.arange(-16, 0)).ravel()
    rng = np.random.default_rng(5)
    eta = np.concatenate([np.linspace(-40, 40, 61), rng.normal(size=30), rng.uniform(-3, 3, 30), joins, near_zero])
    eta = representable(link, y, eta)
    found, truth = applied(thirds, TAGS[link], y, eta), np.array([third(link, y, at) for at in eta])
    error = np.abs(found - truth)
    assert (error <= third_slack(link, y, eta, truth)).all()
    assert (found[truth != 0] != 0).all()  # also where it is tiny: a row with a bound of 0 would never be drawn


def test_third_derivative_is_odd_for_logit_and_mirrored_for_probit():
    eta = np.random.default_rng(6).normal(size=200) * 5
    for link, sign in (("logit", 1), ("probit", -1)):
        tag = TAGS[link]
        other = applied(thirds, tag, 0.0 if link == "probit" else 1.0, -eta)
        assert (applied(thirds, tag, 1.0, eta) == -other).all(), sign


# Bounds

PEAKS = {
    ("logit", 0.0): (-logit.PEAK, logit.PEAK),
    ("logit", 1.0): (-logit.PEAK, logit.PEAK),
    ("probit", 1.0): (probit.PEAK,),
    ("probit", 0.0): (-probit.PEAK,),
    ("cloglog", 1.0): cloglog.PEAKS,
}


def intervals(link, y, count=3000):
    """Tiny, ordinary and huge ones, some around a peak, some ending at one."""
    rng = np.random.default_rng(7)
    centre, width = rng.uniform(-25, 25, count), 10 ** rng.uniform(-9, 1.5, count)
    peaks = np.array(PEAKS.get((link, y), (0.0,)))
    centre[::3] = rng.choice(peaks, centre[::3].size) + rng.uniform(-1, 1, centre[::3].size) * width[::3]
    low, high = centre - width / 2, centre + width / 2
    low[:6], high[3:9] = rng.choice(peaks, 6), rng.choice(peaks, 6)
    low, high = np.minimum(low, high), np.maximum(low, high)
    top = {"poisson": 40.0, "cloglog": 6.4}.get(link, 45.0)  # e^t and e^-t must stay normal numbers
    return np.minimum(low, top - 1e-3), np.minimum(high, top)


@each_outcome
def test_bounds_are_valid_and_tight(link, y):
    low, high = intervals(link, y)
    found = applied(bounds, TAGS[link], y, low, high)
    grid = low + (high - low) * np.linspace(0, 1, 301)[:, None]
    peaks = np.array(PEAKS.get((link, y), ()))
    if peaks.size:  # a grid may step over a peak
        grid = np.concatenate([grid, np.clip(peaks[:, None], low, high)])
    inside = np.abs(applied(thirds, TAGS[link], y, grid.ravel())).reshape(grid.shape).max(0)
    # The bound is the value at an end or at a peak, and the grid has these: equal up to the rounding of the constants.
    size = np.maximum(np.abs(low), np.abs(high))
    slack = 1e-13 + 8 * EXP(size**2 if link == "probit" else size)
    assert (found >= inside * (1 - slack) - 1e-300).all()
    assert (found <= inside * (1 + slack) + 1e-300).all()
    contains = ((low[:, None] <= peaks) & (peaks <= high[:, None])).any(1)
    assert (contains.any() and not contains.all()) or not peaks.size


@pytest.mark.parametrize(("link", "y"), [pair for pair in OUTCOMES if pair in PEAKS])
def test_heights_of_the_peaks(link, y):
    heights = {"logit": [logit.LARGEST] * 2, "probit": [probit.LARGEST], "cloglog": cloglog.HEIGHTS}[link]
    for peak, height in zip(PEAKS[link, y], heights, strict=True):
        around = [abs(third(link, y, peak + step)) for step in (-1e-4, -1e-7, 0.0, 1e-7, 1e-4)]
        assert height == pytest.approx(around[2], rel=4 * EPS)
        assert max(around) <= height * (1 + 2 * EPS)
        assert applied(bounds, TAGS[link], y, np.array([-1e6]), np.array([1e6])) >= max(heights)


# Extremes


@each_outcome
@pytest.mark.parametrize("eta", [-1e300, -1e6, -1e3, -708.5, 708.0, 709.6, 1e3, 1e6, 1e300])
def test_extreme_eta_is_never_not_a_number(link, y, eta):
    tag, at = TAGS[link], np.array([eta])
    rows = MemoryRows([[1.0]], [y])
    found = rows.reduce(LogLikelihoodDerivatives(tag), [[eta]])
    values = [rows.reduce(LogLikelihood(tag), [[eta]])[0], found.value[0]]
    gone = {  # impossible outcomes: the log-likelihood is minus infinity where it leaves the range of numbers
        "poisson": eta > 709.5,
        "cloglog": eta > 709.5 and not y,
        "probit": abs(eta) > 1e150 and (eta > 0) != (y > 0),
    }.get(link, False)
    assert values == [-np.inf, -np.inf] if gone else np.isfinite(values).all()
    assert max(values) <= 1e-290 or link == "poisson"
    assert not np.isnan(applied(thirds, tag, y, at)).any()
    assert not np.isnan(applied(bounds, tag, y, at - 1, at + 1)).any()
    assert applied(bounds, tag, y, at - 1, at + 1)[0] >= 0
    if abs(eta) < 1e5 and not gone:
        assert np.isfinite(found.gradient).all()
        assert np.isfinite(found.curvature).all()
        assert found.curvature[0, 0, 0] >= 0


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("eta", [-1e6, -1e3, -708.5, 708.5, 1e3, 1e6])
def test_logit_at_extreme_eta(y, eta):
    # What is not 0 or 1 here is below e^-708 = 3e-308 (where the compiled exp stops), times eta^2 = 1e12 at most.
    at, wrong, tiny = np.array([eta]), (eta > 0) != (y == 1), 1e-290
    value, slope = (-abs(eta), 2 * y - 1) if wrong else (0.0, 0.0)
    assert Logit().log_likelihood(y, at) == pytest.approx(value, abs=tiny)
    for found, expected in zip(Logit().derivatives(y, at), (slope, 0, 0), strict=True):
        assert found == pytest.approx(expected, abs=tiny)
    assert Logit().mean(at) == pytest.approx(float(eta > 0), abs=tiny)
    found = MemoryRows([[eta]], [y]).reduce(LogLikelihoodDerivatives(Logit()), [[1.0]])
    assert found.value == pytest.approx(value, abs=tiny)
    assert found.gradient[0, 0] == pytest.approx(eta * slope, abs=tiny)
    assert found.curvature[0, 0, 0] == pytest.approx(0, abs=tiny)


@pytest.mark.parametrize("where", ["x", "theta"])
@pytest.mark.parametrize("link", TAGS)
def test_not_a_number_is_seen(link, where):
    x, theta = np.ones((1, 700)), np.ones((1, 1))
    (x if where == "x" else theta)[0, 0] = np.nan
    rows = MemoryRows(x, np.arange(700) % 2)
    assert np.isnan(rows.reduce(LogLikelihood(TAGS[link]), theta)).all()
    found = rows.reduce(LogLikelihoodDerivatives(TAGS[link]), theta)
    assert np.isnan(found.value).all()
    assert np.isnan(found.gradient).all()


# Outcomes


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_simulated_zeros_and_ones(link):
    family, draws = Bernoulli(link), 40_000
    rng, eta = np.random.default_rng(4), np.array([-4.0, -1.0, 0.0, 1.0])
    y = family.simulate(rng, np.tile(eta, (draws, 1)))
    assert set(np.unique(y)) == {0.0, 1.0}
    p = np.array([float(expansion(link, 1.0, at)[0].exp()) for at in eta])
    z = (y.mean(0) - p) / np.sqrt(p * (1 - p) / draws)
    assert (np.abs(z) < 5.2).all()  # a false alarm in 4 x 2e-7 of all seeds
    assert family.simulate(rng, np.array([-1e6, 1e6])).tolist() == [0, 1]
    same = [family.simulate(np.random.default_rng(5), np.zeros(20)).tolist() for _ in range(2)]
    assert same[0] == same[1]


def test_simulated_counts():
    rng, eta, draws = np.random.default_rng(4), np.array([-2.0, 0.0, 3.0]), 40_000
    y, mean = Poisson().simulate(rng, np.tile(eta, (draws, 1))), np.exp(eta)
    assert (np.abs(y.mean(0) - mean) < 5.2 * np.sqrt(mean / draws)).all()  # a false alarm in 3 x 2e-7 of all seeds
    trials = np.array([1.0, 5.0, 40.0])
    y, p = Binomial("m").simulate(rng, np.tile(eta, (draws, 1)), trials), 1 / (1 + np.exp(-eta))
    assert (y <= trials).all()
    assert (np.abs(y.mean(0) - trials * p) < 5.2 * np.sqrt(trials * p * (1 - p) / draws)).all()


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
def test_bernoulli_refuses(y, message):
    with pytest.raises(ValueError, match=message):
        check(Bernoulli(), np.array(y, float), "late")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1.5, -2], r"'late' must be counts \(0, 1, 2, ...\), but 2 rows are not \(first at row 1: 1.5\)"),
        ([0, np.nan], r"1 rows are not \(first at row 1: nan\)"),
        ([0, 0], "outcome 'late' is 0 in every row"),
    ],
)
def test_poisson_refuses(y, message):
    with pytest.raises(ValueError, match=message):
        check(Poisson(), np.array(y, float), "late")


@pytest.mark.parametrize(
    ("y", "trials", "message"),
    [
        ([0, 1.5], [2, 2], r"'late' must be counts .*first at row 1: 1.5"),
        ([0, 1], [2.5, 2], r"'sent' must be counts .*first at row 0: 2.5"),
        ([0, 3], [2, 2], "'late' counts 3 successes in row 1, which had only 2 trials .'sent'"),
        ([0, 0], [2, 2], "outcome 'late' has no successes"),
        ([2, 1], [2, 1], "outcome 'late' has only successes"),
    ],
)
def test_binomial_refuses(y, trials, message):
    with pytest.raises(ValueError, match=message):
        check(Binomial("sent"), np.array(y, float), "late", np.array(trials, float))


def test_accepted_outcomes():
    check(Bernoulli(), np.array([-0.0, 1.0, 1.0]), "late")
    check(Poisson(), np.array([0.0, 7.0]), "late")
    check(Binomial("sent"), np.array([0.0, 2.0]), "late", np.array([0.0, 2.0]) + 1)


@pytest.mark.parametrize("exposure", [[1.0, 0.0], [2.0, -1.0], [1.0, np.nan]])
def test_exposure_must_be_positive(exposure):
    assert Poisson("days").log_exposure(np.array([1.0, np.e])) == pytest.approx([0, 1])
    with pytest.raises(ValueError, match=f"exposure 'days' must be positive, but is {exposure[1]:g} in row 1"):
        Poisson("days").log_exposure(np.array(exposure))


FAMILIES = [
    *(Bernoulli(link) for link in ("logit", "probit", "cloglog")),
    *(Binomial("sent", link) for link in ("logit", "probit", "cloglog")),
    Poisson(),
    Poisson("days"),
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_resolve(family):
    assert resolve(family) is family
    assert from_json(to_json(family)) == family


def test_resolve_by_name():
    assert resolve("bernoulli") == Bernoulli("logit")
    assert resolve("poisson") == Poisson(None)
    assert resolve("binomial") == Binomial(None)
    with pytest.raises(ValueError, match=r"binomial outcomes need the number of trials: .*tb.Binomial\(trials="):
        with_trials(resolve("binomial"), None)
    with pytest.raises(ValueError, match="family 'Bernouli' is not known; did you mean 'bernoulli'"):
        resolve("Bernouli")
    with pytest.raises(ValueError, match="family 'cubic' is not known; choose one of bernoulli, binomial"):
        resolve("cubic")


@pytest.mark.parametrize("make", [Bernoulli, lambda link: Binomial("sent", link)])
def test_unknown_links(make):
    with pytest.raises(ValueError, match="link 'log' is not known; choose one of logit, probit, cloglog"):
        make("log")


def test_columns_are_names():
    with pytest.raises(ValueError, match="trials must be the name of a column, not 5"):
        Binomial(5)
    with pytest.raises(
        ValueError, match=r"exposure must be the name of a column .for arrays there is offset=., not array"
    ):
        Poisson(np.ones(3))
