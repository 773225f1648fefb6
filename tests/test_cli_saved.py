"""Commands about saved fits, simulated data and the paper."""

import inspect
import io
import json
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command import run
from figures import sketched

import tallbayes as tb
from tallbayes import paper
from tallbayes.cli import main
from tallbayes.data import datasets, progress
from tallbayes.data.frames import read
from tallbayes.groups.example import group_example
from tallbayes.paper.experiment import CutShort
from tallbayes.results import report
from tallbayes.results.example import example


@pytest.fixture
def fit_file(tmp_path):
    example().save(tmp_path / "fit.nc")
    return tmp_path / "fit.nc"


# report and reproduce


def test_a_saved_fit_is_reported(tmp_path, monkeypatch):
    sketched(monkeypatch)
    example().save(tmp_path / "fit.nc")
    done = run("report", tmp_path / "fit.nc", tmp_path / "fit.html")
    assert (done.exit_code, done.stdout) == (0, f"report: {tmp_path / 'fit.html'}\n")
    page = (tmp_path / "fit.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "Did it converge?" in page
    again = run("report", tmp_path / "fit.nc", tmp_path / "fit.html")
    assert again.exit_code == 1
    assert "--force" in again.stderr
    assert (tmp_path / "fit.html").read_text("utf-8") == page
    monkeypatch.setattr(report, "render", lambda fit: "another page")
    assert run("report", tmp_path / "fit.nc", tmp_path / "fit.html", "--force").exit_code == 0
    assert (tmp_path / "fit.html").read_text("utf-8") == "another page"


def test_reproduce(monkeypatch, tmp_path):
    seen = []

    def reproduce(names, out, full, data, tell):
        seen.append((names, out, full, data, tell is None))
        return out / "index.html"

    monkeypatch.setattr(paper, "reproduce", reproduce)
    done = run("reproduce", "mars", "bank", "mars", "--out", tmp_path)
    assert (done.exit_code, done.stdout) == (0, f"page: {tmp_path / 'index.html'}\n")
    assert run("reproduce", "all", "--full", "--data", tmp_path, "--quiet").exit_code == 0
    assert seen == [
        (("mars", "bank"), tmp_path, False, None, False),
        (tuple(paper.EXPERIMENTS), Path("reproduction"), True, tmp_path, True),
    ]
    assert run("reproduce").exit_code == 2
    assert run("reproduce", "banks").exit_code == 2


def test_an_interrupted_reproduction_says_what_is_complete(monkeypatch, tmp_path):
    def reproduce(*_, **__):
        raise CutShort("complete: bank; cut short: loans")

    monkeypatch.setattr(paper, "reproduce", reproduce)
    done = run("reproduce", "all", "--out", tmp_path)
    assert done.exit_code == 130
    assert done.stdout == f"page: {tmp_path / 'index.html'}\n"
    assert done.stderr == "interrupted: complete: bank; cut short: loans\n"


# summary


def test_summary_prints_the_fit(fit_file):
    done = run("summary", fit_file)
    assert (done.exit_code, done.stdout) == (0, f"{example()!r}\n")


def test_summary_as_json(fit_file):
    done = run("summary", fit_file, "--json")
    found, fit = json.loads(done.stdout), example()
    assert found["parameters"] == fit.summary().to_dict("index")
    assert found["converged"] is True
    assert found["problems"] == []
    assert (found["formula"], found["chains"], found["draws"]) == ("y ~ fico", 4, 500)
    assert found["family"] == {"name": "bernoulli", "link": "logit"}
    for name in ("method", "exact", "interrupted", "rows", "seconds", "seed", "acceptance"):
        assert found[name] == fit.stats[name]


def test_json_has_null_for_what_is_not_finite(tmp_path):
    constant = example(draws=4)
    constant.posterior["beta"] = constant.posterior["beta"] * 0
    constant.stats["rows_per_draw"] = np.inf
    constant.save(tmp_path / "fit.nc")

    def refuse(text):
        raise AssertionError(f"{text} is no JSON")

    found = json.loads(run("summary", tmp_path / "fit.nc", "--json").stdout, parse_constant=refuse)
    assert found["parameters"]["fico"]["mean"] == 0
    assert found["parameters"]["fico"]["r_hat"] is None
    assert found["rows_per_draw"] is None
    assert found["converged"] is False
    assert found["problems"]


def test_summary_of_what_is_no_fit(tmp_path):
    assert run("summary", tmp_path / "no.nc").exit_code == 1
    assert run("summary", __file__).stderr.startswith("error: ")


# predict


@pytest.fixture
def new_rows(tmp_path):
    frame = pd.DataFrame(
        {"id": ["b", 'say "a"', None], "fico": [-1.0, 0.0, 1.5], "age": pd.array([1, None, 3], "Int64")}
    )
    frame["born"] = pd.to_datetime(["2001-02-03", None, "2004-05-06"])
    frame["bank"] = pd.Categorical(["x", "y", "x"])
    frame.to_parquet(tmp_path / "new.parquet")
    return tmp_path / "new.parquet"


def test_predictions_go_to_stdout(fit_file, new_rows):
    done = run("predict", fit_file, new_rows)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout))
    pd.testing.assert_frame_equal(found, example().predict({"fico": [-1.0, 0.0, 1.5]}), rtol=1e-12)
    assert list(found) == ["mean", "eti94_lb", "eti94_ub"]
    assert done.stderr == ""


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predictions_are_saved(fit_file, new_rows, tmp_path, suffix):
    out, before = tmp_path / f"out{suffix}", sorted(tmp_path.iterdir())
    done = run("predict", fit_file, new_rows, "--out", out, "--interval", 0.5, "--draws", 7, "--keep", "id")
    assert (done.exit_code, done.stdout) == (0, f"predictions of 3 rows saved to {out}\n")
    found = pd.read_parquet(out) if suffix == ".parquet" else pd.read_csv(out)
    expected = example().predict(new_rows, interval=0.5, draws=7)
    pd.testing.assert_frame_equal(found.drop(columns="id"), expected, rtol=1e-12)
    assert list(found) == ["id", "mean", "eti50_lb", "eti50_ub"]
    assert found["id"].iloc[:2].tolist() == ["b", 'say "a"']
    assert found["id"].isna().tolist() == [False, False, True]
    assert sorted([*before, out]) == sorted(tmp_path.iterdir())  # nothing else is left behind


def test_kept_columns_stay_as_they_are(fit_file, new_rows, tmp_path):
    out = tmp_path / "out.parquet"
    assert run("predict", fit_file, new_rows, "--keep-all", "--out", out).exit_code == 0
    given, found = pq.read_table(new_rows), pq.read_table(out)
    assert found.column_names == [*given.column_names, "mean", "eti94_lb", "eti94_ub"]
    assert found.select(given.column_names).equals(given)
    lines = run("predict", fit_file, new_rows, "--keep-all").stdout.splitlines()
    assert lines[0] == "id,fico,age,born,bank,mean,eti94_lb,eti94_ub"
    assert lines[2].startswith('"say ""a""",0,,,"y",')
    assert lines[3].startswith(",1.5,3,2004-05-06 00:00:00.000000")


def test_predictions_of_many_files(fit_file, tmp_path):
    for name, fico in (("a.csv", [1.0]), ("b.csv", [-1.0, 2.0])):
        pd.DataFrame({"fico": fico}).to_csv(tmp_path / name, index=False)
    done = run("predict", fit_file, tmp_path / "?.csv", "--keep", "fico")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["fico", "1", "-1", "2"]


def test_groups_that_the_fit_has_not_seen_have_a_seed(tmp_path):
    fit, rows = group_example(3), {"fico": [0.0, 0.0], "bank": ["b01", "another"]}
    fit.save(tmp_path / "fit.nc")
    pd.DataFrame(rows).to_csv(tmp_path / "new.csv", index=False)
    for seed in (0, 7):
        done = run("predict", tmp_path / "fit.nc", tmp_path / "new.csv", "--seed", seed)
        found = pd.read_csv(io.StringIO(done.stdout))
        pd.testing.assert_frame_equal(found, fit.predict(rows, seed=seed), rtol=1e-12)
    assert list(json.loads(run("summary", tmp_path / "fit.nc", "--json").stdout)["parameters"]) == list(fit.parameters)


def test_measurements_in_groups_with_and_without_noise(tmp_path):
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.normal(size=400), "shop": rng.choice(list("abcde"), 400)})
    data["sold"] = 100 + 5 * data["x"] + 10 * rng.normal(size=5)[data["shop"].map(ord) - 97] + rng.normal(0, 3, 400)
    data.to_csv(tmp_path / "sales.csv", index=False)
    formula, saved = "sold ~ x + (1 | shop)", tmp_path / "fit.nc"
    options = ("--family", "gaussian", "--draws", 500, "--seed", 1, "--out", saved, "--quiet")
    assert run("fit", tmp_path / "sales.csv", formula, *options).exit_code == 0
    widths = []
    for noise in ((), ("--noise",)):
        done = run("predict", saved, tmp_path / "sales.csv", *noise)
        found = pd.read_csv(io.StringIO(done.stdout))
        pd.testing.assert_frame_equal(found, tb.load(saved).predict(data, noise=bool(noise)), rtol=1e-12)
        widths.append((found["eti94_ub"] - found["eti94_lb"]).mean())
    assert widths[1] > 3 * widths[0]


def test_predict_refuses(fit_file, new_rows, tmp_path):
    (tmp_path / "old.csv").write_text("precious")
    (tmp_path / "link.parquet").symlink_to(new_rows)
    pd.DataFrame({"fico": [1.0], "mean": [2.0], "nested": [[1, 2]]}).to_parquet(tmp_path / "odd.parquet")
    odd = tmp_path / "odd.parquet"
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments, code, message in [
        ([new_rows, "--out", new_rows, "--force"], 2, "would be lost"),
        ([new_rows, "--out", tmp_path / "link.parquet", "--force"], 2, "would be lost"),
        ([tmp_path / "n*.parquet", "--out", new_rows, "--force"], 2, "would be lost"),
        ([new_rows, "--out", tmp_path / "old.csv"], 1, "--force"),
        ([new_rows, "--out", tmp_path / "new.xlsx"], 2, "must end in .parquet or .csv"),
        ([new_rows, "--out", tmp_path / "no folder" / "new.csv"], 1, "no folder"),
        ([new_rows, "--keep", "id", "--keep-all"], 2, "--keep"),
        ([new_rows, "--keep", "idd"], 1, "did you mean 'id'?"),
        ([new_rows, "--interval", "1"], 2, "--interval"),
        ([new_rows, "--draws", "0"], 2, "--draws"),
        ([new_rows, "--noise"], 2, "--noise is for fits with family 'gaussian'"),
        ([tmp_path / "no.csv"], 1, "no such file"),
        ([odd, "--keep", "mean"], 1, "a column 'mean'"),
        ([odd, "--keep", "nested"], 1, "which CSV cannot"),
        ([odd, "--keep", "nested", "--out", tmp_path / "out.csv"], 1, "which CSV cannot"),
    ]:
        done = run("predict", fit_file, *arguments)
        assert (done.exit_code, done.stdout) == (code, ""), arguments
        assert message in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert run("predict", fit_file, new_rows, "--out", tmp_path / "old.csv", "--force").exit_code == 0
    assert len(pd.read_csv(tmp_path / "old.csv")) == 3


def test_defaults_of_predict_are_those_of_the_library():
    usual = inspect.signature(example().predict).parameters
    given = {param.name: param.default for param in main.commands["predict"].params}
    for name in ("draws", "interval", "seed"):
        assert given[name] == usual[name].default


# compare-speed


@pytest.fixture
def saved(tmp_path):
    for name, seconds in (("mh", 60.0), ("faster", 30.0)):
        (tmp_path / name).mkdir()
        example(seconds=seconds).save(tmp_path / f"{name}.nc")
        shutil.copy(tmp_path / f"{name}.nc", tmp_path / name / "fit.nc")
    return tmp_path


def test_compare_speed_names_fits_by_their_files(saved):
    header, *lines = run("compare-speed", saved / "mh.nc", saved / "faster.nc").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["mh", "faster"]
    redpm = header.split().index("redpm_1") + 1
    assert [line.split()[redpm] for line in lines] == ["1", "2"]


def test_compare_speed_takes_names(saved):
    fits = f"a={saved / 'mh/fit.nc'}", f"b={saved / 'faster/fit.nc'}"
    done = run("compare-speed", *fits, "--by-parameter", "--thin", 10)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["a", "b"],
        ["Intercept", "1", "2"],
        ["fico", "1", "2"],
    ]


def test_compare_speed_takes_paths_with_an_equals_sign(saved):
    (saved / "mh").rename(saved / "method=mh")
    done = run("compare-speed", saved / "method=mh" / "fit.nc")
    assert done.stdout.splitlines()[1].startswith("fit ")


def test_compare_speed_refuses(saved):
    mh, faster = saved / "mh/fit.nc", saved / "faster/fit.nc"
    for arguments, code, message in [
        ([], 2, "Missing argument"),
        ([mh, faster], 2, "two fits are called 'fit'"),
        ([mh, "--thin", 10], 2, "--by-parameter"),
        ([mh, "--by-parameter", "--thin", 0], 2, "--thin"),
        ([saved / "no.nc"], 1, "error: no such file"),
        ([__file__], 1, "error: "),
    ]:
        done = run("compare-speed", *arguments)
        assert (done.exit_code, done.stdout) == (code, "")
        assert message in done.stderr


@pytest.mark.parametrize("arguments", [[], ["a.nc", "b.nc", "--by-parameter"], ["--help"]], ids=str)
def test_compare_names_the_command_that_it_became(arguments):
    done = run("compare", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "compare-speed" in done.stderr
    assert "models is something else" in done.stderr
    assert not re.search(r"^ +compare ", run("--help").stdout, re.MULTILINE)


# simulate


@pytest.mark.parametrize("name", ["loans.parquet", "loans.csv"])
def test_simulate_writes_what_fit_reads(tmp_path, name):
    done = run("simulate", "loans", "--rows", 3_000, "--seed", 2, "--out", tmp_path / name)
    assert done.exit_code == 0, done.output
    truth = datasets.simulate_loans(3_000, seed=2)
    found = read(tmp_path / name, list(truth.columns))
    np.testing.assert_allclose(found["fico"], truth["fico"], rtol=1e-12)
    assert (found["bank"].astype(str) == truth["bank"].astype(str)).all()
    (line,) = done.stdout.splitlines()
    assert "3,000 rows" in line
    assert f" {truth['foreclosed'].sum()} " in line
    assert str(tmp_path / name) in line
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_simulate_refuses(tmp_path):
    out = tmp_path / "loans.csv"
    out.write_text("precious")
    for arguments, code in [
        (["loans", "--out", out], 1),
        (["loans", "--out", tmp_path / "no folder" / "loans.csv"], 1),
        (["loans", "--out", tmp_path / "loans.xlsx"], 2),
        (["loans", "--rows", 0, "--out", tmp_path / "new.csv"], 2),
        (["loans"], 2),
        (["boats", "--out", tmp_path / "new.csv"], 2),
    ]:
        done = run("simulate", *arguments)
        assert (done.exit_code, done.stdout) == (code, "")
    assert [path.name for path in tmp_path.iterdir()] == ["loans.csv"]
    assert out.read_text() == "precious"
    assert run("simulate", "loans", "--rows", 10, "--out", out, "--force").exit_code == 0
    assert len(read(out, ["fico"])) == 10


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(progress, "WORTH_A_LINE", 0.0)
    monkeypatch.setattr(datasets, "simulate_loans_in_pieces", partial(datasets.simulate_loans_in_pieces, piece=1_000))


@pytest.mark.parametrize("name", ["loans", "loans/", "loans.2009/"])
def test_simulate_writes_a_folder(tmp_path, small_pieces, name):
    done = run("simulate", "loans", "--rows", 2_500, "--seed", 2, "--out", f"{tmp_path}/{name}")
    assert done.exit_code == 0, done.output
    folder = tmp_path / name
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert sorted(path.name for path in folder.iterdir()) == [f"part-0000{k}.parquet" for k in range(3)]
    found = pd.concat([pd.read_parquet(path) for path in sorted(folder.iterdir())], ignore_index=True)
    assert found.equals(pd.concat(datasets.simulate_loans_in_pieces(2_500, seed=2), ignore_index=True))
    assert all(str(pq.read_schema(path).field("bank").type).startswith("dictionary") for path in folder.iterdir())
    assert len(read(folder, ["fico", "bank"])) == 2_500
    assert done.stdout == (
        f"2,500 rows, {found['foreclosed'].sum()} of them ones (foreclosed), saved to {folder} (3 files)\n"
    )
    assert "simulating" in done.stderr
    assert "2,500 rows" in done.stderr
    assert "rows a second" in done.stderr
    quiet = run("simulate", "loans", "--rows", 10, "--out", f"{tmp_path}/{name}", "--force", "--quiet")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert [path.name for path in folder.iterdir()] == ["part-00000.parquet"]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_simulate_refuses_folders(tmp_path, small_pieces):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "empty").mkdir()
    for folder, held in (("ours", "part-00000.parquet"), ("theirs", "thesis.txt")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / held).write_text("precious")
    for name, options, message in [
        ("file", [], "is a file, not a folder"),
        ("no/folder", [], "there is no folder"),
        ("ours", [], "holds 'part-00000.parquet' already; choose another name, or --force"),
        ("theirs", [], "holds 'thesis.txt', which would be deleted; choose another name"),
        ("theirs", ["--force"], "holds 'thesis.txt', which would be deleted; choose another name"),
    ]:
        done = run("simulate", "loans", "--rows", 10, "--out", tmp_path / name, *options)
        assert (done.exit_code, done.stdout) == (1, "")
        assert message in done.stderr
    assert (tmp_path / "ours" / "part-00000.parquet").read_text() == "precious"
    assert (tmp_path / "theirs" / "thesis.txt").read_text() == "precious"
    assert run("simulate", "loans", "--rows", 10, "--out", tmp_path / "ours", "--force").exit_code == 0
    assert run("simulate", "loans", "--rows", 10, "--out", tmp_path / "empty").exit_code == 0
    assert len(read(tmp_path / "ours", ["fico"])) == len(read(tmp_path / "empty", ["fico"])) == 10


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (OSError("no space left"), 1)])
@pytest.mark.parametrize("before", [False, True])
def test_simulate_leaves_no_half_of_a_folder(tmp_path, small_pieces, monkeypatch, error, code, before):
    folder = tmp_path / "loans"
    if before:
        assert run("simulate", "loans", "--rows", 10, "--out", folder).exit_code == 0
    written = []

    def write(frame, path, **options):
        if written:
            raise error
        written.append(path)
        path.write_bytes(b"half")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", write)
    done = run("simulate", "loans", "--rows", 5_000, "--out", folder, "--force")
    assert done.exit_code == code
    assert written[0].parent.parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == (["loans"] if before else [])
    assert not before or len(read(folder, ["fico"])) == 10
