"""That it compiles is told once, where progress is shown and where it takes long enough to wonder."""

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
