"""What all pictures share: a figure that belongs to nobody, panels with a title each, colours, intervals, a legend."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_texts, check_whole, refuse
from tallbayes.results.fit import Fit, check_fit
from tallbayes.results.names import main_names, places

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
# So that lines on top of each other show.
LINES = ("-", (0, (5, 2)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
SHORT = 16  # letters of names that have room beside their lines on a phone
PHONE = 3.9  # inches: as wide as a phone shows in about its own size
LETTERS = 13.5  # of a title in an inch
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def make_figure(width: float, height: float) -> Figure:
    """A figure of so many inches that makes room for what is around its panels.

    >>> make_figure(4, 3).get_size_inches().tolist()
    [4.0, 3.0]
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06)
    return figure


def make_panel(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one panel and no title.

    >>> make_panel(4, 3)[1].get_title()
    ''
    """
    figure = make_figure(width, height)
    panel = figure.add_subplot()
    clean(panel, "")
    return figure, panel


def make_panels(
    names: Sequence[str], width: float, height: float, most_columns: int, narrow: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with one titled panel per name, in rows as even as can be; a narrow one is as wide as a phone.

    >>> _, panels = make_panels(["a", "b", "c", "d"], width=2, height=2, most_columns=3)
    >>> [(panel.get_title(), panel.get_subplotspec().colspan.start) for panel in panels]
    [('a', 0), ('b', 1), ('c', 0), ('d', 1)]
    """
    check_whole("columns", most_columns)
    check_flag("narrow", narrow)
    if not names:
        raise ValueError("nothing to draw; give at least one name")
    rows = math.ceil(len(names) / most_columns)
    columns = math.ceil(len(names) / rows)
    every = PHONE if narrow else max(4.5, width * columns)
    figure = make_figure(every, 0.6 + height * rows)
    grid = figure.add_gridspec(rows, columns)
    panels = [figure.add_subplot(grid[divmod(i, columns)]) for i in range(len(names))]
    for panel, name in zip(panels, names, strict=True):
        clean(panel, name, int(LETTERS * every / columns))
    return figure, panels


def clean(panel: Axes, title: str, width: int = 36) -> None:
    """Give a panel its title, small numbers, and no frame at the top and the right.

    >>> panel = make_figure(4, 3).add_subplot()
    >>> clean(panel, "fico")
    >>> panel.get_title(), panel.spines["top"].get_visible()
    ('fico', False)
    """
    # A name may hold dollars, which matplotlib would read as formulas.
    panel.set_title(wrapped(title, width), fontsize=9, parse_math=False)
    panel.tick_params(labelsize=8)
    for axis in (panel.xaxis, panel.yaxis):  # such as 1e-5, which all numbers have in common
        axis.get_offset_text().set_fontsize(8)
    panel.spines[["top", "right"]].set_visible(False)


def wrapped(name: str, width: int = 36) -> str:
    """A long name in several lines; that of an interaction is broken after its colons, and long parts before a level.

    >>> wrapped("education[T.university.degree]:marital[T.unknown]").splitlines()
    ['education[T.university.degree]:', 'marital[T.unknown]']
    """
    parts = [name] if len(name) <= width else name.replace(":", ":\n").splitlines()
    lines = (
        line for part in parts for line in ([part] if len(part) <= width else part.replace("[", "\n[").split("\n"))
    )
    return "\n".join(textwrap.fill(line, width) for line in lines)


def rule(panel: Axes, color: str = "0.94") -> None:
    """Draw faint lines across a panel, behind all else."""
    panel.grid(axis="y", color=color)
    panel.set_axisbelow(True)


def name_lines(panel: Axes, names: Sequence[str], pad: float = 7) -> None:
    """Write a name to the left of each line, instead of an axis."""
    panel.set_yticks(range(len(names)), names, parse_math=False)
    panel.tick_params(axis="y", length=0, pad=pad)
    panel.spines["left"].set_visible(False)


def name_above(panel: Axes, names: Sequence[str], more: Sequence[str] | None = None, away: float = -0.42) -> None:
    """Write a name above each line, where there is no room beside it; `more` stands at the other end.

    That is so far `away` from the line, which is upwards where the first line is at the top.

    >>> panel = make_figure(4, 3).add_subplot()
    >>> name_above(panel, ["fico"], ["clipped"])
    >>> [text.get_text() for text in panel.texts]
    ['fico', 'clipped']
    """
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    for ends, x, side in ((names, 0.0, "left"), (more or [], 1.0, "right")):
        for y, name in enumerate(ends):
            style: dict[str, Any] = {"ha": side, "va": "center", "fontsize": 8, "parse_math": False}
            panel.text(x, y + away, wrapped(name, 52), transform=panel.get_yaxis_transform(), **style)


def too_long(names: Iterable[str]) -> bool:
    """Whether some names are too long to stand beside their lines on a phone.

    >>> too_long(["fico", "dti"]), too_long(["education[T.basic]"])
    (False, True)
    """
    return max(map(len, names)) > SHORT


def write_right(panel: Axes, places: Sequence[float], texts: Sequence[str]) -> None:
    """Write texts at these heights along the right edge of a panel, flush right.

    >>> panel = make_figure(4, 3).add_subplot()
    >>> write_right(panel, [0, 1], ["95%", "100%"])
    >>> [text.get_text() for text in panel.child_axes[0].get_yticklabels()]
    ['95%', '100%']
    """
    right = panel.secondary_yaxis("right")
    right.set_yticks(places, texts, ha="right")
    right.tick_params(length=0, labelsize=8, labelcolor="0.3", pad=6 + 5 * max(map(len, texts)))
    right.spines["right"].set_visible(False)


def intervals(panel: Axes, mean: NDArray[np.float64], ends: NDArray[np.float64]) -> None:
    """Draw a mean, the 50% and the 94% interval in each line, from quantiles `ends` (4, lines).

    >>> panel = make_figure(4, 3).add_subplot()
    >>> intervals(panel, np.array([0.0]), np.array([[-2.0], [-1.0], [1.0], [2.0]]))
    >>> panel.get_legend_handles_labels()[1]
    ['94% interval', '50% interval', 'posterior mean']
    """
    y = np.arange(len(mean))
    rule(panel)
    style: dict[str, Any] = {"colors": COLOURS[0], "capstyle": "round"}
    panel.hlines(y, ends[0], ends[3], linewidth=1.2, label="94% interval", **style)
    panel.hlines(y, ends[1], ends[2], linewidth=3.6, label="50% interval", **style)
    dot: dict[str, Any] = {"color": "white", "markeredgecolor": COLOURS[0], "markersize": 4.5, "zorder": 4}
    panel.plot(mean, y, "o", label="posterior mean", **dot)


def legend(figure: Figure, panels: Sequence[Axes], title: str | None = None) -> Legend:
    """One legend of what is in these panels: above them in lines or, under a title, to the right.

    >>> figure, panels = make_panels(["fico"], width=4, height=3, most_columns=1)
    >>> _ = panels[0].plot([1, 2], label="chain 1")
    >>> [text.get_text() for text in legend(figure, panels).get_texts()]
    ['chain 1']
    """
    marks: dict[str, Artist] = {}
    for panel in panels:
        for mark, label in zip(*panel.get_legend_handles_labels(), strict=True):
            marks.setdefault(label, mark)
    style: dict[str, Any] = {"frameon": False, "fontsize": 9}
    if title is None:
        columns = _columns([len(label) for label in marks], figure.get_figwidth())
        style |= {"columnspacing": 1.2, "handlelength": 1.6, "handletextpad": 0.6}
        return figure.legend(marks.values(), marks, loc="outside upper center", ncols=columns, **style)
    beside = figure.legend(marks.values(), marks, loc="outside right center", title=wrapped(title, 20), **style)
    beside.get_title().set(fontsize=9, parse_math=False)
    return beside


def _columns(lengths: Sequence[int], width: float) -> int:
    """Columns of a legend for labels of so many letters, in so many inches, in lines as even as can be.

    >>> _columns([7, 7, 7, 7], 3.9), _columns([14, 12, 9, 23], 3.9), _columns([40], 3.9)
    (4, 2, 1)
    """
    for columns in range(min(4, len(lengths)), 1, -1):
        lines = math.ceil(len(lengths) / columns)
        widest = [max(lengths[start : start + lines]) for start in range(0, len(lengths), lines)]
        if sum(0.45 + 0.072 * longest for longest in widest) <= width:
            return len(widest)
    return 1


def finish(figure: Figure, panels: list[Axes], label: str | None) -> None:
    """Few numbers below each panel, one label below all, and above them a legend in which lines can be seen.

    There is none if all lines have the same label.

    >>> figure, panels = make_panels(["fico", "dti"], width=4, height=3, most_columns=2)
    >>> for chain in (1, 2):
    ...     _ = panels[0].plot([1, 2], label=f"chain {chain}")
    >>> finish(figure, panels, "draw")
    >>> figure.get_supxlabel(), len(figure.legends)
    ('draw', 1)
    """
    for panel in panels:
        panel.locator_params(axis="x", nbins=4)
    if label:
        figure.supxlabel(label, fontsize=9)
    if len({label for panel in panels for label in panel.get_legend_handles_labels()[1]}) > 1:
        for line in legend(figure, panels).get_lines():
            line.set(linewidth=1.8, alpha=1)


def chosen(fit: Fit, names: Sequence[str] | None) -> list[str]:
    """The names asked for, all that can be drawn if none; refuses those that the fit does not have.

    >>> from tallbayes.results.example import example
    >>> chosen(example(), None)
    ['Intercept', 'fico']
    """
    check_fit("fit", fit)
    check_texts("names", names, "a list of parameters' names", optional=True)
    if names is not None and not len(names):
        refuse("names", "a list of parameters' names, with at least one name", names)
    places(fit, names or ())
    return list(main_names(fit) if names is None else names)
