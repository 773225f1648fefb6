"""Everything that is written is written whole: on a full disk there is one clear sentence, and the old file stays."""

from __future__ import annotations

import errno
import os

import numpy as np
import pandas as pd
import pytest
from command import run
from runs import DATA, FEW, RUNS

import tallbayes as tb
from tallbayes import paper
from tallbayes.groups.example import group_example
from tallbayes.paper.experiment import Experiment
from tallbayes.results.example import example

QUICK = ("--draws", "20", "--warmup", "20", "--chains", "2", "--seed", "1", "--method", "thinned", "--quiet")
NEW = {"fico": np.linspace(-1, 1, 20_000)}
FULL = r"cannot write '.*': the disk is full \(0\.0 MB are free in '.*'\); make room or choose another place"


@pytest.fixture
def full(small_disk):
    """A disk without a byte to spare, on which an old file lies."""
    (small_disk / "old").write_bytes(b"precious" * 64)
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize))
    assert os.statvfs(small_disk).f_bavail == 0
    return small_disk


def unchanged(disk):
    """What lies on the disk is what lay there."""
    assert sorted(os.listdir(disk)) == ["filler", "old"]
    assert (disk / "old").read_bytes() == b"precious" * 64


PYTHON = {
    "fit.save": ("nc", lambda path: example().save(path)),
    "fit.save with groups": ("nc", lambda path: group_example(30).save(path)),
    "fit.save of a run": ("nc", lambda path: RUNS["thinned"](**FEW).save(path)),
    "fit.report": ("html", lambda path: example().report(path)),
    "fit.predict_to CSV": ("csv", lambda path: example().predict_to(NEW, path, progress=False)),
    "fit.predict_to Parquet": ("parquet", lambda path: example().predict_to(NEW, path, progress=False)),
}


@pytest.mark.parametrize("what", PYTHON)
def test_in_python(what, full):
    ending, write = PYTHON[what]
    path = full / f"out.{ending}"
    (full / "old").rename(path)
    with pytest.raises(OSError, match=FULL) as caught:
        write(path)
    assert caught.value.errno == errno.ENOSPC
    path.rename(full / "old")
    unchanged(full)


def test_the_same_file_is_written_when_there_is_room(full):
    (full / "old").rename(full / "fit.nc")
    with pytest.raises(OSError, match=FULL):
        example().save(full / "fit.nc")
    (full / "filler").unlink()
    example().save(full / "fit.nc")
    assert tb.load(full / "fit.nc").posterior.identical(example().posterior)


@pytest.fixture
def files(tmp_path):
    DATA.to_csv(tmp_path / "data.csv", index=False)
    pd.DataFrame(NEW).to_csv(tmp_path / "new.csv", index=False)
    example().save(tmp_path / "fit.nc")
    return tmp_path


COMMANDS = {
    "fit --out": ["fit", "{files}/data.csv", "y ~ x", *QUICK, "--force", "--out", "{out}.nc"],
    "fit --report": ["fit", "{files}/data.csv", "y ~ x", *QUICK, "--force", "--report", "{out}.html"],
    "report": ["report", "{files}/fit.nc", "{out}.html", "--force"],
    "predict CSV": ["predict", "{files}/fit.nc", "{files}/new.csv", "--force", "--quiet", "--out", "{out}.csv"],
    "predict Parquet": ["predict", "{files}/fit.nc", "{files}/new.csv", "--force", "--quiet", "--out", "{out}.parquet"],
    "simulate CSV": ["simulate", "loans", "--rows", "2000", "--force", "--out", "{out}.csv"],
    "simulate Parquet": ["simulate", "loans", "--rows", "2000", "--force", "--out", "{out}.parquet"],
}


@pytest.mark.parametrize("what", COMMANDS)
def test_on_the_command_line(what, full, files):
    arguments = [one.format(files=files, out=full / "out") for one in COMMANDS[what]]
    path = next(one for one in arguments if one.startswith(str(full)))
    (full / "old").rename(path)
    done = run(*arguments)
    assert done.exit_code == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"error: cannot write '{path}': the disk is full")
    assert "Traceback" not in done.stderr
    os.rename(path, full / "old")
    unchanged(full)


def test_a_folder_of_simulated_loans(full):
    before = full / "loans"
    (full / "filler").unlink()
    before.mkdir()
    (before / "part-00000.parquet").write_bytes(b"0" * 900_000)
    done = run("simulate", "loans", "--rows", "200000", "--force", "--quiet", "--out", f"{before}/")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: cannot write '{before}': the disk is full")
    assert os.listdir(before) == ["part-00000.parquet"]
    assert (before / "part-00000.parquet").stat().st_size == 900_000
    assert sorted(os.listdir(full)) == ["loans", "old"]


def test_a_reproduction(full):
    table = pd.DataFrame({"a": np.arange(100.0)})
    with pytest.raises(OSError, match="the disk is full"):
        paper.write(Experiment("bank", "a title", "a setting", tables={"speeds": ("a caption", table)}), 1.0, full)
    assert not [path for path in full.rglob("*") if path.is_file() and path.name not in ("filler", "old")]
    (full / "bank").rmdir()
    with pytest.raises(OSError, match=FULL):
        paper.write_page(["a section"], full)
    unchanged(full)


def test_a_checkpoint(full):
    with pytest.raises(OSError, match="the disk is full"):
        tb.fit("y ~ x", DATA, **FEW, checkpoint=full / "run.tb")
    unchanged(full)
