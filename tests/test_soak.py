"""A few seconds of the soak, and what it must find."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soak

NAMES = ["mh", "thinned", "gaussian", "two-stage"]
pytestmark = [
    pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*os.fork.*:RuntimeWarning"),  # where another test has imported it
]


@pytest.fixture
def rounds(tmp_path):
    return soak.Soak(np.random.default_rng(1), tmp_path, NAMES, large=60_000)


def test_a_soak_in_short(monkeypatch):
    monkeypatch.setattr(soak.Soak, "full_disk", lambda self: "each in a test of its own")
    assert soak.soak(0, 1, NAMES, 60_000).problems == []


@pytest.mark.parametrize("what", soak.FULL)
def test_a_full_disk(what, rounds):
    rounds.full(what)
    assert rounds.problems == []


def test_what_is_left_behind_is_noticed(rounds):
    """A file that stays open, a thread that does not end, and memory that grows."""
    before = soak.Held.now()
    with open(os.devnull), ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        after = soak.Held.now()
    assert (after.files, after.threads) == (before.files + 1, before.threads + 1)
    rounds.memory = {fits: 10**8 + 60_000 * fits for fits in range(50, 501, 50)}
    assert rounds.growth == pytest.approx(60_000)
    assert rounds.growth > soak.GROWTH


@pytest.mark.long
def test_memory_is_flat_over_500_fits():
    """In a process of its own: what other tests have left behind is given back at any time."""
    done = subprocess.run(
        [sys.executable, soak.__file__, "--minutes", "0", "--fits", "500", "--seed", "1", "--rows", "60000"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  500 small fits" in done.stdout
