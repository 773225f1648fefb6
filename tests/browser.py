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


# What of a page can be read: for each text its size on the screen and its contrast, where it is not on a picture.
READ = """() => {
  const parsed = colour => {
    const numbers = colour.match(/[\\d.]+/g).map(Number);
    const [r, g, b, a = 1] = numbers, scale = colour.startsWith("color(") ? 255 : 1;
    return [scale * r, scale * g, scale * b, a];
  };
  const light = ([r, g, b]) => [r, g, b].map(x => x / 255)
    .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i]);
  const pictures = [...document.querySelectorAll("svg image")].map(one => one.getBoundingClientRect());
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (element.closest("tbody tr:nth-child(n + 10)")) continue;  // which look like those above
    if (!node.data.trim() || ["SCRIPT", "STYLE", "DESC", "TITLE"].includes(element.tagName.toUpperCase())) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!box.width || getComputedStyle(element).visibility === "hidden") continue;
    const drawn = element.closest("svg"), style = getComputedStyle(element);
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    let colour = parsed(drawn ? style.fill : style.color), paper = [255, 255, 255, 1], opacity = 1;
    for (let one = element; one; one = one.parentElement) opacity *= getComputedStyle(one).opacity;
    for (let one = element; one; one = one.parentElement) {
      const own = parsed(getComputedStyle(one).backgroundColor);
      if (own[3] > 0) { paper = own; break; }
    }
    colour = over([...colour.slice(0, 3), colour[3] * opacity], paper);
    const [high, low] = [light(colour), light(paper)].sort((a, b) => b - a);
    const matrix = drawn ? element.getScreenCTM() : null;
    const frame = drawn ? drawn.getBoundingClientRect() : box;
    found.push({
      text: node.data.trim().slice(0, 40),
      drawn: Boolean(drawn),
      size: parseFloat(style.fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1),
      contrast: (high + 0.05) / (low + 0.05),
      beyond: Math.max(frame.x - box.x, box.right - frame.right, frame.y - box.y, box.bottom - frame.bottom),
      on_picture: pictures.some(one => one.x < x && x < one.right && one.y < y && y < one.bottom),
    });
  }
  return found;
}"""


def read(page):
    """What of a page can be read."""
    return page.evaluate(READ)
