"""Columns that are linear combinations of those before them: named, and left out where that is asked for."""

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.groups.model import Hierarchical
from tallbayes.models.collinear import Dependent, dependent
from tallbayes.models.glm import GLM

ROWS = 500
rng = np.random.default_rng(1)
DATA = pd.DataFrame(
    {
        "y": rng.integers(0, 2, ROWS),
        "x": rng.normal(size=ROWS),
        "z": rng.normal(size=ROWS),
        "a": rng.choice(["p", "q", "unknown"], ROWS),
        "g": rng.choice(list("uvw"), ROWS),
        "zero": 0.0,
        "one": 1.0,
        "w": 1.0,
    }
)
DATA["b"] = np.where(DATA["a"] == "unknown", "unknown", rng.choice(["r", "s"], ROWS))
DATA["sum"] = 3 * DATA["x"] - DATA["z"] + 2


def test_dependent_columns_are_found_past_each_other():
    X = np.stack([np.ones(ROWS), np.zeros(ROWS), DATA["x"], 1e6 * DATA["x"], DATA["z"], DATA["sum"]])
    found = dependent(list("abcdef"), np.abs(X).max(1), X @ X.T)
    assert found == [Dependent(1, ()), Dependent(3, (2,)), Dependent(5, (0, 2, 4))]


SAME = "'b[T.unknown]' left out: it is a linear combination of 'a[T.unknown]'"
CASES = [
    ("y ~ a + b", ["b[T.unknown]"], [SAME]),
    (
        "y ~ x + one + zero + z + sum",
        ["one", "zero", "sum"],
        [
            "'one' left out: it is a linear combination of 'Intercept'",
            "'zero' left out: it is zero in every row",
            "'sum' left out: it is a linear combination of 'Intercept', 'x', 'z'",
        ],
    ),
    ("y ~ x + z", [], []),
    ("y ~ zero + x + (1 | g)", ["zero"], ["'zero' left out: it is zero in every row"]),
    (
        "y ~ a + b + (1 | g)",
        ["b[T.unknown]"],
        ["'b[T.unknown]' left out: it is a linear combination of 'a[T.unknown]'"],
    ),
]


@pytest.mark.parametrize(("text", "names", "said"), CASES)
def test_left_out(text, names, said):
    kind = Hierarchical if "|" in text else GLM
    model, whole = kind(text, DATA, collinear="drop"), kind(text, DATA)
    assert model.left_out == said
    assert model.coefficients == tuple(name for name in whole.coefficients if name not in names)
    assert model.formula.coefficients == model.coefficients
    assert model.prior.mean.size == len(model.coefficients)
    kept = [name not in names for name in whole.coefficients]
    full, some = np.zeros((1, whole.rows.width)), np.zeros((1, model.rows.width))
    values = rng.normal(size=sum(kept))
    full[0, : len(kept)][kept] = values
    some[0, : len(values)] = values
    np.testing.assert_allclose(model.derivatives(some).value, whole.derivatives(full).value)
    loaded = type(model.formula).from_json(model.formula.to_json())
    np.testing.assert_array_equal(loaded.apply(DATA), whole.formula.apply(DATA)[kept])


def test_rows_without_weight_do_not_count():
    data = DATA.assign(x=np.where(DATA.index < 5, 1.0, 0.0), w=np.where(DATA.index < 5, 0.0, 1.0))
    model = GLM("y ~ x + z", data, weights="w", collinear="drop")
    assert model.left_out == ["'x' left out: it is zero in every row"]


def test_the_refusal_names_the_way_out():
    for text, word in (("y ~ a + b", "linear combination"), ("y ~ zero", "zero in every row")):
        with pytest.raises(ValueError, match=f'{word}.*from the formula.*or let collinear="drop" leave it out'):
            tb.fit(text, DATA, draws=5, progress=False)


def test_no_column_left():
    with pytest.raises(ValueError, match="no column of the design is left"):
        GLM("y ~ 0 + zero", DATA, collinear="drop")


def test_priors_of_columns_that_go_go_with_them():
    prior = {"sum": tb.Normal(0, 1), "x": tb.Normal(3, 2)}
    model = GLM("y ~ x + z + sum", DATA, prior=prior, collinear="drop")
    assert model.coefficients == ("Intercept", "x", "z")
    assert model.prior.mean.tolist() == [0, 3, 0]
    with pytest.raises(ValueError, match="prior given for 'who'"):
        GLM("y ~ x + sum", DATA, prior={"who": tb.Normal()}, collinear="drop")


def test_a_fit_says_it_and_predicts(tmp_path):
    common = {"draws": 30, "chains": 1, "seed": 1, "progress": False}
    fit = tb.fit("y ~ a + b", DATA, collinear="drop", **common)
    assert fit.stats["told"] == [SAME]
    assert f"left out     {SAME}\n" in repr(fit)
    same = tb.fit("y ~ a + I(b == 's')", DATA, **common)
    np.testing.assert_allclose(fit.draws, same.draws)
    fit.save(tmp_path / "fit.nc")
    for one in (fit, tb.load(tmp_path / "fit.nc")):
        np.testing.assert_allclose(one.predict(DATA), same.predict(DATA))


@pytest.mark.parametrize("kind", [GLM, tb.GaussianModel])
def test_arrays_can_do_without_them_too(kind):
    X = np.column_stack([np.ones(len(DATA)), DATA["x"], np.zeros(len(DATA)), 3 - DATA["x"]])
    y = DATA["y"] + (0 if kind is GLM else DATA["z"])
    prior = {"twin": tb.Normal(0, 1), "x": tb.Normal(3, 2)}
    names = ["one", "x", "zero", "twin"]
    model = kind.from_arrays(X, y, prior=prior, coefficients=names, collinear="drop")
    assert model.coefficients == ("one", "x")
    assert model.prior.mean[1] == 3
    assert model.left_out == [
        "'zero' left out: it is zero in every row",
        "'twin' left out: it is a linear combination of 'one', 'x'",
    ]
    plain = kind.from_arrays(X[:, :2], y, prior={"x": tb.Normal(3, 2)}, coefficients=names[:2])
    at = [[0.1, 0.2]]
    np.testing.assert_array_equal(model.log_likelihood(at), plain.log_likelihood(at))
    with pytest.raises(ValueError, match="'zero' is zero in every row"):
        tb.sample(kind.from_arrays(X, y, coefficients=names), draws=5, progress=False)
    with pytest.raises(ValueError, match="no column of the design is left"):
        kind.from_arrays(X[:, 2:3], y, collinear="drop")
