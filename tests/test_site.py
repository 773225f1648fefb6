"""The documentation's site, built and opened from files in a browser; `make docs` installs what it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from browser import chromium, overflow

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site that was built without a warning."""
    pytest.importorskip("material", reason="mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(line, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def window(browser):
    """A function that opens a window; in the end none may have complained, or asked for anything but files."""
    pages, complaints, asked = [], [], []

    def make(width, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: complaints.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
        page.on("request", lambda request: asked.append(request.url))
        pages.append(page)
        return page

    yield make
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_pages_fit_a_phone(site, window):
    phone = window(390)
    wide = {}
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        phone.goto(path.as_uri(), wait_until="domcontentloaded")
        assert phone.locator("h1").count() == 1, path
        if found := overflow(phone):
            wide[path.name] = found
    assert wide == {}


FOUND = {
    "caterpillar": "plots.html",
    "odds ratio": "interpreting.html",
    "journal of classification": "how-to-cite.html",
}


@pytest.mark.parametrize(("words", "page"), FOUND.items())
def test_search_works_without_a_server(site, window, words, page):
    desktop = window(1280)
    desktop.goto((site / "how-to" / "priors.html").as_uri())
    desktop.get_by_role("textbox", name="Search").press_sequentially(words)
    found = desktop.locator(f"a.md-search-result__link[href*='{page}']").first
    found.wait_for()
    found.click()
    desktop.wait_for_url(f"**/{page}**")


def test_the_toggle_switches_to_dark(site, window):
    page = window(1280)
    page.goto((site / "index.html").as_uri())
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_title("Switch to dark").click()
    assert page.evaluate(ground) != light


def test_charts_take_the_colours_of_the_page(site, window):
    ink = "getComputedStyle(document.querySelector('figure svg')).fill"
    inks, shown = [], []
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = window(width, scheme)
        page.goto((site / "benchmarks.html").as_uri())
        inks.append(page.evaluate(ink))
        shown.append([page.locator(f"figure svg.{kind}:visible").count() for kind in ("wide", "narrow")])
    assert inks[0] != inks[1]
    assert shown == [[4, 0], [0, 4]]
