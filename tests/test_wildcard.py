"""The '.' of a formula: all other columns, by name."""

import datetime
import os

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tallbayes as tb
from tallbayes.data.datasets import load_bank
from tallbayes.data.formula import Formula
from tallbayes.data.summand import quoted
from tallbayes.data.wildcard import expand
from tallbayes.models.glm import GLM

DATA = {"y": [0, 1, 1], "x": [1.0, 2.0, 4.0], "z": [3, 1, 4], "a.b": [1, 5, 9], "g": ["u", "v", "u"]}
EXPANDED = [
    ("y ~ .", "y ~ x + z + `a.b` + g"),
    ("y~.", "y~x + z + `a.b` + g"),
    ("y ~ . - z", "y ~ x + `a.b` + g"),
    ("y ~ . - z - `a.b` - 1", "y ~ x + g - 1"),
    ("y ~ . - 1 - z", "y ~ x + z + `a.b` + g - 1 - z"),
    ("y ~ . + log(x)", "y ~ x + z + `a.b` + g + log(x)"),
    ("y ~ 0 + .", "y ~ 0 + x + z + `a.b` + g"),
    ("y ~ . + (1 | g)", "y ~ x + z + `a.b` + (1 | g)"),
    ("y ~ (1 | g) + .", "y ~ (1 | g) + x + z + `a.b`"),
    ("y ~ . - z + offset(log(x))", "y ~ `a.b` + g + offset(log(x))"),
    ("log(z) ~ .", "log(z) ~ y + x + `a.b` + g"),
    ("I(g == 'u') ~ .", "I(g == 'u') ~ y + x + z + `a.b`"),
    ("p(y, z) ~ .", "p(y, z) ~ x + `a.b` + g"),
    ("cbind(y, `a.b`) ~ .", "cbind(y, `a.b`) ~ x + z + g"),
    ("y ~ .:x", "y ~ (x + z + `a.b` + g):x"),
    ("y ~ (. - g)**2", "y ~ ((x + z + `a.b`))**2"),
    ("y ~ . * x - .", "y ~ (x + z + `a.b` + g) * x - (x + z + `a.b` + g)"),
    ("y ~ . * x - z:x", "y ~ (x + z + `a.b` + g) * x - z:x"),
    ("y ~ . - y", "y ~ x + z + `a.b` + g"),
    ("y ~ np.log(x) + {.5 * z}", "y ~ np.log(x) + {.5 * z}"),
]


@pytest.mark.parametrize(("text", "expected"), EXPANDED)
def test_expanded(text, expected):
    found, data = expand(text, DATA)
    assert found == expected
    assert data is DATA
    parsed, _ = Formula.parse_for(text, DATA)
    assert parsed.text == expected
    assert set(parsed.columns) <= set(DATA)


def test_terms_are_those_that_formulaic_takes_away():
    formula, _, _ = Formula.learn("y ~ . - (z + g)", DATA)
    assert formula.coefficients == ("Intercept", "x", "a.b")
    assert formula.parsed.predictors == ("x", "a.b")
    interactions, _, _ = Formula.learn("y ~ (. - g - z)**2", DATA)
    assert interactions.coefficients == ("Intercept", "x", "a.b", "x:a.b")


def test_columns_with_a_part_of_their_own_stay_out():
    data = DATA | {"w": [1, 1, 2], "o": [0.5, 0.1, 0.2], "m": [9, 9, 9]}
    common = {"weights": "w", "offset": "o"}
    assert GLM("y ~ .", data, tb.Binomial("m"), **common).formula.text == "y ~ x + z + `a.b` + g"
    assert GLM("y ~ .", data, tb.Poisson("m"), **common).formula.text == "y ~ x + z + `a.b` + g"
    assert GLM("y ~ . - g", data, **common).formula.text == "y ~ x + z + `a.b` + m"


@pytest.mark.parametrize(
    "kind",
    [
        dict,
        pd.DataFrame,
        pl.DataFrame,
        lambda data: pl.DataFrame(data).lazy(),
        lambda data: pl.DataFrame(data).to_arrow(),
    ],
)
def test_dates_enter_as_days(kind):
    sold = [datetime.date(1970, 1, 2), datetime.date(1970, 1, 4), datetime.date(1969, 12, 31)]
    formula, X, _ = Formula.learn("y ~ . - g - z", kind(DATA | {"date sold": sold}))
    assert formula.text == "y ~ x + `a.b` + days(`date sold`)"
    assert X[-1].tolist() == [1, 3, -1]
    less, _, _ = Formula.learn("y ~ . - g - `date sold`", kind(DATA | {"date sold": sold}))
    assert less.text == "y ~ x + z + `a.b`"


def test_a_file_is_not_loaded_and_columns_that_are_subtracted_may_hold_anything(tmp_path):
    frame = pd.DataFrame({"y": [0, 1, 1], "x": [1.0, 2.0, 4.0], "d": ["2020-01-01", "2020-01-02", "2020-02-02"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    text, data = expand("y ~ .", tmp_path / "a.csv")
    assert text == "y ~ x + days(d)"
    assert data.names == ["y", "x", "d"]
    assert not data.held
    lists = pl.DataFrame(DATA | {"many": [[1], [2], [3]]})
    assert Formula.learn("y ~ . - many", lists)[0].text == "y ~ x + z + `a.b` + g"
    with pytest.raises(ValueError, match="column 'many' holds values of type"):
        Formula.learn("y ~ .", lists)


REFUSED = [
    (". ~ x", DATA, "has a '.' left of the '~'"),
    ("y ~ .", {"y": [0, 1]}, "stands for all other columns, but there are no others in the data"),
    ("y ~ . - x", {"y": [0, 1], "x": [1, 2]}, "there are no others"),
    ("y ~ .", {"y": [0, 1], "a`b": [1, 2]}, "the name of column 'a`b' cannot be written in a formula; rename"),
    (".", DATA, "has no '~'"),
]


@pytest.mark.parametrize(("text", "data", "message"), REFUSED)
def test_refused(text, data, message):
    with pytest.raises(ValueError, match=message):
        Formula.parse_for(text, data)


NAMES = ["x", "a.b", "my col", "class", "__x", "1", "é", "a-b", ".", "np", "C", "log", "I", "True", "it's", "a:b"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_a_column(name):
    data = {"y": [0, 1, 1], name: [5.0, 6.0, 9.0]}
    formula, X, _ = Formula.learn("y ~ .", data)
    assert formula.parsed.predictors == (name,)
    assert X[1].tolist() == data[name]
    loaded = Formula.from_json(formula.to_json())
    np.testing.assert_array_equal(loaded.apply({name: data[name]}), X)
    assert quoted(name).strip("`") == name
    less, _, _ = Formula.learn(f"y ~ . - {quoted(name)}", data | {"z": [1.0, 2.0, 4.0]})
    assert less.text == "y ~ z" or name in ("1", ".")


@pytest.fixture(scope="module")
def bank():
    if "TALLBAYES_DATA" not in os.environ:
        assert os.environ.get("CI") != "true", "the bank data must be there in CI: set TALLBAYES_DATA"
        pytest.skip("TALLBAYES_DATA is not set")
    load_bank()  # which makes sure that the file is there
    return os.path.join(os.environ["TALLBAYES_DATA"], "bank-additional-full.csv")


def test_the_bank_as_it_is(bank):
    with pytest.raises(
        ValueError, match=r"'loan\[T.unknown\]' is a linear combination of 'housing\[T.unknown\]'.*collinear"
    ):
        tb.fit("y ~ .", bank, progress=False, draws=5)
    model = GLM("y ~ . - duration", bank, collinear="drop")
    assert model.formula.event == "yes"
    assert model.outcome_said == "y = 1 where it is 'yes': 4,640 of 41,188 rows"
    assert model.left_out == ["'loan[T.unknown]' left out: it is a linear combination of 'housing[T.unknown]'"]
    assert model.coefficients[-5:] == ("emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed")
    assert "loan[T.unknown]" not in model.coefficients
    assert len(model.coefficients) == 52
    loaded = Formula.from_json(model.formula.to_json())
    assert loaded.coefficients == model.coefficients
    X = loaded.apply(bank)
    assert X.shape == (52, 41_188)
    assert np.linalg.matrix_rank(X / np.abs(X).max(1, keepdims=True)) == 52
