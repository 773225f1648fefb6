"""What must hold before anything imports numba, for the tests and for the examples in the sources alike."""

import ast
import gc
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# What builds the pages needs mkdocs, which only `make docs` installs; it runs their examples.
collect_ignore_glob = [] if importlib.util.find_spec("mkdocs") else ["docs/*.py"]
PACKAGE = HERE / "src" / "tallbayes"


def imported(path: Path) -> set[Path]:
    """The files of the package that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tallbayes":
            place = PACKAGE.joinpath(*node.module.split(".")[1:])
            names = [place, *(place / alias.name for alias in node.names)]
            found |= {file for name in names for file in (name.with_suffix(".py"), name / "__init__.py")}
    return {file for file in found if file.exists() and file != PACKAGE / "__init__.py"}


def compiled_hash() -> str:
    """A hash over all files of the package that hold compiled code, and over what these import."""
    files = {path for path in PACKAGE.rglob("*.py") if b"compiled import" in path.read_bytes()}
    left = list(files)
    while left:
        new = imported(left.pop()) - files
        files |= new
        left += new
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


# Workers of the tests share the cores already; where threads are what is tested, the test asks for them.
os.environ["TALLBAYES_THREADS"] = "1"
# The threads of NumPy's matrix products wait for work by spinning, each on a core that another worker needs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Numba does not see that a callee in another file has changed and would go on using the compiled caller.
if "NUMBA_CACHE_DIR" not in os.environ:  # workers have it from the process that starts them
    os.environ["NUMBA_CACHE_DIR"] = str(HERE / ".numba_cache" / compiled_hash())
os.environ["MPLBACKEND"] = "Agg"


def pytest_configure(config) -> None:
    """Fill the cache of compiled code before workers start: each of them would compile the same."""
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        return
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    if (folder / "warm").exists():
        return
    # The plain part first: the others share it.
    for kinds in (["plain"], ["groups", "splines"]):
        jobs = [subprocess.Popen([sys.executable, HERE / "tests" / "warm.py", kind]) for kind in kinds]
        for kind, job in zip(kinds, jobs, strict=True):
            assert job.wait() == 0, f"python tests/warm.py {kind} failed"
    (folder / "warm").touch()


def pytest_collection_finish(session) -> None:
    """What is imported by now stays to the end: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def examples(request, monkeypatch, tmp_path_factory) -> None:
    """Examples of the documentation write into a folder of their own.

    Their reports, and those of docstrings, have fewer panels: each costs time, and all are alike.
    """
    page = request.path.suffix == ".md"
    if page:
        monkeypatch.chdir(tmp_path_factory.mktemp("examples"))
    if page or request.path.is_relative_to(PACKAGE):
        from tallbayes.results import report

        monkeypatch.setattr(report, "MOST_PANELS", 1)
        monkeypatch.setattr(report, "MOST_TRACES", 1)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip(f"no small disk: {done.stderr.decode()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)
