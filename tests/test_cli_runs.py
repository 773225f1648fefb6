"""`tallbayes fit --checkpoint`, `tallbayes resume` and `tallbayes status`."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from command import run
from runs import DATA

import tallbayes as tb
from tallbayes.sampling import loop
from tallbayes.sampling.checkpoint import _locked

FEW = ["--draws", "40", "--warmup", "60", "--chains", "2", "--seed", "1", "--quiet"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    DATA.to_csv("data.csv", index=False)
    return "data.csv"


def begin(data, *more):
    return run("fit", data, "y ~ x", *FEW, "--checkpoint", "run.tb", *more)


def test_a_run_goes_on_from_another_folder(data, tmp_path, monkeypatch):
    begin(data, "--out", "first.nc")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = run("resume", "../run.tb", "--draws", "60", "--out", "longer.nc", "--quiet")
    assert "saved to longer.nc" in done.stdout
    whole = tb.fit("y ~ x", DATA, draws=60, warmup=60, chains=2, seed=1, progress=False)
    np.testing.assert_array_equal(tb.load("longer.nc").draws, whole.draws)
    np.testing.assert_array_equal(tb.load("../first.nc").draws, whole.draws[:, :40])


def test_where_a_fit_is_kept_and_how_to_go_on_is_said(data, monkeypatch):
    at = Path("run.tb").absolute()
    assert f"kept in {at}; tallbayes resume {at} --out fit.nc" in begin(data).stdout
    advance = loop._Loop.advance

    def interrupted(self, *given, **named):
        found = advance(self, *given[:2], min(given[2], 10), *given[3:], **named)
        if named.get("stoppable"):
            self.stop.set()
        return found

    monkeypatch.setattr(loop._Loop, "advance", interrupted)
    done = run("fit", data, "y ~ x", *FEW, "--checkpoint", "other.tb")
    assert f"go on with: tallbayes resume {Path('other.tb').absolute()}" in done.stderr
    assert done.exit_code == 130


def test_status(data):
    begin(data)
    said = dict(line.split(maxsplit=1) for line in run("status", "run.tb").stdout.splitlines())
    assert said["formula"] == "y ~ x"
    assert said["so"] == "far    40 draws of 2 chains; asked for: 40"
    assert said["seed"] == "1"
    assert said["now"] == "no process is working on it"
    with _locked(Path("run.tb")):
        assert f"process {os.getpid()} is working on it" in run("status", "run.tb").stdout


def test_the_report_and_json(data):
    begin(data)
    done = run("resume", "run.tb", "--json", "--quiet", "--report", "fit.html")
    assert set(json.loads(done.stdout)["parameters"]) == {"Intercept", "x"}
    assert os.path.exists("fit.html")


@pytest.mark.parametrize("command", ["resume", "status"])
def test_what_is_no_checkpoint(command, data):
    done = run(command, "nothing.tb")
    assert done.exit_code != 0
    assert "there is no checkpoint at 'nothing.tb'" in done.stderr


def test_data_that_were_moved_or_have_changed(data):
    begin(data)
    os.rename("data.csv", "moved.csv")
    assert "data.csv" in run("resume", "run.tb", "--quiet").stderr
    assert run("resume", "run.tb", "--quiet", "--data", "moved.csv").exit_code in (0, 3)
    DATA.assign(x=DATA["x"].where(DATA.index != 5, 0.5)).to_csv("moved.csv", index=False)
    assert "other values in 'x'" in run("resume", "run.tb", "--quiet", "--data", "moved.csv").stderr
