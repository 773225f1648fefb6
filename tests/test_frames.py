"""Any input gives the same checked frame, and bad input says what is wrong with which column."""

import datetime
import decimal
import gzip
from fractions import Fraction

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tallbayes.data.frames import check, read
from tallbayes.data.sources import column_names

COLUMNS = {
    "y": [True, False, True],
    "fico": [700.5, 650.0, 600.0],
    "age": [30, 40, 50],
    "bank": ["b", "a", "b"],
}
FRAME = pd.DataFrame(COLUMNS)


def write(folder, name, frame=FRAME, **options):
    path = folder / name
    if ".parquet" in name:
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, **options)
    return path


SOURCES = {
    "pandas": lambda folder: FRAME,
    "pandas, other index": lambda folder: FRAME.set_index(pd.Index([7, 5, 7])),
    "pandas, object text": lambda folder: FRAME.astype({"bank": object}),
    "pandas, nullable": lambda folder: FRAME.convert_dtypes(),
    "pandas, pyarrow": lambda folder: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, small numbers": lambda folder: FRAME.astype({"fico": "float32", "age": "uint8"}),
    "polars": lambda folder: pl.DataFrame(COLUMNS),
    "polars lazy": lambda folder: pl.LazyFrame(COLUMNS),
    "pyarrow": lambda folder: pa.table(COLUMNS),
    "narwhals": lambda folder: nw.from_native(pl.DataFrame(COLUMNS)),
    "dict of lists": lambda folder: COLUMNS,
    "dict of arrays": lambda folder: {name: np.array(values) for name, values in COLUMNS.items()},
    "dict of series": lambda folder: {name: pd.Series(values, index=[9, 8, 7]) for name, values in COLUMNS.items()},
    "parquet": lambda folder: write(folder, "a.parquet"),
    "csv": lambda folder: write(folder, "a.csv"),
    "csv path as text": lambda folder: str(write(folder, "a.csv")),
    "csv ;": lambda folder: write(folder, "a.csv", sep=";"),
    "csv tab": lambda folder: write(folder, "a.tsv", sep="\t"),
    "csv with byte order mark": lambda folder: write(folder, "a.csv", encoding="utf-8-sig"),
    "csv compressed": lambda folder: write(folder, "a.csv.gz"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_frame(name, tmp_path):
    source = SOURCES[name](tmp_path)
    assert column_names(source) == list(COLUMNS)
    frame = read(source, ["bank", "y", "age", "fico"])
    check(frame)
    assert list(frame) == ["bank", "y", "age", "fico"]
    assert list(frame.index) == [0, 1, 2]
    assert frame["bank"].tolist() == COLUMNS["bank"]
    assert frame["bank"].cat.categories.tolist() == ["a", "b"]
    for column, kind in [("y", "float64"), ("fico", "float64"), ("age", "int64")]:
        assert frame[column].dtype == kind
        assert frame[column].tolist() == COLUMNS[column]
        assert frame[column].to_numpy().flags.c_contiguous


def test_reading_twice_changes_nothing():
    once = read(FRAME, list(COLUMNS))
    pd.testing.assert_frame_equal(once, read(once, list(COLUMNS)))


@pytest.mark.parametrize("name", ["part*.csv", "part*.parquet"])
def test_glob_stacks_files_in_the_order_of_their_names(name, tmp_path):
    write(tmp_path, name.replace("*", "2"), FRAME.iloc[:1].assign(age=1.5))
    write(tmp_path, name.replace("*", "1"), FRAME.iloc[1:])
    frame = read(str(tmp_path / name), ["age", "bank"])
    assert frame["age"].tolist() == [40, 50, 1.5]
    assert frame["bank"].tolist() == ["a", "b", "b"]


def test_only_the_needed_columns_are_looked_at():
    dates = pd.to_datetime(["2020-01-01"] * 3)
    assert list(read(FRAME.assign(when=dates), ["age"])) == ["age"]
    assert read(FRAME.assign(when=dates), []).shape == (3, 0)
    assert read({"when": dates}, []).shape == (3, 0)


def test_a_file_is_read_for_the_needed_columns_alone(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,when\n1,2020-01-01\n2,2021-01-01\n")
    assert read(path, ["x"])["x"].tolist() == [1, 2]


LEVELS = {
    "unused dropped": (pd.Categorical(["b", "a"], ["c", "b", "a"]), ["a", "b"], False),
    "ordered kept": (pd.Categorical(["lo", "hi"], ["lo", "mid", "hi"], ordered=True), ["lo", "hi"], True),
    "numbers": (pd.Categorical([3, 1, 3]), [1, 3], False),
    "intervals": (pd.cut(pd.Series([1, 9]), [0, 5, 10]), ["(0, 5]", "(5, 10]"], True),
    "polars enum": (pl.Series(["x", "y"], dtype=pl.Enum(["y", "x"])), ["y", "x"], True),
    "polars categorical": (pl.Series(["x", "a"], dtype=pl.Categorical), ["a", "x"], False),
}


@pytest.mark.parametrize("name", LEVELS)
def test_levels(name):
    values, levels, ordered = LEVELS[name]
    data = pl.DataFrame({"g": values}) if isinstance(values, pl.Series) else pd.DataFrame({"g": values})
    column = read(data, ["g"])["g"]
    assert (column.cat.categories.tolist(), column.cat.ordered) == (levels, ordered)
    assert [str(value) for value in column] == [str(value) for value in values]


NUMBERS = {
    "decimal": ([decimal.Decimal("1.5"), decimal.Decimal("2.25")], [1.5, 2.25]),
    "object of int and float": (pd.Series([1, 2.5], dtype=object), [1, 2.5]),
    "object of bool": (pd.Series([True, False], dtype=object), [1, 0]),
    "big unsigned": (np.array([2**64 - 1, 1], dtype=np.uint64), [2.0**64, 1]),
    "strided": (np.arange(6.0).reshape(2, 3)[:, 1], [1, 4]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name):
    values, expected = NUMBERS[name]
    column = read({"x": values}, ["x"])["x"]
    assert column.tolist() == expected
    assert column.dtype.kind in "if"


def test_csv_types_come_from_all_rows_not_the_first_block(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("x\n" + "1234567\n" * 200_000 + "2.5\n")
    assert read(path, ["x"])["x"].iloc[-1] == 2.5


REFUSED = {
    "datetime": (
        {"d": pd.to_datetime(["2020-01-01"])},
        r"column 'd' holds dates or times; .* year\(d\), .* or days\(d\)",
    ),
    "timedelta": ({"d": pd.to_timedelta(["1 day"])}, "column 'd' holds durations or times of day"),
    "date": ({"d": [datetime.date(2020, 1, 1)]}, "holds dates or times; in a formula, use a part of it"),
    "polars date": (pl.DataFrame({"d": [datetime.date(2020, 1, 1)]}), "column 'd' holds dates or times"),
    "complex": ({"d": [1j]}, "column 'd' is complex"),
    "mixed": (
        {"d": np.array(["a", 1], dtype=object)},
        "column 'd' has mixed content: numbers, and the text 'a' at row 0; if it marks a missing value, say na_values",
    ),
    "mixed kinds": (
        {"d": np.array([None, True, 2], dtype=object)},
        "column 'd' has mixed content: True at row 1, and 2 at row 2; make it all of one kind",
    ),
    "of no type": (
        {"d": np.array([Fraction(1, 3)], dtype=object)},
        r"column 'd' holds values of type Fraction, such as Fraction\(1, 3\) at row 0; make it numbers or text",
    ),
    "periods": ({"d": pd.period_range("2020", periods=2, freq="D")}, r"holds values of type period\[D\]; make it"),
    "mixed levels": (pd.DataFrame({"d": pd.Categorical(["a", 1])}), "column 'd' has levels of mixed types"),
    "lists": (pl.DataFrame({"d": [[1], [2]]}), "column 'd' holds values of type .*list"),
    "bytes": ({"d": np.array([b"a"], dtype=object)}, "column 'd' holds values of type binary"),
    "two dimensions": ({"d": np.zeros((2, 2))}, "column 'd' has 2 dimensions"),
    "scalar": ({"d": 1.0}, "column 'd' is 1.0; give a list or an array"),
    "no rows": ({"d": []}, "the data has no rows"),
    "no columns": ({}, "the data has no columns"),
    "duplicate": (pd.DataFrame([[1, 2]], columns=["d", "d"]), "duplicate column names: 'd'; rename"),
    "duplicate, pyarrow": (pa.table([[1], [2]], names=["d", "d"]), "duplicate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    data, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read(data, ["d"])


def test_unequal_lengths_are_named():
    with pytest.raises(ValueError, match="columns of unequal length: 'a' has 2, 'b' has 1"):
        read({"a": [1, 2], "b": [1]}, ["a", "b"])


def test_unknown_columns_are_listed_with_close_matches():
    with pytest.raises(ValueError, match=r"no column 'fcio', 'zzz' in the data; did you mean 'fico'\?"):
        read(FRAME, ["fcio", "age", "zzz"])
    with pytest.raises(ValueError, match="no column 'zzz' in the data; it has 'y', 'fico', 'age', 'bank'"):
        read(FRAME, ["zzz"])


def test_unknown_type():
    with pytest.raises(ValueError, match="cannot read data of type int; give a data frame"):
        read(3, ["x"])


FILES = {
    "not parquet": ("a.parquet", b"x,y\n1,2\n", ValueError, "is not a Parquet file"),
    "not csv": ("a.csv", b"PAR1\x15\x04\x15", ValueError, "is not a CSV file"),
    "not text": ("a.csv", b"\xff\xfe\x00x\n", ValueError, "is not a CSV file in UTF-8"),
    "empty": ("a.csv", b"", ValueError, "is empty"),
    "no rows": ("a.csv", b"x,y\n", ValueError, "the data has no rows"),
    "ragged": ("a.csv", b"x,y\n1,2\n3\n", ValueError, "cannot read .* as CSV separated by ','"),
    "duplicate": ("a.csv", b"x,x\n1,2\n", ValueError, r"duplicate column names in .*a\.csv': 'x'"),
    "other name": ("a.xlsx", b"x", ValueError, "is neither CSV nor Parquet nor Arrow: its name must end in"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files(name, tmp_path):
    file, content, error, message = FILES[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(error, match=message):
        read(tmp_path / file, ["x"])


def test_bad_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*nothing\.csv"):
        read(tmp_path / "nothing.csv", ["x"])
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.csv"):
        column_names(tmp_path / "*.csv")
    with pytest.raises(ValueError, match=r"has no data files, whose names end in \.csv, .* or \.ipc"):
        read(tmp_path, ["x"])
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(ValueError, match=r"a\.csv' is a folder; give the folder alone, or a pattern"):
        read(tmp_path / "*.csv", ["x"])


def test_files_that_do_not_fit_together(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x\nhello\n")
    with pytest.raises(ValueError, match=r"no column 'y' in .*b\.csv"):
        read(tmp_path / "*.csv", ["y"])
    with pytest.raises(ValueError, match="disagree on the type of a column"):
        read(tmp_path / "*.csv", ["x"])


def test_compressed_csv_header(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x;y\n1;2\n"))
    assert column_names(path) == ["x", "y"]


CHECKS = {
    "missing": (
        {"fico": [1.0, None, np.nan]},
        r"column 'fico' has 2 missing values \(first at row 1\); drop or impute",
    ),
    "infinite": (
        {"x": [1.0, 2.0, -np.inf]},
        r"column 'x' has 1 infinite value \(first at row 2\); drop or replace it",
    ),
    "text": ({"g": ["a", None]}, r"column 'g' has 1 missing value \(first at row 1\)"),
    "integer": (
        {"x": pd.array([1, None], dtype="Int64")},
        r"column 'x' has 1 missing value \(first at row 1\)",
    ),
    "boolean": ({"x": [True, None]}, r"column 'x' has 1 missing value \(first at row 1\)"),
    "all missing": ({"x": [None, None]}, r"column 'x' has 2 missing values \(first at row 0\)"),
    "all columns": ({"a": [np.nan], "b": [np.inf]}, r"'a' has 1 missing (.|\n)*'b' has 1 infinite"),
}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("kind", [pd.DataFrame, lambda data: pl.from_pandas(pd.DataFrame(data))])
def test_check(name, kind):
    data, message = CHECKS[name]
    frame = read(kind(data), list(data))
    with pytest.raises(ValueError, match=message):
        check(frame)


def test_check_of_an_empty_csv_cell(tmp_path):
    (tmp_path / "a.csv").write_text("g,x\na,1\n,2\n")
    with pytest.raises(ValueError, match="column 'g' has 1 missing value"):
        check(read(tmp_path / "a.csv", ["g", "x"]))


def test_check_refuses_no_rows():
    with pytest.raises(ValueError, match="the data has no rows"):
        check(pd.DataFrame({"x": []}))
