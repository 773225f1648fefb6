"""Room for rows: how much memory they may take, and where on a disk the rest goes.

Scratch files have no name: they are gone when nobody needs them any more, also after a crash.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tallbayes.data.options import check_path, is_number, refuse
from tallbayes.data.writing import make_folder

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
LEAST = 50 * 10**6  # bytes with which there is anything to be done
MOST = 1e18  # that anybody has
# Where control groups are, of version 2 and of version 1, and what their limits and what is taken are called.
CONTROL_GROUPS = {
    "": ("/sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}


@dataclass(frozen=True)
class Room:
    """Bytes of memory that rows may take, and the folder for what does not fit; None for the usual one."""

    memory: int
    folder: str | None = None

    @classmethod
    def of(cls, memory: int | str | None = None, folder: str | os.PathLike[str] | None = None) -> Room:
        """What was asked for, or half of the memory that is free.

        >>> Room.of("2GB").memory
        2000000000
        """
        if folder is not None:
            folder = check_path("cache", folder, "the path of a folder")
            make_folder(folder)
        return cls(free_memory() // 2 if memory is None else in_bytes(memory), folder)

    def file(self) -> IO[bytes]:
        """A new scratch file."""
        return tempfile.TemporaryFile(dir=self.folder or scratch_folder())

    def scratch(self, shape: tuple[int, ...], dtype: DTypeLike = float) -> NDArray[Any]:
        """An array of zeros that lives in a scratch file."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if not size:
            return np.zeros(shape, dtype)
        with self.file() as file, telling_of_space(self, size):
            reserve(file, size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)


ROOM = Room(1 << 62)  # for rows that are in memory anyway


def reserve(file: IO[bytes], size: int) -> None:
    """Make a file so long, with room on the disk for all of it: what is written there later cannot fail."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, 1 << 20):
        file.write(bytes(min(1 << 20, size - start)))
    file.flush()


@contextmanager
def telling_of_space(room: Room, size: int = 0) -> Iterator[None]:
    """Says where there is no space left, and what to do, instead of an error number."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        folder = room.folder or scratch_folder()
        wanted = f" for {in_words(size)}" if size else ""
        raise OSError(
            error.errno,
            f"no space left in {folder!r}{wanted}, which holds rows that do not fit into memory; free some, or name a "
            "folder on a larger disk with cache= or the environment variable TMPDIR",
        ) from error


def in_bytes(text: int | str) -> int:
    """A size such as "2GB", "1.5 GiB" or a number of bytes.

    >>> in_bytes("1.5 GiB"), in_bytes(10**9)
    (1610612736, 1000000000)
    """
    what = (
        f"a size of at least {in_words(LEAST)} and less than 10^18 bytes, such as '2GB', '500MB' or a number of bytes"
    )
    if isinstance(text, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?)?b?\s*", text, re.IGNORECASE)
        size = float(found[1]) * UNITS[(found[2] or "").lower()] if found else 0.0
    else:
        size = float(text) if is_number(text) else 0.0
    if not LEAST <= size < MOST:
        refuse("memory", what, text)
    return int(size)


def in_words(size: float) -> str:
    """A number of bytes for people.

    >>> in_words(6_400_000_000), in_words(50_000_000)
    ('6.4 GB', '50 MB')
    """
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"


def require_free(what: str, size: int, remedy: str) -> None:
    """Refuse what would take more memory than is free.

    >>> require_free("10 draws", 10**30, "ask for fewer")
    Traceback (most recent call last):
    ValueError: 10 draws would take 1e+18 TB of memory, but only ... are free; ask for fewer
    """
    if size > LEAST and size > (free := free_memory()):
        raise ValueError(f"{what} would take {in_words(size)} of memory, but only {in_words(free)} are free; {remedy}")


def free_memory() -> int:
    """Bytes that this process could still take: what the machine has free, within the limit of its control group."""
    return max(min(_machine(), *_left_in_groups()), 2 * LEAST)


def _left_in_groups(own: Path = Path("/proc/self/cgroup")) -> list[int]:
    """What is left to this process of the limits of its control group and of those that it is in."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return [1 << 62]
    left = [1 << 62]
    for _, kinds, place in lines:
        if found := CONTROL_GROUPS.get("memory" if "memory" in kinds.split(",") else kinds):
            root, limit, taken = found
            inside = Path(root + place.rstrip("/"))
            for group in (inside, *inside.parents):
                if not str(group).startswith(root):
                    break
                try:
                    most, used = (int((group / name).read_text()) for name in (limit, taken))
                    left.append(max(0, most - used + _reclaimable(group)))
                except (OSError, ValueError):  # it has no limit, or it is "max"
                    continue
    return left


def _reclaimable(group: Path) -> int:
    """Bytes of files that a control group holds in memory, and would give back."""
    try:
        lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        facts = {name: int(value) for name, value in lines}
    except (OSError, ValueError):
        return 0
    return facts.get("total_inactive_file", facts.get("inactive_file", 0))


def _machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        names = ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")
        known = [name for name in names if name in getattr(os, "sysconf_names", {})]
        return os.sysconf(known[0]) * os.sysconf("SC_PAGE_SIZE") if known else 4 * 2**30


def scratch_folder() -> str:
    """Where scratch files go: the usual folder for temporary files, unless that is memory itself."""
    usual = tempfile.gettempdir()
    if "TMPDIR" not in os.environ and _in_memory(usual) and os.access("/var/tmp", os.W_OK):
        return "/var/tmp"
    return usual


def _in_memory(folder: str) -> bool:
    """Whether a folder's files are held in memory, as /tmp often is."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return False
    real = os.path.realpath(folder)
    inside = [(len(at), kind) for at, kind in mounts if real == at or real.startswith(at.rstrip("/") + "/")]
    return bool(inside) and max(inside)[1] in ("tmpfs", "ramfs")
