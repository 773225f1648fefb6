"""The sampling loop: seeds, splitting, stopping, interrupting, progress."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tallbayes as tb
from tallbayes.data.timing import Phases
from tallbayes.sampling import diagnostics, loop, stopping
from tallbayes.sampling.request import Request


def model() -> tb.GLM:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    return tb.GLM("y ~ x", {"x": x, "y": rng.random(400) < 1 / (1 + np.exp(1 - x))})


MODEL = model()
KERNELS = {
    "mh": tb.MH("one-at-a-time").kernel(MODEL, seed=1),
    "two-stage": tb.TwoStage(tb.Subsample(100)).kernel(MODEL, seed=1),
    "taylor": tb.TwoStage().kernel(MODEL, seed=1),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def run(kernel: Any, draws: int | None = 300, seed: int = 5, warmup: int = 60, **options: Any) -> loop.Run:
    asked = {"draws": draws, "chains": 3, "seed": seed, "warmup": warmup, "progress": False}
    return loop.run(kernel, Request(**asked | options), Phases())


@each_kernel
def test_draws_depend_on_the_seed_and_not_on_the_length_of_calls(kernel, monkeypatch):
    monkeypatch.setattr(loop, "CALL_SECONDS", 1e-9)
    slow = run(kernel, 120)
    monkeypatch.setattr(loop, "CALL_SECONDS", 10.0)
    fast = run(kernel, 120)
    np.testing.assert_array_equal(slow.theta, fast.theta)
    np.testing.assert_array_equal(slow.sample_stats["lp"], fast.sample_stats["lp"])
    assert slow.acceptance == pytest.approx(fast.acceptance)
    assert slow.rows_per_draw == fast.rows_per_draw
    assert not np.array_equal(run(kernel, 120, seed=6).theta, fast.theta)
    assert slow.theta.shape == (3, 120, 2)
    assert not slow.interrupted


@each_kernel
def test_chains_differ_from_each_other(kernel):
    theta = run(kernel, 50).theta
    assert len(np.unique(theta[:, -1, 0])) == 3


@dataclass(frozen=True)
class Interrupting:
    """A kernel at whose n-th call the user presses Ctrl-C (or twice)."""

    inner: Any
    calls: list[int]
    at: int
    times: int = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def tune(self, state: Any, draws: int, advance: Any) -> Any:
        return self, advance(self, state, draws)[0]

    def advance(self, state: Any, steps: int, rng: Any) -> Any:
        self.calls[0] += 1
        if self.calls[0] == self.at:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)
        return self.inner.advance(state, steps, rng)


@dataclass(frozen=True)
class Ready:
    """A method whose kernel is there already."""

    made: Any

    def kernel(self, model: Any, seed: Any, phases: Any) -> Any:
        return self.made


@pytest.fixture
def slow_calls(monkeypatch):
    """One step a call; Ctrl-C as at a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    monkeypatch.setattr(loop, "CALL_SECONDS", 1e-9)
    yield
    signal.signal(signal.SIGINT, before)


@each_kernel
def test_ctrl_c_keeps_what_was_drawn(kernel, slow_calls):
    handler = signal.getsignal(signal.SIGINT)
    whole = run(kernel, 60, warmup=10)
    cut = run(Interrupting(kernel, [0], at=50), warmup=10)
    assert cut.interrupted
    assert cut.theta.shape == (3, 40, 2)
    np.testing.assert_array_equal(cut.theta, whole.theta[:, :40])
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_keeps_what_all_shards_have_drawn(slow_calls):
    """The key is pressed while a shard is under way in a thread: the others come as far, and draws are combined."""
    kernel = tb.Consensus(2, inner="mh").kernel(MODEL, seed=1)
    broken = replace(kernel, kernels=(kernel.kernels[0], Interrupting(kernel.kernels[1], [0], at=50)))
    whole, cut = run(kernel, 40, warmup=10), run(broken, warmup=10)
    assert cut.interrupted
    assert cut.theta.shape == (3, 40, 2)
    np.testing.assert_array_equal(cut.theta, whole.theta)
    broken = replace(kernel, kernels=(Interrupting(kernel.kernels[0], [0], at=50), kernel.kernels[1]))
    fit = tb.sample(MODEL, Ready(broken), 100, 3, 1, warmup=10, progress=False)
    assert fit.stats["interrupted"]
    assert fit.draws.shape == (3, 40, 2)


def test_ctrl_c_in_warm_up_raises(slow_calls):
    with pytest.raises(KeyboardInterrupt):
        run(Interrupting(KERNELS["mh"], [0], at=5), warmup=10)


def test_a_second_ctrl_c_raises_at_once(slow_calls):
    with pytest.raises(KeyboardInterrupt):
        run(Interrupting(KERNELS["mh"], [0], at=50, times=2), warmup=10)


@pytest.mark.parametrize("foreign", [False, True])
def test_an_interrupt_that_is_not_ours_is_left_alone(foreign, slow_calls, monkeypatch):
    """One that is ignored, or the handler of a program that Python is part of: `signal.signal` cannot set that."""
    if foreign:
        monkeypatch.setattr(signal, "getsignal", lambda number: None)
        signal.signal(signal.SIGINT, lambda number, frame: None)
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    whole, not_cut = run(KERNELS["mh"], 60, warmup=10), run(Interrupting(KERNELS["mh"], [0], at=50), 60, warmup=10)
    assert not not_cut.interrupted
    np.testing.assert_array_equal(not_cut.theta, whole.theta)


def test_fit_says_that_it_was_interrupted(slow_calls):
    fit = tb.sample(MODEL, Ready(Interrupting(KERNELS["taylor"], [0], at=30)), 100, 2, 1, warmup=10, progress=False)
    assert fit.stats["interrupted"]
    assert fit.posterior.sizes["draw"] == 20
    assert "interrupted" in repr(fit)


def test_sampling_outside_the_main_thread_works():
    found = []
    thread = threading.Thread(target=lambda: found.append(run(KERNELS["taylor"])))
    thread.start()
    thread.join(60)
    np.testing.assert_array_equal(found[0].theta, run(KERNELS["taylor"]).theta)


def test_target_ess_stops_when_it_is_reached():
    result = run(KERNELS["taylor"], None, target_ess=900.0)
    assert diagnostics.ess(result.theta).min() >= 900
    assert result.theta.shape[1] < 3_000  # nearly independent draws: about 300 a chain are needed
    longer = run(KERNELS["taylor"], 2 * result.theta.shape[1])
    np.testing.assert_array_equal(result.theta, longer.theta[:, : result.theta.shape[1]])


def test_draws_bound_a_target_that_is_out_of_reach():
    assert run(KERNELS["mh"], 250, target_ess=1e9).theta.shape[1] == 250


def test_progress_goes_to_stderr_with_acceptance_and_ess(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(stopping.NowAndThen, "due", lambda self: True)  # it would wait for a second
    run(KERNELS["two-stage"], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    for text in ("two-stage", "warm-up", "draws", "300/300", "accept 0.", "then", "ESS"):
        assert text in shown.err
    run(KERNELS["two-stage"])
    assert capsys.readouterr() == ("", "")


def test_phases_are_timed_and_rows_are_counted():
    phases = Phases()
    result = loop.run(KERNELS["mh"], Request(200, 2, 1, warmup=60, progress=False), phases)
    assert phases.seconds["sampling"] > 0
    assert phases.seconds["warmup"] > 0
    # Two updates a draw touch all rows; every hundredth draw the linear predictors are computed anew.
    touched = result.rows_per_draw * 400 / MODEL.rows.size
    assert touched == 400 * 2 + 2 * 2
