"""Pictures of any fit: densities of several methods over each other, traces, predictions and outcomes.

Every function returns a matplotlib Figure that belongs to nobody: save it with `figure.savefig("name.png")`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag
from tallbayes.results.figure import COLOURS, LINES, PHONE, chosen, clean, finish, legend, make_figure, make_panels
from tallbayes.results.fit import Fit, check_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

TRACE_POINTS = 400  # of each chain
GRID = 400  # bins of a density
WIDE = 30.0  # ratio of the largest prediction to the smallest above which scales are logarithmic


def calibration(fit: Fit, narrow: bool = False) -> Figure:
    """Draw observed outcomes against predictions, for bins of the rows that were fitted.

    If the model holds, 94% of the points lie in the band. A `narrow` figure is for phones.

    >>> from tallbayes.results.example import example
    >>> calibration(example()).axes[0].get_xlabel()
    'predicted'
    """
    check_fit("fit", fit)
    check_flag("narrow", narrow)
    table = fit.calibration()
    rows, predicted, observed, lower, upper = (table[name].to_numpy() for name in table)
    figure = make_figure(PHONE if narrow else 5.0, 4.6)
    panel, below = figure.subplots(2, 1, sharex=True, height_ratios=[5, 1])
    for one in (panel, below):
        clean(one, "")
    panel.fill_between(predicted, lower, upper, color=COLOURS[0], alpha=0.2, linewidth=0, label="94% range")
    panel.plot(predicted, predicted, color="0.4", linewidth=1, label="as predicted")
    if predicted[0] > 0 and predicted[-1] > WIDE * predicted[0]:
        lowest = 0.5 * predicted[0]
        panel.set(xscale="log", yscale="log", ylim=(lowest, 2 * max(predicted[-1], observed.max())))
        observed = observed.clip(lowest)  # so that bins without events are seen
    panel.plot(predicted, observed, "o", color=COLOURS[0], markersize=4.5, clip_on=False, label="observed")
    panel.set_ylabel("observed", fontsize=9)
    below.vlines(predicted, 0, rows, color="0.6", linewidth=3)
    below.set_ylim(bottom=0)
    below.set_ylabel("rows", fontsize=9)
    below.set_xlabel("predicted", fontsize=9)
    below.locator_params(axis="y", nbins=3)
    below.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.set_xlabel("predicted", fontsize=9)
    panel.xaxis.label.set_visible(False)
    legend(figure, [panel])
    return figure


def trace(fit: Fit, names: Sequence[str] | None = None, columns: int = 3, narrow: bool = False) -> Figure:
    """Draw the path of each chain, one panel a parameter: those named, or all but the effects of many groups.

    A `narrow` figure is for phones, with one column.

    >>> from tallbayes.results.example import example
    >>> [panel.get_title() for panel in trace(example(draws=50), ["fico"]).axes]
    ['fico']
    """
    names = chosen(fit, names)
    figure, panels = make_panels(names, width=4.2, height=1.6, most_columns=1 if narrow else columns, narrow=narrow)
    chains, count = fit.posterior.sizes["chain"], fit.posterior.sizes["draw"]
    kept = np.arange(0, count, math.ceil(count / TRACE_POINTS))
    for panel, values in zip(panels, _columns(fit, names), strict=True):
        for chain in range(chains):
            (line,) = panel.plot(kept, values[chain, kept], label=f"chain {chain + 1}")
            line.set(color=COLOURS[chain % len(COLOURS)], linewidth=0.6, alpha=0.75)
        panel.set_xlim(0, max(1, count - 1))
    finish(figure, panels, "draw")
    return figure


def density(*fits: Fit, names: Sequence[str] | None = None, columns: int = 4, **named: Fit) -> Figure:
    """Draw the posterior density of each parameter, a panel each, with a line per fit.

    The parameters are those in `names`, or all but the effects of many groups; `columns` panels stand side by side.
    Give several fits by name, as in density(mh=fit_a, two_stage=fit_b), so that the legend tells which is which.

    >>> from tallbayes.results.example import example
    >>> figure = density(example(), names=["fico"])
    >>> len(figure.axes), len(figure.axes[0].lines)
    (1, 1)
    >>> figure = density(mh=example(), two_stage=example(seed=1))
    >>> len(figure.axes), len(figure.axes[0].lines)
    (2, 2)
    """
    every = {f"fit {number}": fit for number, fit in enumerate(fits, 1)} | named
    for label, fit in every.items():
        check_fit(label, fit)
    if not every:
        raise ValueError("nothing to draw; give a fit, or several by name, as in density(mh=fit_a, two_stage=fit_b)")
    return densities(every, names, columns)


def densities(
    fits: Mapping[str, Fit], names: Sequence[str] | None = None, columns: int = 4, narrow: bool = False
) -> Figure:
    """Densities of fits by their labels; a narrow figure is for phones, with two columns.

    >>> from tallbayes.results.example import example
    >>> len(densities({"mh": example()}, narrow=True).axes)
    2
    """
    names = chosen(next(iter(fits.values())), names)
    figure, panels = make_panels(names, width=2.7, height=1.9, most_columns=2 if narrow else columns, narrow=narrow)
    for i, (label, fit) in enumerate(fits.items()):
        effective = fit.summary()["ess_bulk"]
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i % len(LINES)]}
        style |= {"linewidth": 1.8, "label": label}
        for panel, name, values in zip(panels, chosen(fit, names), _columns(fit, names), strict=True):
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


def _columns(fit: Fit, names: Sequence[str]) -> list[Array]:
    """Draws (chain, draw) of each named parameter."""
    draws, places = fit._draws, map(fit.parameters.index, names)
    return [np.asarray(draws[:, :, place : place + 1])[..., 0] for place in places]


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
