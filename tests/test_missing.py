"""Rows with missing values: refused with a hint, or left out and counted."""

import datetime

import numpy as np
import pandas as pd
import pytest
from figures import sketched

import tallbayes as tb
from tallbayes.groups.model import Hierarchical
from tallbayes.models.glm import GLM
from tallbayes.rows.tasks import LogLikelihood

ROWS = 200
rng = np.random.default_rng(1)
FULL = pd.DataFrame(
    {
        "y": rng.choice(["no", "yes"], ROWS),
        "n": rng.integers(0, 4, ROWS),
        "x": rng.normal(size=ROWS),
        "a": rng.choice(["p", "q"], ROWS),
        "g": rng.choice(list("uvw"), ROWS),
        "w": rng.integers(1, 3, ROWS).astype(float),
        "o": rng.normal(size=ROWS),
        "m": rng.integers(4, 9, ROWS).astype(float),
        "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, ROWS), "D"),
    }
)


def holes(**places):
    data = FULL.copy()
    for name, rows in places.items():
        data[name] = data[name].astype(object if name in "nm" else data[name].dtype)
        data.loc[rows, name] = None
    return data


def same(model, other):
    """Whether two models have the same rows."""
    theta = np.random.default_rng(2).normal(size=(3, model.rows.width))
    return np.array_equal(*(one.rows.reduce(LogLikelihood(one.family.tag), theta) for one in (model, other)))


CASES = [
    ("y ~ x + a", {"x": [0, 5], "a": [5, 9]}, {}),
    ("y ~ x + a", {"y": [199]}, {}),
    ("y ~ x + (1 | g)", {"g": [3, 4], "x": [4]}, {}),
    ("y ~ x", {"w": [3], "o": [7]}, {"weights": "w", "offset": "o"}),
    ("n ~ x", {"m": [3]}, {"family": tb.Poisson(exposure="m")}),
    ("n ~ x", {"m": [3], "n": [8]}, {"family": tb.Binomial(trials="m")}),
    ("p(n, m) ~ x", {"m": [3], "n": [8]}, {}),
    ("y ~ x + month(d)", {"d": [0, 1]}, {}),
    ("y ~ x + offset(o)", {"o": [11]}, {}),
    ("y ~ x", {"a": [2]}, {"strata": ["a"]}),
]


@pytest.mark.parametrize(("text", "places", "options"), CASES)
def test_dropping_is_as_if_the_rows_had_not_been_there(text, places, options):
    gone = sorted({row for rows in places.values() for row in rows})
    kind = Hierarchical if "|" in text else GLM
    model = kind(text, holes(**places), **options, missing="drop")
    plain = kind(text, FULL.drop(index=gone), **options)
    assert model.coefficients == plain.coefficients
    assert model.observations == ROWS - len(gone)
    assert same(model, plain)
    (said,) = model.left_out
    rows, counts = said.split(" left out for missing values: ")
    assert rows == ("1 row" if len(gone) == 1 else f"{len(gone)} rows")
    assert sorted(counts.split(", ")) == sorted(f"{name} {len(rows)}" for name, rows in places.items())


def test_arrays_lose_the_same_rows_and_their_own():
    offset = FULL["o"].where(FULL.index != 5).to_numpy()
    model = GLM("y ~ x", holes(x=[2]), weights=FULL["w"].to_numpy(), offset=offset, missing="drop")
    some = FULL.drop(index=[2, 5])
    assert same(model, GLM("y ~ x", some, weights="w", offset="o"))
    assert model.left_out == ["2 rows left out for missing values: x 1, offset 1"]
    assert model.has_offset
    with pytest.raises(ValueError, match=r"weights has shape \(3,\), but the data has 200 rows"):
        GLM("y ~ x", holes(x=[2]), weights=[1.0, 2.0, 3.0], missing="drop")


def test_nothing_missing_says_nothing():
    model = GLM("y ~ x", FULL, missing="drop")
    assert model.left_out == []
    assert same(model, GLM("y ~ x", FULL))


def test_a_level_without_a_row_goes_too():
    data = FULL.assign(a=FULL["a"].where(FULL.index > 0, "rare"), x=FULL["x"].where(FULL.index > 0))
    assert GLM("y ~ x + a", data, missing="drop").coefficients == ("Intercept", "x", "a[T.q]")
    assert GLM("y ~ x", data.assign(y=data["y"].where(data.index > 0, "so")), missing="drop").formula.event == "yes"


def test_missing_values_are_refused_with_a_hint():
    with pytest.raises(ValueError, match=r"column 'x' has 1 missing value .*first at row 3.* missing=\"drop\""):
        GLM("y ~ x", holes(x=[3]))
    fit = tb.fit("y ~ x", FULL, draws=5, chains=1, seed=1, progress=False)
    with pytest.raises(ValueError, match="column 'x' has 1 missing value") as caught:
        fit.predict({"x": [None]})
    assert "missing=" not in str(caught.value)


def test_infinite_values_are_refused_by_their_own_row():
    data = holes(x=[3])
    data.loc[7, "x"] = np.inf
    with pytest.raises(ValueError, match=r"column 'x' has 1 infinite value \(first at row 7\); drop or replace it"):
        GLM("y ~ x", data, missing="drop")


def test_no_row_left():
    data = holes(x=list(range(100)), o=list(range(100, 200)))
    with pytest.raises(ValueError, match=r"every one of the 200 rows has a missing value \(x 100, o 100\)"):
        GLM("y ~ x + o", data, missing="drop")


def test_a_choice_that_is_none():
    with pytest.raises(ValueError, match="missing 'impute' is not known; choose one of refuse, drop"):
        GLM("y ~ x", FULL, missing="impute")
    with pytest.raises(ValueError, match="collinear 'keep' is not known; choose one of refuse, drop"):
        GLM("y ~ x", FULL, collinear="keep")


def test_a_fit_says_what_it_left_out(tmp_path, monkeypatch):
    sketched(monkeypatch)
    data = holes(x=[3, 9], a=[9])
    fit = tb.fit("y ~ x + a", data, missing="drop", draws=5, chains=1, seed=1, progress=False)
    told = "2 rows left out for missing values: x 2, a 1"
    assert fit.stats["told"][1:] == [told]
    assert f"left out     {told}\n" in repr(fit)
    assert fit.stats["rows"] == 198
    fit.report(tmp_path / "fit.html")
    assert told in (tmp_path / "fit.html").read_text()


def test_files_with_empty_cells(tmp_path):
    path = tmp_path / "rows.csv"
    lines = ["y,x,d,a", "yes,1.5,2020-01-01,p", "no,,2020-01-02,q", "yes,2,,q", "no,3,2020-01-05,", "no,4,2020-02-01,q"]
    path.write_text("\n".join(lines))
    model = GLM("y ~ x + days(d) + a", path, missing="drop")
    assert model.observations == 2
    assert model.left_out == ["3 rows left out for missing values: x 1, d 1, a 1"]
    assert datetime.date(2020, 1, 1).toordinal() - datetime.date(1970, 1, 1).toordinal() == 18_262
    assert model.rows.sample(2, np.random.default_rng(1)).size == 2
