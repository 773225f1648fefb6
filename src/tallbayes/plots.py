"""Pictures of fits: traces, densities of several methods over each other, effective draws per minute, group effects;
of splines, how much each variable matters and what it does.

Every function returns a matplotlib Figure that belongs to nobody: save it with `figure.savefig("name.png")`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.compare import compare_parameters
from tallbayes.drawing import COLOURS, LINES, MARKERS, clean, finish, legend, make_figure, make_panels, write_right
from tallbayes.result import Fit
from tallbayes.spline_plots import effects, importance, interaction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["caterpillar", "density", "effects", "importance", "interaction", "redpm", "trace"]

Array = NDArray[np.float64]

TRACE_POINTS = 1_000  # of each chain
GRID = 400  # bins of a density
MANY = 40  # parameters; of more than these only the coefficients and the sd of the groups are drawn unless asked for


def trace(fit: Fit, names: Sequence[str] | None = None) -> Figure:
    """Draw the path of each chain, one panel a parameter: those named, or all but the effects of many groups.

    >>> from tallbayes.result import example
    >>> [panel.get_title() for panel in trace(example(draws=50), ["fico"]).axes]
    ['fico']
    """
    names = _chosen(fit, names)
    figure, panels = make_panels(names, width=4.2, height=1.6, most_columns=3)
    chains, count = fit.posterior.sizes["chain"], fit.posterior.sizes["draw"]
    kept = np.arange(0, count, math.ceil(count / TRACE_POINTS))
    for panel, values in zip(panels, _columns(fit, names), strict=True):
        for chain in range(chains):
            (line,) = panel.plot(kept, values[chain, kept], label=f"chain {chain + 1}")
            line.set(color=COLOURS[chain % len(COLOURS)], linewidth=0.6, alpha=0.75)
        panel.set_xlim(0, max(1, count - 1))
    finish(figure, panels, "draw")
    return figure


def density(names: Sequence[str] | None = None, /, **fits: Fit) -> Figure:
    """Draw the posterior density of each parameter, a panel each, with a line per fit.

    The parameters are those named, or all but the effects of many groups.

    >>> from tallbayes.result import example
    >>> figure = density(mh=example(), two_stage=example(seed=1))
    >>> len(figure.axes), len(figure.axes[0].lines)
    (2, 2)
    """
    if not fits:
        raise ValueError("nothing to draw; give fits by name, as in density(mh=fit_a, two_stage=fit_b)")
    names = _chosen(next(iter(fits.values())), names)
    figure, panels = make_panels(names, width=2.7, height=1.9, most_columns=4)
    for i, (label, fit) in enumerate(fits.items()):
        effective = fit.summary()["ess_bulk"]
        style: dict[str, Any] = {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": LINES[i % len(LINES)],
            "linewidth": 1.8,
            "label": label,
        }
        for panel, name, values in zip(panels, _chosen(fit, names), _columns(fit, names), strict=True):
            if np.ptp(values) == 0:
                panel.axvline(values.flat[0], **style)
            else:
                panel.plot(*_smooth(values.ravel(), effective[name]), **style)
    for panel in panels:
        panel.set_yticks([])
        panel.set_ylim(bottom=0)
        panel.spines["left"].set_visible(False)
    finish(figure, panels, None)
    return figure


def redpm(thins: Sequence[int] = (1, 10, 20), /, **fits: Fit) -> Figure:
    """Draw how many times the first fit's effective draws per minute the others reach, a panel per thinning.

    The parameters are all but the effects of many groups.

    >>> from tallbayes.result import example
    >>> figure = redpm(mh=example(), faster=example(seed=1, seconds=30.0))
    >>> [panel.get_title() for panel in figure.axes]
    ['every draw', 'every 10th draw', 'every 20th draw']
    """
    if len(fits) < 2:
        raise ValueError("redpm needs a reference and a fit to compare: redpm(mh=fit_a, two_stage=fit_b)")
    reference, *others = fits
    names = _chosen(fits[reference], None)
    tables = [compare_parameters(thin, **fits).loc[names, others] for thin in thins]
    margin = 0.4 + 0.08 * max(len(name) for name in names)
    figure = make_figure(margin + 2.4 * len(thins), 1.3 + 0.27 * len(names))
    panels = figure.subplots(1, len(thins), sharex=True, sharey=True, squeeze=False)[0]
    ratios = np.concatenate([table.to_numpy().ravel() for table in tables])
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    wide = ratios.size > 0 and (ratios.max() > 10 or ratios.min() < 0.1)
    for panel, thin, table in zip(panels, thins, tables, strict=True):
        clean(panel, "every draw" if thin == 1 else f"every {_ordinal(thin)} draw")
        panel.axvline(1, color="0.4", linewidth=1)
        panel.grid(axis="y", color="0.92")
        panel.set_axisbelow(True)
        for i, other in enumerate(others, start=1):  # the colour that `density` gives this fit
            style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "markersize": 5}
            panel.plot(table[other], range(len(names)), linestyle="", label=other, **style)
        if table.isna().all(axis=None):
            middle = {"ha": "center", "va": "center", "color": "0.4"}
            panel.text(0.5, 0.5, "too few draws", transform=panel.transAxes, **middle)
    panels[0].set_yticks(range(len(names)), names, parse_math=False)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    if wide:
        panels[0].set_xscale("log")
    else:
        panels[0].set_xlim(0, 1.08 * max(1.2, ratios.max(initial=1.0)))
    figure.supxlabel(f"effective draws per minute, over those of {reference}", fontsize=9)
    legend(figure, panels)
    return figure


def caterpillar(fit: Fit, most: int = 60) -> Figure:
    """Draw the posterior of each group's effect, sorted by its mean: the mean, the 50% and the 94% interval.

    Hollow marks show what each group's rows alone would give, so that one sees how far the others pull it in; those
    beyond the picture are triangles at its edge. More than `most` groups are drawn as bands, without their names.

    >>> from tallbayes.result import example
    >>> figure = caterpillar(example(groups=5))
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['b01', 'b02', 'b03', 'b05', 'b04']
    """
    if fit.group is None:
        raise ValueError("this fit has no groups to draw; fit a formula with a group term such as (1 | bank)")
    effects = fit.posterior[f"1|{fit.group}"].transpose("chain", "draw", fit.group).values
    mean = effects.mean(axis=(0, 1))
    order = np.argsort(mean, kind="stable")
    ends = np.quantile(effects, [0.03, 0.25, 0.75, 0.97], axis=(0, 1))[:, order]
    levels = [str(level) for level in fit.posterior[fit.group].values[order].tolist()]
    named = len(levels) <= most
    width = 6.6 + (0.08 * max(map(len, levels)) if named else 0)
    figure = make_figure(width, 1.3 + 0.22 * len(levels) if named else 7.5)
    panel = figure.add_subplot()
    clean(panel, "")
    panel.axvline(0, color="0.4", linewidth=1)
    (_draw_intervals if named else _draw_bands)(panel, mean[order], ends)
    margin = 0.04 * np.ptp(ends) or 1.0
    panel.set(xlim=(ends.min() - margin, ends.max() + margin), ylim=(-0.8, len(levels)))
    facts = {} if fit.groups is None else {str(name): fit.groups[name].values[order] for name in fit.groups}
    if "alone" in facts:
        _draw_alone(panel, facts["alone"], named)
    if named:
        _name_groups(panel, levels, facts.get("rows"))
    else:
        panel.set_yticks([])
        panel.set_ylabel(f"{len(levels):,} groups, sorted by posterior mean", fontsize=9)
    panel.set_xlabel(f"effect of {fit.group} on the linear predictor", fontsize=9, parse_math=False)
    for mark in legend(figure, [panel]).get_lines():
        mark.set(markersize=4.5, alpha=1)
    return figure


def _draw_intervals(panel: Axes, mean: Array, ends: Array) -> None:
    y = np.arange(len(mean))
    panel.grid(axis="y", color="0.94")
    panel.set_axisbelow(True)
    style: dict[str, Any] = {"colors": COLOURS[0], "capstyle": "round"}
    panel.hlines(y, ends[0], ends[3], linewidth=1.2, label="94% interval", **style)
    panel.hlines(y, ends[1], ends[2], linewidth=3.6, label="50% interval", **style)
    dot: dict[str, Any] = {"color": "white", "markeredgecolor": COLOURS[0], "markersize": 4.5, "zorder": 4}
    panel.plot(mean, y, "o", label="posterior mean", **dot)


def _draw_bands(panel: Axes, mean: Array, ends: Array) -> None:
    y = np.arange(len(mean))
    for low, high, colour, label in [
        (ends[0], ends[3], "#A9D3EE", "94% interval"),
        (ends[1], ends[2], "#5FA9D6", "50% interval"),
    ]:
        panel.fill_betweenx(y, low, high, step="mid", color=colour, linewidth=0, label=label)
    panel.plot(mean, y, ".", color="black", markersize=3 if len(mean) < 500 else 1.5, zorder=4, label="posterior mean")


def _draw_alone(panel: Axes, alone: Array, named: bool) -> None:
    """Mark what the rows of each group give alone, with triangles at the edge for what lies beyond it."""
    low, high = panel.get_xlim()
    beyond = np.isfinite(alone) & ((alone < low) | (alone > high))
    # Thousands of marks would cover all else, so they get fainter the more there are.
    style: dict[str, Any] = (
        {"color": "white", "markeredgecolor": "0.55", "markersize": 4.5}
        if named
        else {"color": "0.35", "markersize": 2, "markeredgewidth": 0, "alpha": max(0.2, min(1.0, 300 / len(alone)))}
    )
    for marker, chosen, label in [
        ("D", np.isfinite(alone) & ~beyond, "the group's rows alone"),
        ("<", beyond & (alone < low), None),
        (">", beyond & (alone > high), None),
    ]:
        if chosen.any():
            x, y = np.clip(alone[chosen], low, high), np.flatnonzero(chosen)
            panel.plot(x, y, marker, label=label, zorder=3, clip_on=False, **style)


def _name_groups(panel: Axes, levels: list[str], rows: NDArray[np.int64] | None) -> None:
    panel.set_yticks(range(len(levels)), levels, parse_math=False)
    panel.tick_params(axis="y", length=0, pad=7)
    panel.spines["left"].set_visible(False)
    if rows is not None:
        counts = [*(f"{count:,}" for count in rows), "rows"]  # the last is the title above them
        write_right(panel, range(len(counts)), counts)


def _chosen(fit: Fit, names: Sequence[str] | None) -> list[str]:
    """The names asked for, all that can be drawn if none; refuses those that the fit does not have."""
    known = fit.parameters
    main = known if len(known) <= MANY or fit.group is None else known[: len(fit.coefficients) + 1]
    for name in names or ():
        if name not in known:
            close = difflib.get_close_matches(name, known)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(map(repr, main))}"
            raise ValueError(f"the fit has no parameter {name!r}; {hint}")
    return list(main if names is None else names)


def _columns(fit: Fit, names: Sequence[str]) -> list[Array]:
    """Draws (chain, draw) of each named parameter."""
    draws, known = fit.draws, fit.parameters
    return [draws[:, :, known.index(name)] for name in names]


def _smooth(values: Array, effective: float) -> tuple[Array, Array]:
    """Gaussian kernel density of binned draws, with Silverman's bandwidth for so many effective draws."""
    low, high = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), (high - low) / 1.34) or values.std()
    size = effective if effective >= 1 else values.size
    bandwidth = max(0.9 * spread * size**-0.2, np.ptp(values) / GRID)
    edges = np.linspace(values.min() - 3 * bandwidth, values.max() + 3 * bandwidth, GRID + 1)
    step = edges[1] - edges[0]
    reach = int(4 * bandwidth / step)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / bandwidth) ** 2)
    height = np.convolve(np.histogram(values, edges, density=True)[0], kernel / kernel.sum(), mode="full")
    return edges[:-1] + step / 2, height[reach : reach + GRID]


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
