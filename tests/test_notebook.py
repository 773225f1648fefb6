"""What notebooks and ArviZ get of a fit."""

import importlib.metadata
import importlib.util
import re
import sys
import types
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import chromium, opened
from kinds import MAKERS, fitted

import tallbayes as tb
from tallbayes.results.arviz import wants_inference_data
from tallbayes.results.example import example

VOID = {"br"}
NASTY = "<script>alert('a & b')</script>"


class Parsed(HTMLParser):
    """Tags that are closed in their order, and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += f" {data}"


@pytest.mark.parametrize("kind", [*MAKERS])
def test_every_fit_has_one_block_that_needs_nothing_else(kind):
    fit = fitted(kind)
    html = fit._repr_html_()
    found = Parsed(html)
    assert html.startswith('<div class="tallbayes-fit">')
    assert {"pre", "script", "link", "img"} & set(found.tags) == set()
    for what in ("http", "url(", "@import", "monospace", "position"):
        assert what not in html
    style = re.search("<style>(.*)</style>", html, re.DOTALL)[1]
    style = re.sub(r"/\*.*?\*/", "", style)
    rules = [one.strip() for rule in style.split("}")[:-1] for one in rule.split("{")[0].split(",")]
    assert len(rules) > 15
    assert all(rule.startswith(".tallbayes-fit") for rule in rules)  # nothing else of a notebook is styled
    for words in (fit._title, fit._model, *fit._facts()):
        assert words in found.text
    for name in fit.parameters[:5]:
        assert name in found.text


def test_all_that_comes_from_outside_is_escaped():
    fit = example(draws=20)
    fit.stats.update(warnings=[NASTY], outcome=NASTY)
    fit.prior = dict.fromkeys(fit.prior, NASTY)
    fit.posterior = fit.posterior.assign_coords(coefficient=[NASTY, "fico"])
    fit.formula = None
    html = fit._repr_html_()
    assert "script" not in Parsed(html).tags
    assert Parsed(html).text.count(NASTY) >= 5  # the title, facts, a parameter's name, its prior, problems


def test_problems_are_highlighted_and_only_these():
    assert 'class="tb-good">no problems found' in example()._repr_html_()
    bad = example(draws=20)
    bad.stats.update(warnings=["look out"], pulled=["the prior pulls"])
    html = bad._repr_html_()
    assert 'class="tb-good"' not in html
    for words in ("chains disagree", "look out", "the prior pulls"):
        assert f'<dd class="tb-bad">{words}' in html
    approximate = example()
    approximate.stats["exact"] = False
    assert '<dd class="tb-bad">mixed, approximate' in approximate._repr_html_()


@pytest.mark.parametrize(
    ("ink", "paper"), [("rgb(20, 20, 20)", "rgb(255, 255, 255)"), ("rgb(230, 230, 230)", "rgb(17, 17, 17)")]
)
def test_a_browser_shows_it_in_the_notebooks_colours(tmp_path, ink, paper):
    """Among rules such as notebooks have for all tables and lists."""
    notebook = f"""body {{ background: {paper}; color: {ink}; }}
    .output table {{ table-layout: fixed; margin: auto; font-family: monospace; }}
    .output td, .output th {{ text-align: center; padding: 2em; white-space: normal; color: red; }}
    .output tbody tr:nth-child(odd) {{ background: #777; }} .output dl dt {{ float: left; font-weight: bold; }}"""
    path = tmp_path / "cell.html"
    fit = example(draws=20)
    path.write_text(
        f"<!DOCTYPE html><meta charset='utf-8'><link rel='icon' href='data:,'><style>{notebook}</style>"
        f"<p id='other'>other</p><div class='output'>{fit._repr_html_()}</div>"
    )
    with chromium() as browser, opened(browser, path, 900) as page:
        style = "(of, what) => getComputedStyle(document.querySelector(of))[what]"
        look = lambda of, what: page.evaluate(f"([of, what]) => ({style})(of, what)", [of, what])  # noqa: E731
        for part in (".tallbayes-fit", ".tallbayes-fit td", ".tallbayes-fit tbody th", ".tb-bad", ".tb-title"):
            assert look(part, "color") == ink
        assert look(".tallbayes-fit td", "textAlign") == "right"
        assert look(".tallbayes-fit tbody th", "textAlign") == "left"
        assert look(".tallbayes-fit tbody tr", "backgroundColor") == "rgba(0, 0, 0, 0)"
        assert "mono" not in look(".tallbayes-fit td", "fontFamily")
        assert look(".tallbayes-fit dt", "float") == "none"
        assert look(".tb-bad", "backgroundColor") not in ("rgba(0, 0, 0, 0)", paper)
        assert look("#other", "fontSize") == "16px"
        edges = page.evaluate(
            "[...document.querySelectorAll('td:nth-child(2)')].map(one => one.getBoundingClientRect().right)"
        )
        assert len(set(edges)) == 1
        whole = page.evaluate("document.querySelector('.tallbayes-fit').getBoundingClientRect().right")
        assert whole <= 900


# ArviZ


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::FutureWarning")  # its own
@pytest.mark.parametrize("kind", [*MAKERS])
def test_arviz_gets_what_the_installed_version_reads(kind):
    """Where ArviZ itself is not installed, its statistics stand in for it."""
    fit = fitted(kind)
    found = fit.to_arviz()
    assert "posterior" in found
    for name in fit.posterior:
        assert found["posterior"][name].identical(fit.posterior[name])
    if importlib.util.find_spec("arviz") is None:
        import arviz_stats

        means = arviz_stats.summary(found, round_to="none")["mean"]
    else:
        arviz = pytest.importorskip("arviz")
        means = arviz.summary(found, round_to="none")["mean"]
        arviz.plot_forest(found, var_names=list(fit.posterior)[:1])
    assert set(fit.summary()["mean"].round(6)) <= set(means.astype(float).round(6))


def installed(monkeypatch, version):
    """Pretend that a version of ArviZ is installed."""
    known = importlib.metadata.version

    def found(name):
        if name == "arviz" and version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version if name == "arviz" else known(name)

    monkeypatch.setattr("tallbayes.results.arviz.version", found)


@pytest.mark.parametrize(
    ("version", "old"),
    [(None, False), ("0.23.4", True), ("0.9", True), ("1.0.0rc1", False), ("1.3.0", False), ("12.0", False)],
)
def test_which_arviz_is_there_is_asked_without_importing_it(monkeypatch, version, old):
    installed(monkeypatch, version)
    before = "arviz" in sys.modules
    assert wants_inference_data() is old
    assert ("arviz" in sys.modules) == before


def test_an_old_arviz_gets_its_inference_data_and_files_stay_as_they_are(monkeypatch, tmp_path):
    class InferenceData(types.SimpleNamespace):
        pass

    stub = types.ModuleType("arviz")
    stub.InferenceData = InferenceData
    monkeypatch.setitem(sys.modules, "arviz", stub)
    installed(monkeypatch, "0.23.4")
    fit = fitted("splines")
    found = fit.to_arviz()
    assert isinstance(found, InferenceData)
    assert found.posterior.identical(fit.posterior)
    assert found.constant_data.identical(fit.table)
    assert found.splines.identical(fit.splines)
    assert found.attrs["inference_library"] == "tallbayes"
    fit.save(tmp_path / "fit.nc")
    np.testing.assert_array_equal(tb.load(tmp_path / "fit.nc").draws, fit.draws)
    installed(monkeypatch, "1.3.0")
    assert list(fit.to_arviz().children) == ["posterior", "sample_stats", "splines", "constant_data"]
