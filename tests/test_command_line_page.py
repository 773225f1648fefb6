"""Every command on the documentation's page about the command line, typed in order."""

import json
import re
from pathlib import Path

import pandas as pd
from command import type_in
from figures import sketched

from tallbayes.cli import main
from tallbayes.results import report

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "command-line.md"


def test_all_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sketched(monkeypatch)
    monkeypatch.setattr(report, "MOST_PANELS", 1)
    monkeypatch.setattr(report, "MOST_TRACES", 1)
    text = PAGE.read_text("utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    said = {}
    for line in lines:
        code, said[line] = type_in(line)
        assert code == 0, line
    assert {line.split()[1] for line in lines if line.startswith("tallbayes")} == set(main.commands) - {
        "compare", "reproduce",
    }  # fmt: skip
    assert all(f"`tallbayes {name}`" in text for name, command in main.commands.items() if not command.hidden)
    assert "84 of them ones" in said[lines[0]]
    first, again = (said[line] for line in lines[1:3])
    for line in re.findall(r"```text\n(method.*?)```", text, re.DOTALL)[0].splitlines():
        assert line in first
    assert first.splitlines()[-3:] == again.splitlines()[-3:]
    for name in ("fit", "piped", "fico"):
        assert json.loads(Path(f"{name}.json").read_text("utf-8"))["converged"] is True
    assert list(pd.read_parquet("predictions.parquet")) == ["foreclosed", "mean", "eti94_lb", "eti94_ub"]
    assert "Did it converge?" in Path("again.html").read_text("utf-8")
