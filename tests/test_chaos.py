"""A short version of `make chaos`, and that it notices what it looks for."""

import subprocess
import sys
from pathlib import Path

import chaos
import numpy as np
import pytest

SCRIPT = Path(chaos.__file__)


def test_runs_that_are_killed_end_with_the_same_draws():
    command = [sys.executable, SCRIPT, "--kills", "3", "--seed", "1", "--only", "mh by column", "--minutes", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 runs went wrong" in done.stdout


@pytest.mark.long
def test_runs_of_all_kernels():
    done = subprocess.run([sys.executable, SCRIPT, "--kills", "100"], capture_output=True, text=True, timeout=2_400)
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_that_are_half_written_are_found(tmp_path):
    chaos.packed.write(tmp_path / "state", {"theta": np.ones(3)})
    (tmp_path / "asked.json").write_text("{}")
    assert chaos.torn(tmp_path) == []
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-9])
    (tmp_path / "asked.json").write_text("{")
    assert sorted(problem.split(":")[0] for problem in chaos.torn(tmp_path)) == ["asked.json", "state"]


def test_other_draws_are_noticed(tmp_path, monkeypatch):
    answers = iter(["right", "wrong", "wrong"])
    monkeypatch.setattr(chaos, "forked", lambda work, answer: answer.write_text(next(answers)) and 1)
    monkeypatch.setattr(chaos, "ended", lambda process, seconds: 0)
    assert not chaos.torture("mh", 1, np.random.default_rng(1), tmp_path).same
