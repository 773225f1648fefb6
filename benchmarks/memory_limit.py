"""Run a command under a hard limit of memory: with a control group of Linux where one may be made, else by RLIMIT_DATA.

A control group counts all processes of the command, and the page cache of files that they read or write first, which
is given back under pressure: only what cannot be given back makes the kernel kill. RLIMIT_DATA counts what each process
allocates for itself, so that an allocation fails. Nothing but the standard library is needed.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/sys/fs/cgroup")
POLL = 0.05  # seconds between looks at what is not cache
ENTER = 'echo $$ > "$0" && exec "$@"'  # the shell becomes the command inside the group
LIMIT_DATA = 'ulimit -d "$0" && exec "$@"'

_numbers = itertools.count()


class Outcome(NamedTuple):
    """How a command under a limit ended."""

    seconds: float
    cpu: float  # seconds of processors, of the command and of those that it waited for
    peak: int  # most bytes at once, page cache included where there is a control group
    private: int  # most bytes at once that were no page cache, as far as looks every POLL seconds saw them
    killed: bool  # for the memory that it wanted
    late: bool  # for the time that it took
    code: int
    stdout: str
    stderr: str


def run_limited(
    argv: Sequence[str],
    limit: int,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Outcome:
    """Run a command in at most `limit` bytes of memory, and seconds if there is a timeout.

    >>> import sys
    >>> small = run_limited([sys.executable, "-c", "print('hello')"], 200_000_000)
    >>> small.code, small.stdout, small.killed
    (0, 'hello\\n', False)
    """
    with _limited(limit) as group:
        began, before = time.perf_counter(), _cpu_seconds()
        child = subprocess.Popen(
            [*group.prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        with group.watched(child.pid):
            late, stdout, stderr = _ended(child, timeout)
        return Outcome(
            time.perf_counter() - began,
            _cpu_seconds() - before,
            group.peak(),
            group.private,
            group.killed(child, stderr),
            late,
            child.returncode,
            stdout,
            stderr,
        )


def how_limited() -> str:
    """How this machine sets the limit, in words."""
    with _limited(2**30) as group:
        return group.words


def forget_files(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Take files out of the page cache, so that whoever reads them next reads them from the disk."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)  # what is not on the disk yet cannot be dropped
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ended(child: subprocess.Popen[str], timeout: float | None) -> tuple[bool, str, str]:
    """Whether it had to be stopped, and what it said."""
    try:
        return False, *child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)  # the child leads a session of its own
        return True, *child.communicate()
    except BaseException:
        os.killpg(child.pid, 9)
        child.wait()
        raise


@dataclass
class _DataLimit:
    """No control group: every process of the command may allocate so much."""

    limit: int
    words: str = "RLIMIT_DATA, as no control group of memory can be made here"
    private: int = 0

    @property
    def prefix(self) -> list[str]:
        return ["/bin/sh", "-c", LIMIT_DATA, str(self.limit // 1024)]

    @contextmanager
    def watched(self, process: int) -> Iterator[None]:
        with _repeating(lambda: self._look(process)):
            yield

    def _look(self, process: int) -> None:
        with suppress(OSError):  # it has ended
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[5])
            self.private = max(self.private, pages * os.sysconf("SC_PAGE_SIZE"))

    def peak(self) -> int:
        return self.private

    def killed(self, child: subprocess.Popen[str], stderr: str) -> bool:
        words = ("MemoryError", "bad_alloc", "Cannot allocate memory", "out of memory", "Out of Memory")
        return child.returncode != 0 and any(word in stderr for word in words)


@dataclass
class _Group:
    """A control group of either version of Linux's interface."""

    folder: Path
    version: int
    private: int = 0

    @property
    def words(self) -> str:
        return f"control group, version {self.version}"

    @property
    def prefix(self) -> list[str]:
        return ["/bin/sh", "-c", ENTER, str(self.folder / "cgroup.procs")]

    @contextmanager
    def watched(self, process: int) -> Iterator[None]:
        with _repeating(self._look):
            yield

    def _look(self) -> None:
        name = "total_rss" if self.version == 1 else "anon"
        self.private = max(self.private, self._numbers("memory.stat").get(name, 0))

    def _numbers(self, file: str) -> dict[str, int]:
        lines = (line.split() for line in (self.folder / file).read_text().splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}

    def peak(self) -> int:
        file = self.folder / ("memory.max_usage_in_bytes" if self.version == 1 else "memory.peak")
        return int(file.read_text()) if file.exists() else self.private  # older kernels have no memory.peak

    def killed(self, child: subprocess.Popen[str], stderr: str) -> bool:
        return self._numbers("memory.oom_control" if self.version == 1 else "memory.events").get("oom_kill", 0) > 0

    def limit(self, size: int) -> None:
        """Set it; memory on disk (swap) counts as memory, where the kernel can count it."""
        memory, swap = ("limit_in_bytes", "memsw.limit_in_bytes") if self.version == 1 else ("max", "swap.max")
        with open(self.folder / f"memory.{memory}", "r+") as file:  # makes none where there is none
            file.write(str(size))
        with suppress(OSError), open(self.folder / f"memory.{swap}", "r+") as file:
            file.write(str(size) if self.version == 1 else "0")

    def remove(self) -> None:
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except OSError:  # the last process is still on its way out
                time.sleep(POLL)
        raise OSError(f"the control group '{self.folder}' still has processes; end them and remove it with rmdir")


@contextmanager
def _limited(size: int) -> Iterator[_Group | _DataLimit]:
    """A place to run in, which is gone afterwards."""
    for version, parent in ((1, ROOT / "memory"), (2, ROOT)):
        group = _Group(parent / f"limited-{os.getpid()}-{next(_numbers)}", version)
        try:
            group.folder.mkdir()
        except OSError:
            continue
        try:
            group.limit(size)
        except OSError:  # a mere folder, or a group without the memory controller
            group.folder.rmdir()
            continue
        try:
            yield group
        finally:
            group.remove()
        return
    yield _DataLimit(size)


@contextmanager
def _repeating(look: Callable[[], None]) -> Iterator[None]:
    """Look every POLL seconds, in a thread of its own."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(POLL):
            look()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
