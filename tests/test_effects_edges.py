"""Averages of what a fit expects, at the edges: names, weights, rows and terms that few data have."""

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb

FEW = {"draws": 100, "chains": 2, "seed": 1, "progress": False}


def rows(n=1_500):
    rng = np.random.default_rng(7)
    data = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(10, 3, n), "g": rng.choice(list("abc"), n)})
    data["income"] = np.exp(1.5 * rng.normal(size=n) + 8)
    data["w"] = rng.integers(0, 3, n)
    data["y"] = (rng.random(n) < 1 / (1 + np.exp(0.5 - data.x))).astype(int)
    data["size"] = 0.8 * data.x + np.sin(data.z) + 0.4 * np.log(data.income) + rng.normal(size=n)
    return data


DATA = rows()


@pytest.fixture(scope="module")
def fit():
    return tb.fit("y ~ x + g", DATA, **FEW)


# Variables


def test_a_comparison_as_a_category_leaves_its_column_a_number():
    fit = tb.fit("y ~ C(z > 10) + C(`g`)", DATA, **FEW)
    table = fit.avg_comparisons({"z": (9, 11), "g": "reference"})
    assert table["contrast"].tolist() == ["11 - 9", "b - a", "c - a"]
    low, high = (fit.predict(DATA.assign(z=z), draws=200)["mean"].mean() for z in (9, 11))
    assert table["mean"][0] == pytest.approx(high - low, rel=1e-9)
    assert abs(table["mean"][0]) > 1e-4


def test_text_in_columns_with_names_that_python_cannot_read():
    data = DATA.rename(columns={"g": "<g>", "x": "2 x"})
    fit = tb.fit("y ~ `2 x` + `<g>`", data, **FEW)
    plain = tb.fit("y ~ x + g", DATA, **FEW)
    assert np.array_equal(fit.avg_comparisons()["mean"], plain.avg_comparisons()["mean"])


def test_a_formula_without_variables_has_nothing_to_compare():
    fit = tb.fit("y ~ 1", DATA, **FEW)
    assert fit.avg_predictions()["mean"][0] == pytest.approx(DATA.y.mean(), abs=0.1)
    for ask in (fit.avg_comparisons, fit.avg_slopes):
        with pytest.raises(ValueError, match="no variables whose changes"):
            ask()


@pytest.mark.parametrize("name", ["mean", "sd", "eti94_lb", "mcse_mean"])
def test_columns_that_the_table_has_already(fit, name):
    data = DATA.rename(columns={"z": name})
    for ask in (fit.avg_predictions, fit.avg_comparisons):
        with pytest.raises(ValueError, match=f"has a column '{name}' of its own; rename"):
            ask(by=name, data=data)


def test_a_variable_that_is_set_is_no_column_to_average_by(fit):
    with pytest.raises(ValueError, match="by= has 'g', which variables= sets"):
        fit.avg_predictions("g", by="g")
    with pytest.raises(ValueError, match="'term' of its own"):
        fit.avg_comparisons("x", by="term", data=DATA.assign(term=DATA.g))
    assert fit.avg_predictions(by="term", data=DATA.assign(term=DATA.g))["term"].tolist() == ["a", "b", "c"]


# Slopes


def test_slopes_of_a_logarithm_of_skewed_numbers():
    """Some are far smaller than the step that suits the range of all."""
    fit = tb.fit("size ~ log(income) + x", DATA, "gaussian", **FEW)
    beta = fit["log(income)"].values.ravel()
    found = fit.avg_slopes(["income", "x"])
    assert found["mean"][0] == pytest.approx(beta.mean() * (1 / DATA.income).mean(), rel=1e-3)
    assert found["sd"][0] == pytest.approx(beta.std(ddof=1) * (1 / DATA.income).mean(), rel=1e-3)
    assert found["mean"][1] == pytest.approx(fit["x"].values.mean(), rel=1e-8)


@pytest.mark.parametrize("term", ["bs(z, df=5)", "cs(z, df=4, extrapolation='raise')"])
def test_slopes_of_splines_that_end_where_the_data_do(term):
    fit = tb.fit(f"size ~ {term}", DATA, "gaussian", collinear="drop", **FEW)
    least, most, step = DATA.z.min(), DATA.z.max(), 1e-5
    low, high = ((DATA.z + move).clip(least, most) for move in (-step, step))
    sides = [fit.predict(DATA.assign(z=z), draws=200)["mean"] for z in (low, high)]
    assert fit.avg_slopes("z")["mean"][0] == pytest.approx(((sides[1] - sides[0]) / (high - low)).mean(), rel=1e-5)
    with pytest.raises(ValueError, match=r"rows with z \+1: .* lie beyond its bounds"):
        fit.avg_comparisons("z")


def test_slopes_do_not_hang_on_where_zero_is():
    moved = DATA.assign(x=DATA.x + 2e4, size=DATA["size"] + 1e6)
    fit = tb.fit("size ~ x", moved, "gaussian", **FEW)
    assert fit.avg_slopes("x")["mean"][0] == pytest.approx(fit["x"].values.mean(), rel=1e-4)


# Rows


def test_a_few_rows_with_weights_among_many_without(fit):
    for n in (1, 2):
        data = DATA.assign(rare=np.isin(np.arange(len(DATA)), [700, 1_400][:n]).astype(float))
        one = fit.avg_comparisons("x", data=data, weights="rare", rows=1)
        assert one.equals(fit.avg_comparisons("x", data=data.iloc[[700, 1_400][:n]]))


def test_the_spread_is_that_of_the_rows_that_were_fitted():
    holes = DATA.copy()
    holes.loc[3, ["x", "y"]] = [50.0, np.nan]
    fit = tb.fit("y ~ x + g", holes, missing="drop", **FEW)
    assert fit.avg_comparisons({"x": "minmax"}).equals(
        tb.fit("y ~ x + g", holes.dropna(), **FEW).avg_comparisons({"x": "minmax"})
    )


def test_rows_that_have_changed_or_lack_values_are_refused(tmp_path):
    DATA.to_csv(tmp_path / "rows.csv", index=False)
    fit = tb.fit("y ~ x + g", tmp_path / "rows.csv", missing="drop", **FEW)
    DATA.assign(z=DATA.z.mask(DATA.z > 14)).to_csv(tmp_path / "rows.csv", index=False)
    assert len(fit.avg_predictions(by="g")) == 3
    with pytest.raises(ValueError, match=r"made from 1,500 rows, but 1,3\d\d .* columns of by= .* lack values"):
        fit.avg_predictions(by="z")
    DATA.head(1_000).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=r"made from 1,500 rows, but 1,000 of its data can be averaged over"):
        fit.avg_predictions()


def test_a_loaded_fit_says_how_to_give_its_weights_again(tmp_path):
    fit = tb.fit("y ~ x", DATA, weights="w", **FEW)
    fit.save(tmp_path / "fit.nc")
    loaded = tb.load(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"as in fit.avg_slopes\(data=..., weights='w'\)"):
        loaded.avg_slopes()
    assert loaded.avg_slopes(data=DATA, weights="w").equals(fit.avg_slopes())


@pytest.mark.parametrize("ask", ["avg_predictions", "avg_comparisons"])
def test_averages_that_are_too_large_are_refused(ask):
    fit = tb.fit("w ~ x", DATA, "poisson", **FEW)
    with pytest.raises(ValueError, match="is not finite: an average is too large"):
        getattr(fit, ask)({"x": [-1e6, 1e6]})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_averages_by_true_and_false(tmp_path, suffix):
    data = DATA.assign(owner=DATA.z > 10, first=DATA.z > 9)
    path = tmp_path / f"rows.{suffix}"
    data.to_csv(path, index=False) if suffix == "csv" else data.to_parquet(path)
    for given in (data, path):
        fit = tb.fit("y ~ x + (1 | owner)", given, **FEW)
        table = fit.avg_predictions(by=["owner", "first"])
        assert table["owner"].tolist() == [False, False, True]
        assert table["first"].tolist() == [False, True, True]
        assert table[["owner", "first"]].dtypes.tolist() == [bool, bool]


def test_ordered_levels_keep_their_order():
    sizes = pd.Categorical(np.where(DATA.z > 12, "large", np.where(DATA.z > 9, "medium", "small")), ordered=False)
    sizes = sizes.set_categories(["small", "medium", "large", "huge"], ordered=True)
    fit = tb.fit("y ~ x + size", DATA.assign(size=sizes), **FEW)
    assert fit.avg_predictions(by=["size", "g"])["size"].tolist()[::3] == ["small", "medium", "large"]
    assert fit.avg_predictions(by=["g", "size"])["size"].tolist()[:3] == ["small", "medium", "large"]
