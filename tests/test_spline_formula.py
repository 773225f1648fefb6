"""Splines by a formula: y ~ s(x, z), from any data, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from command import run

import tallbayes as tb
from tallbayes.data.spline_term import cut
from tallbayes.rows.disk import DiskRows
from tallbayes.splines.model import MARS

QUICK = {"draws": 20, "warmup": 30, "chains": 2, "seed": 1, "progress": False}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    n = 2_000
    found = pd.DataFrame(
        {"age": rng.integers(18, 90, n), "pay": rng.lognormal(10, 1, n), "home": rng.choice(["a", "b"], n)}
    )
    late = rng.random(n) < 1 / (1 + np.exp(2 - 0.05 * np.maximum(found["age"] - 50, 0) * (found["home"] == "a")))
    return found.assign(late=np.where(late, "yes", "no"))


@pytest.mark.parametrize(
    ("text", "plain", "options"),
    [
        ("y ~ s(x)", "y ~ x", {}),
        (" y~s( x , log(z, 2),`a,b`,knots = 9 )", "y ~ x + log(z, 2) + `a,b`", {"knots": 9}),
        ("y ~ s(x, lines=0.25)", "y ~ x", {"lines": 0.25}),
        ("y ~ s(C(x, levels=['(', ')']))", "y ~ C(x, levels=['(', ')'])", {}),
        ("y ~ s(x + z, expected_bases=3.5)", "y ~ x + z", {"expected_bases": 3.5}),
    ],
)
def test_what_a_formula_says(text, plain, options):
    assert cut(text) == (plain, options)


@pytest.mark.parametrize("text", ["y ~ x", "y ~ bs(x, df=3)", "y ~ poly(s, 2) + s", "s ~ x", "y ~ cos (x)"])
def test_other_formulas_are_not_of_splines(text):
    assert cut(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("late ~ s(age) + pay", "must be all of the right side"),
        ("late ~ 0 + s(age)", "must be all of the right side"),
        ("late ~ s(age", "must be all of the right side"),
        ("late ~ s()", "has no variables"),
        ("late ~ s(age, df=3)", "no option 'df'"),
        ("late ~ s(age, knots=many)", "must be a number"),
        ("late ~ s(age, knots=1)", "knots must be"),
        ("late ~ s(age, (1 | home))", "group term"),
        ("late ~ s(nothing)", "nothing"),
    ],
)
def test_what_cannot_be_understood(text, said, frame):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        tb.fit(text, frame, **QUICK)


@pytest.mark.parametrize(
    "options",
    [
        {"family": "poisson"},
        {"family": tb.Bernoulli("probit")},
        {"prior": tb.Normal(0, 1)},
        {"weights": "pay"},
        {"offset": "pay"},
        {"group_prior": "half_normal(1)"},
        {"cache": "folder"},
        {"engine": "tcp://127.0.0.1:1"},
    ],
)
def test_what_splines_cannot_have(options, frame):
    with pytest.raises(ValueError, match=r"splines|s\(\.\.\.\)"):
        tb.fit("late ~ s(age)", frame, **QUICK, **options)


def test_the_same_draws_from_a_frame_a_file_and_a_disk(frame, tmp_path, monkeypatch):
    frame.to_parquet(tmp_path / "late.parquet")
    first = tb.fit("late ~ s(., max_bases=5)", frame, **QUICK)
    assert first.variables == ("age", "pay", "home[T.b]")
    assert isinstance(first, tb.MARSFit)
    again = tb.fit("late ~ s(age, pay, home, max_bases=5)", tmp_path / "late.parquet", **QUICK)
    np.testing.assert_array_equal(first.draws, again.draws)
    monkeypatch.setattr("tallbayes.rows.building.fits", lambda *given: False)
    model = MARS("late ~ age + pay + home", tmp_path / "late.parquet", max_bases=5)
    assert isinstance(model.rows, DiskRows)
    np.testing.assert_array_equal(first.draws, tb.sample(model, **QUICK).draws)


def test_rows_that_repeat_are_not_merged():
    """Splines have no weights."""
    x = np.repeat([0.0, 1.0, 2.0], 4_000)
    model = MARS("y ~ x", {"x": x, "y": np.tile([0, 1, 1, 0, 0], 2_400)}, min_rows=1)
    assert model.rows.size == 12_000


def test_missing_values_and_outcomes(frame):
    gaps = frame.assign(age=frame["age"].where(frame["age"] != 40))
    with pytest.raises(ValueError, match=r"'age' has .* missing"):
        tb.fit("late ~ s(age)", gaps, **QUICK)
    fit = tb.fit("late ~ s(age)", gaps, missing="drop", outcome="no", **QUICK)
    assert fit.stats["rows"] == int((frame["age"] != 40).sum())
    assert "'no'" in repr(fit)
    assert "left out" in repr(fit)
    assert fit.predict(frame[:2]).shape[0] == 2


def test_on_the_command_line(frame, tmp_path):
    frame.to_csv(tmp_path / "late.csv", index=False)
    few = ("--draws", "20", "--warmup", "30", "--chains", "2", "--seed", "1", "--quiet")
    first = run("fit", tmp_path / "late.csv", "late ~ s(age, pay)", *few)
    second = run("fit", tmp_path / "late.csv", "late ~ age + pay", "--splines", *few)
    assert "Bayesian MARS" in first.output or "collapsed" in first.output
    assert first.output.split("seconds")[0] == second.output.split("seconds")[0]
