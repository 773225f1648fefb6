"""Text that is nearly numbers is refused, and read once it is said how the data write numbers and missing values."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tallbayes as tb
from tallbayes.cli import main
from tallbayes.data import pieces
from tallbayes.data.learning import learn
from tallbayes.data.nearly import nearly, remedy, writing
from tallbayes.data.parsed import parse
from tallbayes.data.texts import Texts
from tallbayes.engines.engine import Local

ROWS = 60
RNG = np.random.default_rng(0)
X = RNG.standard_normal(ROWS).round(3)
Y = (RNG.random(ROWS) < 1 / (1 + np.exp(-X))).astype(int)
BAD = 17  # the row that has no number
GOOD = np.delete(np.arange(ROWS), BAD)


def texts(bad, decimal="."):
    """The numbers as text, with something else in one row."""
    found = [str(x).replace(".", decimal) for x in X]
    return [*found[:BAD], bad, *found[BAD + 1 :]]


FRAMES = {
    "dict": lambda values: {"y": Y, "x": values},
    "objects": lambda values: pd.DataFrame({"y": Y, "x": pd.Series(values, dtype=object)}),
    "strings": lambda values: pd.DataFrame({"y": Y, "x": pd.Series(values, dtype="string")}),
    "categories": lambda values: pd.DataFrame({"y": Y, "x": pd.Series(values, dtype="category")}),
    "pyarrow": lambda values: pa.table({"y": Y, "x": values}),
    "large": lambda values: pa.table({"y": Y, "x": pa.array(values, pa.large_string())}),
    "dictionary": lambda values: pa.table({"y": Y, "x": pa.array(values).dictionary_encode()}),
    "polars": lambda values: pytest.importorskip("polars").DataFrame({"y": Y, "x": values}),
    "lazy": lambda values: pytest.importorskip("polars").LazyFrame({"y": Y, "x": values}),
}


def design(data, formula="y ~ x", **given):
    """The design that a model gets."""
    model = tb.GLM(formula, data, **given)
    return model.rows.keep(lambda arrays, count: arrays).x


@pytest.mark.parametrize("kind", FRAMES)
def test_marks_among_numbers_in_frames(kind):
    data = FRAMES[kind](texts("?"))
    with pytest.raises(ValueError, match=r"column 'x' is text, .*: '\?' at row 17 is not a number; .*na_values=\"\?\""):
        tb.GLM("y ~ x", data)
    with pytest.raises(ValueError, match="column 'x' has 1 missing value \\(first at row 17\\)"):
        tb.GLM("y ~ x", data, na_values="?")
    np.testing.assert_array_equal(design(data, na_values=["-", "?"], missing="drop")[1], X[GOOD])


@pytest.mark.parametrize("kind", FRAMES)
def test_decimal_commas_in_frames(kind):
    data = FRAMES[kind](texts("0,25", ","))
    with pytest.raises(
        ValueError, match="' at row 0 is not a number; if its ',' is the decimal sign, say decimal=\",\""
    ):
        tb.GLM("y ~ x", data)
    np.testing.assert_array_equal(design(data, decimal=",")[1], np.where(np.arange(ROWS) == BAD, 0.25, X))


def test_numbers_and_text_in_one_column_of_pandas():
    data = {"y": Y, "x": np.array([float(x) if x != "?" else x for x in texts("?")], dtype=object)}
    with pytest.raises(ValueError, match=r"mixed content: numbers, and the text '\?' at row 17; .*na_values"):
        tb.GLM("y ~ x", data)
    np.testing.assert_array_equal(design(data, na_values="?", missing="drop")[1], X[GOOD])


@pytest.mark.parametrize("data", [pd.DataFrame, pa.table, dict])
@pytest.mark.parametrize("kind", [float, int])
def test_numbers_that_mark_missing_values(data, kind):
    x = np.where(np.arange(ROWS) == BAD, -999, (X * 1000).astype(int)).astype(kind)
    assert design(data({"y": Y, "x": x}), na_values=-999, missing="drop").shape == (2, ROWS - 1)
    assert design(data({"y": Y, "x": x})).shape == (2, ROWS)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "Float32", "Sparse[float32]", "float32[pyarrow]", "category"])
def test_numbers_mark_missing_values_as_their_columns_hold_them(kind):
    x = pd.Series(np.where(np.arange(ROWS) == BAD, -99.9, np.arange(ROWS) % 7)).astype(kind)
    right = design(pd.DataFrame({"y": Y, "x": x}).drop(index=BAD))
    assert (right[1:] >= 0).all()
    tables = [pd.DataFrame({"y": Y, "x": x})]
    if "Sparse" not in kind:  # which Arrow has not
        tables.append(pa.table(tables[0]))
    for table in tables:
        np.testing.assert_array_equal(design(table, na_values=-99.9, missing="drop"), right)


def test_dates_that_mark_missing_values(tmp_path):
    days = np.datetime64("2026-01-31") + 3 * np.arange(ROWS)
    days[BAD] = np.datetime64("1900-01-01")
    right = tb.GLM("y ~ month(d)", {"y": Y[GOOD], "d": days[GOOD]}).rows.arrays.x
    pd.DataFrame({"y": Y, "d": days.astype(str)}).to_csv(tmp_path / "dates.csv", index=False)
    for one in (days, days.astype("M8[s]"), days.astype(object), pd.Series(days).dt.tz_localize("Asia/Tokyo")):
        found = tb.GLM("y ~ month(d)", {"y": Y, "d": one}, na_values=["?", "1900-01-01", "1900-13-01"], missing="drop")
        np.testing.assert_array_equal(found.rows.arrays.x, right)
    found = tb.GLM("y ~ month(d)", tmp_path / "dates.csv", na_values="1900-01-01", missing="drop")
    np.testing.assert_array_equal(found.rows.arrays.x, right)


WRITTEN = {
    "?": ("mark", 'na_values="?"'),
    ".": ("mark", 'na_values="."'),
    "--": ("mark", 'na_values="--"'),
    "None": ("mark", 'na_values="None"'),
    "": ("mark", 'na_values=""'),
    "missing": ("mark", 'na_values="missing"'),
    "n/a": ("mark", 'na_values="n/a"'),
    "oops": ("text", 'na_values="oops"'),
    'a"b': ("text", "na_values='a\"b'"),
    "12%": ("sign", 'strip the sign first, such as by column.str.replace("%", "")'),
    "$1,234.5": ("sign", 'strip the sign first, such as by column.str.replace("$", "")'),
    "5 \u20ac": ("sign", "strip the sign first"),
    "12,5": ("decimal comma", 'say decimal=","'),
    "1,234": ("thousands", 'pandas.read_csv(..., thousands=",")'),
    "1.234,5": ("points", 'pandas.read_csv(..., thousands=".", decimal=",")'),
    "1.234.567": ("points", "take out the '.' between thousands"),
    "1 234": ("spaces", 'pandas.read_csv(..., thousands=" ")'),
    "1'234.5": ("spaces", 'pandas.read_csv(..., thousands="\'")'),
    "\u22123": ("minus", "write '-' for its '\u2212' first"),
    " 12 ": ("number", "pandas.to_numeric"),
    "1e-5": ("number", "pandas.to_numeric"),
    "inf": ("number", "pandas.to_numeric"),
    "4.2d0": ("decorated", "na_values"),
    "\u0664\u0662": ("digits", "write its digits as 0 to 9 first"),
    "2026-11-18": ("date", "pandas.to_datetime"),
    "18.11.2026 08:15": ("date", "pandas.to_datetime"),
    "08:15:30": ("date", "pandas.to_datetime"),
    "18 Nov 2026": ("date", "pandas.to_datetime"),
    "November 18, 2026": ("date", "pandas.to_datetime"),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_each_way_of_writing_has_its_remedy(text):
    kind, said = WRITTEN[text]
    assert writing(text) == kind
    assert said in remedy(text)
    expected = "holds numbers as text" if kind == "number" else f"{text!r} at row 17 is not a number"
    expected = f"holds dates or times as text, such as {text!r} at row 17" if kind == "date" else expected
    with pytest.raises(ValueError, match=re.escape(expected)) as refused:
        tb.GLM("y ~ x", {"y": Y, "x": pd.Series(texts(text))})
    assert said in str(refused.value)
    assert "write C(x)" in str(refused.value)


@pytest.mark.parametrize(
    ("levels", "refused"),
    [
        (["0", "1", "2+"], False),
        (["1", "2", "3", "4", "5+"], False),
        (["1", "2", "3", "4", "5", "6+"], True),
        (["0", "1", "?"], True),
        (["1", "?"], False),
        (["1", "2", "3", "4"], False),
        (["1", "2", "3", "4", "5"], True),
        (["<5", "5-10", "10-20", ">20", "1", "2"], False),
        ([str(one) for one in range(9)] + list("abcdefghi"), False),
        ([str(one) for one in range(9)] + list("abcdefgh"), True),
        (["5%", "10%", "20%"], False),
        ([1, 2, 3, 4, 5, 6], False),
    ],
)
def test_the_rule(levels, refused):
    assert nearly(levels) == refused
    data = {"y": np.arange(40) % 2, "x": pd.Series([levels[i % len(levels)] for i in range(40)], dtype="category")}
    if refused:
        with pytest.raises(ValueError, match="column 'x' "):
            learn(parse("y ~ x"), data)
    else:
        assert len(learn(parse("y ~ x"), data).formula.coefficients) == len(levels)


CODES = [f"{i % 9:05d}" for i in range(ROWS)]


def test_what_a_formula_calls_a_category_may_be_numbers():
    data = {"y": Y, "zip": CODES, "x": X}
    assert "C(zip)[T.00001]" in tb.GLM("y ~ C(zip)", data).coefficients
    assert "C(zip)[T.00001]" in tb.GLM("y ~ C(zip)", data, na_values="?").coefficients
    assert tb.GLM("y ~ I(zip == '00001')", data).coefficients[1].startswith("I(zip == '00001')")
    with pytest.raises(ValueError, match="column 'zip' holds numbers as text"):
        tb.GLM("y ~ zip + C(zip)", data)
    with pytest.raises(ValueError, match="column 'zip' holds numbers as text"):
        tb.GLM("y ~ log(zip)", data)
    ordered = pd.Categorical(CODES, sorted(set(CODES)), ordered=True)
    assert len(tb.GLM("y ~ zip", {"y": Y, "zip": ordered}).coefficients) == 9


def test_groups_stay_text():
    data = {"y": Y, "x": texts("?"), "bank": [*CODES[:-1], "?"]}
    model = tb.Hierarchical("y ~ x + (1 | bank)", data, na_values="?", missing="drop")
    assert model.levels == tuple(sorted(set(CODES)))
    assert model.left_out == ["2 rows left out for missing values: x 1, bank 1"]
    assert tb.Hierarchical("y ~ 1 + (1 | bank)", data).levels == ("00000", *sorted(set(CODES))[1:], "?")


OTHER_PLACES = {
    "weights": ({"weights": "t"}, "y ~ x", r"weights must be numbers: .*, but 't' is '\?' at row 17; .*na_values"),
    "offset": ({"offset": "t"}, "y ~ x", r"offset must be numbers: .*, but 't' is '\?' at row 17"),
    "offset()": ({}, "y ~ x + offset(t)", r"column 't' is text, .* '\?' at row 17"),
    "exposure": ({"family": tb.Poisson(exposure="t")}, "y ~ x", r"exposure must be numbers: .* '\?' at row 17"),
    "counts": ({"family": "poisson"}, "t ~ x", r"column 't' is text, .* '\?' at row 17"),
    "few counts": ({"family": "poisson"}, "few ~ x", "the outcome 'few' is text; .*: it is 'a' at row 0"),
    "two kinds": ({}, "t ~ x", r"column 't' is text, .* '\?' at row 17"),
}


@pytest.mark.parametrize("place", OTHER_PLACES)
def test_other_places(place):
    given, formula, said = OTHER_PLACES[place]
    data = {"y": Y, "x": X, "t": texts("?"), "few": ["a", "1"] * (ROWS // 2)}
    with pytest.raises(ValueError, match=said):
        tb.GLM(formula, data, **given)


def test_an_outcome_of_two_kinds_may_be_any_text():
    data = {"x": X, "y": [str(y) for y in Y]}
    assert tb.GLM("y ~ x", data).observations == ROWS
    several = {"x": X, "y": [str(i % 7) for i in range(ROWS)]}
    assert tb.GLM("y ~ x", several, outcome="3").observations == ROWS
    with pytest.raises(ValueError, match="column 'y' holds numbers as text"):
        tb.GLM("y ~ x", several)


def test_one_text_in_the_last_piece(monkeypatch, tmp_path):
    monkeypatch.setattr(pieces, "PIECE", 1_000)
    path = tmp_path / "a.csv"
    path.write_text("y,x\n" + "".join(f"{i % 2},{i / 7}\n" for i in range(5_500)) + "1,oops\n")
    said = r"column 'x' is text, .*: 'oops' at row 5500 of '.*a\.csv' is not a number"
    for how in ({}, {"engine": Local()}):
        with pytest.raises(ValueError, match=said):
            tb.fit("y ~ x", path, progress=False, **how)
    with pytest.raises(ValueError, match=r"text from row 5000 of .* numbers before.*: it is 'oops' at row 5500 of"):
        tb.GLM("y ~ x", path, na_values="?")
    assert tb.GLM("y ~ x", path, na_values="oops", missing="drop").observations == 5_500


def test_nul_bytes():
    for formula, column in (("y ~ g", "g"), ("y ~ x + (1 | g)", "g"), ("y ~ x", "x")):
        data = {"y": Y, "x": X, "g": ["a", "b"] * (ROWS // 2)} | {column: pd.Series(["a", "b\0c"] * (ROWS // 2))}
        model = tb.Hierarchical if "|" in formula else tb.GLM
        with pytest.raises(ValueError, match=rf"column '{column}' is 'b\\x00c' at row 1, with a NUL byte"):
            model(formula, data)


def german(folder, name="a.csv", rows=slice(None), **columns):
    """A file as spreadsheets write it where the decimal sign is a comma."""
    frame = pd.DataFrame({"y": Y, "x": texts("?", ","), "g": list("abc") * (ROWS // 3), **columns})
    frame.iloc[rows].to_csv(folder / name, sep=";", index=False)
    return folder / name


HOW = {"decimal": ",", "na_values": "?", "missing": "drop"}


def test_a_fit_remembers_how_numbers_are_written(tmp_path):
    path, new = german(tmp_path), german(tmp_path, "new.csv", GOOD)
    fit = tb.fit("y ~ x", path, **HOW, draws=100, seed=1, progress=False)
    plain = tb.fit("y ~ x", {"x": X[GOOD], "y": Y[GOOD]}, draws=100, seed=1, progress=False)
    assert (fit.draws == plain.draws).all()
    fit.save(tmp_path / "fit.nc")
    loaded = tb.load(tmp_path / "fit.nc")
    assert loaded.formula.texts == Texts(",", ("?",))
    expected = plain.predict({"x": X[GOOD]})
    for data in (new, pd.read_csv(new, sep=";"), {"x": X[GOOD]}):
        assert loaded.predict(data).equals(expected)
    with pytest.raises(ValueError, match=r"column 'x' has 1 missing value \(first at row 17 of '.*a\.csv'\)"):
        loaded.predict(path)
    pd.DataFrame({"x": X}).to_csv(tmp_path / "points.csv", index=False)
    with pytest.raises(ValueError, match=r"column 'x' is text, but held numbers .*, which had decimal=','"):
        loaded.predict(tmp_path / "points.csv")
    with pytest.raises(ValueError, match=r"column 'x' is text, but held numbers .*: it is '.*' at row 0 of .*decimal="):
        plain.predict(new)


def test_points_are_no_decimals_where_commas_are(tmp_path):
    (tmp_path / "a.csv").write_text("y;x\n" + "".join(f"{i % 2};{1 + i}.{100 + i}\n" for i in range(30)))
    with pytest.raises(ValueError, match=r"column 'x' "):
        tb.GLM("y ~ x", tmp_path / "a.csv", decimal=",")


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_engines_carry_it(kind, tmp_path):
    data = german(tmp_path)
    if kind != "csv":
        data = pd.read_csv(data, sep=";")
    if kind == "parquet":
        pq.write_table(pa.Table.from_pandas(data), tmp_path / "a.parquet")
        data = tmp_path / "a.parquet"
    given = {**HOW, "draws": 100, "seed": 1, "progress": False}
    there = tb.fit("y ~ . - g", data, engine=Local(2), **given)
    assert (there.draws == tb.fit("y ~ x", data, **given).draws).all()


def test_a_cache_knows_how_numbers_are_written(tmp_path):
    path = german(tmp_path, x=[str(i % 3) for i in range(ROWS)])
    sizes = [tb.GLM("y ~ x", path, cache=tmp_path / "c", missing="drop", na_values=one).observations for one in "23"]
    assert sizes == [ROWS - ROWS // 3, ROWS]


def test_other_models(tmp_path):
    path = german(tmp_path)
    assert tb.MARS("y ~ x", path, **HOW, reference=30, min_rows=2).observations == ROWS - 1

    def normal(theta, rows):
        return -0.5 * (rows.x - theta.center) ** 2

    model = tb.Model(normal, {"center": tb.Normal(0, 1)}, {"center": 0.0}, path, columns=["x"], **HOW)
    assert model.observations == ROWS - 1


def test_on_the_command_line(tmp_path):
    path, run = german(tmp_path), CliRunner()
    refused = run.invoke(main, ["fit", str(path), "y ~ x", "--quiet"])
    assert refused.exit_code == 1
    assert "say --decimal ," in refused.output
    given = ["--decimal", ",", "--na-values", "-", "--na-values", "?", "--missing", "drop", "--quiet", "--draws", "50"]
    fitted = run.invoke(main, ["fit", str(path), "y ~ x", *given, "--out", str(tmp_path / "fit.nc")])
    assert "1 row left out" in fitted.output
    new = german(tmp_path, "new.csv", GOOD)
    predicted = run.invoke(main, ["predict", str(tmp_path / "fit.nc"), str(new), "--keep", "g", "--quiet"])
    assert predicted.exit_code == 0
    assert len(predicted.output.splitlines()) == ROWS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decimal": ";"}, "decimal=';' is not known"),
        ({"decimal": None}, "decimal=None is not known"),
        ({"na_values": True}, "na_values=True must be a text that marks missing values"),
        ({"na_values": [["?"]]}, r"na_values=\[\['\?'\]\] must be a text"),
        ({"na_values": {"x": "?"}}, "na_values={'x': '\\?'} must be a text"),
    ],
)
def test_what_can_be_said(given, said):
    with pytest.raises(ValueError, match=said):
        tb.fit("y ~ x", {"y": Y, "x": X}, **given)
