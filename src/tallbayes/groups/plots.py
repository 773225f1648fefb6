"""Pictures of groups: the effect of each, beside what its rows alone would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_whole
from tallbayes.models.side_by_side import batches
from tallbayes.results.figure import PHONE, intervals, legend, make_panel, name_above, name_lines, too_long, write_right
from tallbayes.results.fit import Fit, check_fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


def caterpillar(fit: Fit, most: int = 60, narrow: bool = False) -> Figure:
    """Draw the posterior of each group's effect, sorted by its mean: the mean, the 50% and the 94% interval.

    Hollow marks show what each group's rows alone would give, and so how far the others pull it in; marks outside the
    picture are triangles at its edge. More than `most` groups are drawn as bands, without their names. A `narrow`
    figure is for phones.

    >>> from tallbayes.groups.example import group_example
    >>> figure = caterpillar(group_example(5))
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['b01', 'b02', 'b04', 'b05', 'b03']
    """
    check_fit("fit", fit)
    check_whole("most", most, 0)
    check_flag("narrow", narrow)
    if fit.group is None:
        raise ValueError("this fit has no groups to draw; fit a formula with a group term such as (1 | bank)")
    effects = fit.posterior[f"1|{fit.group}"].transpose("chain", "draw", fit.group).values
    mean = effects.mean(axis=(0, 1))
    order = np.argsort(mean, kind="stable")
    shares = [0.03, 0.25, 0.75, 0.97]
    ends = np.concatenate([np.quantile(some, shares, axis=(0, 1)) for some in batches(effects)], axis=1)[:, order]
    levels = [str(level) for level in fit.posterior[fit.group].values[order].tolist()]
    named = len(levels) <= most
    above = narrow and named and too_long(levels)
    width = PHONE if narrow else 6.6 + (0.08 * max(map(len, levels)) if named else 0)
    figure, panel = make_panel(width, 1.5 + (0.4 if above else 0.22) * len(levels) if named else 7.5)
    panel.axvline(0, color="0.4", linewidth=1)
    if named:
        intervals(panel, mean[order], ends)
        if above:
            name_above(panel, levels, away=0.42)
        else:
            name_lines(panel, levels)
    else:
        _draw_bands(panel, mean[order], ends)
    margin = 0.04 * np.ptp(ends) or 1.0
    panel.set(xlim=(ends.min() - margin, ends.max() + margin), ylim=(-0.8, len(levels)))
    facts = {} if fit.groups is None else {str(name): fit.groups[name].values[order] for name in fit.groups}
    if "alone" in facts:
        _draw_alone(panel, facts["alone"], named)
    if named and "rows" in facts:
        counts = [*(f"{count:,}" for count in facts["rows"]), "rows"]  # the last is the title above them
        write_right(panel, range(len(counts)), counts)
    panel.set_xlabel(f"effect of {fit.group} on the linear predictor", fontsize=9, parse_math=False)
    for mark in legend(figure, [panel]).get_lines():
        mark.set(markersize=4.5, alpha=1)
    return figure


def _draw_bands(panel: Axes, mean: Array, ends: Array) -> None:
    y = np.arange(len(mean))
    for low, high, colour, label in [
        (ends[0], ends[3], "#A9D3EE", "94% interval"),
        (ends[1], ends[2], "#5FA9D6", "50% interval"),
    ]:
        panel.fill_betweenx(y, low, high, step="mid", color=colour, linewidth=0, label=label)
    panel.plot(mean, y, ".", color="black", markersize=3 if len(mean) < 500 else 1.5, zorder=4, label="posterior mean")
    panel.set_yticks([])
    panel.set_ylabel(f"{len(mean):,} groups, sorted by posterior mean", fontsize=9)


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
