"""Numbers at the edge of what can be computed: a right answer inside the limits, a refusal with the limit beyond."""

import warnings

import numpy as np
import pytest
from scipy import optimize, special, stats

import tallbayes as tb
from tallbayes.models import limits
from tallbayes.rows import room

RNG = np.random.default_rng(0)
N = 60
X = RNG.standard_normal(N)
DATA = {
    "x": X,
    "y": (RNG.random(N) < special.expit(X)).astype(float),
    "count": RNG.poisson(np.exp(1 + 0.3 * X)).astype(float),
    "size": np.exp(RNG.standard_normal(N)),
    "z": 1 + 2 * X + RNG.standard_normal(N),
    "g": np.tile(list("abcdef"), N // 6),
    "apart": (X > 0).astype(float),
}
FEW = {"draws": 300, "chains": 2, "seed": 1, "progress": False}
WIDE = tb.Normal(0, 1e4)
FIRST = np.arange(N) == 3


@pytest.fixture(autouse=True)
def _numpy_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of separation and strong priors
        warnings.simplefilter("error", RuntimeWarning)
        yield


def fit(formula, family="bernoulli", data=None, **given):
    return tb.fit(formula, DATA | (data or {}), family, **FEW | given)


def importance(log_posterior, start, scale=(0.1, 0.1)):
    """Means and sds by a search for the mode and importance sampling, which share no line with the package."""
    start, scale = np.array(start), np.array(scale)
    for _ in range(4):  # the mode again and again, in units of its own sds
        here = scale

        def height(u, at=start, here=here):
            return -float(log_posterior(at + here * u) - log_posterior(at))

        found = optimize.minimize(height, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9})
        start = start + scale * found.x
        step = 0.3 * scale
        bend = [
            -(log_posterior(start + d) - 2 * log_posterior(start) + log_posterior(start - d)) / step[j] ** 2
            for j, d in enumerate(np.diag(step))
        ]
        scale = 1 / np.sqrt(np.array(bend, dtype=float))
    draws = stats.multivariate_t(shape=np.eye(2), df=5, seed=1).rvs(10_000)
    theta = start + 1.5 * scale * draws
    log_weight = np.array([float(log_posterior(one) - log_posterior(start)) for one in theta])
    log_weight -= stats.multivariate_t(shape=np.eye(2), df=5).logpdf(draws)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ (theta - start)
    return start + mean, np.sqrt(weight @ (theta - start - mean) ** 2)


def agree(found, truth):
    """Within five Monte Carlo errors: a false alarm in a million for each number."""
    mean, sd = truth
    table = found.summary().iloc[:2]
    error = np.hypot(table["mcse_mean"], 0.01 * sd)
    assert (np.abs(table["mean"] - mean) < 5 * error).all(), (table["mean"].tolist(), mean)
    np.testing.assert_allclose(table["sd"], sd, rtol=0.2)


def normal(theta, sd):
    return -0.5 * float((theta**2).sum()) / sd**2


def test_large_counts_are_right_inside_the_limit():
    counts = np.floor(DATA["count"] * 1e9)

    def log_posterior(theta):
        eta = (theta[0] + theta[1] * X).astype(np.longdouble)
        return (counts * (eta - 22) - np.exp(eta)).sum() + normal(theta, 1e4)

    truth = importance(log_posterior, [21.8188, 0.293407], scale=(1e-5, 1e-5))
    for method in ("thinned", "mh"):
        agree(fit("q ~ x", "poisson", {"q": counts}, prior=WIDE, method=method, draws=1_500), truth)


@pytest.mark.parametrize("exposure", [1e-43, 1e43])
def test_exposures_are_right_inside_the_limit(exposure):
    def log_posterior(theta):
        eta = np.log(exposure) + theta[0] + theta[1] * X
        return float((DATA["count"] * eta - np.exp(eta)).sum() + normal(theta, 1e4))

    found = fit("count ~ x", tb.Poisson("t"), {"t": np.full(N, exposure)}, prior=WIDE)
    agree(found, importance(log_posterior, [1 - np.log(exposure), 0.3]))


@pytest.mark.parametrize("unit", [1e-38, 1e37])
def test_positive_outcomes_are_right_inside_the_limit(unit):
    def log_posterior(theta):
        eta = theta[0] + theta[1] * X
        return float(-2 * (eta + unit * DATA["size"] * np.exp(-eta)).sum() + normal(theta, 1e4))

    found = fit("q ~ x", tb.Gamma(2.0), {"q": unit * DATA["size"]}, prior=WIDE)
    agree(found, importance(log_posterior, [np.log(unit), 0.2]))
    assert (found.calibration()["predicted"] / unit).between(0.5, 5).all()


@pytest.mark.parametrize("power", [-160, 160])  # 7e-49, 1e48
@pytest.mark.parametrize("family", ["bernoulli", tb.Bernoulli("cloglog"), "poisson", "gaussian"])
def test_columns_in_extreme_units_give_the_same_fit(family, power):
    outcome = {"poisson": "count", "gaussian": "z"}.get(family, "y")
    plain, scaled = (fit(f"{outcome} ~ q", family, {"q": X * unit}, draws=50).draws for unit in (1.0, 2.0**power))
    np.testing.assert_allclose(scaled[..., 1] * 2.0**power, plain[..., 1], rtol=1e-7)


@pytest.mark.parametrize("power", [-160, 160])
@pytest.mark.parametrize("right", ["x", "x + (1 | g)"])
def test_outcomes_in_extreme_units_give_the_same_fit(right, power):
    plain, scaled = (fit(f"q ~ {right}", "gaussian", {"q": DATA["z"] * unit}, draws=50) for unit in (1.0, 2.0**power))
    np.testing.assert_allclose(scaled.summary()["mean"] / 2.0**power, plain.summary()["mean"], rtol=1e-3)
    np.testing.assert_allclose(scaled.summary()["mcse_sd"] / 2.0**power, plain.summary()["mcse_sd"], rtol=1e-2)


@pytest.mark.parametrize("sd", [1e-99, 1e-10, 1e99])
def test_priors_of_extreme_width_are_right(sd):
    mean, own = fit("y ~ x", prior=tb.Normal(0, sd)).summary()[["mean", "sd"]].to_numpy().T
    if sd < 1:
        np.testing.assert_allclose(own, sd, rtol=0.25)
        assert (np.abs(mean) < 0.3 * sd).all()
    else:
        np.testing.assert_allclose(mean, fit("y ~ x", prior=WIDE).summary()["mean"], rtol=0.2)


def test_a_separated_outcome_is_right_with_the_widest_prior():
    """The posterior is the prior, cut where rows say that the slope is positive: a Rayleigh distribution."""
    sd = limits.WIDEST / np.abs(X).max() / 1.01
    found = fit("apart ~ x", prior=tb.Normal(0, sd), method="mh", draws=6_000).summary().loc["x"]
    assert found["mean"] / sd == pytest.approx((np.pi / 2) ** 0.5, abs=5 * found["mcse_mean"] / sd + 0.02)
    assert found["sd"] / sd == pytest.approx((2 - np.pi / 2) ** 0.5, rel=0.2)


def test_weights_so_small_that_only_the_prior_speaks():
    found = fit("y ~ x", weights=np.full(N, 2e-6 / N), prior=tb.Normal(1, 2)).summary()
    np.testing.assert_allclose(found["mean"], 1, atol=0.5)
    np.testing.assert_allclose(found["sd"], 2, rtol=0.2)


def test_a_weight_that_is_nearly_nothing_is_nothing():
    tiny, none = (fit("y ~ x", weights=np.where(FIRST, own, 1.0), draws=50).draws for own in (5e-324, 0.0))
    np.testing.assert_allclose(tiny.mean((0, 1)), none.mean((0, 1)), atol=0.2)


def test_negative_zeros_are_zeros():
    y = np.where(DATA["y"] > 0, 1.0, -0.0)
    assert np.array_equal(fit("q ~ x", data={"q": y}, draws=50).draws, fit("y ~ x", draws=50).draws)


LIMITS = "between 1e-50 and 1e.50"
COUNTS = "counts of at most 1e.12, but .* rows are not .first at row"
REFUSED = {
    "counts of 1e15": (lambda: fit("q ~ x", "poisson", {"q": DATA["count"] * 1e15}), f"'q' must be {COUNTS} 0: 4e.15"),
    "counts of 1e300": (lambda: fit("q ~ x", "poisson", {"q": DATA["count"] * 1e300}), COUNTS),
    "a count of 2^53": (lambda: fit("q ~ x", "poisson", {"q": np.where(FIRST, 2.0**53, 1)}), f"{COUNTS} 3"),
    "nb counts": (lambda: fit("q ~ x", tb.NegativeBinomial(2.0), {"q": DATA["count"] * 1e15}), COUNTS),
    "group counts": (lambda: fit("q ~ x + (1 | g)", "poisson", {"q": DATA["count"] * 1e15}), COUNTS),
    "many counts": (
        lambda: fit("q ~ x", "poisson", {"q": DATA["count"] * 1e11}),
        "the log-likelihood is 4.85e.14 where the posterior is highest.*the limit is 1e.13",
    ),
    "group totals": (lambda: fit("q ~ x + (1 | g)", "poisson", {"q": DATA["count"] * 1e11}), "the log-likelihood is"),
    "trials": (
        lambda: fit("q ~ x", tb.Binomial("t"), {"t": np.full(N, 1e18), "q": DATA["y"]}),
        "the trials 't', times weights if there are any, add up to 6e.19, but must add up to between 1e-06 and 1e.12",
    ),
    "column 1e300": (lambda: fit("y ~ q", data={"q": X * 1e300}), f"column 'q' reaches 2.33e.300 in size.*{LIMITS}"),
    "column 1e-300": (lambda: fit("y ~ q", data={"q": X * 1e-300}), f"column 'q' reaches .*{LIMITS}"),
    "column 1e-320": (lambda: fit("y ~ q", data={"q": X * 1e-320}), f"column 'q' reaches .*{LIMITS}"),
    "group column": (lambda: fit("y ~ q + (1 | g)", data={"q": X * 1e160}), f"column 'q' reaches .*{LIMITS}"),
    "gaussian column": (lambda: fit("z ~ q", "gaussian", {"q": X * 1e160}), f"column 'q' reaches .*{LIMITS}"),
    "spline column": (lambda: fit("y ~ s(q)", data={"q": X * 1e160}), f"column 'q' reaches .*{LIMITS}"),
    "one value among many rows of a spline": (
        lambda: tb.MARS(np.where(np.arange(4_000) == 5, 1e300, np.arange(4_000) % 7)[:, None], np.arange(4_000) % 2),
        "column 'x0' reaches 1e.300",
    ),
    "array column": (
        lambda: tb.GLM.from_arrays(np.column_stack([np.ones(N), X * 1e160]), DATA["y"]),
        f"column 'x1' reaches .*{LIMITS}",
    ),
    "1e16 apart by 1": (lambda: fit("y ~ q", data={"q": 1e16 + np.arange(N)}), "rounding hides the difference"),
    "outcome 1e300": (lambda: fit("q ~ x", "gaussian", {"q": DATA["z"] * 1e300}), f"outcome 'q' reaches .*{LIMITS}"),
    "outcome 1e-320": (lambda: fit("q ~ x", "gaussian", {"q": DATA["z"] * 1e-320}), f"outcome 'q' reaches .*{LIMITS}"),
    "group outcome": (
        lambda: fit("q ~ x + (1 | g)", "gaussian", {"q": DATA["z"] * 1e160}),
        f"outcome 'q' reaches .*{LIMITS}",
    ),
    "far outcomes": (
        lambda: fit("q ~ x", "gaussian", {"q": 1e15 + np.arange(N) % 2}),
        "errors have an sd of about 0.4. beside outcomes of size 1e.15",
    ),
    "no errors": (lambda: fit("q ~ x", "gaussian", {"q": 1 + 2 * X}), "rounding hides what is left of them"),
    "gamma outcome": (
        lambda: fit("q ~ x", tb.Gamma(2.0), {"q": DATA["size"] * 1e100}),
        "outcome 'q' goes from .* to 8.32e.100, but must lie between 1e-40 and 1e.40",
    ),
    "own outcome": (
        lambda: fit("q ~ x", tb.family("-0.5 * (y - eta)**2"), {"q": DATA["z"] * 1e15}),
        "the posterior mode was not found.*see that its constants suit the outcomes",
    ),
    "offset 1e308": (
        lambda: fit("y ~ x", offset=np.full(N, 1e308)),
        "the offset, or with it the log of an exposure, is 1e.308 .row 0., but must lie between -100 and 100",
    ),
    "an offset": (lambda: fit("y ~ x", offset=np.where(FIRST, -1e308, 0)), "is -1e.308 .row 3."),
    "offset twice": (lambda: fit("y ~ x + offset(q)", data={"q": np.full(N, 1e308)}, offset="q"), "is inf .row 0."),
    "gaussian offset": (lambda: fit("z ~ x", "gaussian", offset=np.full(N, 1e308)), "lie between -1e.50 and 1e.50"),
    "exposure 1e-300": (lambda: fit("count ~ x", tb.Poisson("t"), {"t": np.full(N, 1e-300)}), "is -690.8 .row 0."),
    "exposure 1e300": (lambda: fit("count ~ x", tb.Poisson("t"), {"t": np.full(N, 1e300)}), "is 690.8 .row 0."),
    "weights 1e300": (
        lambda: fit("y ~ x", weights=np.full(N, 1e300)),
        "weights add up to 6e.301, but must add up to between 1e-06 and 1e.12: beyond that rounding hides",
    ),
    "a weight": (lambda: fit("y ~ x", weights=np.where(FIRST, 1e300, 1)), "weights add up to 1e.300"),
    "weights 1e-300": (lambda: fit("y ~ x", weights=np.full(N, 1e-300)), "weights add up to 6e-299.*rows say nothing"),
    "weights 1e-320": (lambda: fit("z ~ x", "gaussian", weights=np.full(N, 1e-320)), "weights add up to"),
    "weights of a model": (
        lambda: tb.Model(
            lambda theta, rows: -rows.y * theta.m, {"m": tb.Normal()}, {"m": 1.0}, {"y": DATA["y"]}, weights=[1e300] * N
        ),
        "weights add up to 6e.301",
    ),
    "prior sd 1e-300": (lambda: tb.Normal(0, 1e-300), "prior sd must be a positive number from 1e-100 to 1e.100"),
    "prior mean 1e300": (lambda: tb.Normal(1e300), "prior mean must be a number whose size is at most 1e.100"),
    "prior far off": (
        lambda: fit("count ~ x", "poisson", prior=tb.Normal(1e10, 1)),
        "the prior of .Intercept. has its mean at 1e.10, where linear predictors",
    ),
    "prior df": (lambda: tb.StudentT(1e-3), "prior df must be a positive number from 0.5 to"),
    "half-cauchy 1e-300": (lambda: tb.HalfCauchy(1e-300), "scale of a group prior must be a positive number from"),
    "half-cauchy 1e300": (lambda: tb.HalfCauchy(1e300), "scale of a group prior must be a positive number from"),
    "half-cauchy 1e-50": (
        lambda: fit("y ~ x + (1 | g)", group_prior=tb.HalfCauchy(1e-50)),
        "group_prior is HalfCauchy.scale=1e-50., but its number must be at least 1e-09",
    ),
    "inverse-square 1e10": (
        lambda: fit("y ~ x + (1 | g)", group_prior=tb.InverseSquare(1e10)),
        "group_prior is InverseSquare.*, but its number must be at most 1e.02",
    ),
    "separated": (
        lambda: fit("apart ~ x", prior=tb.Normal(0, 1e6)),
        "no finite estimate of the coefficient of 'Intercept', and its prior with scale 1e.06 lets it change linear",
    ),
    "separated in groups": (lambda: fit("apart ~ x + (1 | g)", prior=tb.Normal(0, 1e6)), "no finite estimate of"),
    "separated in shards": (
        lambda: fit("apart ~ x", prior=tb.Normal(0, 1e6), method=tb.Consensus(2)),
        "no finite estimate of",
    ),
    "shape": (lambda: tb.NegativeBinomial(1e12), "shape must be a positive number from 1e-09 to 1e.09"),
    "one row": (lambda: tb.fit("y ~ x", {"y": [1], "x": [2]}, **FEW), "'y' is 1 in every row"),
    "fewer rows than columns": (
        lambda: tb.fit("y ~ a + b + c", {"y": [0, 1, 0], "a": X[:3], "b": X[3:6], "c": X[6:9]}, **FEW),
        "'c' is a linear combination of",
    ),
    "constant outcome": (lambda: fit("q ~ x", "gaussian", {"q": np.full(N, 1e300)}), "is 1e.300 in every row"),
    "rows all alike": (lambda: fit("y ~ q", data={"q": np.ones(N)}), "'q' is a linear combination of 'Intercept'"),
    "chains": (lambda: fit("y ~ x", chains=10**6), "chains must be a whole number from 1 to 10,000, not 1000000"),
    "target": (lambda: fit("y ~ x", draws=None, target_ess=1e12), "target_ess must be at most 2,000,000, the draws"),
    "shards": (lambda: fit("y ~ x", method=tb.Consensus(100)), "60 observations cannot be dealt to 100 shards"),
    "subsample": (lambda: fit("y ~ x", method=tb.TwoStage(tb.Subsample(10**9))), "asks for 1,000,000,000 rows"),
    "nothing to estimate": (
        lambda: fit("y ~ x", prior=tb.Normal(0, 1e-99), method="subsampling"),
        "there is nothing to estimate; use method='auto'",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_numbers_beyond_the_limits_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + (1 | g)", "y ~ s(x)"])
@pytest.mark.parametrize("given", [{"draws": 10**12}, {"warmup": 10**12}, {"draws": 10**30}])
def test_draws_beyond_memory_are_refused_with_their_size(formula, given):
    (name,) = given
    what = "warmup draws" if name == "warmup" else "draws"
    message = rf"^1,000,.*000 {what} of 2 chains would take .* TB of memory, but only .* (MB|GB|TB) are free; ask for"
    with pytest.raises(ValueError, match=message):
        fit(formula, **given)


def test_what_draws_take_is_seen_again_when_their_shape_is_known(monkeypatch):
    """One coefficient at a time has more to keep than all at once."""
    monkeypatch.setattr(room, "LEAST", 0)
    asked = 300 * 2 * (8 * (2 + 2) + 26)
    monkeypatch.setattr(room, "free_memory", lambda: asked)
    assert fit("y ~ x", method=tb.MH("random-walk"), warmup=0).draws.shape == (2, 300, 2)
    with pytest.raises(ValueError, match=r"^300 draws would take .* of memory"):
        fit("y ~ x", method=tb.MH("one-at-a-time"), warmup=0)
