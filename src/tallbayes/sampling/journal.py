"""Journals of walks: what chains did is kept while they walk, so that a run which is killed goes on from there.

A run consists of walks: the warm-up, of each shard by itself, and the draws. A walk is a sequence of calls of
`advance`. Its folder holds

    000-000000, 000-000001, ...   the draws of its first call, in segments that never change once they are written,
    000                           how that call ended,
    001-000000, ...               the draws of the next call,
    state                         the last call that has begun: how many segments it has, where the chains stood after
                                  them, and the states of their generators.

`state` is the only file that is replaced, always after all that it refers to is on the disk. What is not referred to
is as if it were not there. So whenever a process ends, the folder is that of some moment before.

Nothing of a run depends on a clock, but when the folder is written does: about once a second, and less often where that
would take more than a hundredth of the time. Chains go on meanwhile (`scribe.py`). So a run that has drawn megabytes in
no time ends without writing them: they are made again, with the same bits, if somebody asks.

A run that goes on makes the same calls again. Calls that have ended return at once what they returned the first time,
with the generators as they were then: so warm-up finds the same kernel, whatever it does between the calls. Of a state
that chains have left, arrays that are large are not kept, and come back as zeros. The last call goes on from its state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.engines import packed
from tallbayes.engines.wire import pack
from tallbayes.sampling.kernel import Draws, Kernel, Streams
from tallbayes.sampling.scribe import Scribe

EVERY = 1.0  # seconds between two states that are written, at least
SHARE = 0.01  # of the time that writing may take
SPEED = 1e8  # bytes a second that a disk is believed to write, until it was seen
LITTLE = 1 << 20  # bytes that are written in any case when a run ends
SMALL = 1 << 22  # bytes of an array that is kept of a state which chains have left

STATE = "state"


class Standing(NamedTuple):
    """Where a walk stands: what the next step needs, the draws so far, and what is known of them."""

    state: Any  # as the kernel stores it
    streams: Streams
    draws: Draws
    facts: dict[str, Any]

    def copy(self) -> Standing:
        """For a walk that goes on from here, while others look at these very arrays."""
        state, draws = _mapped((self.state, self.draws), np.copy)
        return self._replace(state=state, draws=draws)


class Absent(NamedTuple):
    """An array that was not kept."""

    shape: tuple[int, ...]
    dtype: str


class _Ended(NamedTuple):
    """A call that has ended, of which not all is written yet."""

    number: int
    draws: Draws
    written: int  # of the draws
    segments: int
    state: Any
    streams: Streams


@dataclass
class Walk:
    """The journal of one walk; without a folder it remembers nothing, but where the walk stood if that is given."""

    folder: Path | None = None
    scribe: Scribe | None = None  # who writes
    standing: Standing | None = None  # after the last of its calls, if it goes on
    run: str = ""  # whose walk it is
    _call: int = -1  # the present one
    _last: int = 0  # the last one that has begun before, if it goes on
    _written: int = 0  # draws of the present call
    _segments: int = 0
    _ended: list[_Ended] = field(default_factory=list)
    _cost: float = 0.0  # seconds that writing takes, if that is known
    _writing: Future[float] | None = None
    _since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.folder is not None and kept_of(self.folder):
            found = self._read(STATE)
            self._last, self._segments = found["call"], found["segments"]
            draws = self._draws(self._last, self._segments)
            self.standing = Standing(found["state"], found["streams"], draws, found["facts"])

    def _draws(self, call: int, segments: int) -> Draws:
        every = [self._read(_segment(call, number))["draws"] for number in range(segments)]
        return Draws(*map(np.concatenate, zip(*every, strict=True)))

    def _read(self, name: str) -> dict[str, Any]:
        """What a file of the walk holds, if it is the one that was written there: those of other runs look like it."""
        assert self.folder is not None
        found: dict[str, Any] = packed.read(self.folder / name)
        if not isinstance(found, dict) or not self._label(name).items() <= found.items():
            raise packed.DamagedError(
                f"'{self.folder / name}' is part of another run, or had another place; give the folder back its own "
                "parts"
            )
        return found

    def _label(self, name: str) -> dict[str, str]:
        """Whose a file is, and where it belongs."""
        assert self.folder is not None
        return {"run": self.run, "file": f"{self.folder.name}/{name}"}

    def begin(self, kernel: Kernel, state: Any, streams: Streams) -> tuple[Any, Draws | None]:
        """A call of `advance` from a state begins: the state it goes on from, and the draws it has made already.

        The streams are those of the time when that was kept.
        """
        self._call += 1
        if self.standing is None:
            self._written, self._segments = 0, 0
            return state, None
        if self._call < self._last:
            ended = self._read(f"{self._call:03}")
            _set(streams, ended["streams"])
            return _mapped(ended["state"], _filled), self._draws(self._call, ended["segments"])
        stood, self._written = self.standing, len(self.standing.draws.theta)
        _set(streams, stood.streams)
        self.standing = None  # the draws grow from here on, and are to be held once
        return kernel.restored(stood.state), stood.draws

    def end(self, kernel: Kernel, state: Any, draws: Draws, streams: Streams) -> None:
        """The call has ended there; another one may follow."""
        if self.folder is not None and self._call >= self._last:
            small = _mapped(kernel.stored(state), _small)
            self._ended.append(_Ended(self._call, draws, self._written, self._segments, small, _copied(streams)))

    def offer(
        self, kernel: Kernel, state: Any, draws: Draws, made: int, streams: Streams, facts: Callable[[], dict[str, Any]]
    ) -> None:
        """Write where the chains stand after the first `made` of these draws, if that is due."""
        if self.folder is None or not self._due():
            return
        stored = kernel.stored(state)
        if not self._cost:
            self._cost = pack(stored, functions=False).size / SPEED
        if self._due():
            self._write(stored, draws, made, streams, facts())

    def _due(self) -> bool:
        if self._writing is not None:
            if not self._writing.done():
                return False
            self._cost, self._writing = self._writing.result(), None
        return time.monotonic() - self._since >= max(EVERY, self._cost / SHARE)

    def close(
        self, kernel: Kernel, state: Any, draws: Draws, streams: Streams, facts: dict[str, Any], *, must: bool
    ) -> bool:
        """Write where the chains stand after these draws, if it must be or costs little; returns whether it does."""
        if self.folder is None:
            return False
        stored, made = kernel.stored(state), len(draws.theta)
        new = sum(part.nbytes for part in draws) * (made - self._written) // max(1, made)
        size = pack(stored, functions=False).size + new
        assert self.scribe is not None
        if must or size <= max(LITTLE, SHARE * SPEED * self.scribe.seconds):
            self._write(stored, draws, made, streams, facts)
            return True
        return False

    def _write(self, state: Any, draws: Draws, made: int, streams: Streams, facts: dict[str, Any]) -> None:
        assert self.folder is not None
        assert self.scribe is not None
        files: dict[str, Any] = {}  # in the order in which they are written
        for ended in self._ended:
            total = len(ended.draws.theta)
            segments = _add(files, ended.number, ended.segments, ended.draws, ended.written, total)
            files[f"{ended.number:03}"] = {
                "segments": segments, "made": total, "state": ended.state, "streams": ended.streams,
            }  # fmt: skip
        self._ended.clear()
        self._segments = _add(files, self._call, self._segments, draws, self._written, made)
        self._written = made
        kept = {"call": self._call, "segments": self._segments, "made": made, "facts": facts}
        files[STATE] = kept | {"state": state, "streams": streams}
        labelled = {name: self._label(name) | value for name, value in files.items()}
        self._writing = self.scribe.give(_writing(self.folder, labelled))
        self._since = time.monotonic()


def kept_of(folder: Path) -> dict[str, Any]:
    """What the journal of a walk holds besides draws and earlier calls; nothing if it has not begun."""
    if folder.exists() and not folder.is_dir():
        raise packed.DamagedError(f"'{folder}' is a file, not a folder")
    return packed.read(folder / STATE) if (folder / STATE).exists() else {}


def _writing(folder: Path, files: dict[str, Any]) -> Callable[[], None]:
    """What writes these files as they are now, whenever it is called."""
    jobs = [packed.written(folder / name, value) for name, value in files.items()]

    def write() -> None:
        folder.mkdir(exist_ok=True)
        for job in jobs:
            job()

    return write


def _add(files: dict[str, Any], call: int, segments: int, draws: Draws, written: int, made: int) -> int:
    """Add draws that are not written yet, if there are any, as a file; returns how many segments there are then."""
    if made == written and segments:
        return segments
    files[_segment(call, segments)] = {"draws": _mapped(draws, lambda part: part[written:made])}
    return segments + 1


def _segment(call: int, number: int) -> str:
    return f"{call:03}-{number:06}"


def _set(streams: Streams, kept: Streams) -> None:
    for own, other in zip(streams, kept, strict=True):
        for generator, like in zip(own, other, strict=True):
            generator.bit_generator.state = like.bit_generator.state


def _copied(streams: Streams) -> Streams:
    found = Streams(*([np.random.Generator(np.random.PCG64(0)) for _ in own] for own in streams))
    _set(found, streams)
    return found


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with each array changed."""
    if isinstance(value, np.ndarray | Absent):
        return change(value)
    if isinstance(value, tuple | list):
        parts = (_mapped(one, change) for one in value)
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*(_mapped(getattr(value, one.name), change) for one in fields(value)))
    return value


def _small(array: NDArray[Any]) -> Any:
    return array.copy() if array.nbytes <= SMALL else Absent(array.shape, array.dtype.str)


def _filled(array: Any) -> Any:
    return np.zeros(array.shape, array.dtype) if isinstance(array, Absent) else array
