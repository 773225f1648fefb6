"""A posterior predictive check: outcomes of some rows beside those that the model would make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_whole
from tallbayes.data.progress import showing
from tallbayes.results.cross_validation import check_same
from tallbayes.results.figure import COLOURS, PHONE, clean, legend, make_figure
from tallbayes.results.fit import Fit, check_fit
from tallbayes.results.more import model_of
from tallbayes.results.predict import evenly_spaced
from tallbayes.rows.chosen import AtRandom

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

BINS = 10, 40  # at least and at most, of outcomes that are not counts: the root of the number of rows
MANY = 40  # different counts from which on they are put into bins
TAIL = 0.002  # of outcomes beyond the bins at each end, together in the outermost
SHOWN = (0.03, 0.97)


class Made(NamedTuple):
    """Outcomes (row,) as they are, and as each draw makes them (row, draw)."""

    observed: Array
    replicated: Array


def predictive(
    fit: Fit,
    rows: int = 10_000,
    draws: int = 200,
    seed: int = 0,
    *,
    narrow: bool = False,
    progress: bool = True,
    **again: Any,
) -> Figure:
    """Draw the outcomes of some random `rows` beside those that the model simulates for the same rows.

    Outcomes are simulated once for each of so many `draws`. If the model holds, what was observed lies within the range
    of most of them. The picture shows the share of 1 for binary outcomes, the share of each value for counts, and a
    histogram for others. The data are read once more; see `Fit.loo` for what a loaded fit needs. A `narrow` figure is
    for phones.

    >>> import tallbayes as tb
    >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 1, 4]}
    >>> fit = tb.fit("y ~ x", data, "poisson", draws=100, seed=1, progress=False)
    >>> predictive(fit, progress=False).axes[0].get_xlabel()
    'y'
    """
    check_fit("fit", fit)
    check_whole("rows", rows)
    check_whole("draws", draws)
    check_whole("seed", seed, 0)
    check_flag("narrow", narrow)
    check_flag("progress", progress)
    made = _made(fit, rows, draws, seed, progress, again)
    figure = make_figure(PHONE if narrow else 6.0, 3.8)
    panel = figure.add_subplot()
    clean(panel, "")
    name = "outcome" if fit.formula is None else fit.formula.outcome
    if np.isin(made.observed, (0, 1)).all() and np.isin(made.replicated, (0, 1)).all():
        _shares(panel, made, f"share of {name} = 1")
    else:
        _histogram(panel, made, name)
    legend(figure, [panel])
    return figure


def _made(fit: Fit, rows: int, draws: int, seed: int, progress: bool, again: dict[str, Any]) -> Made:
    """Of some observations: a row of weight 3 is three of them."""
    chosen = evenly_spaced(draws, fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"])
    rng = np.random.default_rng(seed)
    with model_of(fit, again, "tb.plots.predictive(fit, {}=...)", progress) as model, showing(progress):
        check_same(fit, model)
        some = model.rows.reduce(AtRandom(min(rows, model.rows.size), model.rows.size, seed)).arrays
        if some.weights.size:
            some = some.take(observations(some.own, rows, rng))
        return Made(np.asarray(some.y), model.per_row(fit._chosen_draws(chosen)).outcomes(some, rng))


def observations(weights: Array, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The rows of so many observations at most, drawn without replacement where weights say how many a row has.

    >>> observations(np.array([1.0, 3.0, 0.0]), 10, np.random.default_rng(0))
    array([0, 1, 1, 1])
    """
    ends = np.cumsum(weights)
    size = min(most, max(1, round(float(ends[-1]))))
    if (weights % 1 == 0).all():
        places = np.arange(size) if size == ends[-1] else rng.choice(int(ends[-1]), size, replace=False)
    else:
        places = rng.random(size) * ends[-1]
    return np.sort(np.searchsorted(ends, places, side="right")).astype(np.intp)


def _shares(panel: Axes, made: Made, name: str) -> None:
    """How often 1 comes."""
    shares = made.replicated.mean(axis=0)
    panel.hist(shares, bins=min(30, max(5, len(np.unique(shares)))), color=COLOURS[0], alpha=0.45, label="by the model")
    panel.axvline(float(made.observed.mean()), color=COLOURS[1], linewidth=1.8, label="observed")
    panel.set_xlabel(name, fontsize=9, parse_math=False)
    panel.set_ylabel("draws", fontsize=9)


def _histogram(panel: Axes, made: Made, name: str) -> None:
    """The share of rows in each bin, or with each count."""
    edges, whole = _bins(made)
    inside = np.clip(np.column_stack([made.observed, made.replicated]), edges[0], np.nextafter(edges[-1], -np.inf))
    shares = np.stack([np.histogram(values, edges)[0] for values in inside.T], axis=1) / len(inside)
    middle, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    low, high = np.quantile(shares[:, 1:], SHOWN, axis=1)
    panel.bar(middle, shares[:, 0], 0.9 * width if whole else width, color="0.8", label="observed")
    style: dict[str, Any] = {"color": COLOURS[0], "label": "94% of draws"}
    if whole:
        panel.vlines(middle, low, high, linewidth=2.4, **style)
    else:
        panel.fill_between(middle, low, high, alpha=0.45, linewidth=0, **style)
    panel.plot(middle, np.median(shares[:, 1:], axis=1), "o", color=COLOURS[0], markersize=3, label="median of draws")
    panel.set_xlabel(name, fontsize=9, parse_math=False)
    panel.set_ylabel("share of rows", fontsize=9)
    panel.set_ylim(bottom=0)


def _bins(made: Made) -> tuple[Array, bool]:
    """Edges of bins, and whether each holds one count."""
    every = np.concatenate([made.observed, made.replicated.ravel()])
    low, high = np.quantile(every, [TAIL, 1 - TAIL])
    whole = bool((every % 1 == 0).all())
    if whole and high - low < MANY:
        return np.arange(low, high + 2) - 0.5, True
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, int(np.clip(made.observed.size**0.5, *BINS)) + 1), False
