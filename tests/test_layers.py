"""A file of the package imports only from files above it, and some habits are kept out of all of them."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "tallbayes"

# One direction. A folder is one entry: its files may import one another.
ORDER = [
    "compiled",
    "phases",
    "systematic",
    "data",
    "group_term",
    "formula",
    "families",
    "priors",
    "tangents",
    "group_scale",
    "rowmath",
    "calibration",
    "basis",
    "partition",
    "sheet",
    "spline_track",
    "urn",
    "remainders",
    "group_remainders",
    "group_given",
    "track",
    "rows",
    "sharding",
    "likelihood",
    "flat",
    "models",
    "mode",
    "arrow",
    "group_mode",
    "surrogates",
    "estimators",
    "proposals",
    "kernels",
    "check",
    "combine",
    "spline_warmup",
    "warmup",
    "batched",
    "diagnostics",
    "chains",
    "predict",
    "result",
    "spline_effects",
    "spline_result",
    "compare",
    "drawing",
    "group_plots",
    "speed_plots",
    "spline_plots",
    "plots",
    "page",
    "report",
    "freddie_mac",
    "datasets",
    "methods",
    "fit",
    "classifier",
    "paper",
    "cli",
]
# Imports that point down, allowed inside a function only.
LATE = {("result", "plots"), ("result", "report"), ("result", "spline_result")}

FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(file):
    return file.removesuffix(".py").split("/")[0]


def imports(tree, file):
    """(layer imported, whether inside a function, line) for each import of the package's own files."""
    inside = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.walk(node)
    }
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
                yield parts[1] if len(parts) > 1 else "__init__", node in inside, node.lineno


def trespasses(source, file):
    """The imports of a file that its place in the order forbids."""
    own = layer(file)
    for other, inside, line in imports(ast.parse(source), file):
        if other == own or ((own, other) in LATE and inside):
            continue
        if other not in ORDER or ORDER.index(other) > ORDER.index(own):
            yield f"{file}:{line} imports {other}"


def bad_habits(source, file):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            everything = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            silent = all(isinstance(part, ast.Pass | ast.Continue) for part in node.body)
            if node.type is None or (everything and silent):
                yield f"{file}:{node.lineno} hides every error"
        calls_print = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
        if calls_print and file != "cli.py":
            yield f"{file}:{node.lineno} prints"


def test_every_file_has_a_place():
    assert {layer(file) for file in FILES} - {"__init__"} <= set(ORDER), "add the new file to ORDER"


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
        ("rows.py", "from tallbayes import rowmath", []),
        ("rows.py", "from tallbayes import rowmath, mode", ["rows.py:1 imports mode"]),
        ("rows.py", "import tallbayes.mode as m", ["rows.py:1 imports mode"]),
        ("rows.py", "from .mode import Mode", ["rows.py:1 imports mode"]),
        ("models/glm.py", "from ..kernels import decide", ["models/glm.py:1 imports kernels"]),
        ("models/glm.py", "from . import other\nfrom .other import f", []),
        ("rows.py", "def f():\n    from tallbayes.models.glm import GLM", ["rows.py:2 imports models"]),
        ("rows.py", "from tallbayes import Fit", ["rows.py:1 imports Fit"]),
        ("rows.py", "import tallbayes", ["rows.py:1 imports __init__"]),
        ("result.py", "def f():\n    from tallbayes.plots import trace", []),
        ("result.py", "from tallbayes.plots import trace", ["result.py:1 imports plots"]),
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
        ("rows.py", "print('x')", 1),
        ("cli.py", "print('x')", 0),
        ("rows.py", '"""print(1)"""', 0),
    ],
)
def test_the_test_sees_bad_habits(file, source, count):
    assert len(list(bad_habits(source, file))) == count
