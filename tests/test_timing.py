"""That it compiles is told once, where progress is shown and where it takes long enough to wonder."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from numba.core import event

from tallbayes.data import timing


def compile_thrice() -> None:
    for _ in range(3):
        with event.trigger_event("numba:compile", {"function": compile_thrice}):
            pass


@pytest.mark.parametrize(
    ("wanted", "worth", "lines"), [(True, -1.0, 1), (True, 1e9, 0), (False, -1.0, 0)], ids=["long", "short", "silent"]
)
def test_compiling_is_told_once(wanted, worth, lines, monkeypatch, capsys):
    monkeypatch.setattr(timing, "WORTH_A_WORD", worth)
    with timing.telling(wanted):
        compile_thrice()
    assert capsys.readouterr().err.count("Compiling for this machine") == lines
    compile_thrice()  # outside nothing is said
    assert capsys.readouterr().err == ""


def test_phases_inside_others_add_up_to_the_whole(monkeypatch):
    """By a clock that goes on only where something is done: no second is counted twice, and none is lost."""
    now = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def work(seconds: float) -> None:
        now[0] += seconds

    def compile_something(seconds: float) -> None:
        with event.trigger_event("numba:compile", {"function": compile_something}):
            work(seconds)

    def fail(phases: timing.Phases) -> None:
        with phases("sampling"):
            work(8.0)
            with phases("diagnostics"):
                work(16.0)
                compile_something(32.0)
            raise KeyError

    phases = timing.Phases({"design": 100.0})
    with phases("other"):
        work(1.0)
        with phases("mode"):
            work(2.0)
            compile_something(4.0)
        with pytest.raises(KeyError):
            fail(phases)
        compile_something(64.0)
    with phases("mode"):
        work(128.0)
    assert phases.seconds == {
        "compile": 100.0,
        "design": 100.0,
        "mode": 130.0,
        "diagnostics": 16.0,
        "sampling": 8.0,
        "other": 1.0,
    }
    assert sum(phases.seconds.values()) == 100 + now[0]


def test_compiling_in_several_threads_is_counted_once():
    """All threads start and end many times; whatever their turns, nothing is left open, and no time is negative."""
    counted = timing._Compiling()

    def compiles(_):
        for _ in range(2_000):
            counted.on_start(None)
            counted.on_end(None)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(compiles, range(8)))
    assert counted._depth == 0
    assert counted.seconds >= 0
