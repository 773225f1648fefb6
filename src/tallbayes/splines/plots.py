"""Pictures of splines: how much each variable matters, and what one variable does, or two together.

On the probability scale they show what was stored with the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_kind, check_texts, check_whole
from tallbayes.results.figure import (
    COLOURS,
    LINES,
    MARKERS,
    PHONE,
    clean,
    finish,
    legend,
    make_figure,
    make_panel,
    make_panels,
    name_above,
    name_lines,
    rule,
    too_long,
    wrapped,
    write_right,
)
from tallbayes.results.fit import Fit
from tallbayes.splines.fit import MARSFit
from tallbayes.splines.probabilities import CUTS, FEW, GRID

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

Array = NDArray[np.float64]

MANY = 40  # variables; how much the others matter is not drawn
DARK, LIGHT = "#000001", "#fffffe"  # on a map; greys proper would follow the page, which may be dark
BRIGHT = 0.179  # the luminance of a colour from which on black stands out from it more than white does
PANELS = 12  # variables whose effects are drawn unless they are named


def importance(fit: MARSFit, narrow: bool = False) -> Figure:
    """Draw how much each variable matters, and the share of draws that include it.

    The effect of a variable is the standard deviation of what changes in the log-odds with that variable alone. A
    narrow figure is for phones; long names stand above their lines there.

    >>> from tallbayes.splines.example import example_mars
    >>> figure = importance(example_mars())
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['age', 'urban', 'income']
    """
    _check(fit)
    table = fit.importance()
    left_out, table = _left_out(len(table) - MANY), table.iloc[:MANY]
    check_flag("narrow", narrow)
    names, y = [str(name) for name in table.index], np.arange(len(table))
    mean, low, high = (table[name].to_numpy() for name in ("effect", "eti94_lb", "eti94_ub"))
    above = narrow and too_long(names)
    width = PHONE if narrow else 5.4 + 0.08 * max(map(len, names))
    figure, panel = make_panel(width, 1.3 + (0.4 if above else 0.25) * len(names))
    rule(panel)
    panel.plot(mean, y, "o", color=COLOURS[0], markersize=5, clip_on=False, label="posterior mean")
    panel.hlines(y, low, high, colors=COLOURS[0], linewidth=1.6, capstyle="round", label="94% interval")
    (name_above if above else name_lines)(panel, names)
    panel.set(xlim=(0, 1.05 * high.max() or 1.0), ylim=(len(names) - 0.3, -1.0))
    write_right(panel, [*y, -1], [*(f"{share:.0%}" for share in table["included"]), "included"])
    panel.set_xlabel("\n".join(["sd of what the variable changes in the log-odds", *left_out]), fontsize=9)
    panel.locator_params(axis="x", nbins=5 if narrow else 9)
    legend(figure, [panel])
    return figure


def effects(
    fit: MARSFit,
    variables: Sequence[str] | None = None,
    columns: int = 4,
    *,
    scale: str = "probability",
    narrow: bool = False,
) -> Figure:
    """Draw the probability as a function of each variable, averaged over the others.

    With `scale="log-odds"` it is the log-odds. The variables are those named, or the twelve that matter most. The thin
    line is the base rate, the share of all rows whose outcome is 1. The ticks at the bottom are percentiles of the
    data. A `narrow` figure is for phones, with two columns.

    >>> from tallbayes.splines.example import example_mars
    >>> [panel.get_title() for panel in effects(example_mars(), ["age", "urban"]).axes]
    ['age', 'urban']
    """
    _check(fit)
    check_texts("variables", variables, "a list of variables' names", optional=True)
    ranked = [str(name) for name in fit.importance().index]
    names = ranked[:PANELS] if variables is None else list(variables)
    found = [fit.effect(name, scale=scale) for name in names]
    base = _base_rate(fit) if scale == "probability" else None
    figure, panels = make_panels(names, 2.7, 2.1, 2 if narrow else columns, narrow)
    for panel, name, each in zip(panels, names, found, strict=True):
        if panel is not panels[0]:
            panel.sharey(panels[0])
        place = panel.get_subplotspec()
        if place and place.is_first_col():
            panel.set_ylabel(scale, fontsize=9)
        else:
            panel.tick_params(labelleft=False)
        panel.margins(y=0.1)  # so that the ticks of the data stand below the bands
        rule(panel)
        _draw_effect(panel, each[name].values, each, ("posterior mean", "94% interval"))
        if base is not None:
            panel.axhline(base, color="0.45", linewidth=0.8, linestyle=LINES[2], zorder=1, label="base rate")
        if each.sizes[name] > FEW:
            _draw_rug(panel, fit.table["quantiles"].sel(variable=name).values[1:-1])
    # Those with lines first: in the legend the interval of a point would look like a line.
    panels.sort(key=lambda panel: len(panel.get_legend_handles_labels()[0]), reverse=True)
    finish(figure, panels, "\n".join(_left_out(len(ranked) - PANELS if variables is None else 0)))
    return figure


def interaction(
    fit: MARSFit, first: str, second: str, columns: int = 2, *, scale: str = "probability", narrow: bool = False
) -> Figure:
    """Draw the probability as a function of two variables, averaged over the others.

    On the left is a map of its mean, on the right the effect of the first variable at three values of the second, which
    triangles mark in the map: its quantiles or, if it takes few values, some of these. In a single one of `columns`,
    the map stands above it, as in a `narrow` figure for phones. Probabilities are stored for the few pairs that share
    the most bases; with `scale="log-odds"`, all pairs can be drawn.

    >>> from tallbayes.splines.example import example_mars
    >>> figure = interaction(example_mars(), "age", "urban")
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['0', '1']
    """
    _check(fit)
    check_whole("columns", columns)
    found = fit.effect(first, second, scale=scale)
    x, y = found[first].values, found[second].values
    cuts = _cuts(fit, second, y)
    if scale == "probability":
        at_cuts = found.sel({second: list(cuts.values())}, method="nearest")  # which the grid has
        found = found[["mean"]].interp({name: _even(found[name].values) for name in (first, second)})
    else:
        at_cuts = fit.effect(first, second, grids=(x, list(cuts.values())))
    check_flag("narrow", narrow)
    columns = 1 if narrow else columns
    figure = make_figure(9.6, 3.5) if columns > 1 else make_figure(PHONE if narrow else 4.6, 6.8)
    left, right = figure.subplots(*((1, 2) if columns > 1 else (2, 1)))
    clean(left, f"{scale}: posterior mean")
    clean(right, "posterior mean and 94% interval")
    _draw_map(figure, left, found)
    for i, (label, value) in enumerate(cuts.items()):
        shift = 0.16 * (i - (len(cuts) - 1) / 2)
        _draw_effect(right, x, at_cuts.isel({second: i}), (label, ""), i, shift)
        place = value if y.size > FEW else np.searchsorted(y, value)
        left.plot(1.02, place, "<", color=COLOURS[i], transform=left.get_yaxis_transform(), clip_on=False, zorder=4)
    left.set_ylabel(wrapped(second), fontsize=9, parse_math=False)
    right.set_ylabel(scale, fontsize=9)
    rule(right)
    for panel in (left, right):
        panel.set_xlabel(wrapped(first), fontsize=9, parse_math=False)
        panel.locator_params(axis="x", nbins=5)
    shown = legend(figure, [right], title=second)
    if columns == 1:
        _move(figure, shown, "outside lower center", 1)
    return figure


def _draw_effect(
    panel: Axes, values: Array, found: xr.Dataset, labels: tuple[str, str], i: int = 0, shift: float = 0.0
) -> None:
    """A line in a band, or a point for each of few values, in the i-th colour."""
    mean, low, high = (found[part].values for part in ("mean", "lower", "upper"))
    if values.size <= FEW:
        x = np.arange(values.size) + shift
        panel.plot(x, mean, MARKERS[i], color=COLOURS[i], markersize=4, label=labels[0])
        panel.vlines(x, low, high, colors=COLOURS[i], linewidth=1.8, label=labels[1])
        panel.set_xlim(-0.5, values.size - 0.5)
        _name_values(panel.xaxis, values)
    else:
        panel.plot(values, mean, color=COLOURS[i], linestyle=LINES[i], linewidth=1.8, label=labels[0])
        panel.fill_between(values, low, high, color=COLOURS[i], alpha=0.2, linewidth=0, label=labels[1])


def _draw_rug(panel: Axes, places: Array) -> None:
    (rug,) = panel.plot(places, np.full(places.size, 0.02), "|", transform=panel.get_xaxis_transform())
    rug.set(color="0.4", markersize=6, markeredgewidth=0.5, label="percentiles of the data")


def _draw_map(figure: Figure, panel: Axes, found: xr.Dataset) -> None:
    """The mean of two variables in colours, with contours unless a variable takes few values."""
    (x, y), mean = (found[name].values for name in found["mean"].dims), found["mean"].values.T
    smooth = min(x.size, y.size) > FEW
    picture = panel.imshow(mean, extent=(*_ends(x), *_ends(y)), origin="lower", aspect="auto")
    picture.set_interpolation("bilinear" if smooth else "nearest")
    bar = figure.colorbar(picture, ax=panel)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8)
    low, high = float(mean.min()), float(mean.max())
    levels = [float(level) for level in bar.get_ticks() if low < level < high]
    if smooth and levels:
        colours = [DARK if _luminance(picture.to_rgba(np.array(level))) > BRIGHT else LIGHT for level in levels]
        lines = panel.contour(x, y, mean, levels, colors=colours, linewidths=0.7, linestyles="-")
        panel.clabel(lines, fontsize=8)
    for axis, values, separate in ((panel.xaxis, x, panel.axvline), (panel.yaxis, y, panel.axhline)):
        if values.size <= FEW:
            _name_values(axis, values)
            for i in range(1, values.size):
                separate(i - 0.5, color="white", linewidth=1.5)


def _luminance(colour: Array) -> float:
    """How bright a colour looks, from 0 for black to 1 for white, as rules for contrast have it."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3])
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def _even(values: Array) -> Array:
    """As many values as a map has, evenly spaced; few stay as they are."""
    return values if values.size <= FEW else np.linspace(values[0], values[-1], GRID)


def _base_rate(fit: MARSFit) -> float | None:
    """The share of all rows whose outcome is 1; None if the fit did not look at outcomes."""
    if (found := fit._calibration) is None:
        return None
    return float((found.rows * found.observed).sum() / found.rows.sum())


def _ends(values: Array) -> tuple[float, float]:
    """Where the cells of a map begin and end."""
    if values.size <= FEW:
        return -0.5, values.size - 0.5
    half = (values[1] - values[0]) / 2
    return values[0] - half, values[-1] + half


def _name_values(axis: Axis, values: Array) -> None:
    """Few values stand side by side, however far they are apart."""
    axis.set_ticks(range(values.size), [_number(value) for value in values])


def _cuts(fit: MARSFit, name: str, values: Array) -> dict[str, float]:
    """Values of the second variable, with what to call them: quantiles or, if it takes few values, some of those."""
    if values.size <= FEW:
        some = np.unique(np.linspace(0, values.size - 1, len(CUTS)).round().astype(int))
        return {_number(values[i]): values[i] for i in some}
    quantiles = fit.table["quantiles"].sel(variable=name).values
    return {f"{_number(quantiles[cut])} ({cut}% quantile)": quantiles[cut] for cut in CUTS}


def _move(figure: Figure, shown: Legend, place: Any, columns: int) -> None:
    """The same legend elsewhere, in so many columns."""
    title, labels = shown.get_title().get_text() or None, [text.get_text() for text in shown.get_texts()]
    marks = [mark for mark in shown.legend_handles if mark is not None]
    shown.remove()
    style: dict[str, Any] = {"frameon": False, "fontsize": 9, "title_fontsize": 9}
    moved = figure.legend(marks, labels, loc=place, ncols=columns, title=title, **style)
    moved.get_title().set_parse_math(False)


def _left_out(count: int) -> list[str]:
    return [f"(not shown: {count:,} of lesser effect)"] if count > 0 else []


def _number(value: float) -> str:
    return (f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def _check(fit: Fit) -> None:
    what = "the fit of a spline, such as tb.fit('y ~ s(x)', data) gives (others have plots.trace and plots.density)"
    check_kind("fit", fit, MARSFit, what)
