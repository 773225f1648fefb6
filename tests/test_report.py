import html.parser
import re

import numpy as np
import pandas as pd
import pytest
from browser import chromium, opened, overflow
from figures import sketched

import tallbayes as tb
from tallbayes.groups.example import group_example
from tallbayes.results import report
from tallbayes.results.example import example
from tallbayes.splines import report as spline_report
from tallbayes.splines.example import example_mars

WIDTHS = {"desktop": 1280, "phone": 390}


def data(rows=3_000):
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal((2, rows))
    bank = rng.choice(["north & south", "east <1>", "west"], rows)
    chance = 1 / (1 + np.exp(1 - x - (bank == "west")))
    y = (rng.random(rows) < chance).astype(int)
    return pd.DataFrame({"y": y, "x": x, "z": z, "bank": bank, "count": rng.poisson(np.exp(0.3 * x))})


@pytest.fixture(scope="module")
def fits():
    """One of each kind."""
    frame, few = data(), {"draws": 400, "seed": 1, "progress": False}
    return {
        "plain": tb.fit("y ~ x + z", frame, **few),
        "counts": tb.fit("count ~ x", frame, "poisson", **few),
        "groups": tb.fit("y ~ x + (1 | bank)", frame, **few),
        "approximate": tb.fit("y ~ x", frame, method=tb.Consensus(3), **few),
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
    """A report of each kind of fit; figures that others have too are not drawn."""
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, fit in fits.items():
        found[name] = folder / f"{name}.html"
        with pytest.MonkeyPatch.context() as patch:
            if name not in ("groups", "splines"):
                sketched(patch)
            fit.report(found[name])
    return found


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


class Tags(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects ids and texts."""

    VOID = ("meta", "link", "br")

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
        assert "Predictions against outcomes" in words
        assert ("This method is exact" in words) == (name != "approximate")
    assert "y ~ x + z" in said["plain"]
    assert "3,000" in said["plain"]
    assert "No problems found." in said["plain"]
    assert "Did the chains mix? Mixed, approximate. The chains agree" in said["approximate"]
    assert "says nothing about how far the approximation is off" in said["approximate"]
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


def test_tables_have_the_summary(fits, pages):
    table = fits["plain"].summary()
    source = pages["plain"].read_text("utf-8")
    found = re.search(r"<td>x</td>(.*?)</tr>", source)
    values = [float(value) for value in re.findall(r'data-value="([^"]+)"', found[1])]
    np.testing.assert_array_equal(values[: len(report.COLUMNS)], table.loc["x", list(report.COLUMNS)])


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
        "Outcomes against predictions",
    ]
    assert "which stand together in 100% of draws" in captions[2]
    before, after = page.split("<h2>Diagnostics</h2>")
    assert "log_odds[i]: the log-odds of one of 20 rows drawn at random from the data, followed to judge" in after
    assert "<td>log_odds[0]</td>" in after
    assert "<td>log_odds[0]</td>" not in before


def test_problems_that_name_what_is_followed_say_what_it_is(small, monkeypatch):
    sketched(monkeypatch)
    fit = example_mars()
    monkeypatch.setattr(type(fit), "_problems", lambda fit: ["chains disagree about 'log_odds[3]'"])
    before, _ = report.render(fit).split("<h2>Variables that matter</h2>")
    assert "log_odds[i]: the log-odds of one of 20 rows" in before
    assert "precision:" not in before


def test_splines_without_interactions_or_stored_probabilities_have_a_report(small, monkeypatch):
    sketched(monkeypatch)
    fit = example_mars()
    monkeypatch.setattr(spline_report, "OFTEN", 1.1)
    assert "No two variables stand together in a basis in half of the draws" in report.render(fit)
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


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("plain", "desktop"),
        ("groups", "phone"),
        ("splines", "phone"),
        pytest.param("groups", "desktop", marks=pytest.mark.long),
        pytest.param("stuck", "phone", marks=pytest.mark.long),
    ],
)
def test_in_a_browser(browser, pages, name, device):
    width = WIDTHS[device]
    with opened(browser, pages[name], width, dark=device == "phone") as page:
        assert overflow(page) <= 0
        drawn = page.locator("figure svg:visible")
        assert drawn.count() == page.locator("figure").count() > 3
        for box in (drawn.nth(i).bounding_box() for i in range(drawn.count())):
            assert box["width"] > 200
            assert box["height"] > 50
            assert box["width"] <= width
        page.emulate_media(media="print")
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(0, 0, 0)"


def test_dark_and_light(browser, pages):
    paper = {}
    for dark in (False, True):
        with opened(browser, pages["groups"], 1280, dark) as page:
            paper[dark] = page.evaluate(
                """() => {
                    const text = document.querySelector("figure svg text");
                    return [getComputedStyle(document.body).backgroundColor, getComputedStyle(text).fill];
                }"""
            )
    assert paper[False][0] == "rgb(255, 255, 255)"
    assert paper[False] != paper[True]
    for background, ink in paper.values():  # words of figures stand out from the page
        light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (background, ink)]
        assert abs(light[0] - light[1]) > 400


def test_tables_sort(browser, pages):
    with opened(browser, pages["many"], 1280) as page:
        table = page.locator("table").nth(1)
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
    assert report._how(fit)["rows"] == "60,000"
    assert "none" in report._verdict(fit)
    assert "Rows of the data that a draw touched: none, of 60,000." in report._speed(fit)
    fit.stats.update(distinct_rows=2_000, rows_per_draw=3_000.0)
    assert report._how(fit)["rows"] == "60,000, of which 2,000 are distinct; equal ones are looked at once"
    assert "1.5 passes over 60,000" in report._verdict(fit)
