"""Fits by the ranks of MPI: the draws of one machine, errors that come home, and an end whatever happens."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import run
from under_mpi import KINDS, fitted, results

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.rows.passes import LENGTH

pytest.importorskip("mpi4py")
ROWS, FILES = 40_000, 5
MPIEXEC, SCRIPT = Path(sys.executable).with_name("mpiexec"), Path(__file__).with_name("under_mpi.py")


def mpiexec(ranks, *arguments):
    """A run of all ranks, with what they print."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def well(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    found = pd.DataFrame(
        {
            "x": rng.normal(size=ROWS),
            "size": rng.choice(["small", "medium", "large"], ROWS),
            "bank": rng.integers(0, 50, ROWS),
        }
    )
    found["y"] = (rng.random(ROWS) < 1 / (1 + np.exp(2 - found["x"]))).astype(int)
    return found


def written(frame, folder):
    for number, part in enumerate(np.array_split(np.arange(ROWS), FILES)):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return written(frame, tmp_path_factory.mktemp("loans"))


@pytest.fixture(scope="module")
def reference(folder):
    """Draws of one machine; groups of rows on disk, where they are sampled as on workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", LENGTH)
        fits = {kind: fitted(folder, kind) for kind in KINDS if kind != "groups"}
        looked = results(fits["regression"])
        patch.setattr("tallbayes.rows.building.fits", lambda *given: False)
        fits["groups"] = fitted(folder, "groups")
        return {kind: fit.draws for kind, fit in fits.items()} | {"results": looked}


@pytest.fixture(scope="module")
def three_ranks(folder, tmp_path_factory):
    """A run of three ranks that fits, and then tries messages; and the file of the draws."""
    out = tmp_path_factory.mktemp("three") / "draws.npz"
    return mpiexec(3, SCRIPT, "both", folder, out), out


def assert_same(out, reference):
    with np.load(out) as found:
        for kind in (*KINDS, "results"):
            np.testing.assert_array_equal(found[kind], reference[kind], err_msg=kind)


def test_the_draws_are_those_of_one_machine(three_ranks, reference):
    done, out = three_ranks
    assert out.exists(), done.stdout + done.stderr
    assert_same(out, reference)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_draws_of_fewer_ranks(ranks, folder, reference, tmp_path):
    well(mpiexec(ranks, SCRIPT, "fits", folder, tmp_path / "draws.npz"))
    assert_same(tmp_path / "draws.npz", reference)


def test_messages_and_errors(three_ranks):
    """After the fits, whose parts were let go of."""
    well(three_ranks[0])


def test_the_command_line_with_ranks_that_have_no_part(folder, tmp_path):
    """All rows are one piece, and so one part, of one of two ranks."""
    arguments = "fit", folder, "y ~ x", "--draws", "1000", "--chains", "2", "--seed", "1", "--quiet", "--out"
    well(mpiexec(2, "-m", "tallbayes.mpi", *arguments, tmp_path / "mpi.nc"))
    assert run(*arguments, tmp_path / "alone.nc").exit_code == 0
    np.testing.assert_array_equal(tb.load(tmp_path / "mpi.nc").draws, tb.load(tmp_path / "alone.nc").draws)


def test_an_error_of_a_rank_ends_the_command(frame, tmp_path):
    broken = frame.copy()
    broken.loc[ROWS - 3, "x"] = np.nan
    done = mpiexec(2, SCRIPT, "command", "fit", written(broken, tmp_path), "y ~ x", "--quiet")
    assert done.returncode == 1
    assert "error: column 'x' has 1 missing value" in done.stderr
    assert f"row {ROWS // FILES - 3} of" in done.stderr
    assert "4.parquet" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_rank_that_dies_ends_all(folder):
    began = time.monotonic()
    done = mpiexec(3, SCRIPT, "fit", folder)
    assert done.returncode != 0
    assert time.monotonic() - began < 60


def test_mpi4py_is_imported_only_when_needed_and_said_to_be_missing():
    code = (
        "import sys\n"
        "import tallbayes as tb\n"
        "print([name for name in sys.modules if 'mpi4py' in name])\n"
        "sys.modules['mpi4py'] = None\n"
        "try: tb.mpi.run(print)\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    imported, said = done.stdout.splitlines()
    assert imported == "[]"
    assert said.startswith("MPI needs mpi4py and an MPI library: pip install tallbayes[mpi]")
