"""Commands under a hard limit of memory, in a control group and without."""

import os
import sys

import pytest

from benchmarks import memory_limit
from benchmarks.memory_limit import forget_files, run_limited

MEGABYTE = 10**6
HOLD = "import sys, time; held = b'x' * int(sys.argv[1]); time.sleep(0.2); print(len(held))"


@pytest.fixture(params=["as this machine can", "without control groups"], autouse=True)
def how(request, monkeypatch, tmp_path):
    if request.param == "without control groups":
        monkeypatch.setattr(memory_limit, "ROOT", tmp_path / "nowhere")


def hold(size, **options):
    return run_limited([sys.executable, "-c", HOLD, str(size)], 200 * MEGABYTE, **options)


def test_what_fits_runs():
    outcome = hold(50 * MEGABYTE)
    assert (outcome.code, outcome.killed, outcome.late) == (0, False, False)
    assert outcome.stdout == f"{50 * MEGABYTE}\n"
    assert 50 * MEGABYTE < outcome.private <= outcome.peak < 120 * MEGABYTE
    assert 0.2 < outcome.seconds < 20
    assert outcome.cpu > 0


def test_what_does_not_fit_is_ended():
    outcome = hold(400 * MEGABYTE)
    assert outcome.killed
    assert outcome.code != 0
    assert outcome.stdout == ""
    assert outcome.peak <= 200 * MEGABYTE


def test_what_fails_for_another_reason_was_not_killed():
    outcome = run_limited([sys.executable, "-c", "raise SystemExit('no')"], 200 * MEGABYTE)
    assert (outcome.code, outcome.killed, outcome.stderr) == (1, False, "no\n")


def test_what_takes_too_long_is_ended():
    outcome = run_limited([sys.executable, "-c", "import time; time.sleep(60)"], 200 * MEGABYTE, timeout=0.5)
    assert outcome.late
    assert not outcome.killed
    assert outcome.seconds < 20


def test_groups_are_removed():
    hold(MEGABYTE)
    own = f"limited-{os.getpid()}-*"
    assert not [*memory_limit.ROOT.glob(own), *(memory_limit.ROOT / "memory").glob(own)]


def test_files_can_be_forgotten(tmp_path):
    (tmp_path / "rows").write_bytes(b"x" * 100_000)
    forget_files([tmp_path / "rows"])
    assert (tmp_path / "rows").read_bytes() == b"x" * 100_000
