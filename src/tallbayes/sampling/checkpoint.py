"""A checkpoint: the folder of a run, from which it goes on after its process has ended, whatever ended it.

    asked.json        what was asked for, by which versions, and what the data looked like
    lock              held by the process that works on the run
    warm-up-000, ...  journals of the warm-up, one for each shard (`journal.py`)
    draws             the journal of the draws

Set-up is done again when a run goes on: it finds the same, since all of it follows from the data and the seed. Whether
it has is checked, by fingerprints of the data and by where chains start.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import uuid4

import numpy as np

from tallbayes.data.options import is_number, shown
from tallbayes.data.writing import check_folder, full_disk, write_whole
from tallbayes.engines import packed
from tallbayes.engines.wire import Message, pack, unpack
from tallbayes.models.model import Model
from tallbayes.rows.fingerprint import Fingerprint
from tallbayes.sampling.journal import STATE, Standing, Walk, kept_of
from tallbayes.sampling.past import DRAWS, CheckpointError, Forgetful, Past
from tallbayes.sampling.scribe import Scribe

FORMAT = 3
ASKED, LOCK = "asked.json", "lock"
ENDED = "ended"  # the draws a chain of a run that has ended, where not all are kept
LIBRARIES = ("tallbayes", "numpy", "scipy", "numba")  # whose versions the bits of draws may depend on
MAY_CHANGE = ("draws", "target_ess", "data", "engine")  # between two processes of a run; data have fingerprints
TALL = ("data", "weights", "offset")  # what may have an entry for each row
SHOWN = 80  # characters of a value in a message


class Argument(NamedTuple):
    """An argument of a run as a file has it."""

    shown: str  # for people
    packed: str | None  # as text; None if a file cannot have it, as functions and arrays
    check: int  # of its content; 0 if nobody knows how to compare it

    @classmethod
    def of(cls, name: str, value: Any) -> Argument:
        """A file has all that is text: no arrays, which may be as long as the data, and nobody's functions."""
        if name in TALL and not isinstance(value, str | os.PathLike | None):
            return cls(type(value).__name__, None, 0)  # the rows that are made of it have fingerprints
        if name == "engine" and value is not None:  # who sends data there should have said so
            return cls(repr(value)[:SHOWN], None, 0)
        value = value.item() if isinstance(value, np.generic) else value
        shown = " ".join(repr(value).split())
        shown = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
        try:
            message = pack(value, functions=False)
        except TypeError:
            return cls(type(value).__name__, None, 0)
        return cls(shown, None if message.arrays else message.text, packed.checksum(value))

    def value(self, name: str) -> Any:
        """The argument itself, if the file still has the one that was kept."""
        try:
            value = unpack(Message(self.packed or "", []))
            if packed.checksum(value) != self.check:
                raise ValueError("its checksum does not match")
        except Exception as error:  # whatever somebody has made of it
            raise CheckpointError(
                f"the run cannot go on: what its file {ASKED} has of {name} is damaged; take a copy, or begin another "
                "run"
            ) from error
        return value


@dataclass
class Checkpoint:
    """The folder of a run that this process works on."""

    folder: Path
    asked: dict[str, Argument]
    facts: dict[str, Any] = field(default_factory=dict)  # what was found of the data, and where chains start
    scribe: Scribe = field(default_factory=Scribe)
    _look: Callable[[], dict[str, Any]] | None = None  # what looks at the data, if that can wait
    _written: dict[str, Any] | None = None  # facts that the file has

    def pinned(self, name: str, given: Any, make: Callable[[], Any]) -> Any:
        """See `Past`."""
        value = self.facts.get(name) if given is None else given
        value = make() if value is None else value
        self._know(name, value, name)
        return value

    def holds(self, model: Model) -> None:
        """See `Past`: the data of a new run are looked at beside its first draws."""
        look = partial(_described, model, model.rows.aside(Fingerprint()))
        if (known := self.facts.get("data")) is None:
            self._look = look
        elif differences := list(_differences(known, look())):
            raise CheckpointError(
                f"the data are not those that the run in '{self.folder}' began with: {'; '.join(differences)}. Give it "
                "the data as they were, or begin another run with another checkpoint"
            )

    def began(self, start: int) -> None:
        """See `Past`."""
        if self._look is not None:
            self.scribe.give(partial(self._note, self._look))
            self._look = None
        why = (
            "its chains would start elsewhere, although the data are the same (a function of yours, a library or the "
            "machine's arithmetic has changed); the checksum"
        )
        self._know("start", start, why)

    def warmed(self, checksum: Callable[[], int]) -> int:
        """See `Past`: data have fingerprints."""
        return 0

    def walk(self, name: str) -> Walk:
        """See `Past`."""
        return Walk(self.folder / name, self.scribe, run=self.facts["run"])

    def ended(self, made: int) -> None:
        """See `Past`."""
        self.facts[ENDED] = made
        self._save()

    def _know(self, name: str, found: Any, what: str) -> None:
        known = self.facts.setdefault(name, found)
        if known != found:
            raise CheckpointError(f"the run in '{self.folder}' cannot go on: {what} was {known}, and is {found} now")
        self._save()

    def _note(self, look: Callable[[], dict[str, Any]]) -> None:
        """What the data are, before anything that depends on them is written."""
        self.facts["data"] = look()
        self._put()

    def _save(self) -> None:
        self.scribe.give(self._put)

    def _put(self) -> None:
        """Write the newest facts: what was to be written before that, and has not been, need not be."""
        if (facts := dict(self.facts)) == self._written:
            return
        asked = {name: argument._asdict() for name, argument in self.asked.items()}
        content = {"format": FORMAT, "versions": versions(), "asked": asked, "facts": facts}
        whole = json.dumps(content | {"check": packed.checksum(content)}, indent=1).encode()
        write_whole(self.folder / ASKED, whole)
        self._written = facts


def _described(model: Model, look: Callable[[], dict[str, int]]) -> dict[str, Any]:
    """The data of a model: how many rows, fingerprints of columns, and where rows are if draws depend on it."""
    own = {str(number + 1): name for number, name in enumerate(model.names[: model.rows.columns])}
    columns = {own.get(name, name): check for name, check in look().items()}
    found = {"rows": model.rows.size, "columns": columns}
    if model.rows.groups:  # draws of groups depend on it
        found["where"] = "in memory" if model.rows.resident else "on disk or with workers"
    return found


def _differences(known: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """What differs between data, a sentence each."""
    if known["rows"] != found["rows"]:
        yield f"they have {found['rows']:,} rows, not {known['rows']:,} (equal rows counted once)"
    before, now = known["columns"], found["columns"]
    for name in [name for name in before if name not in now]:
        yield f"{name!r} is not there"
    for name in [name for name in now if name not in before]:
        yield f"{name!r} was not there"
    changed = [name for name in before if name in now and before[name] != now[name]]
    if changed and known["rows"] == found["rows"]:
        yield f"other values in {', '.join(map(repr, changed[:5]))}{', ...' if len(changed) > 5 else ''}"
    if known.get("where") != found.get("where"):
        yield f"their rows were {known.get('where')}, and are {found.get('where')} now"


def past_of(
    folder: str | os.PathLike[str] | None, asked: Mapping[str, Any], standing: Standing | None = None
) -> AbstractContextManager[Past]:
    """The past of a run: in a folder, or where a fit has stopped, or none."""
    return nullcontext(Forgetful(standing)) if folder is None else opened(folder, asked)


@contextmanager
def opened(folder: str | os.PathLike[str], asked: Mapping[str, Any]) -> Iterator[Checkpoint]:
    """The folder of a run, new or there already, that nobody else may work on.

    Raises CheckpointError if another run is there. If nothing comes of a new one, its folder goes.
    """
    at = Path(folder)
    check_folder(at)
    given = {name: Argument.of(name, value) for name, value in asked.items()}
    at.mkdir(exist_ok=True)
    there = [name for name in os.listdir(at) if name != LOCK and not name.startswith(".")]
    if there and ASKED not in there:
        raise CheckpointError(f"'{at}' is not a checkpoint but a folder with other files; choose another name")
    with _locked(at):
        fresh, found = ASKED not in there, Checkpoint(at, given)
        try:
            if fresh:
                found.facts |= {"began": datetime.now(UTC).isoformat(timespec="seconds"), "run": uuid4().hex}
            else:
                known, found.facts = read(at)
                _compare(at, known, given)
                _refuse_fewer(at, asked.get("draws"), found.facts.get(ENDED, 0))
                found.asked = known | {name: given[name] for name in ("draws", "target_ess") if name in given}
                for left in at.rglob(".*.partial"):  # by a process that was killed
                    left.unlink(missing_ok=True)
            found._save()
            try:
                yield found
            finally:
                found.scribe.close()
        except BaseException:
            if fresh and not any(at.glob(f"*/{STATE}")):
                shutil.rmtree(at, ignore_errors=True)
            raise


def read(folder: str | os.PathLike[str]) -> tuple[dict[str, Argument], dict[str, Any]]:
    """What was asked of the run in a folder, and what is known of its data; CheckpointError if there is none."""
    at = Path(folder)
    if not at.is_dir():
        raise CheckpointError(f"there is no checkpoint at '{at}': no such folder")
    if not (at / ASKED).is_file():
        raise CheckpointError(f"'{at}' is not a checkpoint: it has no file {ASKED}")
    content = _content(at / ASKED)
    form, known = content.get("format"), content.get("versions")
    if form != FORMAT or (isinstance(known, dict) and others(known)):
        begun = (isinstance(known, dict) and others(known)) or f"format {shown(form)} (here: {FORMAT})"
        raise CheckpointError(
            f"the run in '{at}' was begun with {begun}; its next draws might differ here: go on with the "
            "versions that began it"
        )
    if not _holds_a_run(content):
        raise _damaged(at / ASKED, "parts of it are missing or of another kind")
    return {name: Argument(**argument) for name, argument in content["asked"].items()}, content["facts"]


def _content(file: Path) -> dict[str, Any]:
    """What is in a file of ours, without its checksum."""
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(file, "it is not JSON") from error
    if not isinstance(content, dict) or content.pop("check", None) != packed.checksum(content):
        raise _damaged(file, "its checksum does not match")
    return content


def _holds_a_run(content: dict[str, Any]) -> bool:
    """Whether all is there that others count on: a checksum can be made by anybody."""
    asked, facts = content.get("asked"), content.get("facts")
    if not (isinstance(asked, dict) and isinstance(facts, dict) and isinstance(content.get("versions"), dict)):
        return False
    data = facts.get("data")
    return (
        {"draws", "target_ess", "chains"} <= asked.keys()
        and all(isinstance(one, dict) and one.keys() == {*Argument._fields} for one in asked.values())
        and all(isinstance(facts.get(name), str) for name in ("run", "began"))
        and isinstance(facts.get(ENDED, 0), int)
        and (data is None or (isinstance(data, dict) and isinstance(data.get("columns"), dict) and "rows" in data))
    )


def _damaged(file: Path, why: str) -> CheckpointError:
    return CheckpointError(f"'{file}' is damaged, so the run cannot go on: {why}; take a copy, or begin another run")


@cache
def versions() -> dict[str, str]:
    """Of what the bits of draws may depend on."""
    return {name: version(name) for name in LIBRARIES}


def others(found: Mapping[str, str]) -> str:
    """Which of these versions are others than here, in words."""
    own = versions()
    return ", ".join(f"{name} {found.get(name)} (here: {own[name]})" for name in own if found.get(name) != own[name])


def recalled(asked: Mapping[str, Argument], given: Mapping[str, Any], how: str) -> dict[str, Any]:
    """The arguments of a run: those that are given now, and else as a file has them; `how` says how to give others."""
    found = dict(given)
    for name, argument in asked.items():
        if name not in found:
            theirs = name == "engine" and argument.packed is not None and argument.value(name) is not None  # perhaps
            if argument.packed is None or theirs:
                raise ValueError(
                    f"{name} was {argument.shown}, which files do not keep: give it again, as in {how.format(name)}"
                )
            found[name] = argument.value(name)
    return found


def _compare(at: Path, known: dict[str, Argument], given: dict[str, Argument]) -> None:
    """Raise if another run was asked for."""
    if changed := next(changes(known, given), None):
        raise CheckpointError(
            f"the run in '{at}' is another one: {changed}. Ask for the same, or choose another folder"
        )


def changes(known: Mapping[str, Argument], given: Mapping[str, Argument]) -> Iterator[str]:
    """What is given otherwise than before, of that which may not change, in words."""
    for name in (*known, *(one for one in given if one not in known)):
        before, now = known.get(name), given.get(name)
        if name in MAY_CHANGE or (before is None and now is not None and now.shown == "None"):
            continue
        if before is None or now is None or before.check != now.check or before.packed != now.packed:
            was, is_now = (one.shown if one is not None else "not given" for one in (before, now))
            yield f"{name} was {was}, and is {is_now} now"


def _refuse_fewer(at: Path, draws: Any, ended: int) -> None:
    """Raise if fewer draws are asked for than there are, or were when the run ended."""
    made = max(ended, kept_of(at / DRAWS).get("made", 0))
    if is_number(draws) and made > draws:
        raise CheckpointError(
            f"the run in '{at}' has {made:,} draws a chain already, more than the {draws:,} that are asked for now; "
            "ask for at least as many, or choose another folder"
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other process, or thread, may work on a run meanwhile; when a process ends, its lock is gone."""
    with _lock_file(folder) as file:
        if not _lock(file):
            file.seek(0)
            raise CheckpointError(
                f"another process is working on the run in '{folder}' (process {file.read().strip() or 'unknown'}); "
                "wait until that has ended, or choose another folder"
            )
        try:
            with full_disk(folder):
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), f"{os.getpid()}".encode())
        except OSError:
            if os.listdir(folder) == [LOCK]:  # it is new, and nothing comes of it
                shutil.rmtree(folder, ignore_errors=True)
            raise
        yield


def _lock_file(folder: Path) -> IO[str]:
    try:
        return (folder / LOCK).open("a+")
    except OSError as error:
        why = error.strerror or error
        raise CheckpointError(f"cannot work on the run in '{folder}': its file {LOCK!r}: {why}") from error


def worker(folder: Path) -> str:
    """The process that works on a run; nothing if there is none."""
    with _lock_file(folder) as file:
        if _lock(file):
            return ""
        file.seek(0)
        return file.read().strip() or "unknown"


if sys.platform == "win32":

    def _lock(file: IO[str]) -> bool:
        import msvcrt

        try:
            file.seek(1 << 30)  # far behind what others may read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _lock(file: IO[str]) -> bool:
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
