"""What a notebook shows of a fit: one block of HTML with a style of its own, which follows the notebook's colours.

It inherits ink and paper from the notebook, and mixes in greys and amber that can be seen on light and on dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from tallbayes.results.fit import Fit

TOLD = ("convergence", "mixing", "priors", "warnings")  # facts that are highlighted

PRIOR = "prior"  # a column of text


def block(fit: Fit, others: Mapping[str, pd.DataFrame] | None = None) -> str:
    """The fit as HTML, and other tables after its summary.

    >>> from tallbayes.results.example import example
    >>> shown = block(example())
    >>> shown.count("<table"), '<p class="tb-title">y ~ fico</p>' in shown
    (1, True)
    """
    style = files("tallbayes.results").joinpath("notebook.css").read_text("utf-8")
    fine = not fit._problems() and fit.stats["exact"]
    parts = [
        f'<div class="tallbayes-fit">\n<style>\n{style}</style>',
        f'<p class="tb-title">{escape(fit._title)}</p>',
        f'<p class="tb-lead">{escape(fit._model)}, {fit.stats["rows"]:,} rows</p>',
        f'<dl class="tb-facts">\n{_facts(fit._facts(), fine)}\n</dl>',
        _table(fit._rounded()),
        *(f'<p class="tb-left-out">{escape(line)}</p>' for line in fit._left_out()),
        *(_table(frame, caption) for caption, frame in (others or {}).items()),
        "</div>",
    ]
    return "\n".join(parts)


def _facts(facts: Mapping[str, Sequence[str]], fine: bool) -> str:
    """Titles and what there is to say about each."""
    lines = []
    for title, sentences in facts.items():
        state = "" if title not in TOLD else "good" if fine and title == "convergence" else "bad"
        kind = f' class="tb-{state}"' if state else ""
        lines.append(f"<dt>{escape(title)}</dt><dd{kind}>{'<br>'.join(map(escape, filter(None, sentences)))}</dd>")
    return "\n".join(lines)


def _table(frame: pd.DataFrame, caption: str = "") -> str:
    """A table of numbers, which stand flush right, and of priors."""
    head = f"<caption>{escape(caption)}</caption>" if caption else ""
    names = "".join(f'<th scope="col"{_kind(name)}>{escape(str(name))}</th>' for name in frame.columns)
    lines = (
        f'<tr><th scope="row">{escape(str(name))}</th>'
        + "".join(_cell(column, value) for column, value in zip(frame, values, strict=True))
        + "</tr>"
        for name, *values in frame.itertuples(name=None)
    )
    body = "\n".join(lines)
    return (
        f'<div class="tb-scroll"><table class="tb-table">{head}\n<thead><tr><th></th>{names}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _kind(column: object) -> str:
    return ' class="tb-text"' if column == PRIOR else ""


def _cell(column: object, value: object) -> str:
    text = escape(str(value))
    return f"<td{_kind(column)}>{text if column == PRIOR else text.replace('-', '−')}</td>"
