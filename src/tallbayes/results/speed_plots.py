"""Pictures of speed: where the time went, and effective draws per minute, by themselves and beside another fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallbayes.data.options import check_flag, check_kind
from tallbayes.results.compare import compare_parameters
from tallbayes.results.figure import (
    COLOURS,
    MARKERS,
    PHONE,
    chosen,
    clean,
    legend,
    make_figure,
    make_panel,
    name_above,
    name_lines,
    rule,
    too_long,
)
from tallbayes.results.fit import Fit, check_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MILLION = 1e6


def speed(fit: Fit, names: Sequence[str] | None = None, narrow: bool = False) -> Figure:
    """Draw the effective draws per minute of sampling, a bar each parameter: those named, or all but many groups.

    A `narrow` figure is for phones.

    >>> from tallbayes.results.example import example
    >>> len(speed(example()).axes[0].patches)
    2
    """
    names = chosen(fit, names)
    found = fit.edpm()
    if unknown := [name for name in names if not np.isfinite(found[name])]:
        raise ValueError(
            f"nobody knows the effective draws of {unknown[0]!r}: there are too few, or all are the same; draw more"
        )
    return _bars({name: found[name] for name in names}, "effective draws per minute", narrow)


def seconds(fit: Fit, narrow: bool = False) -> Figure:
    """Draw how long each phase of the fit took. A `narrow` figure is for phones.

    >>> from tallbayes.results.example import example
    >>> [label.get_text() for label in seconds(example()).axes[0].get_yticklabels()]
    ['compile', 'design', 'mode', 'warmup', 'sampling']
    """
    check_fit("fit", fit)
    return _bars(fit.stats["seconds"], "seconds", narrow)


def _bars(values: dict[str, float], label: str, narrow: bool) -> Figure:
    """A bar with its number for each name."""
    check_flag("narrow", narrow)
    above = narrow and too_long(values)
    width = PHONE if narrow else 4.6 + 0.08 * max(map(len, values))
    figure, panel = make_panel(width, 0.7 + (0.4 if above else 0.26) * len(values))
    bars = panel.barh(range(len(values)), list(values.values()), height=0.36 if above else 0.62, color=COLOURS[0])
    panel.bar_label(bars, [few_digits(value) for value in values.values()], padding=4, fontsize=8)
    if above:
        name_above(panel, list(values))
    else:
        name_lines(panel, list(values), pad=3.5)
    panel.set(xlim=(0, 1.15 * max(values.values()) or 1.0), ylim=(len(values) - 0.4, -0.8 if above else -0.6))
    panel.locator_params(axis="x", nbins=4 if max(values.values()) >= MILLION else 5)
    panel.xaxis.set_major_formatter(lambda value, _: _tick(value))
    panel.set_xlabel(label, fontsize=9)
    return figure


def redpm(thins: Sequence[int] = (1, 10, 20), /, **fits: Fit) -> Figure:
    """Draw the effective draws per minute of the other fits as multiples of the first fit's, a panel per thinning.

    The parameters are all but the effects of many groups.

    >>> from tallbayes.results.example import example
    >>> figure = redpm(mh=example(), faster=example(seed=1, seconds=30.0))
    >>> [panel.get_title() for panel in figure.axes]
    ['every draw', 'every 10th draw', 'every 20th draw']
    """
    if len(fits) < 2:
        raise ValueError("redpm needs a reference and a fit to compare: redpm(mh=fit_a, two_stage=fit_b)")
    check_kind("thins", thins, (list, tuple), "a list of whole numbers, such as (1, 10, 20)")
    reference, *others = fits
    names = chosen(fits[reference], None)
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
        rule(panel, "0.92")
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


def _tick(value: float) -> str:
    """A number at an axis, not as a power of ten.

    >>> _tick(2.5), _tick(20_000), _tick(20_000_000)
    ('2.5', '20,000', '20 million')
    """
    return f"{value / MILLION:g} million" if value >= MILLION else f"{value:,g}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def few_digits(value: float) -> str:
    """Two digits, whole numbers if they are large, and millions.

    >>> few_digits(0.123), few_digits(1234.5), few_digits(38_858_355)
    ('0.12', '1,234', '38.9 million')
    """
    if value >= MILLION:
        return f"{value / MILLION:.3g} million"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
