"""Compiled code on disk: whatever happens to its files, what is run is what was compiled from the sources."""

from __future__ import annotations

import errno
import importlib.util
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numba
import pytest
from numba.core.caching import IndexDataCacheFile, _CacheLocator

from tallbayes.families import kept

SOURCE = """
from tallbayes.families.compiled import compiled

def made(step):
    @compiled()
    def add(a):
        return a + step
    return add

@compiled()
def twice(a):
    return {} * a
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def module(folder: Path, factor: int = 2) -> ModuleType:
    """The functions as a new process would have them."""
    (folder / "source.py").write_text(SOURCE.format(factor))
    spec = importlib.util.spec_from_file_location("source", folder / "source.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "cache").rglob("*") if path.is_file())


def test_what_was_compiled_is_read(folder):
    assert module(folder).twice(21.0) == 42
    (path,) = files(folder)
    again = module(folder).twice
    assert again(21.0) == 42
    assert again.stats.cache_hits
    assert again(21) == 42  # another signature
    assert len(files(folder)) == 2
    assert path in files(folder)


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "zeros at the end, as after a power cut": lambda content: content[:-4096] + bytes(4096),
    "garbage": lambda content: b"\x80\x04garbage" * 99,
    "a bit": lambda content: content[:2000] + bytes([content[2000] ^ 4]) + content[2001:],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_files_are_compiled_anew_and_mended(how, folder):
    module(folder).twice(21.0)
    (path,) = files(folder)
    content = path.read_bytes()
    path.write_bytes(DAMAGE[how](content))
    again = module(folder).twice
    assert again(21.0) == 42
    assert not again.stats.cache_hits
    assert module(folder).twice(21.0) == 42
    assert kept._check(path.read_bytes()[kept.CHECK :]) == path.read_bytes()[: kept.CHECK]


def test_code_of_other_sources_is_never_run_and_goes(folder):
    module(folder).twice(21.0)
    (old,) = files(folder)
    assert module(folder, factor=10).twice(21.0) == 210
    (new,) = files(folder)
    assert new != old


def test_two_that_compile_at_the_same_time_do_not_get_each_others_code(folder):
    """With an index, both would take the first free name, and the second to write would have the code of both."""
    one, other = module(folder).made(1), module(folder).made(10)
    assert one(5) == 6
    assert other(5) == 15
    one, other = module(folder).made(1), module(folder).made(10)
    assert (one(5), other(5)) == (6, 15)
    assert one.stats.cache_hits
    assert other.stats.cache_hits


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*os.fork.*:RuntimeWarning")  # where another test has imported it
def test_processes_that_compile_the_same_into_an_empty_folder(folder):
    source, context = module(folder), multiprocessing.get_context("fork")
    start = context.Barrier(3)

    def compile_and_check(number):
        start.wait(60)
        found = source.twice(21.0), source.made(number)(5)
        os._exit(0 if found == (42, 5 + number) else 1)

    processes = [context.Process(target=compile_and_check, args=[number]) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 3
    again = module(folder)
    assert [again.made(number)(5) for number in range(3)] == [5, 6, 7]
    assert again.twice(21.0) == 42
    assert again.twice.stats.cache_hits
    assert len(files(folder)) == 4  # and nothing that was written aside


def test_a_full_disk(folder, monkeypatch):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", full)
    assert module(folder).twice(21.0) == 42
    assert files(folder) == []


def test_a_folder_that_cannot_be_written_is_read(folder, monkeypatch):
    """Also without a right to write, which root always has."""
    module(folder).twice(21.0)

    def refused(self):
        raise PermissionError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(_CacheLocator, "ensure_cache_path", refused)
    again = module(folder).twice
    assert again(21.0) == 42
    assert again.stats.cache_hits
    assert again(21) == 42  # compiled, and not kept
    assert len(files(folder)) == 1
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder / "nothing"))
    nowhere = module(folder).twice
    assert nowhere(21.0) == 42
    assert nowhere.stats.cache_path is None


DRAWS = """
import sys
import numpy as np
from tallbayes.families.compiled import compiled
from tallbayes.groups import scale

@compiled()
def first(code, count, squares, rng):
    return scale.draw_log_scale(code, count, squares, rng) + 1.0

called = first if sys.argv[1] == "another caller" else scale.new_log_scale
code = scale.HalfCauchy(1.0).code
draws = [called(code, 16, 0.3 + 0.01 * i, np.random.default_rng(i)) for i in range(400)]
print(np.array(draws).tobytes().hex())
"""


def test_code_that_was_read_becomes_part_of_its_callers_as_code_that_was_compiled(folder):
    """The last bits of draws hung on which of these had happened, so that resumed runs differed from unbroken ones."""
    (folder / "draws.py").write_text(DRAWS)

    def draws(place: str, caller: str = "") -> str:
        env = os.environ | {"NUMBA_CACHE_DIR": str(folder / place)}
        command = [sys.executable, str(folder / "draws.py"), caller]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300).stdout

    draws("one", "another caller")  # which leaves parts of the code there
    assert draws("one") == draws("one")  # the rest is compiled, then read
