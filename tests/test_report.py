import html.parser
import itertools
import re
import warnings
from copy import copy
from html import escape

import numpy as np
import pandas as pd
import pytest
from browser import chromium, opened, overflow
from browser import read as readable
from figures import sketched

import tallbayes as tb
from tallbayes.groups.example import group_example
from tallbayes.results import facts, report
from tallbayes.results.example import example
from tallbayes.splines import report as spline_report
from tallbayes.splines.example import example_mars

PHONES, DESKTOP, PAPER = (360, 412), 1440, 680  # pixels
LEAST, CONTRAST = 9.0, 4.5  # pixels of letters on a phone, and how much darker or lighter than the page they are


def data(rows=3_000):
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal((2, rows))
    bank = rng.choice(["north & south", "east <1>", "west"], rows)
    chance = 1 / (1 + np.exp(1 - x - (bank == "west")))
    y = (rng.random(rows) < chance).astype(int)
    return pd.DataFrame({"y": y, "x": x, "z": z, "bank": bank, "count": rng.poisson(np.exp(0.3 * x))})


def normal(theta, rows):
    return -0.5 * ((rows.count - theta.center) / theta.sd) ** 2 - np.log(theta.sd)


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """One of each kind."""
    frame, few = data(), {"draws": 400, "seed": 1, "progress": False}
    file = tmp_path_factory.mktemp("data") / "customers.csv"
    frame.to_csv(file, index=False)
    frame["color"] = np.where(frame["x"] > 1.5, "red", np.where(frame["x"] > 0, "blue", "green"))
    apart = frame.assign(y=np.where(frame["color"] == "red", 1, frame["y"]))
    own = {"center": tb.Normal(0, 10), "sd": tb.HalfNormal(10)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.SeparationWarning)
        separated = tb.fit("y ~ z + color + bank", apart, prior={"color[T.red]": tb.Normal(0, 1000)}, **few)
    return {
        "plain": tb.fit("y ~ x + z + bank", file, **few),
        "counts": tb.fit("count ~ x", frame, "poisson", **few),
        "gaussian": tb.fit("x ~ z", frame, "gaussian", **few),
        "groups": tb.fit("y ~ x + (1 | bank)", frame, **few),
        "gaussian groups": tb.fit("x ~ z + (1 | bank)", frame, "gaussian", **few),
        "approximate": tb.fit("y ~ x", frame, method=tb.Consensus(3), **few),
        "own": tb.sample(tb.Model(normal, own, {"center": 0.0, "sd": 1.0}, frame[["count"]]), **few),
        "separated": separated,
        "splines": tb.sample(
            tb.MARS("y ~ x + z", frame[:1_000]), draws=40, warmup=60, chains=2, seed=1, progress=False
        ),
        "many": group_example(700, draws=60),
        "stuck": example(draws=40),
    }


@pytest.fixture(scope="module")
def small():
    """Fewer panels of parameters than reports have: each costs time, and all are alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "MOST_PANELS", 3)
        patch.setattr(report, "MOST_TRACES", 2)
        yield


@pytest.fixture(scope="module")
def pages(fits, small, tmp_path_factory):
    """A report of each kind of fit."""
    folder = tmp_path_factory.mktemp("reports")
    found = {name: folder / f"{name}.html" for name in fits}
    for name, fit in fits.items():
        fit.report(found[name])
    return found


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


class Tags(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects ids and texts."""

    VOID = ("meta", "link", "br", "wbr")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, words):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(words)


def read(path):
    tags = Tags()
    tags.feed(path.read_text("utf-8"))
    tags.close()
    assert tags.open == []
    return tags


def test_pages_are_whole(pages):
    for path in pages.values():
        tags = read(path)
        assert len(set(tags.ids)) == len(tags.ids)


def test_what_a_page_says(pages):
    said = {name: " ".join(" ".join(read(path).words).split()) for name, path in pages.items()}
    for name, words in said.items():
        assert "What was fitted, and how" in words
        assert ("Did it converge?" in words) == (name != "approximate")
        assert ("Predictions against outcomes" in words) == (name != "own")
        assert ("This method is exact" in words) == (name != "approximate")
    assert "y ~ x + z + bank" in said["plain"]
    assert "3,000" in said["plain"]
    assert "data customers.csv fitted 20" in said["plain"]
    assert "events 1,114 of 3,000 rows, a base rate of 37.1%" in said["plain"]
    assert "reference level 'east <1>' of the 3 levels of bank" in said["plain"]
    assert "No priors were given, so they are the defaults, which follow the columns." in said["plain"]
    assert "changes the log-odds by Normal(0, 5)." in said["plain"]
    assert "odds ratio" in said["plain"]
    assert "rate ratio" in said["counts"]
    assert "counts 3,021 in all, 1.007 a row on average" in said["counts"]
    assert "outcomes mean −0.002356, sd 0.9956" in said["gaussian"]
    assert "changes the outcome by Normal(0, 5 sd of the outcome)." in said["gaussian"]
    for name in ("gaussian", "gaussian groups", "own"):
        assert not re.search("(odds|rate) ratio", said[name])
    assert "a pandas data frame in memory" in said["groups"]
    assert "Given: color[T.red]. The others are defaults" in said["separated"]
    assert "> 1e6" in said["separated"]
    assert "The number of bases is uniform from 0 to 100" in said["splines"]
    assert "No problems found." in said["plain"]
    assert "Did the chains mix? Mixed, approximate. The chains agree" in said["approximate"]
    assert "does not show how far off the approximation is" in said["approximate"]
    assert "chains mixed, approximate they agree, but may all be off" in said["approximate"]
    assert "converge" not in said["approximate"]
    assert "poisson" in said["counts"]
    assert "Groups: bank" in said["groups"]
    assert "north & south" in said["groups"]
    assert "3 shards" in said["approximate"]
    assert "Probability as a function of each variable, averaged over the others" in said["splines"]
    assert "of 700; fit.summary() has them all" in said["many"]
    assert "Of 703 parameters, the 3 with the fewest effective draws:" in said["many"]
    assert "Of 703 parameters, the 2 with the fewest effective draws:" in said["many"]
    assert "Do not trust the numbers" in said["stuck"]
    assert "draws=1,000 instead of 40" in said["stuck"]


def test_names_are_escaped(pages):
    source = pages["groups"].read_text("utf-8")
    assert "east &lt;1&gt;" in source
    assert "<1>" not in source


def test_the_table_has_coefficients_as_they_are_as_ratios_and_per_step(fits, pages):
    fit = fits["plain"]
    table, sd = fit.summary().loc["x"], fit.stats["columns"]["sd"][1]
    source = pages["plain"].read_text("utf-8")
    found = re.search(r"<td>x</td>(.*?)</tr>", source.split("<h2>Coefficients</h2>")[1])
    values = [float(value) for value in re.findall(r'data-value="([^"]+)"', found[1])]
    ratio = np.exp(fit.draws[..., 1])
    raw = [table["mean"], table["sd"], table["eti94_lb"], ratio.mean(), np.exp(table["eti94_lb"])]
    np.testing.assert_allclose(values, [*raw, sd, sd * table["mean"], sd * table["eti94_lb"]])
    low, high = np.quantile(ratio, [0.03, 0.97], method="inverted_cdf")
    shown = re.findall(">([^<>]+) to ([^<>]+)</td>", found[1])[1]
    np.testing.assert_allclose([float(end) for end in shown], [low, high], rtol=0.01)
    first = re.search(r"<td>bank\[T.west\]</td>(.*?)</tr>", source.split("<h2>Coefficients</h2>")[1])
    assert ">0 to 1</td>" in first[1]


def test_priors_are_in_the_report(fits, pages):
    source = pages["plain"].read_text("utf-8").replace("<wbr>", "")  # where long names may be broken
    for name, prior in fits["plain"].prior.items():
        assert f'>{escape(name)}</td><td class="text">{escape(prior)}</td></tr>' in source


def test_a_fit_of_an_earlier_version_has_a_report(fits, small, monkeypatch):
    sketched(monkeypatch)
    for name in ("plain", "gaussian", "splines"):
        fit = copy(fits[name])
        new = ("data", "fitted", "default_priors", "outcomes", "columns", "prior")
        fit.stats = {key: value for key, value in fit.stats.items() if key not in new}
        found = report.render(fit)
        assert "base rate" in found or name == "gaussian"
        assert "for a step of its column" not in found


def test_a_loaded_fit_has_the_same_report(fits, small, tmp_path, monkeypatch):
    sketched(monkeypatch)
    for name in ("groups", "splines"):
        fits[name].save(tmp_path / "fit.nc")
        found, expected = report.render(tb.load(tmp_path / "fit.nc")), report.render(fits[name])
        assert found == expected
        assert len(set(re.findall("<desc>(.*?)</desc>", found))) > 3


def sections(source):
    return re.findall("<h2>(.*?)</h2>", source)


def test_the_report_of_splines_begins_with_what_variables_do_to_the_probability(small, monkeypatch):
    sketched(monkeypatch)
    page = report.render(example_mars())
    assert sections(page)[1:] == [
        "Did it converge?",
        "Variables that matter",
        "Effects of variables",
        "Interactions",
        "Predictions against outcomes",
        "Diagnostics",
        "Speed",
    ]
    captions = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert [caption.split(",")[0] for caption in captions[:4]] == [
        "How much each variable matters",
        "Probability as a function of each variable",
        "Probability as a function of age and urban",  # income stands with neither
        "Observed outcomes against predictions",
    ]
    assert "which share a basis in 100% of draws" in captions[2]
    before, after = page.split("<h2>Diagnostics</h2>")
    assert "log_odds[i]: the log-odds of one of 20 rows drawn at random from the data, followed to judge" in after
    assert re.search(r"<td>log_odds\[0\]</td>[^\n]*the log-odds of a row with age [0-9.]+, urban [01], income", after)
    assert "<td>log_odds[0]</td>" in after
    assert "<td>log_odds[0]</td>" not in before


def test_problems_that_name_what_is_followed_say_what_it_is(small, monkeypatch):
    sketched(monkeypatch)
    fit = example_mars()
    monkeypatch.setattr(type(fit), "_problems", lambda fit: ["chains disagree about 'log_odds[3]'"])
    before, _ = report.render(fit).split("<h2>Variables that matter</h2>")
    assert "log_odds[i]: the log-odds of one of 20 rows" in before
    assert "log_odds[3]: the log-odds of a row with age" in before
    assert "log_odds[4]" not in before
    assert "precision:" not in before


def test_splines_without_interactions_or_stored_probabilities_have_a_report(small, monkeypatch):
    sketched(monkeypatch)
    fit = example_mars()
    monkeypatch.setattr(spline_report, "OFTEN", 1.1)
    assert "No two variables share a basis in half of the draws" in report.render(fit)
    fit.table = fit.table.drop_vars(["grid", "probability", "pair", "pair_grid", "pair_probability"])
    page = report.render(fit)
    assert "Interactions" not in sections(page)
    assert "Log-odds as a function of each variable" in page


def test_a_page_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "fit.html"
    path.write_text("the page before", "utf-8")
    monkeypatch.setattr(report, "_predictions", lambda fit: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        example().report(path)
    assert path.read_text("utf-8") == "the page before"
    assert [one.name for one in tmp_path.iterdir()] == ["fit.html"]


def test_what_is_no_page_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.html, not .*fit\.pdf"):
        example().report(tmp_path / "fit.pdf")
    with pytest.raises(FileNotFoundError, match="create it first"):
        example().report(tmp_path / "nowhere" / "fit.html")


KINDS = ("plain", "counts", "gaussian", "groups", "gaussian groups", "approximate", "own", "separated", "splines")
KINDS += ("many", "stuck")


@pytest.mark.parametrize("name", KINDS)
def test_in_a_browser(browser, pages, name):
    with opened(browser, pages[name], DESKTOP) as page:
        for width, dark in itertools.product((DESKTOP, *PHONES), (False, True)):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="dark" if dark else "light")
            assert overflow(page) <= 0
            drawn = page.locator("figure svg:visible")
            assert drawn.count() == page.locator("figure").count() > 3
            for box in (drawn.nth(i).bounding_box() for i in range(drawn.count())):
                assert 200 < box["width"] <= width
                assert box["height"] > 50
            found = readable(page)
            assert sum(one["drawn"] for one in found) > 50
            for one in found:
                assert one["on_picture"] or one["contrast"] >= CONTRAST, one
                assert one["beyond"] <= 2, one
                assert one["size"] >= LEAST or width == DESKTOP, one


@pytest.mark.parametrize("name", ["plain", "groups", "separated", "splines"])
def test_on_paper(browser, pages, name):
    with opened(browser, pages[name], PAPER, dark=True) as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert overflow(page) <= 0
        assert page.locator("th button:visible").count() == 0  # of which pages but the first would have none
        heads = (
            page.locator("table", has_text="R-hat")
            .locator("thead th")
            .evaluate_all("""all => all.map(one => getComputedStyle(one, "::before").content)""")
        )
        assert '"R-hat"' in heads
        for kind in ("table", "figure svg:visible"):
            for i in range(page.locator(kind).count()):
                box = page.locator(kind).nth(i).bounding_box()
                assert box["x"] + box["width"] <= PAPER
        for one in readable(page):
            assert one["on_picture"] or one["contrast"] >= CONTRAST, one


def test_a_wide_page_has_parts_side_by_side(browser, pages):
    with opened(browser, pages["groups"], DESKTOP) as page:
        right = page.evaluate(
            """() => [...document.querySelectorAll("section")].map(
                one => Math.max(...[...one.querySelectorAll("figure svg, table, p, dl")].map(
                    part => part.getBoundingClientRect().right)))"""
        )
        assert sum(edge > 0.75 * DESKTOP for edge in right) >= 4
        words = page.evaluate(
            """() => Math.max(...[...document.querySelectorAll("p")].map(one => one.getBoundingClientRect().width))"""
        )
        assert words < 800


def test_paper_has_what_is_folded(browser, fits, small, tmp_path, monkeypatch):
    sketched(monkeypatch)
    monkeypatch.setattr(report, "FOLDED", 2)
    fits["plain"].report(tmp_path / "fit.html")
    with opened(browser, tmp_path / "fit.html", DESKTOP) as page:
        table = page.locator("details table")
        assert not table.is_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert table.is_visible()


def test_tables_sort(browser, pages):
    with opened(browser, pages["many"], 1280) as page:
        table = page.locator("section", has_text="Groups: bank").locator("table")
        head = table.locator("th", has_text="rows")
        shown = lambda: [  # noqa: E731
            float(value)
            for value in table.locator("tbody tr td:nth-child(2)").evaluate_all(
                "all => all.map(one => one.dataset.value)"
            )
        ]
        before = shown()
        head.locator("button").click()
        assert shown() == sorted(before)
        assert head.get_attribute("aria-sort") == "ascending"
        head.locator("button").click()
        assert shown() == sorted(before, reverse=True)
        assert head.get_attribute("aria-sort") == "descending"
        table.locator("th button").first.click()
        names = table.locator("tbody tr td:first-child").all_text_contents()
        assert names == sorted(names)
        assert head.get_attribute("aria-sort") is None
        table.locator("th button").first.focus()
        page.keyboard.press("Enter")
        assert table.locator("tbody tr td:first-child").all_text_contents() == sorted(names, reverse=True)


def test_rows_in_words():
    fit = example()
    fit.stats.update(rows=60_000, distinct_rows=120_000, rows_per_draw=0.0, surrogate_rows_per_draw=0.0)
    assert facts.what(fit)["rows"] == "60,000"
    assert "none" in report._verdict(fit)
    assert "Rows of the data that a draw touches on average: none, of 60,000." in report._speed(fit)
    fit.stats.update(distinct_rows=2_000, rows_per_draw=3_000.0)
    assert facts.what(fit)["rows"] == "60,000, of which 2,000 are distinct; equal rows are looked at only once"
    assert "1.5 passes over 60,000" in report._verdict(fit)
