"""Rows on a disk: the draws of every method, bit for bit as from memory; what is held, and what a full disk says."""

from __future__ import annotations

import errno
import os
import threading
import time
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from on_disk import on_disk

import tallbayes as tb
from tallbayes.families import Logit
from tallbayes.rows import threads
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.room import Room
from tallbayes.rows.sharding import deal
from tallbayes.rows.store import CHUNK_ROWS
from tallbayes.rows.tasks import LogLikelihood
from tallbayes.rows.track import Track
from tallbayes.splines.model import splines
from tallbayes.splines.partition import Partition
from tallbayes.splines.track import SplineTrack

N = 2 * CHUNK_ROWS + 4_321
OPTIONS: dict[str, Any] = {"draws": 12, "warmup": 20, "chains": 2, "seed": 1, "progress": False}


def model_of(weighted: bool = False, n: int = N) -> tb.GLM:
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(n), rng.normal(size=n), rng.random(n) < 0.3])
    y = rng.random(n) < 1 / (1 + np.exp(2 - x[:, 1]))
    given = {"weights": rng.gamma(1.0, size=n), "offset": 0.1 * rng.normal(size=n)} if weighted else {}
    return tb.GLM.from_arrays(x, y, **given)


def moved_to_disk(model: Any) -> Any:
    """The same model with its rows on a disk."""
    model.rows = on_disk(model.rows)
    vars(model).pop("first", None)
    return model


METHODS = [
    tb.MH(),
    tb.MH(proposal="one-at-a-time"),
    tb.TwoStage(),
    tb.TwoStage(tb.Taylor(2_000)),
    tb.TwoStage(tb.Subsample(2_000)),
    tb.TwoStage(tb.CaseControl(2_000)),
    tb.Subsampling(),
    tb.Subsampling(tb.SplineProxy(500, points=50)),
    tb.Consensus(4, inner=tb.MH("independence")),
    tb.Consensus(4, inner=tb.MH("one-at-a-time"), sharding="stratified"),
    tb.Consensus(3, inner=tb.TwoStage(), combine="gaussian"),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_draws_are_those_of_rows_in_memory(method):
    there = moved_to_disk(model_of())
    expected = tb.sample(model_of(), method, **OPTIONS).draws
    with threads.using(3):
        np.testing.assert_array_equal(tb.sample(there, method, **OPTIONS).draws, expected)


def test_draws_do_not_depend_on_threads():
    there, method = moved_to_disk(model_of()), METHODS[1]
    found = []
    for count in (1, 2, 3):
        with threads.using(count):
            found.append(tb.sample(there, method, **OPTIONS).draws)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


@pytest.mark.parametrize("method", [tb.MH("one-at-a-time"), tb.Consensus(4, inner=tb.MH("independence"))], ids=str)
def test_draws_of_weighted_rows_with_an_offset(method):
    expected = tb.sample(model_of(weighted=True), method, **OPTIONS).draws
    with threads.using(2):
        np.testing.assert_array_equal(tb.sample(moved_to_disk(model_of(True)), method, **OPTIONS).draws, expected)


@pytest.mark.long
def test_draws_of_whole_groups_in_shards():
    rng = np.random.default_rng(1)
    groups = rng.integers(40, size=N)
    x, y = rng.normal(size=(N, 1)), rng.random(N) < 0.1 + 0.01 * (groups % 7)
    here, there = (tb.Hierarchical.from_arrays(np.hstack([np.ones((N, 1)), x]), y, groups=groups) for _ in range(2))
    method, options = tb.Consensus(4, inner=tb.MH("one-at-a-time")), OPTIONS | {"draws": 60, "warmup": 4}
    expected = tb.sample(here, method, **options).draws
    with threads.using(2):
        np.testing.assert_array_equal(tb.sample(moved_to_disk(there), method, **options).draws, expected)


def test_a_stratum_is_kept_with_rows_on_a_disk():
    rng = np.random.default_rng(1)
    data = {"x": rng.normal(size=N), "y": rng.random(N) < 0.2, "h": rng.integers(5, size=N)}
    models = [tb.GLM("y ~ x", data, strata=["h"]) for _ in range(2)]
    here, there = models[0], moved_to_disk(models[1])
    method = tb.TwoStage(tb.Stratified(300, "h"))
    np.testing.assert_array_equal(*(tb.sample(model, method, **OPTIONS).draws for model in (here, there)))


def mars_rows(n: int) -> MemoryRows:
    data = tb.datasets.simulate_mars(n, seed=1)
    return MemoryRows(data[["x1", "x2", "x3", "x4"]].to_numpy().T, data["y"].to_numpy(float))


@pytest.mark.parametrize(
    "method", ["auto", pytest.param("mh", marks=pytest.mark.long), tb.TwoStage(tb.Subsample(500))], ids=str
)
def test_splines_of_rows_on_a_disk(method):
    rows = mars_rows(CHUNK_ROWS + 4_321)
    expected, model = (tb.MARS(one, max_bases=5) for one in (rows, on_disk(rows)))
    fit = tb.sample(expected, method, **OPTIONS)
    with threads.using(3):
        again = tb.sample(model, method, **OPTIONS)
    np.testing.assert_array_equal(again.splines["beta"], fit.splines["beta"])
    np.testing.assert_array_equal(again.table["bases"], fit.table["bases"])
    np.testing.assert_allclose(again.calibration(), fit.calibration())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": [1.0, 2.0, 1.0]}, "have weights, which splines cannot have"),
        ({"offset": [1.0, 2.0, 1.0]}, "have an offset, which splines cannot have"),
        ({"y": [0.0, 1.0, 2.0]}, "the outcome of row 2 is neither 0 nor 1"),
        ({"x": [[0.0, np.nan, 1.0]]}, "'x0' has missing or infinite values"),
    ],
)
def test_rows_that_splines_are_not_for(given, message):
    rows = MemoryRows(**{"x": [[0.0, 1.0, 2.0]], "y": [0.0, 1.0, 1.0]} | given)
    for one in (rows, on_disk(rows)):
        with pytest.raises(ValueError, match=message):
            tb.MARS(one)


# --- what is held in memory ---


def follow(rows: DiskRows) -> None:
    """Chains that move one coefficient at a time."""
    track, theta, everyone = rows.keep(Track, Logit()), np.zeros((2, rows.width)), np.arange(2)
    trail = track.start(theta)
    theta[:, 1] += 0.1
    track.accept(trail, theta, 1, everyone, track.at(trail, theta, 1, everyone))
    track.refresh(trail)


def cells(rows: DiskRows) -> None:
    """Cells, their pseudo-rows, and chains of splines."""
    model = tb.MARS(rows, max_bases=3)
    partition = rows.keep(Partition, 64, 100, 1)
    partition.at(splines(model.nothing[None], model.most))
    track = rows.keep(SplineTrack, 3, 1e9)
    track.enter(track.start(2), 1, np.zeros(1), np.empty((0, 12)))


@pytest.mark.parametrize("work", [follow, cells])
def test_nothing_of_all_rows_is_held_in_memory(work):
    """However many rows there are, but for sums of blocks: an eighth of a byte a row."""
    peaks = []
    for chunks in (1, 1, 4):  # the first compiles
        rows = on_disk(mars_rows(chunks * CHUNK_ROWS))
        tracemalloc.start()
        work(rows)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 3 * CHUNK_ROWS / 8


# What shards add, dealing rows, is looked at in `test_sharding.py`.
SHARDS = pytest.param(tb.Consensus(2, inner=tb.MH("independence")), marks=pytest.mark.long)


@pytest.mark.parametrize("method", [tb.MH("one-at-a-time"), SHARDS], ids=str)
def test_a_fit_holds_chunks_only(method):
    """Four bytes a row at most, which is more than a look, sums of runs and what each thread decodes take."""
    peaks = []
    for chunks in (4, 16, 64):  # the first compiles
        model = moved_to_disk(model_of(n=chunks * CHUNK_ROWS))
        tracemalloc.start()
        tb.sample(model, method, **OPTIONS | {"warmup": 4})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 4 * 48 * CHUNK_ROWS


# --- a full disk ---


def test_a_full_disk_is_told_of_and_nothing_is_left(small_disk):
    rows = on_disk(mars_rows(4 * CHUNK_ROWS + 1_000), Room(10**9))
    full = DiskRows(rows.store, Room(10**9, str(small_disk)))
    for work in (
        lambda: full.keep(Track, Logit()),
        lambda: deal(full, 3, "random", np.random.default_rng(1)),
        lambda: on_disk(mars_rows(4 * CHUNK_ROWS), Room(10**9, str(small_disk))),
    ):
        with pytest.raises(OSError, match=f"no space left in '{small_disk}'.* TMPDIR") as caught:
            work()
        assert caught.value.errno == errno.ENOSPC
        del caught
        assert list(small_disk.iterdir()) == []
        free = os.statvfs(small_disk)
        assert free.f_bavail > 0.9 * free.f_blocks
    assert np.isfinite(full.reduce(LogLikelihood(Logit()), np.zeros(4))).all()  # passes need no space


# --- Ctrl-C ---


@dataclass(frozen=True)
class Interrupted:
    """A task that a Ctrl-C ends, in the main thread or in another."""

    in_main: bool
    asked: list[int]

    def looks(self, params: np.ndarray) -> int:
        return 1

    def over(self, arrays: Any, params: np.ndarray) -> tuple[np.ndarray, ...]:
        self.asked.append(arrays.block)
        if (threading.current_thread() is threading.main_thread()) == self.in_main:
            raise KeyboardInterrupt
        time.sleep(0.05)  # so that another thread has its turn
        return (np.zeros(1),)

    def answer(self, parts: Any, params: np.ndarray, rows: Any) -> None:
        pytest.fail("there is no answer")


@pytest.mark.parametrize("in_main", [True, False])
def test_ctrl_c_ends_a_pass_and_the_next_one_works(in_main):
    rows = on_disk(MemoryRows(np.ones((1, 20 * CHUNK_ROWS)), np.zeros(20 * CHUNK_ROWS)))
    asked: list[int] = []
    with threads.using(3):
        with pytest.raises(KeyboardInterrupt):
            rows.reduce(Interrupted(in_main, asked))
        assert len(asked) < 10  # of 20
        assert (rows.passes, rows.touched) == (0, 0)  # it does not count
        value = rows.reduce(LogLikelihood(Logit()), np.zeros(1))
        np.testing.assert_allclose(value, -rows.size * np.log(2))
