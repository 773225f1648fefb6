"""Draws of many parameters are in memory once: while they are made, and while they are looked at."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tallbayes.data.timing import Phases
from tallbayes.groups.example import group_example
from tallbayes.models import side_by_side
from tallbayes.models.side_by_side import SideBySide, batches, cuts
from tallbayes.rows import threads
from tallbayes.sampling import loop, stopping
from tallbayes.sampling.diagnostics import diagnose
from tallbayes.sampling.kernel import Draws, Finished, Path, PlainState
from tallbayes.sampling.request import Request


def peak_of(work: Callable[[], Any]) -> int:
    """Most bytes at once that some work has taken."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def three() -> SideBySide:
    """As they lie after a run: (draw, chain, parameter)."""
    rng = np.random.default_rng(0)
    return SideBySide(*(rng.normal(size=(50, 4, width)).swapaxes(0, 1) for width in (3, 1, 20)))


def test_slices_are_those_of_one_array(three):
    whole = np.concatenate(three.arrays, axis=2)
    for chosen in np.s_[:, :, :], np.s_[:, ::7, 2:5], np.s_[1:, :, 4:], np.s_[:, :, -2:], np.s_[:, :, 3:3]:
        np.testing.assert_array_equal(three[chosen], whole[chosen])
        assert three[chosen].shape == whole[chosen].shape
    assert np.shares_memory(three[:, :, 5:].arrays[2], three.arrays[2])


def test_diagnostics_are_those_of_one_array(three):
    for found, right in zip(diagnose(three), diagnose(np.asarray(three)), strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("parameters", [0, 1, 2, 3, 7, 24])
@pytest.mark.parametrize("at_once", [1, 400, 500, 10**6])
def test_sums_of_batches_are_sums_of_all(parameters, at_once, monkeypatch):
    """To the last bit: NumPy would sum a parameter that is alone in another order."""
    draws = np.random.default_rng(0).normal(size=(101, 2, parameters)).swapaxes(0, 1)
    monkeypatch.setattr(side_by_side.cuts, "__defaults__", (at_once, 1))
    found, whole = list(batches(draws)), np.ascontiguousarray(draws)
    np.testing.assert_array_equal(np.concatenate([some.std((0, 1)) for some in found]), whole.std((0, 1)))
    assert all(some.shape[2] >= min(2, parameters) for some in found)
    assert all(some.shape[2] <= max(3, at_once // 202) for some in found)
    assert all(cut.stop - cut.start <= max(1, at_once // 202) for cut in cuts(draws, at_once))


def test_looking_at_a_fit_copies_a_few_parameters_at_a_time():
    fit = group_example(1_500)
    size = fit.draws.nbytes
    for look in (fit.summary, fit.problems, lambda: fit.edpm(10), lambda: fit.predict({"fico": [0.0], "bank": ["b1"]})):
        with threads.using(2):
            assert peak_of(look) < size / 4 + 20e6  # with scratch of 8 MB a thread


WIDTH, CHAINS = 2_000, 2


@dataclass(frozen=True)
class Cheap(PlainState):
    """A kernel that draws as fast as it can."""

    model = SimpleNamespace(width=WIDTH, watched=lambda theta: theta)
    name, parts, touched, warmup = "cheap", (), (0, 0), 0

    @property
    def kernels(self) -> tuple[Any]:
        return (self,)

    def start(self, rng: Any) -> Any:
        return Path(np.zeros((CHAINS, WIDTH)), np.zeros(CHAINS), np.zeros(CHAINS))

    def tune(self, state: Any, draws: int, advance: Any) -> Any:
        return self, state

    def advance(self, state: Any, steps: int, rng: Any) -> Any:
        draws = Draws.empty(steps, 1, CHAINS, WIDTH)
        draws.theta[:] = rng.first[0].random()
        return state, draws

    def finish(self, path: Any, rng: Any, phases: Any) -> Finished:
        return Finished(path.theta, {}, {})


@pytest.mark.parametrize("progress", [False, True], ids=["at once", "with looks on the way"])
def test_the_loop_holds_its_draws_once(progress, monkeypatch):
    monkeypatch.setattr(loop, "CALL_SECONDS", 1e-9)
    monkeypatch.setattr(stopping.NowAndThen, "due", lambda self: False)  # a look that copies nothing
    request, runs = Request(500, CHAINS, 1, progress=progress), []
    peak = peak_of(lambda: runs.append(loop.run(Cheap(), request, Phases())))
    assert peak < 1.4 * runs[0].theta.nbytes
