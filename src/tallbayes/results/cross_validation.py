"""LOO and WAIC of tall data: all rows by a few points that stand for the draws, and some rows by all draws.

At most m x S log-likelihoods are made, of m rows and S draws, a slice of the rows at a time. `elpd.py` says what they
come to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_whole
from tallbayes.data.progress import passing, showing
from tallbayes.models.model import Model
from tallbayes.models.per_row import PerRow, Points
from tallbayes.results.criteria import CRITERIA, Criterion, Density
from tallbayes.results.elpd import Elpd, Looked, Sums, Wide, result
from tallbayes.results.fit import Fit
from tallbayes.results.more import model_of
from tallbayes.results.predict import evenly_spaced
from tallbayes.rows import threads
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.chosen import NUMBER, AtRandom, ByEvent, Events, numbers_of
from tallbayes.rows.passes import LENGTH, in_order
from tallbayes.rows.protocol import Rows

Array = NDArray[np.float64]

DRAWS = 4_000  # evenly spaced ones, or all if there are fewer
MOST = 1 << 26  # numbers that these may be
MANY = 200_000  # rows of which approximations are kept
NO_ROWS = np.empty(0, np.int64), np.empty(0), np.empty(0)
AT_ONCE = 1 << 21  # log-likelihoods held by a thread


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
    per_row = model.per_row(fit._chosen_draws(chosen))
    points = per_row.points
    task = Near(points, criterion, AtRandom(max(rows, MANY), size, seed))
    events = model.rows.reduce(Events())
    (sums, wide), some = model.rows.reduce_all((task, None), (ByEvent.of(rows, events, seed), None))
    if sums.parts > 1e-9:
        raise ValueError(
            "LOO and WAIC leave out one observation at a time, and a row of weight 3 is three of them: weights must be "
            "whole numbers; fit with such weights, or without"
        )
    exact = closely(per_row, chosen.size, criterion, some.arrays, efficiency(fit))
    approximate = near(points, criterion, some.arrays, 0, some.arrays.size)
    y, own, places = some.arrays.y, some.arrays.own, numbers_are_places(model)
    return Looked(
        criterion.kind, chosen.size, seed, events, some.numbers, places, y, own, exact, approximate, sums, wide
    )


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


@dataclass(frozen=True, eq=False)
class Near:
    """A task: sums over all rows of what points say of them, and the same of many by themselves."""

    points: Points
    criterion: Criterion
    many: AtRandom

    def looks(self, params: Array) -> int:
        """See `Task`."""
        return self.points.looks

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """See `Task`."""
        sums, many = np.empty((arrays.blocks, len(Sums._fields))), [Wide(*NO_ROWS)] * arrays.blocks
        arrays.over_blocks(self._blocks, arrays, sums, many, looks=self.points.looks)
        return (sums, *(np.concatenate(part) for part in zip(Wide(*NO_ROWS), *many, strict=True)))

    def _blocks(self, arrays: Arrays, sums: Array, many: list[Wide], begin: int, end: int) -> None:
        for block in range(begin, end):
            start, stop = block * LENGTH, min(arrays.size, (block + 1) * LENGTH)
            own = arrays.weights[start:stop] if arrays.weights.size else np.ones(stop - start)
            elpd, p = near(self.points, self.criterion, arrays, start, stop)
            parts = np.abs(own - np.rint(own)).max()
            sums[block] = (own * elpd).sum(), (own * p).sum(), (own * elpd**2).sum(), own.sum(), parts
            numbers = numbers_of(arrays, start, stop)
            some = self.many.has(numbers, arrays.y[start:stop])
            many[block] = Wide(numbers[some], own[some], elpd[some])

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> tuple[Sums, Wide]:
        """See `Task`."""
        blocks, numbers, weights, each = parts
        elpd, p, squares, weight, _ = in_order(blocks).tolist()
        kept = self.many.kept(numbers, NO_ROWS[1])
        sums = Sums(elpd, p, squares, weight, float(blocks[:, -1].max()))
        return sums, Wide(numbers[kept], weights[kept], each[kept])


def near(points: Points, criterion: Criterion, arrays: Arrays, start: int, stop: int) -> tuple[Array, Array]:
    """Approximations for some rows; zero where a point says that a row is impossible, which is as good as any."""
    with np.errstate(all="ignore"):
        found = criterion.near(points.of(arrays, start, stop), points.weights)
    some = np.isfinite(found.elpd) & np.isfinite(found.p)
    return np.where(some, found.elpd, 0.0), np.where(some, found.p, 0.0)


def check_same(fit: Fit, model: Model) -> None:
    """Refuse a model of other data, or another model, than the draws are of, as far as that can be told."""
    values, coordinates = model.variables(np.zeros((1, 1, model.width)))
    names = {str(name): [str(one) for one in found.values] for name, found in fit.posterior.coords.items()}
    others = [name for name in coordinates if names.get(str(name)) != [str(one) for one in coordinates[name]]]
    if {*values} != {*map(str, fit.posterior.data_vars)} or others:
        raise ValueError(
            "these data give a model other than the one that was fitted: "
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
