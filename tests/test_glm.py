"""The two ways to make a model agree; binomial rows, exposure, weights and offsets; and what is refused."""

import numpy as np
import pandas as pd
import pytest

from tallbayes.families import Bernoulli, Binomial, Poisson
from tallbayes.models.glm import GLM
from tallbayes.models.priors import Normal, StudentT
from tallbayes.rows.tasks import Levels

# A sum over n rows errs by less than 1,000 eps times the sum of its terms' sizes (test_rows says why).
ROUNDING = 1000 * np.finfo(float).eps
N = 400


def data(seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N) + 2, "g": rng.choice(["u", "v"], N)})
    frame["y"] = (rng.random(N) < 0.4).astype(float)
    frame["counts"] = rng.poisson(1.0, N).astype(float)
    frame["trials"] = rng.integers(0, 6, N).astype(float)
    frame["successes"] = rng.binomial(frame["trials"].to_numpy(int), 0.3).astype(float)
    frame["days"], frame["w"], frame["o"] = rng.uniform(0.5, 9, N), rng.gamma(0.5, size=N), rng.normal(size=N)
    return frame


FRAME = data()
X = np.column_stack([np.ones(N), FRAME["a"], FRAME["b"]])
THETA = np.array([[0.0, 0.0, 0.0], [-0.5, 0.3, 0.1], [0.2, -1.0, -0.3]])


def assert_same(one, other, params=THETA):
    """Two models with the same log-likelihood and derivatives."""
    found, expected = one.derivatives(params), other.derivatives(params)
    scale = 30 * (one.rows.total_weight + other.rows.total_weight + np.abs(expected.value).max())
    for name, got, truth in zip(expected._fields[:3], found[:3], expected[:3], strict=True):
        assert got.shape == truth.shape, name
        assert np.abs(got - truth).max() <= ROUNDING * scale, name
    assert one.log_likelihood(params) == pytest.approx(expected.value, abs=ROUNDING * scale)
    assert (one.log_prior(params) == other.log_prior(params)).all()


# From arrays


# Every link, and every form with one of them: each pair is compiled apart, which takes its time.
FORMS = [{"weights": "w"}, {"offset": "o"}, {"weights": "w", "offset": "o"}]


@pytest.mark.parametrize(
    ("family", "named"),
    [
        *((family, {}) for family in (*map(Bernoulli, ("logit", "probit", "cloglog")), Poisson())),
        *(("bernoulli", named) for named in FORMS),
    ],
    ids=str,
)
def test_arrays_are_like_a_formula(family, named):
    y = "counts" if family == Poisson() else "y"
    prior = {"a": StudentT(3, 0, 1), "Intercept": Normal(1, 2)}
    one = GLM(f"{y} ~ a + b", FRAME, family, prior, **named)
    other = GLM.from_arrays(
        X, FRAME[y], family, prior, coefficients=["Intercept", "a", "b"], **{k: FRAME[v] for k, v in named.items()}
    )
    assert_same(one, other)
    assert one.coefficients == other.coefficients
    assert one.family == other.family
    assert one.has_offset == other.has_offset == ("offset" in named)
    assert one.observations == other.observations == N
    assert (one.formula is None, other.formula is None) == (False, True)
    assert (one.offset, other.offset) == (named.get("offset"), None)
    assert other.seconds.keys() == one.seconds.keys()
    untouched = GLM.from_arrays(X, FRAME[y], family).rows  # but for a first pass: its columns, and derivatives at zero
    assert one.rows.touched > untouched.touched == 2 * N
    assert untouched.passes == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_that_lie_together_are_not_copied(order):
    given = np.array(X, order=order)
    model = GLM.from_arrays(given, FRAME["y"])
    assert np.shares_memory(model.rows.arrays.x, given) == (order == "F")
    assert_same(model, GLM("y ~ a + b", FRAME))


def test_arrays_of_many_kinds():
    expected = GLM("y ~ a + b", FRAME)
    for given in (X.tolist(), pd.DataFrame(X), np.asfortranarray(X)):
        assert_same(GLM.from_arrays(given, FRAME["y"].astype(int).tolist()), expected)
    whole = GLM.from_arrays(np.round(X).astype(int), FRAME["y"].to_numpy(bool))
    assert_same(whole, GLM.from_arrays(np.round(X), FRAME["y"]))


def test_names_of_coefficients():
    assert GLM.from_arrays(X, FRAME["y"]).coefficients == ("x0", "x1", "x2")
    assert GLM.from_arrays(X, FRAME["y"], coefficients=np.array(["p", "q", "r"])).coefficients == ("p", "q", "r")
    assert GLM.from_arrays(X, FRAME["y"], prior={"x1": Normal(0, 1)}).prior.scale[:2].tolist() == [10, 1]


def test_repeated_rows_are_merged():
    x = np.column_stack([np.ones(N), np.arange(N) % 3])
    model = GLM.from_arrays(x, np.arange(N) % 2)
    assert (model.rows.size, model.rows.total_weight, model.observations) == (6, N, N)


def holed(value):
    x = X.copy()
    x[7, 1] = value
    return x


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X": X[:, 0]}, r"X must be \(rows, columns\) and y \(rows,\), but they are \(400,\) and \(400,\)"),
        ({"X": X.T}, r"\(3, 400\) and \(400,\)"),
        ({"y": np.ones((N, 1))}, r"\(400, 3\) and \(400, 1\)"),
        ({"y": np.ones(N - 1)}, r"\(400, 3\) and \(399,\)"),
        ({"X": np.ones((N, 0))}, r"\(400, 0\) and"),
        ({"X": np.ones((0, 3)), "y": []}, r"\(0, 3\) and \(0,\)"),
        ({"coefficients": ["a", "b"]}, "X has 3 columns, so there must be as many different coefficient names"),
        ({"coefficients": ["a", "b", "b"]}, "as many different coefficient names"),
        ({"coefficients": ["a", "b", "c", "c"]}, "as many different coefficient names"),
        ({"coefficients": []}, "as many different coefficient names"),
        ({"X": holed(np.nan)}, "'x1' has missing or infinite values"),
        ({"X": holed(-np.inf), "coefficients": ["Intercept", "a", "b"]}, "'a' has missing or infinite values"),
        ({"y": np.where(np.arange(N) == 3, np.nan, 1.0)}, "'y' has missing or infinite values"),
        ({"y": FRAME["counts"]}, "outcome 'y' must be 0 or 1"),
        ({"y": np.ones(N)}, "outcome 'y' is 1 in every row"),
        ({"y": -FRAME["counts"], "family": "poisson"}, "'y' must be counts"),
        ({"family": "binomial"}, "binomial outcomes need the number of trials"),
        ({"family": Binomial("trials")}, r"Binomial\(.*names a column, but arrays have none: give each row twice"),
        ({"family": Poisson("days")}, r"Poisson\(exposure='days'\) names a column.*offset=np.log\(exposure\)"),
        ({"family": "cauchy"}, "family 'cauchy' is not known"),
        ({"weights": "w"}, "weights must be numbers"),
        ({"offset": np.zeros(3)}, r"offset has shape \(3,\), but the data has 400 rows"),
        ({"prior": {"zzz": Normal()}}, "prior given for 'zzz'"),
    ],
)
def test_arrays_that_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        GLM.from_arrays(**{"X": X, "y": FRAME["y"]} | given)


# Binomial outcomes


def trial_by_trial(frame):
    """One row a trial."""
    ones = frame.loc[frame.index.repeat(frame["successes"].astype(int))].assign(y=1.0)
    zeros = frame.loc[frame.index.repeat((frame["trials"] - frame["successes"]).astype(int))].assign(y=0.0)
    return pd.concat([ones, zeros])


@pytest.mark.parametrize(
    ("link", "named"),
    [*((link, {}) for link in ("logit", "probit", "cloglog")), *(("logit", named) for named in FORMS)],
    ids=str,
)
def test_binomial_rows_are_trials(link, named):
    model = GLM("successes ~ a + b + g", FRAME, Binomial("trials", link), **named)
    expanded = trial_by_trial(FRAME)
    expected = GLM("y ~ a + b + g", expanded, Bernoulli(link), **named)
    assert_same(model, expected, np.column_stack([THETA, [0.0, 0.4, -0.2]]))
    assert model.observations == N
    assert model.rows.total_weight == pytest.approx((FRAME["trials"] * FRAME.get(named.get("weights"), 1)).sum())
    assert model.rows.size < 2 * N  # rows without trials, or without successes, say nothing


def test_binomial_with_strata():
    model = GLM("successes ~ a", FRAME, Binomial("trials"), strata=["g"])
    found = {code: level.weight for code, level in model.rows.reduce(Levels("g")).items()}
    assert list(found.values()) == FRAME.groupby("g")["trials"].sum().tolist()


def test_one_trial_a_row_is_bernoulli():
    model = GLM("y ~ a + b", FRAME.assign(one=1), Binomial("one"))
    assert_same(model, GLM("y ~ a + b", FRAME))
    assert model.rows.size == N


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": FRAME["trials"] - 1}, r"'trials' must be counts"),
        ({"trials": 2.5}, r"'trials' must be counts .*first at row 0: 2.5"),
        ({"successes": 7.0}, "'successes' counts 7 successes in row 0, which had only"),
        ({"successes": 0.5}, "'successes' must be counts"),
        ({"successes": 0.0}, "outcome 'successes' has no successes"),
        ({"successes": FRAME["trials"]}, "outcome 'successes' has only successes"),
        ({"trials": "many"}, "trials must be numbers"),
        ({"trials": np.where(np.arange(N) == 5, np.nan, 9.0)}, "column 'trials' has 1 missing value .first at row 5"),
    ],
)
def test_binomial_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        GLM("successes ~ a", FRAME.assign(**changes), Binomial("trials"))


def test_a_column_of_trials_that_is_not_there():
    with pytest.raises(ValueError, match="no column 'sent'"):
        GLM("successes ~ a", FRAME, Binomial("sent"))


# Poisson outcomes with an exposure


def test_exposure_is_an_offset():
    logs = np.log(FRAME["days"])
    model = GLM("counts ~ a + b", FRAME, Poisson("days"))
    assert_same(model, GLM("counts ~ a + b", FRAME, "poisson", offset=logs))
    assert not model.has_offset  # it has an exposure, which predict reads from new data
    both = GLM("counts ~ a + b", FRAME, Poisson("days"), offset="o")
    assert_same(both, GLM("counts ~ a + b", FRAME, "poisson", offset=logs + FRAME["o"]))
    assert both.has_offset


@pytest.mark.parametrize(
    ("days", "message"),
    [
        (np.where(np.arange(N) == 5, 0.0, 1.0), "exposure 'days' must be positive, but is 0 in row 5"),
        (np.where(np.arange(N) == 5, -2.0, 1.0), "is -2 in row 5"),
        ("long", "exposure must be numbers"),
        (np.where(np.arange(N) == 5, np.nan, 1.0), "column 'days' has 1 missing value"),
        (np.where(np.arange(N) == 5, np.inf, 1.0), "column 'days' has 1 infinite value"),
    ],
)
def test_exposures_that_are_refused(days, message):
    with pytest.raises(ValueError, match=message):
        GLM("counts ~ a", FRAME.assign(days=days), Poisson("days"))


# Weights and offsets


def test_weights_and_offsets_by_name_or_as_arrays():
    named = GLM("y ~ a + b", FRAME, weights="w", offset="o")
    assert_same(named, GLM("y ~ a + b", FRAME, weights=FRAME["w"], offset=FRAME["o"].tolist()))
    assert (named.offset, GLM("y ~ a", FRAME, offset=FRAME["o"]).offset) == ("o", None)


@pytest.mark.parametrize("family", ["bernoulli", Binomial("trials")], ids=str)
def test_rows_of_weight_zero_are_no_rows(family):
    weights = np.where(np.arange(N) % 3, FRAME["w"], 0.0)
    y = "y" if family == "bernoulli" else "successes"
    model = GLM(f"{y} ~ a + b", FRAME, family, weights=weights, offset="o", strata=["g"])
    keep = weights > 0
    assert_same(model, GLM(f"{y} ~ a + b", FRAME[keep], family, weights=weights[keep], offset="o", strata=["g"]))
    assert model.observations == N
    assert (model.rows.arrays.weights > 0).all()


def test_an_outcome_without_weight_is_not_looked_at():
    frame, weights = FRAME.assign(y=np.where(np.arange(N) == 9, 5.0, FRAME["y"])), np.ones(N)
    with pytest.raises(ValueError, match=r"must be 0 or 1, but 1 rows are not \(first at row 9: 5\)"):
        GLM("y ~ a", frame)
    weights[9] = 0
    assert GLM("y ~ a", frame, weights=weights).rows.size == N - 1
    weights[[2, 9]] = 0, 1
    with pytest.raises(ValueError, match=r"first at row 9: 5"):  # rows are those of the data, whatever was dropped
        GLM("y ~ a", frame, weights=weights)


@pytest.mark.parametrize("what", ["weights", "offset"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("g", "{} must be numbers: a column's name or one number per row"),
        (["x"] * N, "{} must be numbers"),
        (np.ones(3), r"{} has shape \(3,\), but the data has 400 rows"),
        (np.ones((N, 1)), r"{} has shape \(400, 1\)"),
        (1.0, r"{} has shape \(\)"),
        (np.where(np.arange(N) > 397, np.nan, 1.0), r"{} has 2 missing or infinite values \(first at row 398\)"),
        (np.where(np.arange(N) == 4, np.inf, 1.0), r"{} has 1 missing or infinite values \(first at row 4\)"),
        ("nowhere", "no column 'nowhere'"),
    ],
)
def test_per_row_numbers_that_are_refused(what, given, message):
    with pytest.raises(ValueError, match=message.format(what)):
        GLM("y ~ a", FRAME, **{what: given})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(np.arange(N) == 6, -0.5, 1.0), r"weights must be positive or zero.*smallest is -0.5 \(row 6\)"),
        (np.zeros(N), "some positive; the smallest is 0"),
    ],
)
def test_impossible_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        GLM("y ~ a", FRAME, weights=weights)
    with pytest.raises(ValueError, match=message):
        GLM.from_arrays(X, FRAME["y"], weights=weights)


def test_only_one_outcome_has_weight():
    message = "outcome 'y' is 0 in every row"
    with pytest.raises(ValueError, match=message):
        GLM("y ~ a", FRAME, weights=1 - FRAME["y"])


def test_only_one_outcome_has_weight_among_trials():
    weights = (FRAME["successes"] == 0).astype(float)
    with pytest.raises(ValueError, match="outcome 'successes' has no successes"):
        GLM("successes ~ a", FRAME, Binomial("trials"), weights=weights)
