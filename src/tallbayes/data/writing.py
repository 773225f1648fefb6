"""Files and folders that are written whole or not at all, also when Ctrl-C, a power cut or a full disk ends the work.

They are written aside, synced to the disk and renamed: what stood there before is lost only to what is complete.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

FULL = {  # errors of the system that mean there is no room
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your share of the disk is used up",
    errno.EFBIG: "the file would be larger than this system lets it be",
}
STREAMS = ("the standard input", "the standard output", "the standard error")
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
TRIES = 100  # to put a folder where others put theirs at the same time
_NUMBERS = count()


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if no file can be written at `path`: better before the work than after.

    >>> check_writable("nowhere/fit.nc")
    Traceback (most recent call last):
    FileNotFoundError: cannot write 'nowhere/fit.nc': there is no folder 'nowhere'; create it first
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"cannot write '{path}': it is a folder; give the name of a file in it")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"cannot write '{path}': it is a device or a pipe, which a file would replace; name a file")
    if os.path.islink(os.path.realpath(path)):
        raise OSError(f"cannot write '{path}': it is a link that leads back to itself; choose another name")
    for number, name in enumerate(STREAMS):
        if is_open_as(number, path):
            raise OSError(f"cannot write '{path}': {name} is that file, and would be lost; choose another name")
    _check_beside(path)


def is_open_as(number: int, path: str | os.PathLike[str]) -> bool:
    """Whether a stream of the process is the file of a path."""
    try:
        return os.path.samestat(os.fstat(number), os.stat(path))
    except OSError:  # one of them is not there
        return False


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise OSError if no folder can be put at `path`; what a folder there holds is not looked at."""
    path = Path(path)
    _refuse_file(path, path)
    _check_beside(path)


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it, if they are not there yet; OSError says why that cannot be.

    >>> with tempfile.NamedTemporaryFile() as file:
    ...     make_folder(f"{file.name}/rows")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotADirectoryError: cannot write '...': '...' is a file, not a folder; choose another name
    """
    path = Path(path)
    for one in (path, *path.parents):
        if one.exists():
            _refuse_file(path, one)
            break
    try:
        with full_disk(path):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise PermissionError(f"cannot make the folder '{path}' ({error.strerror}); choose another name") from error


def _refuse_file(path: Path, folder: Path) -> None:
    """Raise OSError if there is a file where the folder of a path, or one above it, should be."""
    if os.path.lexists(folder) and not folder.is_dir():
        kind = "a link that leads nowhere" if folder.is_symlink() else "a file, not a folder"
        raise NotADirectoryError(f"cannot write '{path}': '{folder}' is {kind}; choose another name")


def _check_beside(path: Path) -> None:
    _refuse_file(path, path.parent)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write '{path}': there is no folder '{path.parent}'; create it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise PermissionError(
            f"cannot write '{path}': the folder '{path.parent}' does not accept new files ({error.strerror})"
        ) from error


def write_whole(path: str | os.PathLike[str], content: bytes | memoryview | Iterable[bytes | memoryview]) -> None:
    """Write bytes, or parts that come one after the other, to a file that appears when all are on the disk.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(f"{folder}/state", b"old")
    ...     write_whole(f"{folder}/state", [b"ne", b"w"])
    ...     Path(folder, "state").read_bytes(), os.listdir(folder)
    (b'new', ['state'])
    """
    with replacing(path) as partial, partial.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes | memoryview) else content)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Where to write instead: it replaces what stands at `path` only when it is complete.

    It is then on the disk. Where a link stands, the file that it names is replaced. If the disk is full, OSError says
    so, and nothing has changed.
    """
    path = Path(os.path.realpath(path))
    partial = _aside(path, "partial")
    try:
        with full_disk(path):
            yield partial
            _sync(partial)
        if path.exists():
            shutil.copymode(path, partial)
        try:
            partial.replace(path)
        except OSError as error:
            raise OSError(f"cannot replace '{path}' ({error.strerror}); it is as before") from error
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty folder to write into: it replaces the folder at `path`, if there is one, only when it is complete.

    Of several that are put there at the same time, one stays.
    """
    path = Path(path).resolve()
    partial, replaced = _aside(path, "partial"), _aside(path, "replaced")
    partial.mkdir()
    try:
        with full_disk(path):
            yield partial
            for place, _, files in os.walk(partial):
                for file in files:
                    _sync(Path(place, file))
                _sync_folder(Path(place))
        _put(partial, path, replaced)
        _sync_folder(path.parent)
    finally:
        if replaced.exists() and not path.exists():
            replaced.rename(path)
        for gone in (partial, replaced):
            shutil.rmtree(gone, ignore_errors=True)


@contextmanager
def full_disk(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in plain words that there was no room to write what belongs at `path`.

    >>> with full_disk("fit.nc"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    OSError: cannot write 'fit.nc': the disk is full (... MB are free in '.'); make room or choose another place...
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        folder = Path(path).parent
        free = shutil.disk_usage(folder).free / 1e6
        said = OSError(
            f"cannot write '{path}': {FULL[error.errno]} ({free:,.1f} MB are free in '{folder}'); make room or choose "
            "another place; what stood there before is unchanged"
        )
        said.errno = error.errno
        raise said from error


def _put(partial: Path, path: Path, replaced: Path) -> None:
    """Give a folder its place. Another process may put its own there at any time, and take away what was there."""
    for _ in range(TRIES):
        if path.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            with suppress(FileNotFoundError):
                path.rename(replaced)
        try:
            partial.rename(path)
            return
        except OSError as error:
            if error.errno not in TAKEN:
                raise
    raise OSError(f"cannot write the folder '{path}': others put theirs there all the time; give each its own")


def _sync(file: Path) -> None:
    """Wait until the disk has the file."""
    with file.open("r+b") as opened:
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder, where the system can do that."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _aside(path: Path, purpose: str) -> Path:
    """A hidden name beside it, which no other process or thread takes."""
    return path.with_name(f".{path.name[:40]}.{os.getpid()}.{threading.get_ident()}.{next(_NUMBERS)}.{purpose}")
