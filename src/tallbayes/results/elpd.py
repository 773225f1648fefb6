"""LOO and WAIC of tall data: an approximation for all rows in one pass, corrected by what is exact for some.

With a~ the approximation (a few points stand for the draws, `models/per_row.py`) and a what all draws say of a row, the
sum over n rows of weight w is

    sum of w a~ over all rows  +  n / m  x  the sum of w (a - a~) over m rows drawn at random,

which is unbiased, and as exact as a~ is close. The variance over rows is estimated in the same way. At most m x S
log-likelihoods are made, a slice of the rows at a time.

Reference: M. Magnusson, A. Vehtari, J. Jonasson and M. R. Andersen (2020), "Leave-one-out cross-validation for Bayesian
model comparison in large data".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_whole
from tallbayes.data.progress import passing, showing
from tallbayes.models.model import Model
from tallbayes.models.per_row import PerRow, Points
from tallbayes.results.criteria import CRITERIA, Criterion, Density
from tallbayes.results.fit import Fit
from tallbayes.results.more import model_of
from tallbayes.results.predict import evenly_spaced
from tallbayes.results.psis import good_shape
from tallbayes.rows import threads
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.chosen import NUMBER, AtRandom
from tallbayes.rows.passes import LENGTH, in_order
from tallbayes.rows.protocol import Rows

Array = NDArray[np.float64]

DRAWS = 4_000  # evenly spaced ones, or all if there are fewer
MOST = 1 << 26  # numbers that these may be
AT_ONCE = 1 << 21  # log-likelihoods held by a thread


@dataclass(frozen=True, eq=False)
class Elpd:
    """How well a model predicts rows that it has not seen: the sum of their expected log predictive densities.

    `elpd` is higher for better models, with the standard error `se` that comes from there being so many rows and no
    more, and `subsampling_se` from `subsample_size` rows standing for all. `p` is the effective number of parameters.
    `pareto_k` says of each row that was looked at whether to trust its weights; they are fine below `good_k`.

    Names are those of arviz's ELPDData.
    """

    kind: str
    elpd: float
    se: float
    p: float
    n_samples: int  # draws
    n_data_points: int
    subsample_size: int
    subsampling_se: float
    p_subsampling_se: float
    warning: bool
    good_k: float | None  # WAIC has none
    pareto_k: Array | None
    looked: Looked  # for comparisons
    scale: str = "log"

    def __repr__(self) -> str:
        rows = f"{self.n_data_points:,} rows"
        if self.subsample_size < self.looked.rows:
            rows = f"{rows}, {self.subsample_size:,} of them looked at closely"
        lines = [f"Computed from {self.n_samples:,} draws and {rows}.", ""]
        lines.append(f"{'':10}{'Estimate':>14}{'SE':>12}{'subsampling SE':>17}")
        numbers = (f"{one:,.2f}" for one in (self.elpd, self.se, self.subsampling_se))
        lines.append("{:10}{:>14}{:>12}{:>17}".format(f"elpd_{self.kind}", *numbers))
        numbers = (f"{one:,.2f}" for one in (self.p, self.p_subsampling_se))
        lines.append("{:10}{:>14}{:>12}{:>17}".format(f"p_{self.kind}", next(numbers), "", next(numbers)))
        if self.pareto_k is not None and self.good_k is not None:
            bad = int((self.pareto_k > self.good_k).sum())
            some = f"{bad:,} of them above: LOO is unsure there" if bad else "all of them below"
            lines += ["", f"Pareto k: {self.pareto_k.max():.2f} at most; good to {self.good_k:.2f}, {some}."]
        return "\n".join(lines)


class Sums(NamedTuple):
    """Over all rows, with their weights: of the approximations, and of the weights themselves."""

    elpd: float
    p: float
    squares: float  # of the elpd
    weight: float
    parts: float  # of a row, that weights which are not whole have: the largest


@dataclass(frozen=True, eq=False)
class Near:
    """A task: sums over rows of what points say of them."""

    points: Points
    criterion: Criterion

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return self.points.looks

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        sums = np.empty((arrays.blocks, len(Sums._fields)))
        arrays.over_blocks(self._blocks, arrays, sums, looks=self.points.looks)
        return (sums,)

    def _blocks(self, arrays: Arrays, sums: Array, begin: int, end: int) -> None:
        for block in range(begin, end):
            start, stop = block * LENGTH, min(arrays.size, (block + 1) * LENGTH)
            own = arrays.weights[start:stop] if arrays.weights.size else np.ones(stop - start)
            elpd, p = near(self.points, self.criterion, arrays, start, stop)
            parts = np.abs(own - np.rint(own)).max()
            sums[block] = (own * elpd).sum(), (own * p).sum(), (own * elpd**2).sum(), own.sum(), parts

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Sums:
        """See `Task`."""
        elpd, p, squares, weight, _ = in_order(parts[0]).tolist()
        return Sums(elpd, p, squares, weight, float(parts[0][:, -1].max()))


def near(points: Points, criterion: Criterion, arrays: Arrays, start: int, stop: int) -> tuple[Array, Array]:
    """Approximations for some rows; zero where a point says that a row is impossible, which is as good as any."""
    with np.errstate(all="ignore"):
        found = criterion.near(points.of(arrays, start, stop), points.weights)
    some = np.isfinite(found.elpd) & np.isfinite(found.p)
    return np.where(some, found.elpd, 0.0), np.where(some, found.p, 0.0)


class Looked(NamedTuple):
    """What a comparison needs: what is exact and what is near of some rows, and sums over all."""

    kind: str
    draws: int
    rows: int
    numbers: NDArray[np.int64]  # of the rows that were looked at
    places: bool  # whether these are their places in the data
    y: Array
    weights: Array
    exact: Density
    near: tuple[Array, Array]  # elpd and p
    sums: Sums

    def total(self, exact: Array, near: Array, over_all: float) -> tuple[float, float]:
        """The sum over all rows of what is exact for some and near for all, and the variance of the estimate."""
        each, size = self.weights * (exact - near), self.numbers.size
        variance = self.rows**2 * (1 - size / self.rows) * each.var(ddof=1) / size if 1 < size < self.rows else 0.0
        return over_all + self.rows * float(each.mean()), float(variance)

    def spread(self, squares: float, total: float, variance: float) -> float:
        """The standard error of a sum over rows, from the sum of squares, itself and the variance of its estimate."""
        return float(max(squares - (total**2 - variance) / self.sums.weight, 0.0) ** 0.5)


def elpd(kind: str, fit: Fit, rows: int, seed: int, progress: bool, again: Mapping[str, Any]) -> Elpd:
    """What `Fit.loo` and `Fit.waic` do."""
    check_asked(rows, seed, progress)
    with model_of(fit, again, f"fit.{kind}({{}}=...)", progress) as model, showing(progress):
        return result(look(fit, model, CRITERIA[kind], rows, seed))


def check_asked(rows: int, seed: int, progress: bool) -> None:
    """Refuse what cannot be asked for."""
    check_whole("rows", rows, 2)
    check_whole("seed", seed, 0)
    check_flag("progress", progress)


def look(fit: Fit, model: Model, criterion: Criterion, rows: int, seed: int) -> Looked:
    """One pass over the rows of a model, and a closer look at some."""
    check_same(fit, model)
    chosen, size = some_draws(fit, model), model.rows.size
    per_row = model.per_row(fit.drawn(chosen))
    points = per_row.points
    sums, some = model.rows.reduce_all((Near(points, criterion), None), (AtRandom(rows, size, seed), None))
    if sums.parts > 1e-9:
        raise ValueError(
            "LOO and WAIC leave out one observation at a time, and a row of weight 3 is three of them: weights must be "
            "whole numbers; fit with such weights, or without"
        )
    exact = closely(per_row, chosen.size, criterion, some.arrays, efficiency(fit))
    approximate = near(points, criterion, some.arrays, 0, some.arrays.size)
    y, own, places = some.arrays.y, some.arrays.own, numbers_are_places(model)
    return Looked(criterion.kind, chosen.size, size, some.numbers, places, y, own, exact, approximate, sums)


def numbers_are_places(model: Model) -> bool:
    """Whether rows are known by their places in the data: they have kept them, or are neither merged nor sorted."""
    return NUMBER in model.rows.strata or (model.rows.size == model.observations and not model.rows.groups)


def some_draws(fit: Fit, model: Model) -> NDArray[np.intp]:
    """The numbers of those draws that are looked at."""
    every = fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"]
    return evenly_spaced(max(1, min(DRAWS, MOST // max(1, model.width))), every)


def closely(per_row: PerRow, draws: int, criterion: Criterion, arrays: Arrays, efficiency: float) -> Density:
    """What all of so many draws say of some rows, a slice of them at a time."""
    found = np.empty((3, arrays.size))
    step = max(1, AT_ONCE // draws)
    with passing("rows by all draws", arrays.size) as done:

        def work(turn: int) -> None:
            part = slice(turn * step, min(arrays.size, (turn + 1) * step))
            values = per_row.of(arrays.take(np.arange(part.start, part.stop)))
            if not np.isfinite(values).all():
                raise ValueError(
                    "some rows have no finite log-likelihood at some draws; these are not draws of this model"
                )
            density = criterion.exact(values, min(1.0, efficiency / draws))
            found[0, part], found[1, part] = density.elpd, density.p
            found[2, part] = 0.0 if density.k is None else density.k
            done(part.stop - part.start)

        threads.in_turns(work, -(-arrays.size // step))
    return Density(found[0], found[1], found[2] if criterion.kind == "loo" else None)


def efficiency(fit: Fit) -> float:
    """How many independent draws the fit is worth, on average over its parameters."""
    known = fit._diagnostics.ess_bulk
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else np.inf


def result(looked: Looked) -> Elpd:
    """The sums over all rows, and how well they are known."""
    exact, (elpd_near, p_near), sums = looked.exact, looked.near, looked.sums
    total, variance = looked.total(exact.elpd, elpd_near, sums.elpd)
    p, p_variance = looked.total(exact.p, p_near, sums.p)
    squares, _ = looked.total(exact.elpd**2, elpd_near**2, sums.squares)
    good = None if exact.k is None else good_shape(looked.draws)
    return Elpd(
        kind=looked.kind,
        elpd=total,
        se=looked.spread(squares, total, variance),
        p=p,
        n_samples=looked.draws,
        n_data_points=round(sums.weight),
        subsample_size=looked.numbers.size,
        subsampling_se=variance**0.5,
        p_subsampling_se=p_variance**0.5,
        warning=bool(exact.k is not None and good is not None and (exact.k > good).any()),
        good_k=good,
        pareto_k=exact.k,
        looked=looked,
    )


def check_same(fit: Fit, model: Model) -> None:
    """Refuse a model of other data, or another model, than the draws are of, as far as that can be told."""
    values, coordinates = model.variables(np.zeros((1, 1, model.width)))
    names = {str(name): [str(one) for one in found.values] for name, found in fit.posterior.coords.items()}
    others = [name for name in coordinates if names.get(str(name)) != [str(one) for one in coordinates[name]]]
    if {*values} != {*map(str, fit.posterior.data_vars)} or others:
        raise ValueError(
            "these data make another model than the fit has draws of: "
            f"{f'{others[0]!r} has other values' if others else 'it has other parameters'}; give the data of the fit"
        )
    if model.observations != fit.stats["rows"]:
        raise ValueError(
            f"the fit was made from {fit.stats['rows']:,} rows, but these data have {model.observations:,}; give it "
            "the data as they were, or fit again"
        )
    if fit._calibration is not None:
        known = fit._calibration.rows.sum(), (fit._calibration.rows * fit._calibration.observed).sum()
        now = model.rows.total_weight, model.rows.total_weight * model.rows.mean_outcome
        if not np.allclose(known, now, rtol=1e-6, atol=1e-6 * max(1.0, float(np.abs(known[0])))):
            raise ValueError(
                f"the outcomes of the fit had a mean of {known[1] / known[0]:.8g}, but those of these data have "
                f"{now[1] / now[0]:.8g}; give it the data as they were, or fit again"
            )
