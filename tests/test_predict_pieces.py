"""Predictions piece by piece: the same bits however rows are cut, from whatever source, into frames and files."""

import io
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from command import run

from tallbayes.data import pieces, progress
from tallbayes.data.formula import Formula
from tallbayes.families import Poisson
from tallbayes.groups import predict as group_effects
from tallbayes.groups.example import group_example
from tallbayes.results import predict, prediction_file
from tallbayes.results.example import example
from tallbayes.results.fit import Fit

ROWS = 100
NAMES = ["mean", "eti94_lb", "eti94_ub"]


def frame(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.integers(2, size=rows),
            "fico": rng.normal(size=rows),
            "income": rng.gamma(2.0, size=rows),
            "kind": rng.choice(["a", "b", "c"], size=rows),
            "bank": rng.choice(["b01", "b02", "new 1", "new 2", "new 3"], size=rows),
            "days": rng.gamma(2.0, size=rows),
            "id": [f"row {number}" for number in range(rows)],
        }
    )


def fitted(text, seed=1, **rest):
    """A fit of a formula with random draws."""
    formula, _, _ = Formula.learn(text, frame(seed=5))
    draws = np.random.default_rng(seed).normal(0, 0.3, (2, 200, len(formula.coefficients)))
    axes = {"chain": np.arange(2), "draw": np.arange(200)}
    beta = {"beta": (("chain", "draw", "coefficient"), draws)}
    return Fit(
        posterior=xr.Dataset(beta, {**axes, "coefficient": list(formula.coefficients)}),
        sample_stats=xr.Dataset({"lp": (("chain", "draw"), draws[..., 0])}, axes),
        stats=example(draws=1).stats,
        formula=formula,
        **rest,
    )


FITS = {
    "plain": lambda: fitted("y ~ fico + kind"),
    "functions": lambda: fitted(
        "y ~ scale(fico) + log(income) + bs(fico, df=4, extrapolation='extend') + C(kind):fico"
    ),
    "intercept": lambda: fitted("y ~ 1"),
    "offset term": lambda: fitted("y ~ fico + offset(log(days))"),
    "offset column": lambda: fitted("y ~ fico", offset="income"),
    "exposure": lambda: fitted("y ~ fico", family=Poisson("days")),
    "groups": lambda: group_example(2),
}


@pytest.fixture
def cut(monkeypatch):
    """Sets the number of rows of a piece."""
    return lambda size: monkeypatch.setattr(pieces, "PIECE", size)


@pytest.fixture(autouse=True)
def lines_of_progress(monkeypatch):
    monkeypatch.setattr(progress, "WORTH_A_LINE", 0.0)


@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize("size", [7, ROWS - 1])
def test_pieces_change_no_bit(kind, size, cut):
    fit, new = FITS[kind](), frame()
    whole = fit.predict(new)
    cut(size)
    pd.testing.assert_frame_equal(fit.predict(new), whole, check_exact=True)


@pytest.mark.parametrize("kind", ["plain", "groups"])
def test_slices_and_threads_change_no_bit(kind, monkeypatch):
    fit, new = FITS[kind](), frame(3_000)
    whole = fit.predict(new)
    for at_once in (1, 2_000, 2**16):
        monkeypatch.setattr(predict, "PREDICTED_AT_ONCE", at_once)
        monkeypatch.setattr(predict, "SUMMED_AT_ONCE", max(1, at_once // 7))
        pd.testing.assert_frame_equal(fit.predict(new), whole, check_exact=True)
    monkeypatch.setattr("tallbayes.rows.threads._available", lambda: 1)
    pd.testing.assert_frame_equal(fit.predict(new), whole, check_exact=True)


def test_rows_alone_have_the_same_bits():
    for kind in ("plain", "groups"):
        fit, new = FITS[kind](), frame(20)
        alone = pd.concat([fit.predict(new.iloc[[place]]) for place in range(20)])
        pd.testing.assert_frame_equal(alone, fit.predict(new), check_exact=True)


def test_every_source_gives_the_same(tmp_path, cut):
    fit, new = FITS["groups"](), frame()
    whole = fit.predict(new)
    new.to_parquet(tmp_path / "one.parquet")
    new.to_csv(tmp_path / "one.csv", index=False)
    (tmp_path / "many").mkdir()
    for number, start in enumerate(range(0, ROWS, 13)):
        new.iloc[start : start + 13].to_parquet(tmp_path / "many" / f"{number}.parquet")
    cut(11)
    for data in (
        *(tmp_path / name for name in ("one.parquet", "one.csv", "many")),
        *(pl.from_pandas(new), pl.from_pandas(new).lazy(), pa.Table.from_pandas(new), dict(new)),
        new.set_index("id"),
    ):
        found = fit.predict(data)
        np.testing.assert_array_equal(found, whole)
        assert list(found) == NAMES
    assert fit.predict(new.set_index("id")).index.tolist() == new["id"].tolist()


def test_an_array_of_offsets_is_cut_like_the_rows(tmp_path, cut):
    fit, new = fitted("y ~ fico", has_offset=True), frame()
    given = np.linspace(-1, 1, ROWS)
    whole = fit.predict(new, offset=given)
    new.to_csv(tmp_path / "new.csv", index=False)
    cut(9)
    for data in (new, tmp_path / "new.csv"):
        np.testing.assert_array_equal(fit.predict(data, offset=given), whole)
        for wrong in (given[:-1], given[:50], np.append(given, 0.0)):
            with pytest.raises(ValueError, match=rf"offset has shape \({len(wrong)},\), but the data has"):
                fit.predict(data, offset=wrong)


# Files


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("kind", ["plain", "groups"])
def test_a_file_has_what_predict_gives(tmp_path, cut, kind, ending):
    fit, new = FITS[kind](), frame()
    whole = fit.predict(new)
    new.to_parquet(tmp_path / "new.parquet")
    cut(13)
    out = tmp_path / f"out{ending}"
    assert fit.predict_to(tmp_path / "new.parquet", out, ["id", "y", "id"], progress=False) == ROWS
    found = pd.read_parquet(out) if ending == ".parquet" else pd.read_csv(out)
    pd.testing.assert_frame_equal(found[NAMES], whole, check_exact=ending == ".parquet", rtol=1e-12)
    pd.testing.assert_frame_equal(found[["id", "y"]], new[["id", "y"]], check_dtype=False)
    assert list(found) == ["id", "y", *NAMES]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.parquet", f"out{ending}"]


def test_a_file_is_the_same_however_rows_are_cut(tmp_path, cut):
    fit, new = FITS["groups"](), frame()
    fit.predict_to(new, tmp_path / "whole.csv", list(new), progress=False)
    cut(13)
    fit.predict_to(new, tmp_path / "cut.csv", list(new), progress=False)
    assert (tmp_path / "cut.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_an_open_file_gets_csv(cut):
    cut(13)
    out = io.BytesIO()
    assert example().predict_to(frame(), out, ["id"], interval=0.5, draws=7, progress=False) == ROWS
    table = pd.read_csv(io.BytesIO(out.getvalue()))
    pd.testing.assert_frame_equal(table.drop(columns="id"), example().predict(frame(), interval=0.5, draws=7))
    assert not out.closed


def test_kept_columns_have_their_types_in_all_pieces(tmp_path, cut):
    new = frame(20)
    half = [None] * 10
    new["late"] = pd.array([*half, *range(10)], "Int64")
    new["when"] = pd.to_datetime([None] * 10 + ["2020-01-01"] * 10)
    new["word"] = [*half, *"abcdefghij"]  # an object column that begins with nothing
    new["mixed"] = [*range(10), *np.arange(10) / 4]
    new["level"] = pd.Categorical(["x"] * 10 + ["y"] * 10, ["y", "x"], ordered=True)
    new["nested"] = [[number] for number in range(20)]
    table = pa.Table.from_pandas(new, preserve_index=False)
    pq.write_table(table, tmp_path / "new.parquet")
    kept = ["late", "when", "word", "mixed", "level", "nested"]
    cut(5)
    for data in (new, tmp_path / "new.parquet", table):
        example().predict_to(data, tmp_path / "out.parquet", kept, progress=False)
        found = pq.read_table(tmp_path / "out.parquet")
        assert found.select(kept).to_pydict() == table.select(kept).to_pydict()
        assert found.schema.types[:-3] == pq.read_table(tmp_path / "new.parquet").select(kept).schema.types
        assert found.schema.names == [*kept, *NAMES]
        with pytest.raises(ValueError, match=r"column 'nested' holds list<.*which CSV cannot; use a file in \.parquet"):
            example().predict_to(data, tmp_path / "out.csv", kept, progress=False)
    assert not (tmp_path / "out.csv").exists()


def test_files_with_other_types_are_made_one(tmp_path, cut):
    for name, ids in (("a", [1, 2, 3]), ("b", [0.5, 1.5, 2.5])):
        pd.DataFrame({"fico": [0.0, 1.0, 2.0], "id": ids}).to_parquet(tmp_path / f"{name}.parquet")
    cut(2)
    example().predict_to(tmp_path, tmp_path / "out.csv", ["id"], progress=False)
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == [1, 2, 3, 0.5, 1.5, 2.5]


def test_types_that_change_from_piece_to_piece_are_refused(tmp_path):
    def parts(*columns):
        for place, values in enumerate(columns):
            rows = new_rows_of(values, place)
            yield predict.Predicted(rows, np.zeros((3, rows.size)))

    def new_rows_of(values, place):
        return predict.NewRows(None, {"id": values}, 2 * place, 2, lambda row: f"row {row} of 'b.csv'")

    source = pieces.Source(["id"], None, False, None, None)
    for columns, now in [
        ((pa.chunked_array([[1, 2]]), pa.chunked_array([["a", "b"]])), "string"),
        ((pa.chunked_array([[1, 2]]), pa.chunked_array([[0.5, 2.0]])), "double"),
    ]:
        with pytest.raises(ValueError, match=f"'id' holds {now} from row 0 of 'b.csv' on, but int64 before; make it"):
            prediction_file.write(tmp_path / "out.parquet", parts(*columns), NAMES, source, ["id"])
    wide = (pa.chunked_array([[0.5, 1.5]]), pa.chunked_array([[1, 2]]), pa.chunked_array([pa.nulls(2)]))
    assert prediction_file.write(tmp_path / "out.parquet", parts(*wide), NAMES, source, ["id"]) == 6
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == [0.5, 1.5, 1.0, 2.0, None, None]
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_what_cannot_be_written_is_said_before_rows_are_read(tmp_path):
    fit, new = example(), frame().assign(mean=1.0)
    for path, keep, message in [
        ("out.xlsx", [], "must end in .parquet or .csv"),
        ("nowhere/out.csv", [], "there is no folder"),
        ("out.csv", ["mean"], "a column 'mean', which predictions have as well"),
        ("out.csv", ["idd"], "no column 'idd' in the data; did you mean 'id'"),
    ]:
        with pytest.raises((ValueError, OSError), match=re.escape(message)):
            fit.predict_to(new, tmp_path / path, keep, progress=False)
    with pytest.raises(ValueError, match="draws must be a whole number"):
        fit.predict_to(new, tmp_path / "out.csv", draws=0, progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no space left")])
def test_no_half_of_a_file_stays(tmp_path, cut, monkeypatch, ending, error):
    out = tmp_path / f"out{ending}"
    out.write_text("precious")
    cut(10)
    seen, each = [], predict.predict

    def fails(*arguments):
        seen.append(sorted(path.name for path in tmp_path.iterdir()))
        if len(seen) == 4:
            raise error
        return each(*arguments)

    monkeypatch.setattr(predict, "predict", fails)
    with pytest.raises(type(error)):
        example().predict_to(frame(), out, progress=False)
    assert len(seen[-1]) == 2  # it was written aside
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert out.read_text() == "precious"


# What is wrong, and where


def test_errors_name_file_and_row(tmp_path, cut):
    for name in "ab":
        frame(10, seed=ord(name)).to_parquet(tmp_path / f"{name}.parquet")
    good = pd.read_parquet(tmp_path / "b.parquet")
    cut(7)
    there = r"row 4 of '.*b\.parquet'"
    for kind, column, value, message in [
        ("plain", "kind", "z", f"'kind' has levels never seen .*: 'z' \\(first at {there}\\)"),
        ("functions", "income", -1.0, f"'log\\(income\\)' is not finite .*first at {there}: nan"),
        ("functions", "kind", "z", f"first at {there}"),
        ("offset term", "days", 0.0, f"'offset.*' is not finite .*first at {there}: -inf|first at {there}"),
        ("exposure", "days", -2.0, f"exposure 'days' must be positive, but is -2 in {there}"),
        ("plain", "fico", np.nan, f"column 'fico' has 1 missing value \\(first at {there}\\)"),
        ("plain", "fico", np.inf, f"column 'fico' has 1 infinite value \\(first at {there}\\)"),
        ("offset column", "income", np.nan, f"column 'income' has 1 missing value \\(first at {there}\\)"),
        ("groups", "bank", None, f"column 'bank' has 1 missing value \\(first at {there}\\)"),
    ]:
        bad = good.copy()
        bad.loc[4, column] = value
        bad.to_parquet(tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=message):
            FITS[kind]().predict(tmp_path)


def test_missing_values_of_all_pieces_are_counted(cut):
    new = frame()
    new.loc[[20, 50, 90], "fico"] = np.nan
    new.loc[[60], "kind"] = None
    cut(7)
    with pytest.raises(ValueError) as caught:
        FITS["plain"]().predict(new)
    assert str(caught.value).splitlines() == [
        "column 'fico' has 3 missing values (first at row 20); drop or impute them first",
        "column 'kind' has 1 missing value (first at row 60); drop or impute it first",
    ]


def test_new_groups_that_are_forgotten_come_out_the_same(monkeypatch, cut):
    fit = group_example(2)
    new = {"fico": np.zeros(60), "bank": np.tile([f"new {number}" for number in range(30)], 2)}
    whole = fit.predict(new)
    monkeypatch.setattr(group_effects, "REMEMBERED", 1)
    cut(7)
    pd.testing.assert_frame_equal(fit.predict(new), whole, check_exact=True)
    np.testing.assert_array_equal(whole[:30], whole[30:])


# The command


def test_the_command_writes_piece_by_piece(tmp_path, cut):
    group_example(2).save(tmp_path / "fit.nc")
    frame().to_parquet(tmp_path / "new.parquet")
    cut(9)
    out = tmp_path / "out.parquet"
    done = run("predict", tmp_path / "fit.nc", tmp_path / "new.parquet", "--keep", "id", "--out", out)
    assert (done.exit_code, done.stdout) == (0, f"predictions of 100 rows saved to {out}\n")
    assert re.search(r"predicting .*100 rows.* rows a second", done.stderr)
    assert pq.ParquetFile(out).num_row_groups == 12
    piped = run("predict", tmp_path / "fit.nc", tmp_path / "new.parquet", "--keep", "id", "--quiet")
    assert (piped.exit_code, piped.stderr) == (0, "")
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(piped.stdout)), pd.read_parquet(out), rtol=1e-12)


def test_ctrl_c_during_the_command(tmp_path, cut, monkeypatch):
    example().save(tmp_path / "fit.nc")
    frame().to_parquet(tmp_path / "new.parquet")
    cut(9)
    each, calls = predict.predict, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return each(*arguments)

    monkeypatch.setattr(predict, "predict", interrupted)
    done = run("predict", tmp_path / "fit.nc", tmp_path / "new.parquet", "--out", tmp_path / "out.csv", "--quiet")
    assert (done.exit_code, done.stdout) == (130, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.nc", "new.parquet"]
