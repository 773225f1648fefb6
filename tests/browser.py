"""A headless Chromium for tests of pages: the system's, and no excuse in CI."""

import contextlib
import os
import shutil

import pytest

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@contextlib.contextmanager
def chromium():
    """A browser, closed in the end; the test is skipped without one, except in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        assert os.environ.get("CI") != "true", "a browser must be there in CI: install Debian's chromium"
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS), timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(browser, path, width, dark=False):
    """A page at this width; fails if it complains, or asks for anything but itself."""
    scheme = "dark" if dark else "light"
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    try:
        yield page
    finally:
        page.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def overflow(page):
    """Pixels by which the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
