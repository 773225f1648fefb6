"""Rows that several readers hold, each some whole blocks: the same bits, whoever has which.

This is all that rows elsewhere must do for sums over all rows, for a first look at them, and for drawing some of them.
Random access is for rows that are at hand.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.families import Bernoulli, Poisson
from tallbayes.models.first import first_pass
from tallbayes.rows import threads
from tallbayes.rows.arrays import Arrays, Outcomes
from tallbayes.rows.calibration import by_predictor
from tallbayes.rows.memory import NOTHING, MemoryRows
from tallbayes.rows.moments import ColumnMoments
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.remainders import RemainderBounds
from tallbayes.rows.tasks import (
    Fitted,
    GroupTotals,
    Levels,
    LogLikelihood,
    LogLikelihoodDerivatives,
    Moved,
    OutcomeSums,
)
from tallbayes.rows.urn import Urn
from tallbayes.sampling.kernel import Streams

N = 5 * LENGTH + 777


class SplitRows:
    """A run of whole blocks for each reader; what they answer is joined in the order of the blocks."""

    def __init__(self, rows: MemoryRows, ends: list[int]) -> None:
        edges = [0, *(end * LENGTH for end in ends), rows.size]
        self.parts = [
            replace(rows.arrays.take(np.arange(first, last)), block=first // LENGTH) for first, last in pairwise(edges)
        ]
        self.size, self.columns, self.width, self.groups = rows.size, rows.columns, rows.width, rows.groups
        self.total_weight, self.mean_outcome, self.strata = rows.total_weight, rows.mean_outcome, rows.strata
        self.touched = self.passes = 0
        self.outcomes: Outcomes = self.reduce(OutcomeSums())

    def count(self, rows: int, passes: int = 0) -> None:
        self.touched += rows
        self.passes += passes

    def reduce_all(self, *questions: Any) -> Any:
        return tuple(self.reduce(*question) for question in questions)

    told: ClassVar[dict[str, Any]] = {}

    def draw(self, *given: Any) -> Urn:
        return Urn(self, *given)  # type: ignore[arg-type]

    def reduce(self, task: Any, params: Any = None) -> Any:
        given = NOTHING if params is None else np.atleast_2d(np.asarray(params, dtype=float))
        self.touched += self.size * task.looks(given)
        answers = [task.over(part, given) for part in reversed(self.parts)][::-1]  # whoever is ready first
        return task.answer(tuple(np.concatenate(part) for part in zip(*answers, strict=True)), given, self)

    def keep(self, make: Any, *given: Any) -> Any:
        """The parts brought together, as a reader does that has room for all of them."""
        first = self.parts[0]
        columns = {name: np.concatenate([getattr(part, name) for part in self.parts], axis=-1) for name in COLUMNS}
        strata = {name: np.concatenate([part.strata[name] for part in self.parts]) for name in first.strata}
        whole = Arrays(**columns, strata=strata, groups=first.groups)
        return make(whole, lambda rows, passes=0: None, *given)


COLUMNS = ("x", "y", "weights", "offset", "codes")
SPLITS = {"one": [], "two": [3], "uneven": [1, 2, 5], "a block each": [1, 2, 3, 4, 5]}


def rows_of(grouped: bool, weighted: bool, poisson: bool) -> MemoryRows:
    rng = np.random.default_rng(3)
    x = np.concatenate([np.ones((1, N)), rng.normal(size=(3, N))])
    y = rng.poisson(0.3, N) if poisson else rng.random(N) < 0.2
    given: dict[str, Any] = {"weights": rng.gamma(1.0, size=N), "offset": rng.normal(size=N)} if weighted else {}
    strata = {"g": np.sort(rng.integers(0, 40, N)), "h": rng.integers(0, 5, N)}
    return MemoryRows(x, y, **given, strata=strata, **({"group": "g", "groups": 41} if grouped else {}))


def parts_of(found: Any) -> list[np.ndarray]:
    if isinstance(found, dict):
        return [np.array(list(found)), *(np.array(level) for level in found.values())]
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,)) if part is not None]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("grouped", [False, True], ids=["plain", "groups"])
@pytest.mark.parametrize(("weighted", "family"), [(True, Bernoulli("probit")), (False, Bernoulli()), (True, Poisson())])
def test_sums_have_the_same_bits_whoever_holds_which_blocks(split, grouped, weighted, family):
    rows = rows_of(grouped, weighted, isinstance(family, Poisson))
    parted = SplitRows(rows, SPLITS[split])
    params = np.random.default_rng(4).normal(size=(3, rows.width)) / 4
    asked: list[tuple[Any, Any]] = [(kind(family.tag), params) for kind in (LogLikelihood, LogLikelihoodDerivatives)]
    asked += [(ColumnMoments(), None), (Moved(np.eye(4)[:, 2:]), None), (OutcomeSums(), None)]
    asked += [(Levels("h"), None), (Levels("outcome"), None), *([(GroupTotals(), None)] if grouped else [])]
    for task, given in asked:
        for one, other in zip(parts_of(rows.reduce(task, given)), parts_of(parted.reduce(task, given)), strict=True):
            np.testing.assert_array_equal(one, other)
    # Rows are sorted by their predictors in one sum for each reader: to rounding.
    for one, other in zip(by_predictor(rows, params[0]), by_predictor(parted, params[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("grouped", [False, True], ids=["plain", "groups"])
def test_measures_of_rows_do_not_depend_on_who_holds_them(split, grouped):
    """Or else rows would be drawn in other proportions."""
    rows = rows_of(grouped, True, False)
    theta, parted = np.random.default_rng(4).normal(size=rows.width) / 4, SplitRows(rows, SPLITS[split])
    p, measures = rows.width, [Fitted(Bernoulli(), theta, 0.2)]
    measures += [] if grouped else [RemainderBounds(Bernoulli().tag, theta, np.eye(p) / 100, 5.0)]
    for measure in measures:
        found = np.concatenate([measure.of(part) for part in parted.parts])
        np.testing.assert_array_equal(measure.of(rows.arrays), found)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_what_is_drawn_and_looked_at_does_not_depend_on_who_holds_it(split, weighted):
    rows = rows_of(False, weighted, False)
    theta, parted = np.random.default_rng(4).normal(size=rows.width) / 4, SplitRows(rows, SPLITS[split])
    tag, factor = Bernoulli().tag, np.eye(4) / 100
    bounds = RemainderBounds(tag, theta, factor, 5.0).of(rows.arrays) * rows.arrays.own
    measure = RemainderBounds(tag, theta, factor, 5.0, float(np.quantile(bounds, 0.999)))
    found = []
    for some in (rows, parted):
        urn, first = some.draw(measure, theta, bounds.sum(), 500, 6), first_pass(some, tag)
        pools = [urn.pool((7, number), chain, 3, 400) for number in range(2) for chain in range(3)]
        kept = [part for pool in (urn.seen, *pools) for part in pool]
        kept += [urn.certain.x, urn.certain.y, urn.certain.weights, np.array([urn.total, urn.rows])]
        assert urn.certain.size == pytest.approx(rows.size / 1000, abs=2)
        assert first.look is not None
        kept += [first.look.scale, first.look.arrays.x, first.look.weighted.weights, first.look.arrays.strata["h"]]
        found.append(kept + parts_of(first.moments) + parts_of(first.at_zero))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("split", ["two", "uneven"])
def test_a_fit_is_the_same_from_the_first_pass_to_the_last_draw(split):
    """Nothing is at hand: mode, bounds and rows come from readers."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(N), rng.normal(size=N)])
    y = rng.random(N) < 1 / (1 + np.exp(5 - x[:, 1]))
    draws = []
    for parted in (False, True):
        model = tb.GLM.from_arrays(x, y)
        if parted:
            model.rows = SplitRows(model.rows, SPLITS[split])  # type: ignore[assignment]
            vars(model).pop("first")
        kernel, streams = tb.Thinned().kernel(model, 1), Streams.spawn(2, 3)
        state, made = kernel.start(streams), []
        for steps in (50, 250):
            state, some = kernel.advance(state, steps, streams)
            made.append(some.theta)
        draws.append(np.concatenate(made))
        assert kernel.urn is not None
        assert all(chain.pools > 0 for chain in state.chains)
    np.testing.assert_array_equal(*draws)


METHODS = [tb.MH(), tb.MH("one-at-a-time"), tb.TwoStage(), tb.Thinned()]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_draws_are_the_same_for_any_number_of_threads_and_readers(method):
    """Rows that are read by others serve the passes; what needs random access has them at hand."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(N), rng.normal(size=N)])
    y = rng.random(N) < 1 / (1 + np.exp(2 - x[:, 1]))
    model = tb.GLM.from_arrays(x, y)
    options: dict[str, Any] = {"draws": 30, "warmup": 40, "chains": 2, "seed": 1, "progress": False}
    draws = []
    for count in (1, 2, 4):
        with threads.using(count):
            draws.append(tb.sample(model, method, **options).draws)
    for split in ("two", "uneven"):
        parted = tb.GLM.from_arrays(x, y)
        kernel = method.kernel(model, 1)
        assert kernel.model.rows.size == N
        parted.rows = SplitRows(model.rows, SPLITS[split])  # type: ignore[assignment]
        again = replace(kernel, model=parted)
        streams, others = (Streams.spawn(2, 2) for _ in range(2))
        here = kernel.advance(kernel.start(streams), 20, streams)[1]
        there = again.advance(again.start(others), 20, others)[1]
        np.testing.assert_array_equal(here.theta, there.theta)
    for other in draws[1:]:
        np.testing.assert_array_equal(draws[0], other)
