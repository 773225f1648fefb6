"""A room of the package imports only from rooms before it, and some habits are kept out of all of them."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "tallbayes"

# One direction: a room imports from itself and from rooms before it.
ROOMS = [
    "starting",
    "data",
    "families",
    "rows",
    "models",
    "engines",
    "sampling",
    "results",
    "groups",
    "gaussian",
    "own",
    "splines",
    "estimators",
    "plots",
    "fit",
    "paper",
    "cli",
    "mpi",
    "__main__",
]

FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def room(file):
    return file.removesuffix(".py").split("/")[0]


def imports(tree, file):
    """(room imported, line) for each import of the package's own files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = ["tallbayes", *file.split("/")[:-1]]
            base = ".".join(folder[: len(folder) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "tallbayes" else [module]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "tallbayes":
                yield parts[1] if len(parts) > 1 else "__init__", node.lineno


def trespasses(source, file):
    """The imports of a file that its place in the order forbids."""
    own = room(file)
    for other, line in imports(ast.parse(source), file):
        if other not in ROOMS or ROOMS.index(other) > ROOMS.index(own):
            yield f"{file}:{line} imports {other}"


def bad_habits(source, file):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            everything = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            silent = all(isinstance(part, ast.Pass | ast.Continue) for part in node.body)
            if node.type is None or (everything and silent):
                yield f"{file}:{node.lineno} hides every error"
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith("model.rows.arrays"):
            yield f"{file}:{node.lineno} goes past the door to the data"
        calls_print = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
        if calls_print and room(file) != "cli":
            yield f"{file}:{node.lineno} prints"


def test_every_file_has_a_place():
    assert {room(file) for file in FILES} - {"__init__"} <= set(ROOMS), "this file is in no room"


@pytest.mark.parametrize("file", FILES)
def test_imports_from_above_only(file):
    if file == "__init__.py":
        return  # the public names, from anywhere
    assert list(trespasses(FILES[file].read_text(), file)) == []


@pytest.mark.parametrize("file", FILES)
def test_no_bad_habits(file):
    assert list(bad_habits(FILES[file].read_text(), file)) == []


@pytest.mark.parametrize(
    ("file", "source", "found"),
    [
        ("rows/memory.py", "from tallbayes.rows import passes", []),
        ("rows/memory.py", "from tallbayes.families import Logit", []),
        ("rows/memory.py", "from tallbayes import families, models", ["rows/memory.py:1 imports models"]),
        ("rows/memory.py", "import tallbayes.models.mode as m", ["rows/memory.py:1 imports models"]),
        ("rows/memory.py", "from ..models.mode import Mode", ["rows/memory.py:1 imports models"]),
        ("models/glm.py", "from . import other\nfrom .other import f", []),
        ("rows/a.py", "def f():\n    from tallbayes.models.glm import GLM", ["rows/a.py:2 imports models"]),
        ("rows/a.py", "from tallbayes import Fit", ["rows/a.py:1 imports Fit"]),
        ("rows/a.py", "import tallbayes", ["rows/a.py:1 imports __init__"]),
    ],
)
def test_the_test_sees_trespasses(file, source, found):
    assert list(trespasses(source, file)) == found


@pytest.mark.parametrize(
    ("file", "source", "count"),
    [
        ("rows.py", "try:\n    f()\nexcept:\n    pass", 1),
        ("rows.py", "try:\n    f()\nexcept Exception:\n    pass", 1),
        ("rows.py", "try:\n    f()\nexcept OSError:\n    g()", 0),
        ("sampling/a.py", "x = self.model.rows.arrays.x", 1),
        ("sampling/a.py", "x = self.model.rows.sample(10, rng).arrays.x", 0),
        ("rows.py", "print('x')", 1),
        ("cli/fit.py", "print('x')", 0),
        ("rows.py", '"""print(1)"""', 0),
    ],
)
def test_the_test_sees_bad_habits(file, source, count):
    assert len(list(bad_habits(source, file))) == count


BENCHMARKS = sorted((PACKAGE.parent.parent / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_benchmarks_use_what_is_there(file):
    """No other test runs them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("tallbayes", "benchmarks"):
            for name in node.names:
                found = importlib.import_module(node.module)
                there = hasattr(found, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}")
                assert there, f"{node.module} has no {name.name}"
