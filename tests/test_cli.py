import importlib
import importlib.metadata
import inspect
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.shell_completion import ShellComplete
from command import run

from tallbayes import paper
from tallbayes.cli import choices, main
from tallbayes.cli.output import BAD_DATA
from tallbayes.data import datasets, missing, texts
from tallbayes.data.frames import read
from tallbayes.families import Bernoulli, Binomial, Poisson, resolve
from tallbayes.groups.scale import HalfCauchy, HalfNormal, InverseSquare
from tallbayes.models import collinear
from tallbayes.models.priors import Normal, StudentT
from tallbayes.results import report
from tallbayes.results.example import example
from tallbayes.results.file import load
from tallbayes.results.fit import Fit
from tallbayes.sampling import methods, setup
from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
from tallbayes.sampling.methods import MH, Auto, Consensus, Subsampling, Thinned, TwoStage
from tallbayes.sampling.subsample import CaseControl, Stratified, Subsample
from tallbayes.sampling.taylor import Taylor

FRONT_DOOR = importlib.import_module("tallbayes.fit")  # the file: `tallbayes.fit` is a function in the end
SIGNATURE = inspect.signature(FRONT_DOOR.fit)
SCRIPT = str(Path(sys.executable).with_name("tallbayes"))
FEW = ["--draws", "20", "--chains", "2", "--seed", "1", "--quiet"]  # quick, and too few to converge


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    x, bank = rng.standard_normal(1_000), rng.choice(["a", "b"], 1_000)
    y = (rng.random(1_000) < 1 / (1 + np.exp(1 - x))).astype(int)
    return pd.DataFrame({"y": y, "x": x, "bank": bank, "times": 2, "exposure": 0.5, "only_ones": y})


@pytest.fixture
def data(frame, tmp_path):
    frame.to_parquet(tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


@pytest.fixture
def calls(monkeypatch):
    """What the front door is called with; it returns a fit that has converged."""
    seen = []

    def fit(formula, data, **options):
        seen.append({"formula": formula, "data": data} | options)
        return example()

    monkeypatch.setattr(FRONT_DOOR, "fit", fit)
    return seen


# Help


def test_help_teaches():
    shown = run("--help")
    assert shown.exit_code == 0
    for code in (0, 1, 2, 3, 130):
        assert re.search(rf"^ +{code} +\S", shown.stdout, re.MULTILINE)
    for command in ("fit", "summary", "report", "predict", "compare-speed", "simulate", "reproduce"):
        text = run(command, "--help").stdout
        assert f"  tallbayes {command} " in text  # an example
        assert command in shown.stdout


def test_help_says_what_each_method_does():
    text = " ".join(run("fit", "--help").stdout.split())
    for part in [
        "auto chooses and says why",
        "thinned looks at a handful of rows a draw",
        "two-stage at all rows for proposals that pass a surrogate",
        "mh at all rows for every proposal",
        "binomial(TRIALS_COLUMN, probit)",
        "student_t(DF, MEAN, SCALE)",
    ]:
        assert part in text


def test_help_has_headings():
    text = run("fit", "--help").stdout
    _, *parts = re.split(r"^(\w.*):$", text, flags=re.MULTILINE)
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    options = {title: re.findall(r"^  (--[a-z-]+)", body, re.MULTILINE) for title, body in texts.items()}
    assert options["Options"][:2] == ["--out", "--report"]
    assert "--seed" in options["Sampler options"]
    assert "--family" in options["Model options"]
    assert "--shards" in options["Method options"]
    shown = [option for some in options.values() for option in some]
    assert len(shown) == len(set(shown))
    declared = {name for param in main.commands["fit"].params for name in param.opts if name.startswith("--")}
    assert declared <= set(shown)


def test_shells_complete_commands_and_files():
    assert "_TALLBAYES_COMPLETE=bash_source" in run("--help").stdout
    complete = ShellComplete(main, {}, "tallbayes", "_TALLBAYES_COMPLETE")
    assert "compare-speed" in [item.value for item in complete.get_completions([], "comp")]
    for before in (["fit"], ["predict"], ["predict", "fit.nc"], ["compare-speed", "a.nc"]):
        assert [item.type for item in complete.get_completions(before, "loa")] == ["file"]


def test_version():
    assert importlib.metadata.version("tallbayes") in run("--version").stdout


LIGHT = """
import runpy, sys
heavy = ["pandas", "xarray", "matplotlib", "rich", "pyarrow", "formulaic", "arviz_stats"]
import tallbayes
loaded = [name for name in [*heavy, "click"] if name in sys.modules]
sys.argv = ["tallbayes", "-h"]
try:
    runpy.run_module("tallbayes", run_name="__main__", alter_sys=True)
except SystemExit as ended:
    assert not ended.code
sys.exit(" ".join([*loaded, *(name for name in heavy if name in sys.modules)]))
"""


@pytest.fixture(scope="module")
def started():
    """The package is imported, and then the command line started as `python -m tallbayes` does it."""
    return subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60)


def test_python_runs_the_module(started):
    assert "Error" not in started.stderr
    assert "compare-speed" in started.stdout


def test_imports_are_light(started):
    """Those of the package, and then of the command line."""
    assert started.stderr.strip() == ""


def test_choices_are_those_of_the_library():
    for name in ("METHODS", "INNER", "SHARDINGS", "COMBINERS"):
        assert getattr(choices, name) == getattr(methods, name)
    assert choices.PROPOSALS == setup.PROPOSALS
    assert missing.CHOICES == collinear.CHOICES == tuple(choices.REFUSE_OR_DROP.choices)
    assert choices.DECIMALS == texts.DECIMALS
    assert choices.LOAN_ROWS == datasets.LOAN_ROWS
    assert tuple(paper.EXPERIMENTS) == choices.EXPERIMENTS


# fit


def test_fit_prints_saves_and_says_what_next(data, tmp_path):
    out = tmp_path / "fit.nc"
    done = run("fit", str(data), "y ~ x", "--out", out, "--chains", 1, "--seed", 1)
    assert done.exit_code == 0, done.output
    saved = load(out)
    assert done.stdout.startswith(repr(saved))
    assert "tb.load(" in done.stdout.splitlines()[-1]
    assert str(out) in done.stdout.splitlines()[-1]
    assert saved.draws.shape == (1, 1_000, 2)
    assert saved.stats["stopped"] == "converged"
    assert "draws" not in done.stdout.replace(repr(saved), "")  # progress goes elsewhere
    assert "draws" in done.stderr


def test_fit_without_out_saves_nothing(data, tmp_path):
    done = run("fit", data, "y ~ x", *FEW)
    assert "--out" in done.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [data]


def test_fit_reads_csv_like_parquet(frame, data, tmp_path):
    frame.to_csv(tmp_path / "data.csv", index=False)
    for source in (data, tmp_path / "data.csv"):
        run("fit", source, "y ~ x + bank", *FEW, "--out", source.with_suffix(source.suffix + ".nc"))
    parquet, csv = load(f"{data}.nc"), load(tmp_path / "data.csv.nc")
    assert parquet.coefficients == ("Intercept", "x", "bank[T.b]")
    np.testing.assert_allclose(csv.draws, parquet.draws, rtol=1e-9)


def test_text_outcomes_missing_values_and_dots(frame, tmp_path):
    path = tmp_path / "rows.csv"
    rows = frame[["x", "bank"]].assign(y=np.where(frame["y"] == 1, "bad", "good"), twice=2 * frame["x"])
    rows.assign(x=rows["x"].where(rows.index != 3)).to_csv(path, index=False)
    done = run("fit", path, "y ~ .", "--outcome", "bad", "--missing", "drop", "--collinear", "drop", *FEW)
    assert "y = 1 where it is 'bad'" in done.stdout, done.output
    assert "1 row left out for missing values: x 1" in done.stdout
    assert "'twice' left out: it is a linear combination of 'x'" in done.stdout
    same = run("fit", path, "I(y == 'bad') ~ x + bank", "--missing", "drop", *FEW)
    first, second = (shown.stdout.split("Intercept")[1].split()[:3] for shown in (done, same))
    assert first == second
    for formula, missing_rows, message in [
        ("y ~ x", "refuse", "--missing drop"),
        ("bank ~ x", "drop", "--outcome bad never occurs"),
    ]:
        refused = run("fit", path, formula, "--outcome", "bad", "--missing", missing_rows)
        assert refused.exit_code == BAD_DATA
        assert message in refused.stderr


def test_options_reach_the_front_door(calls):
    given = "--method consensus --inner two-stage --shards 5 --sharding stratified --combine gaussian --workers 2"
    given += " --proposal mixture --subchain 0 --draws 5 --target-ess 99.5 --chains 3 --warmup 0"
    given += " --seed 0 --weights times --offset exposure --family bernoulli --quiet"
    given += " --outcome 2 --missing drop --decimal , --na-values ? --na-values -9 --collinear drop"
    given += " --memory 2GB --cache designs --engine tcp://a:1 --checkpoint run.tb"
    assert run("fit", "loans/*.csv", "y ~ x", *given.split(), "--surrogate", "taylor(7)").exit_code == 0
    assert calls == [
        {
            "formula": "y ~ x",
            "data": "loans/*.csv",
            "family": Bernoulli(),
            "prior": None,
            "group_prior": None,
            "method": Consensus(5, TwoStage(Taylor(7), "mixture", 0), "stratified", "gaussian", 2),
            "draws": 5,
            "target_ess": 99.5,
            "chains": 3,
            "warmup": 0,
            "seed": 0,
            "weights": "times",
            "offset": "exposure",
            "outcome": "2",
            "missing": "drop",
            "decimal": ",",
            "na_values": ("?", "-9"),
            "collinear": "drop",
            "memory": "2GB",
            "cache": "designs",
            "checkpoint": "run.tb",
            "engine": "tcp://a:1",
            "progress": False,
        }
    ]


def test_defaults_are_those_of_the_front_door(calls):
    usual = {name: parameter.default for name, parameter in SIGNATURE.parameters.items() if name != "old"}
    run("fit", "data.csv", "y ~ x")
    usual |= {"family": resolve(usual["family"]), "method": methods.named(usual["method"])}
    assert calls == [usual | {"formula": "y ~ x", "data": "data.csv"}]


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("bernoulli", Bernoulli()),
        ("bernoulli(logit)", Bernoulli()),
        ("bernoulli(probit)", Bernoulli("probit")),
        ("bernoulli( cloglog )", Bernoulli("cloglog")),
        ("poisson", Poisson()),
        ("Poisson", Poisson()),
        ("poisson(days)", Poisson("days")),
        ("poisson(days at risk)", Poisson("days at risk")),
        ("binomial", Binomial()),
        ("binomial(sent)", Binomial("sent")),
        ("binomial(sent, probit)", Binomial("sent", "probit")),
        (" binomial (sent (all),cloglog) ", Binomial("sent (all)", "cloglog")),
    ],
)
def test_families(calls, text, family):
    done = run("fit", "data.csv", "y ~ x", "--family", text)
    assert done.exit_code == 0, done.output
    assert calls[0]["family"] == family


def test_families_reach_the_model(frame, tmp_path):
    rng = np.random.default_rng(2)
    frame = frame.assign(days=rng.uniform(1, 5, 1_000))
    frame["claims"] = rng.poisson(frame["days"] * np.exp(0.5 * frame["x"]))
    frame.to_parquet(tmp_path / "data.parquet")
    out = tmp_path / "fit.nc"
    done = run("fit", tmp_path / "data.parquet", "claims ~ x", "--family", "poisson(days)", *FEW, "--out", out)
    assert done.exit_code == 3, done.output
    saved = load(out)
    assert saved.family == Poisson("days")
    assert saved.summary()["mean"].tolist() == pytest.approx([0, 0.5], abs=0.1)  # 3 sd and more


@pytest.mark.parametrize(
    ("text", "surrogate"),
    [
        ("taylor", Taylor()),
        ("taylor(1000)", Taylor(1_000)),
        ("taylor(0)", Taylor()),
        ("case-control(100000)", CaseControl(100_000)),
        ("subsample( 50_000 )", Subsample(50_000)),
        ("stratified(1000, bank)", Stratified(1_000, "bank")),
        ("stratified(1000,home state)", Stratified(1_000, "home state")),
    ],
)
def test_surrogates(calls, text, surrogate):
    run("fit", "data.csv", "y ~ x", "--surrogate", text)
    assert calls[0]["method"] == TwoStage(surrogate)


@pytest.mark.parametrize(
    ("texts", "prior"),
    [
        (["normal(0, 2)"], Normal(0, 2)),
        (["Normal(-1e-3,2.5)"], Normal(-1e-3, 2.5)),
        (["x=normal(1, 2)", "bank[T.b] = normal(0, .5)"], {"x": Normal(1, 2), "bank[T.b]": Normal(0, 0.5)}),
        (["I(x == 1)=normal(0, 1)"], {"I(x == 1)": Normal(0, 1)}),
        (["student_t(4, 0, 2.5)"], StudentT(4, 0, 2.5)),
        (["Student_T(.5,-1,1e2)"], StudentT(0.5, -1, 100)),
        (["x=student_t(3, 0, 1)", "bank[T.b]=normal(0, 2)"], {"x": StudentT(3, 0, 1), "bank[T.b]": Normal(0, 2)}),
    ],
)
def test_priors(calls, texts, prior):
    done = run("fit", "data.csv", "y ~ x", *(part for text in texts for part in ("--prior", text)))
    assert done.exit_code == 0, done.output
    assert calls[0]["prior"] == prior


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("half_cauchy(1)", HalfCauchy(1.0)),
        (" Half_Normal( 2.5 ) ", HalfNormal(2.5)),
        ("inverse_square(1e-2)", InverseSquare(0.01)),
    ],
)
def test_group_priors(calls, text, prior):
    done = run("fit", "data.csv", "y ~ x + (1 | g)", "--group-prior", text)
    assert done.exit_code == 0, done.stderr
    assert calls[0]["group_prior"] == prior


@pytest.mark.parametrize(
    ("text", "estimator"),
    [("taylor", TaylorProxy()), ("taylor(200)", TaylorProxy(200)), (" spline ( 7_000 )", SplineProxy(7_000))],
)
def test_estimators(calls, text, estimator):
    done = run("fit", "data.csv", "y ~ x", "--method", "subsampling", "--estimator", text)
    assert done.exit_code == 0, done.stderr
    assert calls[0]["method"] == Subsampling(estimator)


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ("", Auto()),
        ("--method thinned", Thinned()),
        ("--method mh --proposal one-at-a-time", MH("one-at-a-time")),
        ("--proposal mixture", TwoStage(proposal="mixture")),
        ("--subchain 0", TwoStage(subchain=0)),
        ("--method consensus", Consensus()),
        ("--method consensus --inner mh --proposal independence", Consensus(inner=MH("independence"))),
        ("--method consensus --subchain 4", Consensus(inner=TwoStage(subchain=4))),
    ],
)
def test_options_make_a_method(calls, options, method):
    done = run("fit", "data.csv", "y ~ x", *options.split())
    assert done.exit_code == 0, done.stderr
    assert calls[0]["method"] == method


def test_consensus_and_subsampling_say_that_they_are_approximate(data):
    done = run("fit", data, "y ~ x", *FEW, "--method", "consensus", "--shards", "3", "--inner", "mh")
    assert "consensus Monte Carlo, approximate" in done.stdout, done.stderr
    assert "3 shards" in done.stdout
    done = run("fit", data, "y ~ x", *FEW, "--method", "subsampling")
    assert "subsampling Metropolis-Hastings, approximate" in done.stdout, done.stderr


def test_group_terms_reach_the_model(data, tmp_path):
    frame = read(data, ["y", "x"])
    frame["g"] = [f"g{i % 4}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "grouped.csv", index=False)
    done = run("fit", tmp_path / "grouped.csv", "y ~ x + (1 | g)", *FEW, "--group-prior", "half_normal(0.001)")
    assert "1|g_sigma" in done.stdout, done.stderr
    assert "4 of 1|g" in done.stdout


def test_priors_reach_the_model(data, tmp_path):
    run("fit", data, "y ~ x", *FEW, "--out", tmp_path / "fit.nc", "--prior", "x=normal(7, 0.001)")
    assert load(tmp_path / "fit.nc").summary().loc["x", "mean"] == pytest.approx(7, abs=0.01)


def test_warnings_are_lines(data, tmp_path):
    done = run("fit", data, "y ~ only_ones", *FEW)
    warned = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert any("only_ones" in line for line in warned)
    assert "SeparationWarning" not in done.output


def test_json_is_alone_on_stdout(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "render", lambda fit: "a page")
    out, page = tmp_path / "fit.nc", tmp_path / "fit.html"
    done = run("fit", "data.csv", "y ~ x", "--json", "--out", out, "--report", page)
    assert done.exit_code == 0, done.output
    assert done.stdout == run("summary", out, "--json").stdout
    assert json.loads(done.stdout)["formula"] == example().formula.text
    assert done.stderr.splitlines() == [
        f"saved to {out}; in Python: import tallbayes as tb; fit = tb.load({str(out)!r})",
        f"report: {page}",
    ]


def test_json_of_a_fit_that_has_not_converged(data):
    done = run("fit", data, "y ~ x", *FEW, "--json")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert found["converged"] is False
    assert found["problems"]
    assert list(found["parameters"]) == ["Intercept", "x"]


# Exit codes


@pytest.mark.parametrize(
    "options",
    [
        ["--draws", "0"],
        ["--draws", "many"],
        ["--chains", "0"],
        ["--warmup", "-1"],
        ["--seed", "-1"],
        ["--subchain", "-1"],
        ["--target-ess", "0"],
        ["--method", "gibbs"],
        ["--proposal", "gibbs"],
        ["--family", "cauchy"],
        ["--family", "bernoulli(log)"],
        ["--family", "bernoulli(probit, days)"],
        ["--family", "bernoulli()"],
        ["--missing", "impute"],
        ["--collinear", "keep"],
        ["--family", "binomial(sent, log)"],
        ["--family", "binomial(sent, )"],
        ["--family", "poisson( )"],
        ["--family", "poisson(days, probit)"],
        ["--family", "poisson(days"],
        ["--family", ""],
        ["--method", "thinned", "--surrogate", "taylor"],
        ["--method", "thinned", "--subchain", "0"],
        ["--method", "thinned", "--proposal", "mixture"],
        ["--method", "mh", "--surrogate", "taylor"],
        ["--method", "mh", "--subchain", "5"],
        ["--method", "subsampling", "--subchain", "5"],
        ["--method", "mh", "--shards", "3"],
        ["--method", "consensus", "--shards", "0"],
        ["--method", "consensus", "--inner", "consensus"],
        ["--method", "consensus", "--sharding", "by hand"],
        ["--method", "consensus", "--combine", "median"],
        ["--method", "consensus", "--inner", "mh", "--surrogate", "taylor"],
        ["--method", "mh", "--estimator", "taylor"],
        ["--estimator", "taylor"],
        ["--method", "consensus", "--estimator", "taylor"],
        ["--method", "two-stage", "--workers", "2"],
        ["--estimator", "spline(1)"],
        ["--estimator", "gam"],
        ["--surrogate", "tailor"],
        ["--surrogate", "taylor(-1)"],
        ["--surrogate", "taylor(1, bank)"],
        ["--surrogate", "subsample"],
        ["--surrogate", "subsample(0)"],
        ["--surrogate", "subsample(many)"],
        ["--surrogate", "stratified(1000)"],
        ["--surrogate", "stratified(1000, )"],
        ["--group-prior", "half_cauchy"],
        ["--group-prior", "half_cauchy(one)"],
        ["--group-prior", "half_normal(-1)"],
        ["--group-prior", "cauchy(1)"],
        ["--prior", "normal"],
        ["--prior", "normal(0)"],
        ["--prior", "normal(0, one)"],
        ["--prior", "normal(0, -1)"],
        ["--prior", "cauchy(0, 1)"],
        ["--prior", "normal(4, 0, 1)"],
        ["--prior", "student_t(0, 1)"],
        ["--prior", "student_t(0, 0, 1)"],
        ["--prior", "student_t(4, 0, -1)"],
        ["--prior", "student_t(4, zero, 1)"],
        ["--prior", "x=student_t(4, 0, 1)", "--prior", "x=normal(0, 2)"],
        ["--prior", "normal(0, 1)", "--prior", "normal(0, 2)"],
        ["--prior", "x=normal(0, 1)", "--prior", "x=normal(0, 2)"],
        ["--prior", "x=normal(0, 1)", "--prior", "normal(0, 2)"],
        ["--colour", "blue"],
    ],
    ids=" ".join,
)
def test_impossible_options_are_usage_errors(calls, tmp_path, options):
    done = run("fit", "data.csv", "y ~ x", "--out", tmp_path / "fit.nc", *options)
    assert done.exit_code == 2
    assert options[-2] in done.stderr
    assert (calls, list(tmp_path.iterdir()), done.stdout) == ([], [], "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formula": "y ~ z"}, "'z'"),
        ({"formula": "y ~ ("}, "formula"),
        ({"formula": "x ~ y"}, "must be 0 or 1"),
        ({"options": ["--prior", "z=normal(0, 1)"]}, "not a coefficient"),
        ({"options": ["--weights", "z"]}, "'z'"),
        ({"options": ["--surrogate", "subsample(1000000)"]}, "1,000,000"),
        ({"data": "nowhere.csv"}, "no such file"),
        ({"data": "nowhere/*.csv"}, "no file matches"),
        ({"data": "fit.py"}, "no such file"),
    ],
)
def test_bad_data_is_an_error_without_traceback(data, tmp_path, changes, message):
    source, formula = changes.get("data", data), changes.get("formula", "y ~ x")
    done = run("fit", source, formula, *FEW, "--out", tmp_path / "fit.nc", *changes.get("options", []))
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == [data]  # nothing is left behind


def test_bad_output_is_found_before_the_data_is_read(calls, tmp_path):
    for out in (tmp_path / "no folder" / "fit.nc", tmp_path):
        done = run("fit", "data.csv", "y ~ x", "--out", out)
        assert (done.exit_code, calls) == (1, [])
        assert done.stderr.startswith("error: cannot write")


def test_what_is_read_is_never_replaced(calls, data, tmp_path):
    (tmp_path / "link.nc").symlink_to(data)
    os.link(data, tmp_path / "linked.nc")
    before = data.read_bytes()
    for source, options in [
        (data, ["--out", data]),
        (data, ["--out", tmp_path / "link.nc"]),
        (data, ["--out", tmp_path / "linked.nc"]),
        (data, ["--report", tmp_path / "link.nc"]),
        (tmp_path / "d*.parquet", ["--out", data]),
        (data, ["--out", tmp_path / "fit.html", "--report", tmp_path / ".." / tmp_path.name / "fit.html"]),
    ]:
        done = run("fit", source, "y ~ x", "--force", *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "same file" in done.stderr or "would be lost" in done.stderr
    assert calls == []
    assert data.read_bytes() == before


def test_formulas_without_quotes(calls):
    done = run("fit", "data.csv", "y", "/home/me", "x")  # what a shell makes of y ~ x
    assert (done.exit_code, calls) == (2, [])
    assert "quote the formula" in done.stderr


def test_a_text_outcome_is_refused_with_a_formula_that_works(frame, tmp_path):
    frame.assign(y=np.where(frame["y"] == 1, "yes", np.where(frame["x"] > 0, "no", "maybe"))).to_csv(
        tmp_path / "data.csv", index=False
    )
    done = run("fit", tmp_path / "data.csv", "y ~ x", *FEW)
    assert done.exit_code == 1
    left = re.search(r"in the formula: (.*) ~ ", done.stderr)[1]
    assert left == "I(y == 'yes')"
    assert run("fit", tmp_path / "data.csv", f"{left} ~ x", *FEW).exit_code == 3  # few draws, but it was fitted


def test_existing_output_is_kept_unless_forced(calls, tmp_path):
    out = tmp_path / "fit.nc"
    out.write_text("precious")
    done = run("fit", "data.csv", "y ~ x", "--out", out)
    assert (done.exit_code, calls, out.read_text()) == (1, [], "precious")
    assert "--force" in done.stderr
    assert run("fit", "data.csv", "y ~ x", "--out", out, "--force").exit_code == 0
    assert load(out).coefficients == example().coefficients


def test_a_failed_fit_keeps_the_old_file_even_if_forced(data, tmp_path):
    out = tmp_path / "fit.nc"
    out.write_text("precious")
    assert run("fit", data, "y ~ z", "--out", out, "--force").exit_code == 1
    assert out.read_text() == "precious"


def test_not_converged_is_written_and_told(data, tmp_path):
    out = tmp_path / "fit.nc"
    done = run("fit", data, "y ~ x", *FEW, "--out", out)
    assert done.exit_code == 3
    problems = load(out).problems()
    assert problems
    for problem in problems:
        assert f"not converged: {problem}" in done.stderr


def test_an_approximation_is_told_not_to_have_mixed(monkeypatch, tmp_path):
    short = example(draws=20)
    short.stats["exact"] = False
    monkeypatch.setattr(FRONT_DOOR, "fit", lambda *_, **__: short)
    done = run("fit", "data.csv", "y ~ x", "--out", tmp_path / "fit.nc")
    assert done.exit_code == 3
    assert "not mixed: " in done.stderr
    assert "converged" not in done.stderr + done.stdout


def test_interrupted_goes_before_not_converged(monkeypatch, tmp_path):
    short = example(draws=5)
    short.stats["interrupted"] = True
    monkeypatch.setattr(FRONT_DOOR, "fit", lambda *_, **__: short)
    done = run("fit", "data.csv", "y ~ x", "--out", tmp_path / "fit.nc")
    assert done.exit_code == 130
    assert "interrupted: " in done.stderr
    assert "not converged: " in done.stderr
    assert load(tmp_path / "fit.nc").stats["interrupted"]


def test_interrupted_before_any_draw(monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(FRONT_DOOR, "fit", interrupted)
    done = run("fit", "data.csv", "y ~ x", "--out", tmp_path / "fit.nc")
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.startswith("interrupted")
    assert list(tmp_path.iterdir()) == []


# report


def test_fit_writes_a_report(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "render", lambda fit: f"the page of {fit.formula.text}")
    page, out = tmp_path / "fit.html", tmp_path / "fit.nc"
    done = run("fit", "data.csv", "y ~ x", "--out", out, "--report", page)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"report: {page}"
    assert page.read_text("utf-8") == "the page of y ~ fico"  # of the example
    assert run("fit", "data.csv", "y ~ x", "--report", page).exit_code == 1  # exists already
    assert len(calls) == 1


def test_a_report_is_a_page(calls, tmp_path):
    for command in (("fit", "data.csv", "y ~ x", "--report"), ("report", "fit.nc")):
        done = run(*command, tmp_path / "fit.pdf")
        assert done.exit_code == 2
        assert "must end in .html" in done.stderr
    assert calls == []


# The real command


def until(fd, pattern, seconds=120):
    """Read a terminal until the pattern shows up, or to its end if there is none."""
    shown, deadline = b"", time.monotonic() + seconds
    while pattern is None or not re.search(pattern, shown):
        assert time.monotonic() < deadline, shown[-2_000:]
        if select.select([fd], [], [], 1)[0]:
            try:
                shown += os.read(fd, 65_536)
            except OSError:  # how Linux says that the other side is closed
                assert pattern is None, shown[-2_000:]
                break
    return shown.decode()


PRESSED = """
import os, signal, sys

class Press:
    def find_spec(self, name, *rest):
        if name == "tallbayes.plots":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = [sys.argv[1], "--help"]
sys.meta_path.insert(0, Press())
import tallbayes
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_while_the_command_is_imported():
    """A line for a command; a program that imports the package sees to its interrupts itself."""
    command, program = (
        subprocess.run([sys.executable, "-c", PRESSED, name], capture_output=True, text=True, timeout=60)
        for name in ("/usr/bin/tallbayes", "/home/me/analysis.py")
    )
    assert (command.returncode, command.stderr) == (130, "interrupted before there was a result\n")
    assert "KeyboardInterrupt" in program.stderr


def test_ctrl_c_after_the_result_was_saved(data, tmp_path, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(Fit, "report", interrupted)
    out = tmp_path / "fit.nc"
    done = run("fit", data, "y ~ x", *FEW, "--out", str(out), "--report", str(tmp_path / "fit.html"))
    assert (done.exit_code, done.stderr) == (130, f"interrupted after the result was saved to {out}\n")
    assert load(out).draws.shape[1] > 0


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("phase", [pytest.param("warm-up", marks=pytest.mark.long), "draws"])
def test_ctrl_c(data, tmp_path, phase):
    """In warm-up there is nothing to keep; later, what was drawn is printed and saved."""
    import pty

    out, (ours, theirs) = tmp_path / "fit.nc", pty.openpty()
    endless = ["--draws", "10000000", "--warmup", "10000000" if phase == "warm-up" else "5"]
    command = [SCRIPT, "fit", str(data), "y ~ x", "--method", "mh", "--out", str(out), *endless]
    environment = os.environ | {"COLUMNS": "200", "TERM": "xterm", "NUMBA_NUM_THREADS": "1"}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment) as process:
        signal.signal(signal.SIGINT, before)
        os.close(theirs)
        try:
            until(ours, rf"{phase}[^\r\n]*?[1-9]\d*/1000".encode())
            process.send_signal(signal.SIGINT)
            shown = until(ours, None)
            printed, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(ours)
    assert process.returncode == 130, shown
    assert "interrupted" in shown
    assert "Traceback" not in shown
    assert out.exists() == (phase == "draws")
    if phase == "draws":
        saved = load(out)
        assert saved.stats["interrupted"] is True
        # It was saved before it was judged, which takes time too.
        printed, again = (re.sub("\nseconds .*?\nconv", "\nconv", text, flags=re.S) for text in (printed, repr(saved)))
        assert printed.startswith(again)
        assert "tb.load(" in printed.splitlines()[-1]


# Numba says that it compiles a function with an address also where it only reads it; passes of its compiler are real.
COUNT_PASSES = """
import atexit
from numba.core import event
from tallbayes.cli import main
seen = event.RecordingListener()
event.register("numba:run_pass", seen)
atexit.register(lambda: print(len(seen.buffer)))
main()
"""


@pytest.mark.long
def test_second_run_compiles_nothing(data, tmp_path):
    cache = tmp_path / "cache"
    passes, files = [], []
    for name in ("first.nc", "second.nc"):
        done = subprocess.run(
            [sys.executable, "-c", COUNT_PASSES, "fit", str(data), "y ~ x", *FEW, "--out", str(tmp_path / name)],
            env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 3, done.stderr
        passes.append(int(done.stdout.split()[-1]))
        files.append({path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()})
    assert passes[0] > 0
    assert passes[1] == 0
    assert files[0]
    assert files[1] == files[0]
