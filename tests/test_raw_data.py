"""Raw data in, a right answer out: default priors do not depend on units, and move nothing where rows are many."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import run
from figures import sketched

import tallbayes as tb
from tallbayes.data.formula import Formula
from tallbayes.models.cautions import PriorWarning, SeparationWarning
from tallbayes.models.mode import find_mode

QUIET = {"seed": 1, "progress": False}
OTHERS = ("age", "job", "marital", "education", "housing", "contact", "day_of_week", "campaign", "pdays", "previous")
MACRO = ("`emp.var.rate`", "`cons.price.idx`", "`cons.conf.idx`", "euribor3m", "`nr.employed`")
BANK = "I(y == 'yes') ~ " + " + ".join((*OTHERS, "default", "month", "poutcome", *MACRO))


@pytest.fixture(scope="module")
def bank():
    """The file as it comes."""
    if not (folder := os.environ.get("TALLBAYES_DATA")):
        assert os.environ.get("CI") != "true", "the bank data must be there in CI: set TALLBAYES_DATA"
        pytest.skip("TALLBAYES_DATA is not set")
    return pd.read_csv(Path(folder) / "bank-additional-full.csv", sep=";")


def likeliest(X, y, ridge=1e-3):
    """Maximum likelihood of a logit model and its standard errors, by Newton's method on standardised columns.

    The ridge is for columns that separate the outcomes; it moves the others by less than rounding shows.
    """
    mean, sd = X.mean(1), X.std(1)
    constant = sd == 0
    mean[constant], sd[constant] = 0.0, 1.0
    z = (X - mean[:, None]) / sd[:, None]
    theta = np.zeros(len(X))
    for _ in range(100):
        p = 1 / (1 + np.exp(-theta @ z))
        curvature = (z * (p * (1 - p))) @ z.T + ridge * np.eye(len(X))
        step = np.linalg.solve(curvature, z @ (y - p) - ridge * theta)
        theta = theta + step * min(1.0, 2 / np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    back = np.diag(1 / sd)
    back[np.flatnonzero(constant)[0]] -= np.where(constant, 0.0, mean / sd)
    covariance = back @ np.linalg.inv(curvature) @ back.T
    return back @ theta, np.sqrt(np.diag(covariance))


@pytest.fixture(scope="module")
def all_of_the_bank(bank):
    """Its design, the maximum of the likelihood, and standard errors."""
    _, X, y = Formula.learn(BANK, bank)
    return X, *likeliest(X, y)


@pytest.fixture
def without_figures(monkeypatch):
    sketched(monkeypatch)


def shift(model, best, error):
    """By how many standard errors the posterior mode differs from the maximum of the likelihood."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theta = find_mode(model).theta
    return dict(zip(model.coefficients, (theta - best) / error, strict=True))


def test_all_of_the_bank_is_where_the_likelihood_is(bank, all_of_the_bank):
    """With Normal(0, 10) for the intercept at zero, that was -14.9 where the likelihood has its maximum at -237."""
    _, best, error = all_of_the_bank
    found = shift(tb.GLM(BANK, bank), best, error)
    del found["default[T.yes]"]  # three customers, none of whom said yes
    assert max(map(abs, found.values())) < 0.1
    old = shift(tb.GLM(BANK, bank, prior=tb.Normal(0, 10)), best, error)
    assert abs(old["Intercept"]) > 5
    assert sum(abs(value) > 2 for value in old.values()) > 8


def test_a_fit_of_all_of_the_bank(bank, all_of_the_bank):
    with pytest.warns(SeparationWarning, match=r"default\[T.yes\]"):
        fit = tb.fit(BANK, bank, **QUIET)
    assert fit.converged
    assert fit.stats["pulled"] == []
    X, best, error = all_of_the_bank
    table = fit.summary()
    many = X.astype(bool).sum(1) > 2_000  # rare levels are skewed: there the mean is not the maximum
    far = (table["mean"] - best).abs() / error
    # Monte Carlo errors are below .02 standard errors; the mean of a skewed posterior is a little off its mode.
    assert far[many].max() < 0.1
    assert table.loc["Intercept", "mean"] < -150
    with pytest.warns(SeparationWarning):
        given = tb.fit(BANK, bank, prior=tb.Normal(0, 10), draws=100, **QUIET)
    assert "the prior moves 'Intercept' by" in given.problems()[-1]


def test_a_share_in_small_units(bank):
    data = bank.assign(share=bank["age"] / 1e5)
    per_year = tb.fit("I(y == 'yes') ~ age", data, **QUIET)
    share = tb.fit("I(y == 'yes') ~ share", data, **QUIET)
    best, error = likeliest(np.array([np.ones(len(data)), data["share"]]), (data["y"] == "yes").to_numpy(float))
    assert abs(share.summary().loc["share", "mean"] - best[1]) / error[1] < 0.1
    np.testing.assert_allclose(share.draws[..., 1] / 1e5, per_year.draws[..., 1], rtol=1e-6, atol=1e-9)
    given = tb.fit("I(y == 'yes') ~ share", data, prior=tb.Normal(0, 10), **QUIET)
    assert given.summary().loc["share", "mean"] < 300  # instead of 1,838: what is asked for is done
    assert "'share' by" in given.problems()[0]


METHODS = {
    "auto": tb.Auto(),
    "mh": tb.MH(),
    "two-stage": tb.TwoStage(),
    "consensus": tb.Consensus(3),
    "subsampling": tb.Subsampling(),
}


@pytest.mark.parametrize(("method", "group"), [*((name, "") for name in METHODS), ("auto", " + (1 | g)")])
def test_draws_do_not_depend_on_units(method, group):
    """Columns in other units, far from zero, give the same predictions by the same steps, to rounding.

    Moves of one parameter at a time do depend on units; these are not among them.
    """
    rng, n = np.random.default_rng(3), 6_000
    data = {"x": rng.normal(size=n), "z": rng.random(n) < 0.2, "g": rng.integers(10, size=n)}
    data["y"] = rng.random(n) < 1 / (1 + np.exp(1 - data["x"] - 0.5 * data["z"]))
    other = data | {"x": 2_000.0 + 1e3 * data["x"], "z": np.where(data["z"], 40.0, 7.0)}
    asked = {"draws": 60, "warmup": 60, "chains": 2, "method": METHODS[method], **QUIET}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, odd = (tb.fit("y ~ x + z" + group, given, **asked) for given in (data, other))
    new = {"x": np.array([-1.0, 0.0, 2.0]), "z": np.array([True, False, True]), "g": np.array([0, 1, 2])}
    odd_new = new | {"x": 2_000.0 + 1e3 * new["x"], "z": np.where(new["z"], 40.0, 7.0)}
    np.testing.assert_allclose(plain.predict(new), odd.predict(odd_new), rtol=1e-5)


def test_where_a_prior_moves_coefficients(bank):
    """A table over data sets: what speaks up, and what stays silent."""
    loans = tb.datasets.simulate_loans(60_000, seed=1)
    rng = np.random.default_rng(1)
    few = {"x": rng.normal(size=40), "g": np.arange(40) % 8}
    few["y"] = rng.random(40) < 1 / (1 + np.exp(-few["x"]))
    wild = {"income": np.exp(rng.normal(11, 1, 20_000)), "share": 1e-5 * rng.random(20_000)}
    wild["y"] = rng.random(20_000) < 1 / (1 + np.exp(12 - np.log(wild["income"]) - 1e5 * wild["share"]))
    cases = [
        ("loans", "foreclosed ~ fico + dti", loans, None, ""),
        ("loans", "foreclosed ~ fico + dti", loans, tb.Normal(0, 10), ""),
        ("loans", "foreclosed ~ fico + dti", loans, {"fico": tb.Normal(0.5, 0.05)}, "fico"),
        ("loans", "foreclosed ~ fico + (1 | bank)", loans, {"fico": tb.Normal(0.5, 0.05)}, "fico"),
        ("loans", "foreclosed ~ fico + (1 | bank)", loans, None, ""),
        ("bank", "I(y == 'yes') ~ age + job", bank, None, ""),
        ("bank", "I(y == 'yes') ~ age + job", bank, tb.Normal(0, 10), ""),
        ("bank", "I(y == 'yes') ~ age + `nr.employed`", bank, tb.Normal(0, 1), "Intercept"),
        ("wild", "y ~ income + share", wild, None, ""),
        ("wild", "y ~ income + share", wild, tb.Normal(0, 10), "share"),
        ("wild", "y ~ income + share", wild, {"share": tb.StudentT(4, 0, 10)}, "share"),
        ("few", "y ~ x", few, None, ""),
        ("few", "y ~ x", few, tb.Normal(0, 0.1), "x"),
        ("few", "y ~ x + (1 | g)", few, tb.Normal(0, 0.1), "x"),
    ]
    for name, formula, data, prior, moved in cases:
        parsed = Formula.parse(formula)
        kind = tb.Hierarchical if parsed.group else tb.GLM
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tb.Auto().kernel(kind(parsed, data, prior=prior), seed=1)
        said = [str(one.message) for one in caught if issubclass(one.category, PriorWarning)]
        print(f"{name:6} {formula:40} {prior!s:36} {said[0][:60] if said else 'silent'}")
        assert bool(said) == bool(moved), (name, formula, prior, said)
        assert not moved or f"'{moved}' by" in said[0], said


@pytest.mark.usefixtures("without_figures")
def test_priors_are_in_all_that_is_shown(tmp_path):
    rng = np.random.default_rng(2)
    data = {"x": 50 * rng.normal(size=500), "g": rng.integers(5, size=500), "y": rng.integers(2, size=500)}
    fit = tb.fit("y ~ x + (1 | g)", data, prior={"x": tb.StudentT(4, 0, 1)}, draws=200, **QUIET)
    told = {"Intercept": "Normal(0, 10) at the columns' means", "x": "StudentT(4, 0, 1)"}
    assert fit.prior == told | {"1|g_sigma": "HalfCauchy(scale=2.5)"}
    assert all(text in repr(fit) for text in fit.prior.values())
    fit.save(tmp_path / "fit.nc")
    assert tb.load(tmp_path / "fit.nc").prior == fit.prior
    fit.report(tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "StudentT(4, 0, 1)" in page
    assert "HalfCauchy(scale=2.5)" in page


@pytest.mark.usefixtures("without_figures")
def test_a_wild_file_by_one_command(tmp_path):
    """Income in dollars, a share in 1e-5, dates, text, missing values: from CSV to report, as the likelihood has it."""
    rng, n = np.random.default_rng(7), 30_000
    income, share = np.exp(rng.normal(10.8, 0.7, n)).round(2), 1e-5 * rng.beta(2, 5, n)
    days = rng.integers(17_900, 19_400, n)
    eta = -4 + 1e-5 * income + 1.6e5 * share + 6e-4 * (days - 18_600)
    wild = pd.DataFrame({"status": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "churned", "stayed")})
    wild["income"], wild["share"] = np.where(rng.random(n) < 0.01, np.nan, income), share
    wild["joined"] = pd.to_datetime(days, unit="D").date
    wild.to_csv(tmp_path / "wild.csv", index=False)
    outputs = ("--out", tmp_path / "fit.nc", "--report", tmp_path / "fit.html")
    asked = ("--outcome", "churned", "--missing", "drop", "--seed", "1", "--quiet")
    done = run("fit", tmp_path / "wild.csv", "status ~ .", *asked, *outputs)
    assert done.exit_code == 0, done.stderr
    fit, kept = tb.load(tmp_path / "fit.nc"), wild["income"].notna().to_numpy()
    X = np.array([np.ones(n), wild["income"], share, days.astype(float)])[:, kept]
    best, error = likeliest(X, (wild["status"] == "churned").to_numpy(float)[kept])
    table = fit.summary()
    assert list(table.index) == ["Intercept", "income", "share", "days(joined)"]
    monte_carlo = 5 * table["mcse_mean"] / error  # a false alarm in 2e-6 of all seeds
    assert ((table["mean"] - best).abs() / error < 0.1 + monte_carlo).all()
    assert fit.problems() == []
    assert "churned" in done.stdout
    assert f"{(~kept).sum()} rows left out for missing values" in done.stdout
    page = (tmp_path / "fit.html").read_text("utf-8")
    assert "at the columns' means" in page.replace("&#x27;", "'")
