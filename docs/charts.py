"""Charts for the page of benchmarks, drawn from the tables that the benchmarks printed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from tallbayes.results import page
from tallbayes.results.figure import COLOURS, make_panel, name_lines

Table = Sequence[str]  # the lines of a file of results
WIDTHS = {"narrow": 3.7, "wide": 7.2}  # inches
RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"

# What the tables call things, and what the charts call them.
SAMPLERS = {
    "auto": "tallbayes, auto",
    "two_stage": "tallbayes, two-stage",
    "pymhss": "PyMHSS",
    "mh": "tallbayes, MH",
    "nutpie": "nutpie",
    "numpyro_float32": "NumPyro, float32",
    "numpyro_float64": "NumPyro, float64",
}
ESTIMATES = {
    "sklearn_newton_cholesky": "scikit-learn, Newton",
    "glum": "glum",
    "statsmodels": "statsmodels",
    "sklearn_lbfgs": "scikit-learn, lbfgs",
}
METHODS = {
    "auto": "auto",
    "rows_22400": "two-stage, 1% of rows",
    "rows_224000": "two-stage, 10% of rows",
    "uniform": "two-stage, as in the paper",
    "mh": "Metropolis-Hastings",
}
OUT_OF_CORE = {
    "scan": "reading the files once",
    "ours": "tallbayes, posterior",
    "sgd_one_epoch": "SGD, one epoch",
    "sgd": "SGD, more epochs",
    "dask_ml": "dask-ml",
    "newton": "Newton's method",
    "xgboost": "XGBoost",
    "numpyro": "NumPyro",
}


@dataclass(frozen=True)
class Chart:
    """A title, what is measured, and a line for each name: its value, or in words why there is none."""

    title: str
    measure: str
    caption: str
    values: Mapping[str, float | str]
    log: bool = False

    def draw(self, width: float) -> Figure:
        """A bar for each value, or a mark where the scale is logarithmic and bars would have no beginning."""
        figure, panel = make_panel(width, 0.75 + 0.27 * len(self.values))
        numbers = [value for value in self.values.values() if not isinstance(value, str)]
        start = 10**-0.5 * min(numbers) if self.log else 0.0
        for place, (name, value) in enumerate(self.values.items()):
            colour = COLOURS[0] if name.startswith(("tallbayes", "auto")) else "0.6"
            if isinstance(value, str):
                panel.text(start, place, value, fontsize=8, color="0.4", va="center")
                continue
            if self.log:
                panel.hlines(place, start, value, color="0.88", linewidth=1)
                panel.plot(value, place, "o", color=colour, markersize=6)
            else:
                panel.barh(place, value, height=0.55, color=colour)
            panel.annotate(
                shown(value), (value, place), (6, 0), textcoords="offset points", fontsize=8, color="0.25", va="center"
            )
        panel.set_xlim(start, (30 if self.log else 1.15) * max(numbers))
        panel.set_ylim(len(self.values) - 0.4, -0.6)
        panel.set_xlabel(self.measure, fontsize=8)
        name_lines(panel, list(self.values))
        if self.log:
            panel.set_xscale("log")
            powers = range(math.ceil(math.log10(start)), math.floor(math.log10(max(numbers))) + 1, 2)
            panel.set_xticks([10.0**power for power in powers], [f"{10**power:,}" for power in powers])
            panel.minorticks_off()
            panel.grid(axis="x", color="0.94")
        else:  # each bar has its number
            panel.set_xticks([])
        panel.spines["bottom"].set_visible(False)
        panel.tick_params(axis="x", length=0, labelcolor="0.5")
        return figure

    def html(self) -> str:
        """The chart as a part of a page: wide, and narrow for phones."""
        kinds = {kind: page.svg(self.draw(width), f"{self.title} {kind}") for kind, width in WIDTHS.items()}
        return page.drawn(self.caption, **kinds)


def shown(value: float) -> str:
    """A number to three digits.

    >>> shown(0.389), shown(25.6), shown(78500.0)
    ('0.389', '25.6', '78,500')
    """
    return f"{float(f'{value:.3g}'):,g}" if value < 1_000_000 else f"{float(f'{value:.3g}'):,.0f}"


def cell(lines: Table, head: str, row: str, column: str) -> float | None:
    """A number in a table whose columns are flush right; None where it is empty. `head` is in the line of the names.

    >>> lines = ["     total s  rows a draw", "mh      35.9     1.61e+07", "nutpie           1.86e+07"]
    >>> cell(lines, "total s", "mh", "rows a draw"), cell(lines, "total s", "nutpie", "total s")
    (16100000.0, None)
    """
    names = next(start for start, line in enumerate(lines) if head in line)
    place = re.search(rf"(?<!\S){re.escape(column)}(?!\S)", lines[names])
    assert place is not None, column
    found = next(line for line in lines[names:] if line.startswith(f"{row} "))[: place.end()]
    return None if found[-1] == " " else float(found.split()[-1].replace(",", ""))


def number(lines: Table, head: str, row: str, column: str) -> float:
    """A number that must be there."""
    found = cell(lines, head, row, column)
    assert found is not None, (row, column)
    return found


def charts(results: Path = RESULTS) -> list[Chart]:
    """Those of the page, in their order.

    >>> [chart.title for chart in charts()][:2]
    ['Effective draws a second', 'Seconds to a result']
    """
    peers, groups, disk = (
        (results / f"{name}.txt").read_text("utf-8").splitlines()
        for name in ("peers", "hierarchical-loans", "out_of_core")
    )
    return [
        Chart(
            "Effective draws a second",
            "effective draws a second, log scale",
            "2.3 million loans, 7 coefficients: the least effective sample size over all seconds, set-up included. All "
            "have the same priors but PyMHSS, which has none. NUTS (nutpie and NumPyro) had four minutes at most, "
            "much of it for warm-up: without set-up it makes 0.3 to 1.5 effective draws a second.",
            {name: number(peers, "total s", row, "min ESS/s") for row, name in SAMPLERS.items()},
            log=True,
        ),
        Chart(
            "Seconds to a result",
            "seconds",
            "The same loans: seconds to 40,000 draws from the posterior, and to the point estimates of other packages.",
            {"tallbayes, 40,000 draws": number(peers, "total s", "auto", "total s")}
            | {name: number(peers, "total s", row, "total s") for row, name in ESTIMATES.items()},
        ),
        Chart(
            "100 million rows in 2 GB of memory",
            "seconds",
            "From Parquet files to a result, within 2 GB. Only tallbayes gives a posterior; the others give point "
            "estimates, and the two runs of SGD stopped short of theirs.",
            {name: _seconds(disk, row) for row, name in OUT_OF_CORE.items()},
        ),
        Chart(
            "Groups",
            "effective draws a minute, log scale",
            "The same loans with an effect for each of 16 banks: median effective draws a minute over 24 parameters. "
            "tallbayes runs all five.",
            {name: number(groups, "mh rows_224000", "edpm_median", column) for column, name in METHODS.items()},
            log=True,
        ),
    ]


def _seconds(lines: Table, row: str) -> float | str:
    """Of the last table, or that memory did not suffice."""
    last = max(place for place, line in enumerate(lines) if line.startswith("Loans, "))
    found = cell(lines[last:], "seconds", row, "seconds")
    return "out of memory" if found is None else found
