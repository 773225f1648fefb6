"""Files and folders that are written whole or not at all, also when Ctrl-C ends the work."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if no file can be written at `path`: better before the work than after.

    >>> check_writable("nowhere/fit.nc")
    Traceback (most recent call last):
    FileNotFoundError: cannot write 'nowhere/fit.nc': there is no folder 'nowhere'; create it first
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"cannot write '{path}': it is a folder; give the name of a file in it")
    _check_beside(path)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise OSError if no folder can be put at `path`; what a folder there holds is not looked at."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"cannot write the folder '{path}': it is a file; choose another name")
    _check_beside(path)


def _check_beside(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write '{path}': there is no folder '{path.parent}'; create it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise PermissionError(
            f"cannot write '{path}': the folder '{path.parent}' takes no new files ({error.strerror})"
        ) from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Where to write instead: it replaces what stands at `path` only when it is complete."""
    path = Path(path)
    partial = _aside(path, "partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty folder to write into: it replaces the folder at `path`, if there is one, only when it is complete."""
    path = Path(path).resolve()
    partial, replaced = _aside(path, "partial"), _aside(path, "replaced")
    partial.mkdir()
    try:
        yield partial
        if path.exists():
            path.rename(replaced)
        partial.rename(path)
    finally:
        if replaced.exists() and not path.exists():
            replaced.rename(path)
        for gone in (partial, replaced):
            shutil.rmtree(gone, ignore_errors=True)


def _aside(path: Path, purpose: str) -> Path:
    """A hidden name beside it, which no other process or thread takes."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.{purpose}")
