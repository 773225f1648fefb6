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

from tallbayes.paper import bank, hierarchical, loans, mars
from tallbayes.paper.experiment import Experiment, Finding
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
    anew after each experiment, so that an interrupted run leaves what is done.
    """
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        raise ValueError(f"no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    given, found = _data(data), list[tuple[Experiment, float]]()
    for name in names:
        module, began = EXPERIMENTS[name], time.perf_counter()
        result = module.run(module.FULL if full else module.Size(), given.get(name), tell)
        found.append((result, time.perf_counter() - began))
        write(found, folder)
    return folder / "index.html"


def write(found: Sequence[tuple[Experiment, float]], folder: Path) -> None:
    """The page of experiments and the seconds that each took; tables and figures beside it, a folder for each."""
    for experiment, _ in found:
        own = folder / experiment.name
        own.mkdir(exist_ok=True)
        for name, (_, table) in experiment.tables.items():
            table.to_csv(own / f"{name}.csv")
        for name, (_, figure) in experiment.figures.items():
            (own / f"{name}.svg").write_text(page.svg(figure), encoding="utf-8")
    parts = [_section(experiment, seconds) for experiment, seconds in found]
    (folder / "index.html").write_text(page.page(TITLE, escape(LEAD), parts), encoding="utf-8")


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


def _section(experiment: Experiment, seconds: float) -> str:
    figures = [page.figure(figure, caption) for caption, figure in experiment.figures.values()]
    tables = [
        f"<h3>{escape(caption)}</h3>\n{page.table(table, str(table.index.name or ''))}"
        for caption, table in experiment.tables.values()
    ]
    return page.section(
        experiment.title,
        page.text(f"{experiment.setting} All of it took {seconds / 60:.1f} minutes."),
        page.table(_verdicts(experiment.findings), "agrees"),
        page.text(*experiment.discussion),
        *tables,
        *figures,
    )


def _verdicts(findings: Sequence[Finding]) -> pd.DataFrame:
    index = pd.Index(["yes" if one.agrees else "no" for one in findings])
    return pd.DataFrame(
        {"the paper": [one.papers for one in findings], "here": [one.ours for one in findings]}, index=index
    )
