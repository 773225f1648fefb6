"""Pictures of splines: how much each variable matters, and the log-odds as a function of one variable or of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.results.figure import (
    COLOURS,
    LINES,
    MARKERS,
    clean,
    finish,
    legend,
    make_figure,
    make_panel,
    make_panels,
    name_lines,
    rule,
    wrapped,
    write_right,
)
from tallbayes.results.fit import Fit
from tallbayes.splines.result import FEW, MARSFit

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

MANY = 40  # variables; how much the others matter is not drawn
PANELS = 12  # variables whose effects are drawn unless they are named
CUTS = (10, 50, 90)  # quantiles, in percent, of the second variable at which the effect of the first is drawn


def importance(fit: MARSFit) -> Figure:
    """Draw how much each variable matters, and the share of draws that include it.

    The effect of a variable is the standard deviation of what changes in the log-odds with that variable alone.

    >>> from tallbayes.splines.result import example_mars
    >>> figure = importance(example_mars())
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['age', 'urban', 'income']
    """
    _check(fit)
    table = fit.importance()
    left_out, table = _left_out(len(table) - MANY), table.iloc[:MANY]
    names, y = [str(name) for name in table.index], np.arange(len(table))
    mean, low, high = (table[name].to_numpy() for name in ("effect", "eti94_lb", "eti94_ub"))
    figure, panel = make_panel(5.4 + 0.08 * max(map(len, names)), 1.3 + 0.25 * len(names))
    rule(panel)
    panel.plot(mean, y, "o", color=COLOURS[0], markersize=5, clip_on=False, label="posterior mean")
    panel.hlines(y, low, high, colors=COLOURS[0], linewidth=1.6, capstyle="round", label="94% interval")
    name_lines(panel, names)
    panel.set(xlim=(0, 1.05 * high.max() or 1.0), ylim=(len(names) - 0.3, -1.0))
    write_right(panel, [*y, -1], [*(f"{share:.0%}" for share in table["included"]), "included"])
    panel.set_xlabel("\n".join(["sd of what the variable changes in the log-odds", *left_out]), fontsize=9)
    legend(figure, [panel])
    return figure


def effects(fit: MARSFit, variables: Sequence[str] | None = None, columns: int = 4) -> Figure:
    """Draw the log-odds as a function of each variable, averaged over the others.

    The variables are those named, or the twelve that matter most. The ticks at the bottom are percentiles of the data.

    >>> from tallbayes.splines.result import example_mars
    >>> [panel.get_title() for panel in effects(example_mars(), ["age", "urban"]).axes]
    ['age', 'urban']
    """
    _check(fit)
    ranked = [str(name) for name in fit.importance().index]
    names = ranked[:PANELS] if variables is None else list(variables)
    found = [fit.effect(name) for name in names]
    figure, panels = make_panels(names, width=2.7, height=2.1, most_columns=columns)
    for panel, name, each in zip(panels, names, found, strict=True):
        if panel is not panels[0]:
            panel.sharey(panels[0])
        place = panel.get_subplotspec()
        if place and place.is_first_col():
            panel.set_ylabel("log-odds", fontsize=9)
        else:
            panel.tick_params(labelleft=False)
        panel.margins(y=0.1)  # so that the ticks of the data stand below the bands
        rule(panel)
        _draw_effect(panel, each[name].values, each, ("posterior mean", "94% interval"))
        if each.sizes[name] > FEW:
            _draw_rug(panel, fit.table["quantiles"].sel(variable=name).values[1:-1])
    # Those with lines first: in the legend the interval of a point would look like a line.
    panels.sort(key=lambda panel: len(panel.get_legend_handles_labels()[0]), reverse=True)
    finish(figure, panels, "\n".join(_left_out(len(ranked) - PANELS if variables is None else 0)))
    return figure


def interaction(fit: MARSFit, first: str, second: str, columns: int = 2) -> Figure:
    """Draw the log-odds as a function of two variables, averaged over the others.

    On the left is a map of its mean, on the right the effect of the first variable at three values of the second, which
    triangles mark in the map: its quantiles or, if it takes few values, some of these. In a single one of `columns`,
    the map stands above it.

    >>> from tallbayes.splines.result import example_mars
    >>> figure = interaction(example_mars(), "age", "urban")
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['0', '1']
    """
    _check(fit)
    found = fit.effect(first, second)
    x, y = found[first].values, found[second].values
    cuts = _cuts(fit, second, y)
    at_cuts = fit.effect(first, second, grids=(x, list(cuts.values())))
    figure = make_figure(9.6, 3.5) if columns > 1 else make_figure(5.6, 6.4)
    left, right = figure.subplots(*((1, 2) if columns > 1 else (2, 1)))
    clean(left, "posterior mean")
    clean(right, "posterior mean and 94% interval")
    _draw_map(figure, left, x, y, found["mean"].values.T)
    for i, (label, value) in enumerate(cuts.items()):
        shift = 0.16 * (i - (len(cuts) - 1) / 2)
        _draw_effect(right, x, at_cuts.isel({second: i}), (label, ""), i, shift)
        place = value if y.size > FEW else np.searchsorted(y, value)
        left.plot(1.02, place, "<", color=COLOURS[i], transform=left.get_yaxis_transform(), clip_on=False, zorder=4)
    left.set_ylabel(wrapped(second), fontsize=9, parse_math=False)
    right.set_ylabel("log-odds", fontsize=9)
    rule(right)
    for panel in (left, right):
        panel.set_xlabel(wrapped(first), fontsize=9, parse_math=False)
        panel.locator_params(axis="x", nbins=5)
    legend(figure, [right], title=second)
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


def _draw_map(figure: Figure, panel: Axes, x: Array, y: Array, mean: Array) -> None:
    """The mean (y, x) in colours, with contours unless a variable takes few values."""
    smooth = min(x.size, y.size) > FEW
    picture = panel.imshow(mean, extent=(*_ends(x), *_ends(y)), origin="lower", aspect="auto")
    picture.set_interpolation("bilinear" if smooth else "nearest")
    bar = figure.colorbar(picture, ax=panel)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8)
    bar.ax.set_title("log-odds", fontsize=9, loc="left")
    low, high = float(mean.min()), float(mean.max())
    levels = [float(level) for level in bar.get_ticks() if low < level < high]
    if smooth and levels:
        light = low + 0.6 * (high - low)  # from here on the colours are so light that lines must be dark
        colours = ["0.2" if level > light else "white" for level in levels]
        lines = panel.contour(x, y, mean, levels, colors=colours, linewidths=0.7, linestyles="-")
        panel.clabel(lines, fontsize=7)
    for axis, values, separate in ((panel.xaxis, x, panel.axvline), (panel.yaxis, y, panel.axhline)):
        if values.size <= FEW:
            _name_values(axis, values)
            for i in range(1, values.size):
                separate(i - 0.5, color="white", linewidth=1.5)


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


def _left_out(count: int) -> list[str]:
    return [f"(not shown: {count:,} of lesser effect)"] if count > 0 else []


def _number(value: float) -> str:
    return (f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def _check(fit: Fit) -> None:
    if not isinstance(fit, MARSFit):
        raise TypeError(
            f"this figure needs the fit of a spline, a MARSFit, not a {type(fit).__name__}; get one with "
            "sample(MARS(formula, data)), or draw what you have with plots.trace or plots.density"
        )
