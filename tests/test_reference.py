"""Every public name has its place in the reference."""

import importlib
import re
from pathlib import Path

import tallbayes as tb

PAGES = Path(__file__).parent.parent / "docs" / "reference"
MODULES = {"datasets": tb.datasets, "mpi": tb.mpi, "plots": tb.plots}
NAMES = {
    **{name: getattr(tb, name) for name in {*dir(tb)} - {*MODULES, "__version__"}},
    **{
        f"{room}.{name}": value
        for room in ("datasets", "plots")
        for name in MODULES[room].__all__
        if callable(value := getattr(MODULES[room], name))
    },
    "mpi.run": tb.mpi.run,
}


def resolved(path):
    """What a dotted path stands for: modules first, since some functions have the names of theirs."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(path)


def entries():
    """Page and path of each entry."""
    for page in sorted(PAGES.glob("*.md")):
        for path in re.findall(r"(?m)^::: (\S+)$", page.read_text("utf-8")):
            yield page.name, path


def test_each_name_is_on_one_page():
    found = [resolved(path) for _, path in entries()]
    missing = [name for name, value in NAMES.items() if not any(value is one for one in found)]
    assert not missing, (
        f"write ::: tallbayes.{missing[0]} on a page of docs/reference/, and tb.{missing[0]} in its index"
    )
    twice = [path for _, path in entries() if sum(resolved(path) is one for one in found) > 1]
    assert not twice


def test_the_index_has_every_page_and_name():
    index = (PAGES / "index.md").read_text("utf-8")
    made = {"command-line.md"}  # by docs/commands.py
    assert (
        set(re.findall(r"(?m)^\| \[.*?\]\((.*?)\)", index))
        == {path.name for path in PAGES.iterdir()} - {"index.md"} | made
    )
    missing = [name for name in NAMES if "." not in name and f"`tb.{name}`" not in index]
    assert not missing, f"write `tb.{missing[0]}` into docs/reference/index.md"
