"""Outputs never replace what is read, nor each other, also with --force."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pandas as pd
import pytest
from command import run
from runs import DATA, FEW

import tallbayes as tb
from tallbayes.data import datasets
from tallbayes.results.example import example


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with data in several forms, a fit and a run."""
    monkeypatch.chdir(tmp_path)
    DATA.to_csv("data.csv", index=False)
    for part in ("part=a", "part=b"):
        os.makedirs(f"parts/{part}")
        DATA.to_csv(f"parts/{part}/rows.csv", index=False)
    os.symlink("data.csv", "link.csv")
    os.link("data.csv", "twin.html")
    os.symlink(tmp_path, "here")
    os.symlink("parts", "more")
    example().save("fit.nc")
    os.link("fit.nc", "fit.html")
    tb.fit("y ~ x", str(tmp_path / "data.csv"), **FEW, checkpoint="run.tb")
    return tmp_path


def content(place):
    return {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


READ = "is a file that is read, and would be lost"
SAME = "are the same file"
NOT_OUT = "'-' would be a file of that name, not the standard output"
INSIDE = "lies in the folder of"
FIT = ("fit", "data.csv", "y ~ x", "--force")
REFUSED = [
    ((*FIT, "--out", "data.csv"), READ),
    ((*FIT, "--out", "./parts/../data.csv"), READ),
    ((*FIT, "--out", "here/data.csv"), READ),
    ((*FIT, "--out", "link.csv"), READ),
    ((*FIT, "--report", "twin.html"), READ),
    (("fit", "link.csv", "y ~ x", "--force", "--out", "data.csv"), READ),
    (("fit", "file://{place}/data.csv", "y ~ x", "--force", "--out", "data.csv"), READ),
    (("fit", "parts", "y ~ x", "--force", "--out", "parts/part=b/rows.csv"), READ),
    (("fit", "more/", "y ~ x", "--force", "--out", "parts/part=b/rows.csv"), READ),
    (("fit", "parts/*/rows.csv", "y ~ x", "--force", "--out", "parts/part=a/rows.csv"), READ),
    (("fit", "parts/**", "y ~ x", "--force", "--out", "parts/part=a/rows.csv"), READ),
    ((*FIT, "--out", "new.html", "--report", "new.html"), SAME),
    ((*FIT, "--out", "new.html", "--report", "here/new.html"), SAME),
    ((*FIT, "--out", "New.html", "--report", "new.html"), SAME),
    ((*FIT, "--checkpoint", "run.tb", "--out", "run.tb/asked.json"), INSIDE),
    ((*FIT, "--checkpoint", "new.tb", "--out", "new.tb/fit.nc"), INSIDE),
    ((*FIT, "--cache", "designs", "--report", "designs/fit.html"), INSIDE),
    (("resume", "run.tb", "--force", "--out", "data.csv"), READ),
    (("resume", "run.tb", "--force", "--out", "run.tb/draws/state"), INSIDE),
    (("resume", "run.tb", "--force", "--out", "here/run.tb/fit.nc"), INSIDE),
    (("resume", "run.tb", "--force", "--out", "new.html", "--report", "new.html"), SAME),
    (("predict", "fit.nc", "data.csv", "--force", "--out", "data.csv"), READ),
    (("predict", "fit.nc", "parts", "--force", "--out", "parts/part=a/rows.csv"), READ),
    (("report", "fit.nc", "fit.html", "--force"), READ),
    ((*FIT, "--out", "-"), NOT_OUT),
    ((*FIT, "--report", "-"), NOT_OUT),
    ((*FIT, "--checkpoint", "-"), NOT_OUT),
    ((*FIT, "--cache", "-"), NOT_OUT),
    (("resume", "run.tb", "--out", "-"), NOT_OUT),
    (("report", "fit.nc", "-"), NOT_OUT),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=lambda one: " ".join(one) if len(one) < 12 else "")
def test_refused(arguments, message, place):
    before = content(place)
    done = run(*(one.format(place=place) for one in arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    assert content(place) == before


def test_what_is_not_on_this_machine_is_no_place(place):
    fit = example()
    for act in (lambda: fit.save("s3://bucket/fit.nc"), lambda: tb.load("s3://bucket/fit.nc")):
        with pytest.raises(
            ValueError, match=r"path must be the path of a file .*on this machine, not 's3://bucket/fit.nc'"
        ):
            act()


def test_a_home_folder_is_known_by_its_sign(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place))
    example().save("~/other.nc")
    assert tb.load("~/other.nc").draws.shape == example().draws.shape
    tb.fit("y ~ x", str(place / "data.csv"), cache="~/designs", **FEW)
    assert (place / "other.nc").exists()
    assert (place / "designs").is_dir()


def test_a_new_file_beside_the_data_is_written(place):
    few = ("--draws", "20", "--warmup", "20", "--chains", "2", "--seed", "1", "--quiet")
    done = run("fit", "parts", "y ~ x", *few, "--out", "parts/fit.nc")
    assert done.exit_code == 3, done.stderr
    assert tb.load("parts/fit.nc").coefficients == ("Intercept", "x")


@pytest.mark.skipif(os.name != "posix", reason="needs file descriptors and links")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_files_that_streams_lead_to_are_not_replaced(number, place):
    """As in `tallbayes fit - "y ~ x" --out data.csv --force < data.csv`, or --out /dev/stdout."""
    kept = os.dup(number)
    with open("data.csv", "r+b") as file:
        os.dup2(file.fileno(), number)
        try:
            with pytest.raises(OSError, match=r"cannot write 'data.csv': the standard .* is that file"):
                example().save("data.csv")
        finally:
            os.dup2(kept, number)
            os.close(kept)
    pd.testing.assert_frame_equal(pd.read_csv("data.csv"), DATA)


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_link_to_itself_is_not_replaced(place):
    os.symlink("loop.nc", "loop.nc")
    with pytest.raises(OSError, match=r"'loop\.nc': it is a link that leads back to itself"):
        example().save("loop.nc")
    assert os.path.islink("loop.nc")


@pytest.mark.parametrize("out", ["", "x" * 300, "s3://bucket/fit.nc", "a\0b"])
def test_a_place_that_cannot_be_is_refused_before_the_work(out, place):
    done = run("fit", "data.csv", "y ~ x", "--out", out)
    assert done.exit_code == 2
    assert "Invalid value for '--out': it must be the path of a file" in " ".join(done.stderr.split())


def test_predictions_go_to_streams_of_bytes(place):
    with pytest.raises(ValueError, match="target must be open for bytes, not for text"):
        example().predict_to({"fico": [0.0]}, io.StringIO(), progress=False)


@pytest.mark.skipif(os.name != "posix", reason="needs file descriptors")
def test_what_is_printed_is_not_added_to_what_is_read(place):
    """As in `tallbayes predict fit.nc data.csv >> data.csv`."""
    kept = os.dup(1)
    with open("data.csv", "ab") as file:
        os.dup2(file.fileno(), 1)
        try:
            done = run("predict", "fit.nc", "data.csv")
        finally:
            os.dup2(kept, 1)
            os.close(kept)
    assert done.exit_code == 2
    assert "the standard output is 'data.csv', which is also read" in " ".join(done.stderr.split())
    pd.testing.assert_frame_equal(pd.read_csv("data.csv"), DATA)


@pytest.mark.skipif(os.name != "posix", reason="needs a folder that goes while one is in it")
def test_a_folder_that_is_gone_is_said(place, monkeypatch):
    os.mkdir("gone")
    monkeypatch.chdir("gone")
    os.rmdir("../gone")
    with pytest.raises(
        ValueError, match=r"path must be .* 'fit\.nc' cannot be found from a working folder that is gone"
    ):
        example().save("fit.nc")


def test_what_cannot_be_replaced_stays(place, monkeypatch):
    def refused(self, target):
        raise PermissionError(1, "Operation not permitted", str(self), None, str(target))

    before = Path("fit.nc").read_bytes()
    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match=r"cannot replace '.*fit\.nc' \(Operation not permitted\); it is as before"):
        example().save("fit.nc")
    assert Path("fit.nc").read_bytes() == before
    assert not [name for name in os.listdir(".") if name.endswith(".partial")]


def test_too_little_memory_is_said(place, monkeypatch):
    def full(*given):
        raise MemoryError("Unable to allocate 29.1 TiB")

    monkeypatch.setattr(datasets, "simulate_loans", full)
    done = run("simulate", "loans", "--rows", "10", "--out", "new.csv")
    assert (done.exit_code, "takes more memory than there is" in done.stderr) == (1, True)
