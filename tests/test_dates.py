"""Dates by parts, from any kind of column, by the column's own clock."""

import datetime
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallbayes as tb
from tallbayes.data import dates
from tallbayes.data.cleaning import Cleaning
from tallbayes.data.formula import Formula
from tallbayes.data.frames import check, read

MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(1900, 2, 28, 12, 30),
    datetime.datetime(2000, 2, 29, 6),
    datetime.datetime(2023, 12, 31, 0, 0, 1),
    datetime.datetime(2024, 11, 4, 17, 45, 30, 123_456),
]
PARTS = {
    "year": lambda d: d.year,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "weekday": lambda d: d.weekday(),
    "hour": lambda d: d.hour,
    "days": lambda d: (d - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_parts(part, unit):
    values = np.array(MOMENTS, dtype=f"datetime64[{unit}]")
    np.testing.assert_allclose(dates.PARTS[part](values), [PARTS[part](d) for d in MOMENTS], rtol=1e-15)
    if unit == "ns":
        whole = values.astype("datetime64[D]")
        midnights = [datetime.datetime.combine(d, datetime.time()) for d in whole.astype(object)]
        np.testing.assert_array_equal(dates.PARTS[part](whole), [PARTS[part](d) for d in midnights])


PLAIN = [datetime.datetime(2020, 1, 31, 22, 30), datetime.datetime(2021, 6, 1, 3, 15), datetime.datetime(1965, 7, 4)]
BERLIN = [d.replace(tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")) for d in PLAIN]
SERIES = pd.Series(np.array(PLAIN, dtype="datetime64[us]"))
COLUMNS = {
    "pandas": pd.DataFrame({"d": SERIES}),
    "pandas, seconds": pd.DataFrame({"d": SERIES.astype("datetime64[s]")}),
    "pandas with a zone": pd.DataFrame({"d": SERIES.dt.tz_localize("America/New_York")}),
    "pandas of arrow": pd.DataFrame({"d": SERIES.astype(pd.ArrowDtype(pa.timestamp("us")))}),
    "pandas of arrow with a zone": pd.DataFrame(
        {"d": SERIES.dt.tz_localize("Asia/Tokyo").astype(pd.ArrowDtype(pa.timestamp("us", "Asia/Tokyo")))}
    ),
    "objects": {"d": np.array(PLAIN, dtype=object)},
    "numpy": {"d": np.array(PLAIN, dtype="datetime64[ms]")},
    "polars": pl.DataFrame({"d": PLAIN}),
    "polars with a zone": pl.DataFrame({"d": BERLIN}),
    "polars, lazy": pl.LazyFrame({"d": PLAIN}),
    "pyarrow": pa.table({"d": pa.array(PLAIN, pa.timestamp("ns"))}),
    "pyarrow with a zone": pa.table({"d": pa.array(BERLIN, pa.timestamp("us", "Europe/Berlin"))}),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_show_their_own_clock(kind):
    column = read(COLUMNS[kind], ["d"], Cleaning(dates=("d",)))["d"]
    assert column.dtype.kind == "M"
    assert column.tolist() == PLAIN
    with pytest.raises(ValueError, match=r"column 'd' holds dates or times; in a formula, use a part of it: year\(d\)"):
        read(COLUMNS[kind], ["d"])


DATES = [datetime.date(2020, 1, 31), datetime.date(1965, 7, 4)]
DAYS = {
    "objects": {"d": DATES},
    "polars": pl.DataFrame({"d": DATES}),
    "pyarrow, 32": pa.table({"d": pa.array(DATES, pa.date32())}),
    "pyarrow, 64": pa.table({"d": pa.array(DATES, pa.date64())}),
    "pandas of arrow": pd.DataFrame({"d": pd.array(DATES, dtype=pd.ArrowDtype(pa.date32()))}),
}


@pytest.mark.parametrize("kind", DAYS)
def test_days_are_dates_too(kind):
    column = read(DAYS[kind], ["d"], Cleaning(dates=("d",)))["d"]
    assert [d.date() for d in column] == DATES


@pytest.mark.parametrize("kind", ["pandas with a zone", "polars with a zone", "objects"])
def test_missing_dates_are_found(kind):
    data = COLUMNS[kind]
    holes = {
        "pandas with a zone": lambda: data.assign(d=data["d"].where(data.index != 1)),
        "polars with a zone": lambda: pl.DataFrame({"d": [BERLIN[0], None, BERLIN[2]]}),
        "objects": lambda: {"d": np.array([PLAIN[0], None, PLAIN[2]], dtype=object)},
    }[kind]()
    with pytest.raises(ValueError, match=r"column 'd' has 1 missing value \(first at row 1\)"):
        check(read(holes, ["d"], Cleaning(dates=("d",))))


ROWS = 400
rng = np.random.default_rng(1)
DATA = pd.DataFrame(
    {
        "y": rng.integers(0, 2, ROWS),
        "x": rng.normal(size=ROWS),
        "sold on": pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24, ROWS), "h"),
    }
)
SOLD = DATA["sold on"].dt
FORMULAS = [
    ("y ~ year(`sold on`) + hour(`sold on`)", [SOLD.year, SOLD.hour]),
    ("y ~ x + I(month(`sold on`) > 6)", [DATA["x"], SOLD.month > 6]),
    ("y ~ scale(day(`sold on`)) + log(1 + weekday(`sold on`))", [None, np.log1p(SOLD.day_of_week)]),
    ("y ~ 0 + C(weekday(`sold on`))", [SOLD.day_of_week == day for day in range(7)]),
    ("y ~ C(month(`sold on`))", [SOLD.month == month for month in range(2, 13)]),
    ("y ~ x + offset(hour(`sold on`) / 24)", [DATA["x"]]),
]


@pytest.mark.parametrize(("text", "columns"), FORMULAS)
def test_formulas(text, columns):
    formula, X, _ = Formula.learn(text, DATA)
    first = 0 if "~ 0" in text else 1
    assert len(X) == first + len(columns)
    for found, expected in zip(X[first:], columns, strict=True):
        if expected is not None:
            np.testing.assert_allclose(found, expected)
    new = pl.from_pandas(DATA[["x", "sold on"]])
    for one in (formula, Formula.from_json(formula.to_json())):
        np.testing.assert_array_equal(one.apply(new), X)
        if formula.parsed.offset:
            np.testing.assert_array_equal(one.offset(new), SOLD.hour / 24)


def test_names_of_categories():
    formula, _, _ = Formula.learn("y ~ C(month(`sold on`))", DATA[SOLD.month < 12])
    assert formula.coefficients[1] == "C(month(`sold on`))[T.2]"
    with pytest.raises(ValueError, match="has levels never seen"):
        formula.apply({"sold on": [datetime.date(2024, 12, 1)]})
    with pytest.raises(ValueError, match=r"'C\(year\(`sold on`\)\)' is 2019 in all rows"):
        Formula.learn("y ~ C(year(`sold on`))", DATA)


def test_other_time_zones_are_refused(tmp_path):
    times = pd.Series(pd.date_range("2026-01-01", periods=40, freq="5h"))
    data = pd.DataFrame({"y": np.arange(40) % 2, "d": times.dt.tz_localize("Asia/Tokyo")})
    fit = tb.fit("y ~ hour(d)", data, draws=5, warmup=5, chains=1, seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    for one in (fit, tb.load(tmp_path / "fit.nc")):
        assert len(one.predict(data)) == 40
        assert len(one.predict(pa.Table.from_pandas(data))) == 40
        for other, said in (("UTC", "in the time zone UTC"), (None, "without a time zone")):
            with pytest.raises(
                ValueError, match=f"column 'd' has times {said}, but they were in the time zone Asia/Tok"
            ):
                one.predict(data.assign(d=data["d"].dt.tz_convert(other)))
    with pytest.raises(ValueError, match=r"changed the type of a column between its parts: .*differing ti"):
        tb.GLM("y ~ hour(d)", tb.scan(lambda: iter([data, data.assign(d=data["d"].dt.tz_convert("UTC"))])))


def test_a_file_with_dates(tmp_path):
    DATA.rename(columns={"sold on": "d"}).to_csv(tmp_path / "a.csv", index=False)
    fit = tb.fit("y ~ x + days(d)", tmp_path / "a.csv", draws=5, chains=1, seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    loaded, new = tb.load(tmp_path / "fit.nc"), DATA.rename(columns={"sold on": "d"}).head(3)
    pd.testing.assert_frame_equal(loaded.predict(new), fit.predict(new))


REFUSED = [
    ("y ~ `sold on`", r"column 'sold on' holds dates or times; .* month\(`sold on`\)"),
    ("y ~ `sold on` + month(`sold on`)", "column 'sold on' holds dates or times"),
    ("y ~ C(`sold on`)", "column 'sold on' holds dates or times"),
    ("y ~ month(`sold on`) + (1 | `sold on`)", "column 'sold on' holds dates or times"),
    ("y ~ month(x)", "column 'x' does not hold dates, which year, month, .* need; make it dates first"),
    ("y ~ month(log(x))", r"has 'month\(log\(x\)\)', but month takes the name of a column of dates"),
    ("y ~ month('a')", "month takes the name of a column"),
    ("y ~ month()", "month takes the name of a column"),
    ("y ~ month(x, x)", "month takes at most 1 argument"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Formula.learn(text, DATA)


def test_columns_outside_the_formula_hold_no_dates():
    with pytest.raises(ValueError, match="column 'sold on' holds dates or times"):
        tb.GLM("y ~ month(`sold on`)", DATA, weights="sold on")


def test_a_column_with_the_name_of_a_part():
    data = DATA.rename(columns={"x": "month"})
    assert Formula.learn("y ~ month", data)[0].coefficients == ("Intercept", "month")
    with pytest.raises(ValueError, match="column 'month' has the name of a function that the formula calls"):
        Formula.learn("y ~ month + month(`sold on`)", data)
