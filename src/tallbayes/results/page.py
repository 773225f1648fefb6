"""Pages of HTML that need nothing else: text, tables that can be sorted, and figures that follow light and dark.

A figure becomes SVG in the page. Its greys turn into mixtures of the page's ink and paper, and its colours into the
page's own, so that it looks right on a dark screen and in print; its words stay words.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from tallbayes.models.priors import rounded
from tallbayes.results.figure import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NAMES = ("blue", "orange", "green", "pink", "yellow", "sky")  # what the page calls COLOURS
SMALLER = 0.82  # than drawn a figure may be, so that another one has room beside it
LARGER = {"wide": 1.25, "narrow": 1.5}  # than drawn they may be, where there is room
LARGEST = 1e308  # that a page can sort by
LONG = 16  # letters of names from which on they may be broken
PIXELS = 96 / 72  # a point on screen


def page(title: str, lead: str, parts: Iterable[str]) -> str:
    """A whole page; `lead` and `parts` are HTML.

    >>> print(page("Loans", "All of <b>them</b>", [section("Why", "<p>Because.</p>")])[:15])
    <!DOCTYPE html>
    """
    here = files("tallbayes.results")
    style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>',
            f"<style>\n{style}</style>\n</head>\n<body>",
            f'<h1>{escape(title)}</h1>\n<p class="lead">{lead}</p>',
            *parts,
            f"<script>\n{script}</script>\n</body>\n</html>\n",
        ]
    )


def section(title: str, *parts: str) -> str:
    """Some parts under a title.

    >>> section("Why", "<p>Because.</p>")
    '<section>\\n<h2>Why</h2>\\n<p>Because.</p>\\n</section>'
    """
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", *parts, "</section>"])


def text(*paragraphs: str) -> str:
    """Paragraphs of plain text.

    >>> text("a < b")
    '<p>a &lt; b</p>'
    """
    return "\n".join(f"<p>{escape(one)}</p>" for one in paragraphs)


def bullets(items: Iterable[str]) -> str:
    """A list of plain texts.

    >>> bullets(["one", "two"])
    '<ul><li>one</li><li>two</li></ul>'
    """
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def facts(known: Mapping[str, str]) -> str:
    """Names and what there is to say about each.

    >>> facts({"rows": "1,000"})
    '<dl><dt>rows</dt><dd>1,000</dd></dl>'
    """
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in known.items())}</dl>"


def cards(*shown: tuple[str, str, str, str]) -> str:
    """Large words at the top of a page: what about, the word, what it means, and "good", "bad", "middling" or "".

    >>> cards(("exact", "yes", "as draws grow", "good"))
    '<div class="cards"><div><small>exact</small><b class="good">yes</b><small>as draws grow</small></div></div>'
    """
    each = (
        f'<div><small>{escape(about)}</small><b class="{kind}">{escape(word)}</b><small>{escape(more)}</small></div>'
        for about, word, more, kind in shown
    )
    return f'<div class="cards">{"".join(each)}</div>'


class Shown(NamedTuple):
    """What a cell says, and the number by which it is sorted."""

    text: str
    value: float


class Head(NamedTuple):
    """The head of a column, and what stands over several of them."""

    name: str
    over: str = ""


def beside(*parts: str) -> str:
    """Parts side by side where there is room, else one below the other.

    >>> beside("<p>left</p>", "<p>right</p>")
    '<div class="beside">\\n<p>left</p>\\n<p>right</p>\\n</div>'
    """
    return "\n".join(['<div class="beside">', *parts, "</div>"])


def stacked(*parts: str) -> str:
    """Parts one below the other, as one part of `beside`.

    >>> stacked("<p>above</p>", "<p>below</p>")
    '<div>\\n<p>above</p>\\n<p>below</p>\\n</div>'
    """
    return "\n".join(["<div>", *parts, "</div>"])


def folded(title: str, *parts: str) -> str:
    """Parts that a click on their title shows; on paper they are there.

    >>> folded("All of them", "<p>one</p>")
    '<details>\\n<summary>All of them</summary>\\n<p>one</p>\\n</details>'
    """
    return "\n".join(["<details>", f"<summary>{escape(title)}</summary>", *parts, "</details>"])


def table(frame: pd.DataFrame, first: str = "", formats: Mapping[str, str] | None = None) -> str:
    """A table that can be sorted by each column; `first` is the head of the one with the index.

    `formats` say how to write the numbers of some columns.

    >>> import pandas as pd
    >>> shown = table(pd.DataFrame({"mean": [0.5]}, index=["fico"]), "coefficient")
    >>> '<td data-value="0.5">0.5</td>' in shown, shown.count("<button")
    (True, 2)
    """
    texts = [any(isinstance(value, str) for value in frame[name]) for name in frame]
    heads = "".join(map(_head, (first, *frame.columns), (False, *texts)))
    how = [(formats or {}).get(str(name)) for name in frame]
    lines = ([_cell(value, one) for value, one in zip(row, how, strict=True)] for row in frame.itertuples(False, None))
    return _table(f"<tr>{heads}</tr>", frame.index, lines)


def grouped_table(columns: Mapping[Head, Sequence[Shown]], index: Iterable[str], first: str = "") -> str:
    """A table that can be sorted, with a line over its heads that says what several columns have in common.

    >>> columns = {Head("mean", "coefficient"): [Shown("0.4", 0.4)], Head("mean", "odds ratio"): [Shown("1.5", 1.5)]}
    >>> shown = grouped_table(columns, ["fico"], "coefficient")
    >>> '<th scope="colgroup" colspan="1">odds ratio</th>' in shown, '<td data-value="1.5">1.5</td>' in shown
    (True, True)
    """
    heads = f"<tr>{''.join(_head(name, False) for name in (first, *(head.name for head in columns)))}</tr>"
    spans = [(name, len(list(some))) for name, some in groupby(head.over for head in columns)]
    if len(spans) > 1:
        over = (f'<th scope="colgroup" colspan="{span}">{escape(name)}</th>' for name, span in spans)
        heads = f'<tr class="over"><td></td>{"".join(over)}</tr>\n{heads}'
    lines = ([_shown(*cell) for cell in row] for row in zip(*columns.values(), strict=True))
    return _table(heads, index, lines)


def _table(heads: str, index: Iterable[object], lines: Iterable[list[str]]) -> str:
    rows = zip(index, lines, strict=True)
    body = "\n".join(f"<tr>{_name(str(name))}{''.join(cells)}</tr>" for name, cells in rows)
    return f'<div class="scroll"><table>\n<thead>{heads}</thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _name(name: str) -> str:
    """The first cell of a line. A narrow column breaks a long name before a level or after a sign, not inside a word.

    >>> _name("fico"), _name("education[T.university.degree]")
    ('<td>fico</td>', '<td class="long">education<wbr>[T.<wbr>university.<wbr>degree]</td>')
    """
    if len(name) <= LONG:
        return f"<td>{escape(name)}</td>"
    parts = re.split(r"(?=\[)|(?<=[_.:,/|])(?!$)", name)
    return f'<td class="long">{"<wbr>".join(map(escape, parts))}</td>'


def _head(name: object, text: bool) -> str:
    kind = ' class="text"' if text else ""
    return f'<th scope="col"{kind} data-name="{escape(str(name))}"><button>{escape(str(name))}</button></th>'


def _cell(value: object, how: str | None) -> str:
    if isinstance(value, str):
        return f'<td class="text">{escape(value)}</td>'
    assert isinstance(value, int | float)
    if not math.isfinite(value):
        return "<td></td>"
    return _shown(number(value) if how is None else format(value, how).replace("-", "−"), value)


def _shown(text: str, value: float) -> str:
    if math.isnan(value):
        return "<td></td>"
    return f'<td data-value="{min(max(float(value), -LARGEST), LARGEST)!r}">{escape(text)}</td>'


def number(value: float) -> str:
    """As many digits as one wants to read, with a true minus.

    >>> number(-1234.5), number(-0.01234567), number(16)
    ('−1,234', '−0.01235', '16')
    """
    return rounded(value).replace("-", "−")


def figure(wide: Figure, caption: str, narrow: Figure | None = None) -> str:
    """A figure with its caption, which is also what is read aloud; phones get the narrow one if there is one.

    >>> from tallbayes.results.figure import make_figure
    >>> shown = figure(make_figure(4, 3), "Nothing")
    >>> shown.startswith("<figure"), "<figcaption>Nothing</figcaption>" in shown, "#000000" in shown
    (True, True, False)
    """
    kinds = {"narrow": narrow, "wide": wide} if narrow is not None else {"wide": wide}
    return drawn(caption, **{kind: svg(one, f"{caption} {kind}") for kind, one in kinds.items()})


def drawn(caption: str, **kinds: str) -> str:
    """Figures that are SVG already, "narrow" or "wide", with their caption."""
    each = "\n".join(_inline(one, caption, kind) for kind, one in kinds.items())
    wide = _box(kinds.get("wide") or next(iter(kinds.values())))[1] * PIXELS
    head = f'<figure style="flex-basis: {SMALLER * wide:.0f}px">'
    return f"{head}\n{each}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def _box(found: str) -> tuple[str, float]:
    """The view box of SVG, and its width in points."""
    box = re.search(r'viewBox="(\S+ \S+ (\S+) \S+)"', found)
    assert box is not None
    return box[1], float(box[2])


def svg(figure: Figure, salt: str = "") -> str:
    """The figure as SVG; parts of figures with different salts have different names."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()


def _inline(found: str, caption: str, kind: str) -> str:
    body = re.sub(r"<metadata>.*?</metadata>", "", found[found.index("<svg") :], flags=re.DOTALL)
    box, width = _box(body)
    head = f'<svg class="{kind}" role="img" aria-label="{escape(caption)}" viewBox="{box}"'
    head += f' style="max-width: {width * LARGER[kind] * PIXELS:.0f}px" xmlns:xlink="http://www.w3.org/1999/xlink">'
    short = re.sub(r"<[^>]*>", _shortened, body[body.index(">") + 1 :])
    short = re.sub(r'<g id="[^"]*"', "<g", short)  # other figures of the page have the same
    return head + re.sub(r"#[0-9a-fA-F]{6}\b", _colour, short)


def _shortened(tag: re.Match[str]) -> str:
    """A hundredth of a point cannot be seen; words between tags stay as they are."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0])


def _colour(found: re.Match[str]) -> str:
    """What the page has instead of a colour."""
    colour = found[0].lower()
    for name, known in zip(NAMES, COLOURS, strict=False):
        if colour == known.lower():
            return f"var(--{name})"
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    if not red == green == blue:
        return colour
    return f"color-mix(in srgb, var(--ink) {round(100 * (1 - red / 255))}%, var(--paper))"
