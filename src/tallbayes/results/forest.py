"""A picture of coefficients with their intervals, which one of them cannot ruin.

Coefficients of dollars and of years are drawn for a usual difference in their columns. Where the data say nothing of a
coefficient, as of a level whose outcomes are all the same, its interval is that of the prior, and may be a hundred
times as wide as the others. It ends at the frame then, with an arrow, and its numbers are written beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_choice, check_flag
from tallbayes.models.side_by_side import Parameters
from tallbayes.results.figure import (
    COLOURS,
    PHONE,
    chosen,
    intervals,
    legend,
    make_panel,
    name_above,
    name_lines,
    too_long,
    write_right,
)
from tallbayes.results.fit import Fit, check_fit
from tallbayes.results.page import number
from tallbayes.results.ratios import scale_of
from tallbayes.results.steps import steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

SHARES = (0.03, 0.25, 0.75, 0.97)
# How far an interval must reach, and how wide it must be, to be clipped, in multiples of what half of the intervals do.
# A narrow one far away is a strong effect that is known well: it stays, however small the others look beside it.
FAR, WIDE = (20.0, 3.0), (8.0, 10.0)


def forest(fit: Fit, names: Sequence[str] | None = None, per: str | None = None, narrow: bool = False) -> Figure:
    """Draw mean, 50% and 94% interval of each parameter: of those named, or of all coefficients but the intercept.

    With `per="sd"` a coefficient is drawn for a step of its column: by one sd or, of a column with two values, from one
    to the other. With `per="unit"` it is drawn as `summary` has it. Unless given, it is "sd" where the fit knows its
    columns; those that earlier versions saved do not. Other parameters are drawn as they are. A wide
    interval that would make all others too small to see ends at the frame with an arrow, and its numbers stand beside
    it. A `narrow` figure is for phones.

    >>> from tallbayes.results.example import example
    >>> figure = forest(example())
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['fico']
    """
    check_fit("fit", fit)
    check_flag("narrow", narrow)
    if per is not None:
        check_choice("per", per, ("sd", "unit"))
    if names is None:
        names = [name for name in fit.coefficients if name != "Intercept"] or fit.parameters
    names, known = chosen(fit, names), {} if per == "unit" else steps(fit)
    if per == "sd" and not known:
        raise ValueError(
            "this fit does not know the sd of its columns: it has no columns, or was saved by an earlier version; take "
            "per='unit', or fit again"
        )
    unit = np.array([known.get(name, 1.0) for name in names])
    mean, ends = _described(fit, names)
    frame = framed(mean * unit, ends * unit, fit.called == "coefficient")
    figure = _drawn(names, mean * unit, ends * unit, frame, narrow)
    if fit.called == "coefficient":
        what = "coefficient per sd of the column, or from 0 to 1" if known else "coefficient per unit of the column"
        figure.axes[0].set_xlabel(f"{what}\n({scale_of(fit.family)})", fontsize=9)
    return figure


class Frame(NamedTuple):
    """From where to where a picture reaches, and which lines are clipped there."""

    low: float
    high: float
    zero: bool  # whether zero is in it
    clipped: NDArray[np.bool_]


def framed(mean: Array, ends: Array, zero: bool) -> Frame:
    """A frame for intervals from quantiles `ends` (4, lines), with zero in it or not.

    Half of the intervals say what is usual. Another one is clipped if it reaches 20 times as far and is three times as
    wide, or 8 times as far and ten times as wide.

    >>> ends = np.array([[0.1, -900.0, -0.2], [0.2, -1.0, -0.1], [0.3, 1.0, 0.1], [0.4, 900.0, 0.2]])
    >>> framed(ends.mean(0), ends, zero=True).clipped
    array([False,  True, False])
    """
    low, high = ends[0], ends[3]
    origin = 0.0 if zero else float(np.median(mean))
    reach, width = np.maximum(np.abs(low - origin), np.abs(high - origin)), high - low
    usual, usual_width = (float(np.quantile(one, 0.5, method="lower")) for one in (reach, width))
    far, wide = ((reach > most * usual) & (width > widest * usual_width) for most, widest in (FAR, WIDE))
    clipped = far | wide
    if usual == 0:
        clipped[:] = False
    inside = [*low[~clipped], *high[~clipped], *([0.0] if zero else [])]
    least, most = min(inside), max(inside)
    margin = 0.04 * (most - least) or 1.0
    return Frame(least - margin, most + margin, least <= 0 <= most, clipped)


def _drawn(names: Sequence[str], mean: Array, ends: Array, frame: Frame, narrow: bool) -> Figure:
    beyond = {i: _numbers(mean[i], ends[:, i]) for i in np.flatnonzero(frame.clipped).tolist()}
    longest = max(map(len, names)) + (max(map(len, beyond.values()), default=0))
    above = narrow and (too_long(names) or bool(beyond))
    width, height = PHONE if narrow else 4.8 + 0.08 * longest, 0.4 if above else 0.26
    figure, panel = make_panel(width, 1.4 + height * len(names))
    if frame.zero:
        panel.axvline(0, color="0.4", linewidth=1)
    panel.set(xlim=(frame.low, frame.high), ylim=(len(names) - 0.4, -0.8 if above else -0.6))
    inside = (frame.low <= mean) & (mean <= frame.high)
    intervals(panel, np.where(inside, mean, np.nan), np.clip(ends, frame.low, frame.high))
    _draw_arrows(panel, ends, frame)
    texts = [beyond.get(i, "") for i in range(len(names))]
    if above:
        name_above(panel, names, texts)
    else:
        name_lines(panel, names)
    if beyond and not above:
        write_right(panel, range(len(names)), texts)
    legend(figure, [panel])
    return figure


def _draw_arrows(panel: Axes, ends: Array, frame: Frame) -> None:
    """At the edge that an interval goes beyond."""
    for marker, edge, there in (("<", frame.low, ends[0] < frame.low), (">", frame.high, ends[3] > frame.high)):
        if there.any():
            lines = np.flatnonzero(there)
            panel.plot(np.full(lines.size, edge), lines, marker, color=COLOURS[0], markersize=6, clip_on=False)


def _described(fit: Fit, names: Sequence[str]) -> tuple[Array, Array]:
    """Mean (names) and quantiles (4, names) of each named parameter."""
    draws: Parameters = fit._draws
    mean, ends = np.empty(len(names)), np.empty((4, len(names)))
    for i, place in enumerate(map(fit.parameters.index, names)):
        values = np.asarray(draws[:, :, place : place + 1])
        mean[i], ends[:, i] = values.mean(), np.quantile(values, SHARES)
    return mean, ends


def _numbers(mean: float, ends: Array) -> str:
    """What is clipped, in numbers."""
    return f"{number(mean)} ({number(ends[0])} to {number(ends[3])})"
