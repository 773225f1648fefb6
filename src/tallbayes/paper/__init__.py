"""The paper's experiments, each by one call: ours beside the figures that Payne and Mallick report.

`tallbayes reproduce bank` on the command line, or `reproduce(["bank"], "reproduction")` here, write a folder with one
page, tables as CSV and figures as SVG.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from tallbayes.data.writing import check_writable, make_folder, replacing
from tallbayes.paper import bank, hierarchical, loans, mars
from tallbayes.paper.experiment import CutShort, Experiment, Finding, made_until
from tallbayes.results import page

EXPERIMENTS: dict[str, Any] = {"bank": bank, "loans": loans, "hierarchical": hierarchical, "mars": mars}
TITLE = "Two-Stage Metropolis-Hastings for Tall Data, reproduced"
LEAD = (
    "The experiments of R. D. Payne and B. K. Mallick, with their figures beside ours. REDPM is the ratio of "
    "effective draws per minute to those of Metropolis-Hastings."
)


def reproduce(
    names: Sequence[str],
    out: str | Path,
    *,
    full: bool = False,
    data: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Run experiments, write what they found into the folder `out`, and return the page.

    `full` runs the paper's 100,000 iterations. `data` is a folder with the real files: the bank's CSV, Freddie Mac's
    text files. `tell` is called with a line at each step, and then fits show their progress too. The page is written
    again after each experiment.

    Ctrl-C ends the experiment after the fit that is running, is noted on the page, and raises `CutShort`, a
    KeyboardInterrupt that says what is complete.
    """
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        raise ValueError(f"no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    folder = Path(out)
    make_folder(folder)
    check_writable(folder / "index.html")
    given, sections = _data(data), list[str]()
    for place, name in enumerate(names):
        module, began = EXPERIMENTS[name], time.perf_counter()
        try:
            result = module.run(module.FULL if full else module.Size(), given.get(name), tell)
            sections.append(write(result, time.perf_counter() - began, folder))
        except KeyboardInterrupt as error:
            cut = error if isinstance(error, CutShort) else CutShort("")
            sections.append(write(_rest(name, cut), time.perf_counter() - began, folder))
            write_page(sections, folder)
            raise CutShort(_told(names, place, str(cut))) from None
        write_page(sections, folder)
    return folder / "index.html"


def write_page(sections: Sequence[str], folder: Path) -> None:
    """The page with a section for each experiment."""
    with replacing(folder / "index.html") as partial:
        partial.write_text(page.page(TITLE, escape(LEAD), sections), encoding="utf-8")


def write(experiment: Experiment, seconds: float, folder: Path) -> str:
    """Tables and figures of an experiment into a folder of its own; and its section of the page."""
    own = folder / experiment.name
    own.mkdir(exist_ok=True)
    for name, (_, table) in experiment.tables.items():
        with replacing(own / f"{name}.csv") as partial:
            table.to_csv(partial)
    figures = []
    for name, (caption, figure) in experiment.figures.items():
        drawn = page.svg(figure, caption)
        with replacing(own / f"{name}.svg") as partial:
            partial.write_text(drawn, encoding="utf-8")
        figures.append(page.drawn(caption, wide=drawn))
    return _section(experiment, figures, seconds)


def _rest(name: str, cut: CutShort) -> Experiment:
    """What is left of an experiment that was cut short."""
    found = Experiment(name, f"{name}: cut short", f"Ctrl-C ended this experiment {cut}".rstrip() + ".")
    if cut.fits:
        found.tables["cut-short"] = "Fits until then; no finding rests on them.", made_until(cut.fits)
    return found


def _told(names: Sequence[str], place: int, where: str) -> str:
    """What was done and what was not, when the experiment at this place was cut short."""
    done, left = names[:place], names[place + 1 :]
    parts = [
        f"complete: {', '.join(done)}" if done else "nothing is complete",
        f"cut short: {names[place]}{f' {where}' if where else ''}",
        *([f"not begun: {', '.join(left)}"] if left else []),
    ]
    return "; ".join(parts)


def _data(given: str | Path | None) -> dict[str, Path]:
    """The files that each experiment reads, of those that a folder holds."""
    if given is None:
        return {}
    folder = Path(given)
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder '{folder}'")
    known = {"bank": folder} if folder.is_file() or (folder / "bank-additional-full.csv").exists() else {}
    loaned = dict.fromkeys(("loans", "hierarchical"), folder) if any(folder.glob("*20*.txt")) else {}
    if not known | loaned:
        raise FileNotFoundError(f"'{folder}' has neither bank-additional-full.csv nor Freddie Mac's text files")
    return known | loaned


def _section(experiment: Experiment, figures: Sequence[str], seconds: float) -> str:
    tables = [
        f"<h3>{escape(caption)}</h3>\n{page.table(table, str(table.index.name or ''))}"
        for caption, table in experiment.tables.values()
    ]
    return page.section(
        experiment.title,
        page.text(f"{experiment.setting} All of it took {seconds / 60:.1f} minutes."),
        *([page.table(_verdicts(experiment.findings), "agrees")] if experiment.findings else []),
        page.text(*experiment.discussion),
        *tables,
        *figures,
    )


def _verdicts(findings: Sequence[Finding]) -> pd.DataFrame:
    index = pd.Index(["yes" if one.agrees else "no" for one in findings])
    return pd.DataFrame(
        {"the paper": [one.papers for one in findings], "here": [one.ours for one in findings]}, index=index
    )
