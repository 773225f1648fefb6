"""BayesLogistic, BayesPoisson and BayesLinear: what scikit-learn asks of them, and what others say of the same data."""

import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import tallbayes as tb
from tallbayes.results import report

KINDS = {"bernoulli": tb.BayesLogistic, "poisson": tb.BayesPoisson, "gaussian": tb.BayesLinear}
QUICK = {"draws": 100, "chains": 2, "random_state": 0}
SURE = stats.norm.isf(1e-8)  # standard errors: a million such comparisons may fail once in a hundred

every_kind = pytest.mark.parametrize("family", KINDS)


@cache
def data(family, rows=4_000):
    """A table of two columns and an outcome."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rows, 2)) * [1.0, 3.0] + [0.0, 5.0]
    eta = 0.5 * X[:, 0] - 0.2 * X[:, 1]
    y = {
        "bernoulli": lambda: rng.random(rows) < 1 / (1 + np.exp(-eta)),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gaussian": lambda: eta + rng.standard_normal(rows),
    }[family]()
    return pd.DataFrame(X, columns=["a", "b"]), y.astype(float)


@cache
def fitted(family):
    return KINDS[family](random_state=3).fit(*data(family))


@pytest.mark.filterwarnings("ignore::tallbayes.SeparationWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([kind(**QUICK) for kind in KINDS.values()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@every_kind
def test_draws_are_those_of_tb_fit(family):
    X, y = data(family)
    model, fit = fitted(family), tb.fit("y ~ a + b", X.assign(y=y), family, seed=3, progress=False)
    np.testing.assert_array_equal(model.fit_.draws, fit.draws)
    pd.testing.assert_frame_equal(model.fit_.summary().drop(columns="edpm"), fit.summary().drop(columns="edpm"))
    mean, lower, upper = (
        model.predict_proba(X, interval=0.9) if family == "bernoulli" else model.predict(X, interval=0.9)
    )
    expected = fit.predict(X, interval=0.9).to_numpy().T
    found = (mean, lower, upper) if family != "bernoulli" else (mean[:, 1], lower[:, 1], upper[:, 1])
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-12)
    if family != "gaussian":
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    if family == "bernoulli":
        np.testing.assert_allclose(lower[:, 0], 1 - upper[:, 1])
        np.testing.assert_allclose(mean.sum(1), 1)


@every_kind
def test_estimates_are_those_of_maximum_likelihood_where_rows_are_many(family):
    """The posterior mean is within a tenth of an sd of the maximum, and the rest is Monte Carlo error."""
    X, y = data(family)
    other = {
        "bernoulli": LogisticRegression(C=np.inf, tol=1e-8),
        "poisson": PoissonRegressor(alpha=0, tol=1e-8, max_iter=1_000),
        "gaussian": LinearRegression(),
    }[family].fit(X, y)
    model, summary = fitted(family), fitted(family).fit_.summary()
    assert model.coef_.shape == model.coef_sd_.shape == other.coef_.shape
    assert np.shape(model.intercept_) == np.shape(other.intercept_)
    for name, found, expected in (
        ("Intercept", model.intercept_, other.intercept_),
        *zip("ab", model.coef_.ravel(), other.coef_.ravel(), strict=True),
    ):
        one = summary.loc[name]
        assert abs(found - expected) < 0.1 * one["sd"] + SURE * one["mcse_mean"]
    np.testing.assert_allclose(model.coef_sd_.ravel(), summary["sd"][["a", "b"]], rtol=1e-3)
    assert abs(model.score(X, y) - other.score(X, y)) < 0.01
    if family != "bernoulli":
        np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=0.1, atol=0.1)


def test_intervals_of_probabilities_cover_them():
    """One probability a group, by itself: 60 tries of one 90% interval."""
    rng, groups, rows = np.random.default_rng(5), 60, 300
    truth = rng.uniform(0.1, 0.9, groups)
    X = np.repeat(np.eye(groups), rows, axis=0)
    y = rng.random(groups * rows) < np.repeat(truth, rows)
    model = tb.BayesLogistic(fit_intercept=False, random_state=1).fit(X, y)
    _, lower, upper = model.predict_proba(np.eye(groups), interval=0.9, draws=1_000)
    covered = ((lower[:, 1] < truth) & (truth < upper[:, 1])).sum()
    assert stats.binom.ppf(1e-7, groups, 0.9) <= covered
    _, above, below = model.predict_proba(np.eye(groups), interval=0.5, draws=1_000)
    assert ((lower < above) & (below < upper)).all()


def test_intervals_of_new_outcomes_cover_them():
    X, y = data("gaussian")
    half = len(X) // 2
    model = tb.BayesLinear(random_state=1).fit(X[:half], y[:half])
    _, lower, upper = model.predict(X[half:], interval=0.8, noise=True)
    covered = ((lower < y[half:]) & (y[half:] < upper)).sum()
    low, high = stats.binom.ppf([1e-7, 1 - 1e-7], half, 0.8)
    assert low - 0.01 * half < covered < high + 0.01 * half  # a hundredth, since the sd is not known and draws are few
    _, low, high = model.predict(X, interval=0.8)
    assert (high - low).max() < 0.5 * (upper - lower).min()


def test_pipelines_cross_validation_and_searches():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"fico": rng.normal(700, 50, 1_500), "bank": rng.choice(["a", "b", "c"], 1_500)})
    table.loc[::50, "fico"] = np.nan
    y = rng.random(1_500) < 1 / (1 + np.exp(-(table["fico"].fillna(700) - 700) / 30 - (table["bank"] == "b")))
    columns = ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(), StandardScaler()), ["fico"]),
            ("text", OneHotEncoder(sparse_output=False), ["bank"]),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = make_pipeline(columns, tb.BayesLogistic(random_state=1))
    assert cross_val_score(model, table, y, cv=3).mean() > 0.65
    assert cross_val_score(model, table, y, cv=3, scoring="roc_auc").mean() > 0.75
    assert -cross_val_score(model, table, y, cv=3, scoring="neg_log_loss").mean() < 0.6
    search = GridSearchCV(model, {"bayeslogistic__prior": ["normal(0, 0.001)", None, tb.StudentT(4)]}, cv=2)
    assert search.fit(table, y).best_params_ != {"bayeslogistic__prior": "normal(0, 0.001)"}
    model.fit(table, y)
    assert list(model[-1].fit_.coefficients) == ["Intercept", "fico", "bank_a", "bank_b"]
    assert model[-1].coef_[0, 3] == model[-1].coef_sd_[0, 3] == 0  # of the last bank, which the others tell
    mean, lower, upper = model.predict_proba(table, interval=0.9)
    assert ((lower < mean) & (mean < upper)).all()


@every_kind
def test_clones_pickles_and_seeds(family):
    X, y = data(family)
    model = fitted(family)
    same = clone(model)
    assert same.get_params() == model.get_params()
    assert not hasattr(same, "fit_")
    np.testing.assert_array_equal(same.fit(X, y).coef_, model.coef_)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    kind = KINDS[family]
    first, again, other = (quick_coefficients(kind, np.random.RandomState(seed), X, y) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def quick_coefficients(kind, random_state, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(draws=20, random_state=random_state).fit(X, y).coef_


@every_kind
def test_weights_count_rows(family):
    X, y = data(family, 500)
    often = np.arange(500) % 4
    kind, repeated = KINDS[family], np.repeat(np.arange(500), often)
    weighted = kind(random_state=1).fit(X, y, sample_weight=often).fit_.summary()
    one_by_one = kind(random_state=2).fit(X.iloc[repeated], y[repeated]).fit_.summary()
    error = np.hypot(weighted["mcse_mean"], one_by_one["mcse_mean"])
    assert ((weighted["mean"] - one_by_one["mean"]).abs() < SURE * error).all()
    error = np.hypot(weighted["mcse_sd"], one_by_one["mcse_sd"])
    assert ((weighted["sd"] - one_by_one["sd"]).abs() < SURE * error).all()


def test_rates_with_exposures_are_counts():
    X, _ = data("poisson")
    rng = np.random.default_rng(4)
    years = rng.uniform(0.1, 3, len(X))
    claims = rng.poisson(years * np.exp(0.5 * X["a"]))
    model = tb.BayesPoisson(random_state=1).fit(X, claims / years, sample_weight=years)
    fit = tb.fit(
        "y ~ a + b", X.assign(y=claims, years=years), tb.Poisson(exposure="years"), seed=2, progress=False
    ).summary()
    found = model.fit_.summary()
    assert ((found["mean"] - fit["mean"]).abs() < SURE * np.hypot(found["mcse_mean"], fit["mcse_mean"])).all()
    assert ((found["sd"] - fit["sd"]).abs() < SURE * np.hypot(found["mcse_sd"], fit["mcse_sd"])).all()
    rates = claims / years
    deviance = mean_poisson_deviance(rates, model.predict(X), sample_weight=years)
    none = mean_poisson_deviance(rates, np.full(len(X), np.average(rates, weights=years)), sample_weight=years)
    assert model.score(X, rates, sample_weight=years) == pytest.approx(1 - deviance / none)


@every_kind
def test_what_follows_a_fit(family, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MOST_PANELS", 1)
    monkeypatch.setattr(report, "MOST_TRACES", 1)
    model = fitted(family)
    model.fit_.save(tmp_path / "fit.nc")
    assert tb.load(tmp_path / "fit.nc").coefficients == ("Intercept", "a", "b")
    model.fit_.report(tmp_path / "fit.html")
    assert model.fit_.origin.given == {}  # rows among them
    with pytest.raises(ValueError, match="give it again"):
        model.fit_.more(draws=5)


@every_kind
def test_priors_and_columns(family):
    X, y = data(family, 500)
    kind = KINDS[family]
    model = kind(prior={"a": tb.Normal(2, 1e-5), "Intercept": "normal(-3, 0.00001)"}, random_state=1).fit(X, y)
    assert model.coef_.ravel()[0] == pytest.approx(2, abs=1e-3)
    assert np.ravel(model.intercept_)[0] == pytest.approx(-3, abs=1e-3)
    with pytest.raises(ValueError, match="prior given for 'c', which is not a coefficient"):
        kind(prior={"c": tb.Normal()}).fit(X, y)
    with pytest.raises(ValueError, match=r"prior given for 'a', which is not a coefficient.*; there are Intercept, x0"):
        kind(prior={"a": tb.Normal()}).fit(X.to_numpy(), y)
    without = kind(fit_intercept=False, random_state=1).fit(X, y)
    assert without.fit_.coefficients == ("a", "b")
    assert without.intercept_ == 0
    twice = X.assign(c=X["a"] + X["b"])
    dropped, plain = kind(random_state=1).fit(twice, y), kind(random_state=1).fit(X, y)
    assert dropped.coef_.ravel().tolist() == [*plain.coef_.ravel(), 0.0]
    assert dropped.coef_sd_.ravel()[2] == 0
    np.testing.assert_array_equal(dropped.predict(twice), plain.predict(X))
    with pytest.raises(ValueError, match="'c' is a linear combination of 'a', 'b'"):
        kind(collinear="refuse").fit(twice, y)


def test_log_odds_go_with_probabilities():
    X, _ = data("bernoulli")
    model = fitted("bernoulli")
    odds, proba = model.decision_function(X), model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), proba)
    np.testing.assert_array_equal(model.predict(X), odds > 0)
    far = pd.DataFrame({"a": [1e6, -1e6], "b": 0.0})
    assert np.isfinite(model.decision_function(far)).all()


def test_classes_have_names():
    X, y = data("bernoulli")
    model = tb.BayesLogistic(random_state=3).fit(X, np.where(y == 1, "yes", "no"))
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) == {"no", "yes"}
    np.testing.assert_array_equal(model.coef_, fitted("bernoulli").coef_)


def test_targets_without_errors():
    X = np.random.default_rng(0).standard_normal((50, 2))
    model = tb.BayesLinear(random_state=1).fit(X, 3 + 2 * X[:, 0])
    np.testing.assert_allclose([model.intercept_, *model.coef_], [3, 2, 0], atol=1e-9)


def test_chains_that_do_not_converge_are_told():
    X, y = data("bernoulli")
    with pytest.warns(ConvergenceWarning, match="bulk ESS should be at least 400, but is") as told:
        tb.BayesLogistic(draws=20, random_state=1).fit(X, y)
    assert [one.filename for one in told] == [__file__]


def test_what_is_refused():
    X, y = data("bernoulli")
    model = fitted("bernoulli")
    for call, kind, match in (
        (lambda: clone(model).fit(sparse.csr_array(X), y), TypeError, "Sparse data .* dense data is required"),
        (lambda: clone(model).fit(X, np.arange(len(X)) % 3), ValueError, "Only binary classification .* 3 classes"),
        (lambda: clone(model).fit(X, y, sample_weight=y), ValueError, "sample_weight leaves only one class, 1.0"),
        (lambda: clone(model).fit(X, y, sample_weight=y - 0.5), ValueError, "sample_weight must not be negative"),
        (lambda: clone(model).fit(X.set_axis(["a", "Intercept"], axis=1), y), ValueError, "has a column 'Intercept'"),
        (lambda: tb.BayesPoisson().fit(X, y - 1), ValueError, "^y must be counts or rates of at least 0, but .* -1"),
        (lambda: tb.BayesPoisson().fit(X, 0 * y), ValueError, "'y' is 0 in every row"),
        (lambda: tb.BayesLinear().fit(X, 0 * y), ValueError, "'y' is 0 in every row"),
        (lambda: tb.BayesLinear(method="mh"), TypeError, "unexpected keyword argument 'method'"),
        (lambda: tb.BayesLogistic(fit_intercept=False).fit(0 * X, y), ValueError, "no column of the design is left"),
    ):
        with pytest.raises(kind, match=match):
            call()
