"""A newcomer's path: what the README says to type, typed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

import tallbayes as tb

README = Path(__file__).parent.parent / "README.md"
BIN = Path(sys.executable).parent
SECONDS = 300


def commands(heading):
    """The lines of the shell under a heading."""
    under = README.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", under, re.DOTALL) for line in block.splitlines()]


def test_from_nothing_to_a_report(tmp_path):
    *install, simulate, fit = commands("Your own CSV in five minutes")
    assert install == ["python3 -m venv env", ". env/bin/activate", "pip install ."]  # make does as much in a clone
    typed = [simulate, fit]
    assert [line.split()[:2] for line in typed] == [["tallbayes", "simulate"], ["tallbayes", "fit"]]
    surroundings = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    for line in typed:
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.html", "fit.nc", "my.csv"]
    found = tb.load(tmp_path / "fit.nc")
    assert found.converged
    assert found.coefficients[:3] == ("Intercept", "fico", "dti")
    assert len(found.predict(pd.read_csv(tmp_path / "my.csv").head(5))) == 5
    assert "Did it converge?" in (tmp_path / "fit.html").read_text("utf-8")


def test_the_first_commands_are_targets():
    makefile = (README.parent / "Makefile").read_text("utf-8")
    first = re.search(r"```sh\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[1]
    for line in first.splitlines():
        assert re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE)


def test_pictures_are_there():
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README.read_text("utf-8")):
        assert (README.parent / path).is_file()
