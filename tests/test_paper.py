"""The paper's experiments in small: what they write, and the findings that do not hang on the clock."""

import dataclasses
import os
from pathlib import Path

import pandas as pd
import pytest
from browser import chromium, opened, overflow

import tallbayes as tb
from tallbayes import paper
from tallbayes.paper import bank, experiment, hierarchical, loans, mars
from tallbayes.results import page
from tallbayes.results.example import example
from tallbayes.results.figure import make_figure
from tallbayes.sampling.stopping import INTERRUPTED

# Draws are few where a method is only shown, and in few shards; what is found hangs on the others.
FEW_SHARDS = 3
LOANS = loans.Size(40_000, 4_000, 2_000, dict.fromkeys(loans.SAID, 40) | {"mh": 100, "two_stage": 100}, 50)
BANKS = hierarchical.Size(60_000, dict.fromkeys(hierarchical.METHODS, 250) | {"consensus": 60}, 150)
SPLINES = mars.Size(1_200, 120, 30)
BANK = bank.Size(dict.fromkeys(bank.METHODS, 30) | {"mh": 400, "two_stage": 400, "consensus": 200}, 40)
MORE = bank.Size(dict.fromkeys(bank.METHODS, 30) | {"mh": 400, "two_stage": 400, "consensus": 300}, 40)


def bank_file():
    if "TALLBAYES_DATA" not in os.environ:
        assert os.environ.get("CI") != "true", "the bank data must be there in CI: set TALLBAYES_DATA"
        pytest.skip("needs the bank data: set TALLBAYES_DATA to its folder")
    return Path(os.environ["TALLBAYES_DATA"])


def agrees(found):
    return {one.papers: one.agrees for one in found.findings}


def starts(verdicts, words):
    (found,) = [agreed for papers, agreed in verdicts.items() if papers.startswith(words)]
    return found


@pytest.fixture(scope="module")
def of_loans():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loans, "SHARDS", FEW_SHARDS)
        return loans.run(LOANS, None, None)


@pytest.fixture(scope="module")
def of_banks():
    return hierarchical.run(BANKS, None, None)


@pytest.fixture(scope="module")
def of_splines():
    return mars.run(SPLINES, None, None)


@pytest.mark.parametrize("size", [BANK, pytest.param(MORE, marks=pytest.mark.long)], ids=["few", "more"])
def test_bank(monkeypatch, size):
    quick = tb.Consensus(bank.SHARDS, inner="thinned")  # the posterior of each shard is the same
    monkeypatch.setitem(bank.METHODS, "consensus", quick)
    monkeypatch.setitem(bank.METHODS, "both", tb.Consensus(FEW_SHARDS, inner=bank.METHODS["two_stage"]))
    if size is BANK:  # so is that of all rows, from fewer passes
        monkeypatch.setitem(bank.METHODS, "mh", tb.MH("independence"))
        monkeypatch.setitem(bank.METHODS, "two_stage", tb.TwoStage(tb.CaseControl(2_000), "independence"))
    monkeypatch.setattr(bank.plots, "density", lambda names, columns, **fits: tuple(fits))  # drawn for the loans
    said = []
    found = bank.run(size, bank_file(), said.append)
    verdicts = agrees(found)
    assert starts(verdicts, "Two-stage Metropolis-Hastings has the posterior")
    assert starts(verdicts, "Consensus is off for the two rare levels")
    assert [drawn for _, drawn in found.figures.values()] == [("mh", name) for name in bank.METHODS if name != "mh"]
    assert found.tables["errors"][1].index[0] == "Intercept"
    assert [line.split(":")[0] for line in said] == [f"bank {i}/8" for i in range(1, 9)]


def has_the_posterior_for_less(found, other):
    """Why its REDPM is above 1; the ratio itself hangs on the clock."""
    assert starts(agrees(found), "Two-stage Metropolis-Hastings has the posterior")
    rows = found.tables["methods"][1]["rows a draw"]
    (fewer,) = [rows[name] for name in rows.index if name.startswith(other)]
    assert fewer < 0.9 * rows.iloc[0]
    assert rows.iloc[-1] < 0.1 * rows.iloc[0]  # thinned


def test_loans(of_loans):
    has_the_posterior_for_less(of_loans, "two-stage, all foreclosed")
    assert (of_loans.tables["threads"][1]["same bits"] == "yes").all()


@pytest.mark.long
def test_loans_by_bank(of_banks):
    has_the_posterior_for_less(of_banks, "two-stage, up to 14,000")


def test_predictions_of_splines_agree(of_splines):
    assert starts(agrees(of_splines), "Predictions of two-stage and plain reversible jump agree")
    assert of_splines.tables["moves"][1]["accepted"].between(0.01, 0.9).all()


def test_what_is_written(of_loans, of_splines, tmp_path):
    some = {"redpm-all": of_loans.figures["redpm-all"]}  # the others are drawn elsewhere
    one = dict(list(of_splines.figures.items())[:1])
    results = [dataclasses.replace(of_loans, figures=some), dataclasses.replace(of_splines, figures=one)]
    paper.write_page([paper.write(one, 60.0, tmp_path) for one in results], tmp_path)
    for found in results:
        for name, (_, table) in found.tables.items():
            read = pd.read_csv(tmp_path / found.name / f"{name}.csv", index_col=0)
            assert read.shape == table.shape
        for name in found.figures:
            assert (tmp_path / found.name / f"{name}.svg").read_text("utf-8").endswith("</svg>\n")
    with chromium() as browser:
        for width in (1280, 390):
            with opened(browser, tmp_path / "index.html", width) as page:
                assert overflow(page) <= 0
                assert page.locator("section").count() == len(results)
                assert page.locator("figure svg:visible").count() == sum(len(one.figures) for one in results)


class Quick:
    """In place of an experiment."""

    FULL, Size = "full", lambda: "some"

    def __init__(self, name, seen, error=None):
        self.name, self.seen, self.error = name, seen, error

    def run(self, size, data, tell):
        self.seen.append((self.name, size, data))
        if self.error is not None:
            raise self.error
        return experiment.Experiment(self.name, f"The {self.name}", "")


def shortened(draws=5):
    short = example(draws=draws)
    short.stats["interrupted"] = True
    return short


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt(), ""),
        (experiment.CutShort("at step 2 of 8 (mh)", {"thinned": example(), "mh": shortened()}), " at step 2 of 8 (mh)"),
    ],
)
def test_an_experiment_that_was_cut_short_is_on_the_page(tmp_path, monkeypatch, error, told):
    seen = []
    errors = {"bank": None, "loans": error, "mars": None}
    monkeypatch.setattr(paper, "EXPERIMENTS", {name: Quick(name, seen, one) for name, one in errors.items()})
    with pytest.raises(experiment.CutShort) as raised:
        paper.reproduce(["bank", "loans", "mars"], tmp_path / "out", full=True)
    assert str(raised.value) == f"complete: bank; cut short: loans{told}; not begun: mars"
    assert seen == [("bank", "full", None), ("loans", "full", None)]
    shown = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "The bank" in shown
    assert "loans: cut short" in shown
    assert f"Ctrl-C ended this experiment{told}." in shown
    table = tmp_path / "out" / "loans" / "cut-short.csv"
    assert table.exists() == bool(told)
    if told:
        assert pd.read_csv(table, index_col=0)["complete"].to_dict() == {"thinned": "yes", "mh": "no"}


@pytest.mark.parametrize("early", [True, False], ids=["before a draw", "after some"])
def test_ctrl_c_ends_the_loop_over_methods(monkeypatch, early):
    asked, steps = [], experiment.Steps("bank", 3, None)

    def fit(formula, data, method, **options):
        asked.append(method)
        if method == "second" and early:
            raise KeyboardInterrupt
        return shortened() if method == "second" else example()

    monkeypatch.setattr(experiment, "fit", fit)
    methods = {name: name for name in ("first", "second", "third")}
    with pytest.raises(experiment.CutShort, match=r"at step 2 of 3 \(second, 4 x 9 draws\)") as raised:
        experiment.fit_all("y ~ x", None, methods, dict.fromkeys(methods, 9), steps)
    assert asked == ["first", "second"]
    assert list(raised.value.fits) == (["first"] if early else ["first", "second"])


def test_ctrl_c_ends_splines(monkeypatch):
    def sampled(kernel, request, phases):
        run = real(kernel, request, phases)
        return dataclasses.replace(run, last=run.last._replace(stopped=INTERRUPTED))

    real = mars.sampled
    monkeypatch.setattr(mars, "sampled", sampled)
    with pytest.raises(experiment.CutShort, match="at step 2 of 11"):
        mars.run(mars.Size(300, 20, 10), None, None)


def test_figures_are_rendered_once(monkeypatch, tmp_path):
    rendered, real = [], page.svg
    monkeypatch.setattr(page, "svg", lambda figure, salt="": rendered.append(salt) or real(figure, salt))
    found = experiment.Experiment("bank", "The bank", "", figures={"one": ("Caption", make_figure(4, 3))})
    section = paper.write(found, 1.0, tmp_path)
    assert rendered == ["Caption"]
    assert (tmp_path / "bank" / "one.svg").read_text("utf-8").startswith("<?xml")
    assert "<figcaption>Caption</figcaption>" in section


def test_data_goes_where_it_belongs(tmp_path):
    with pytest.raises(FileNotFoundError, match="neither"):
        paper._data(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder"):
        paper._data(tmp_path / "nowhere")
    (tmp_path / "historical_data_2009Q1.txt").touch()
    assert set(paper._data(tmp_path)) == {"loans", "hierarchical"}
    (tmp_path / "bank-additional-full.csv").touch()
    assert set(paper._data(tmp_path)) == {"bank", "loans", "hierarchical"}


def test_an_unknown_experiment(tmp_path):
    with pytest.raises(ValueError, match="there are bank, loans"):
        paper.reproduce(["banks"], tmp_path)


def test_fits_that_differ_are_said_to_differ():
    z, limit = experiment.agree(example(), example(seed=1))
    assert z < limit
    shifted = example(seed=1)
    shifted.posterior["beta"] = shifted.posterior["beta"] + 0.02
    z, limit = experiment.agree(example(), shifted)
    assert z > limit
