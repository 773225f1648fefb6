"""How far a run is that has a checkpoint."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tallbayes.engines import packed
from tallbayes.rows.room import in_words
from tallbayes.sampling.checkpoint import ENDED, Argument, read, worker
from tallbayes.sampling.journal import STATE
from tallbayes.sampling.past import DRAWS


class Status(NamedTuple):
    """How far a run is."""

    asked: dict[str, Argument]
    facts: dict[str, Any]
    running: str  # the process that is working on it, or nothing
    warmup: int  # draws of warm-up that are kept, of all shards
    draws: int  # a chain
    kept: int  # of these; the others are made again, which takes less time than writing them
    goal: int | None  # draws a chain at the next look
    seconds: dict[str, float]
    saved: datetime | None  # when it was last kept
    size: int  # bytes of the folder

    def lines(self) -> list[tuple[str, str]]:
        """For people."""
        asked = {name: argument.shown for name, argument in self.asked.items()}
        goal = asked["draws"] if asked["target_ess"] == "None" else f"an ESS of {asked['target_ess']}"
        far = f"{self.draws:,} draws of {asked['chains']} chains; asked for: {goal.replace('None', 'until converged')}"
        begun = f"{self.warmup:,} draws of warm-up" if self.warmup else "set-up, or not begun"
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        working = f"process {self.running} is working on it" if self.running else "no process is working on it"
        return [
            *((name, asked[name].strip("'")) for name in ("formula", "data", "method") if name in asked),
            ("begun", _clock(datetime.fromisoformat(self.facts["began"]))),
            ("seed", str(self.facts.get("seed", "not yet drawn"))),
            ("so far", far if self.draws else begun),
            *([("seconds", spent)] if spent else []),
            ("saved", self._saved()),
            ("folder", in_words(self.size)),
            ("now", working),
        ]

    def _saved(self) -> str:
        said = "never" if self.saved is None else _clock(self.saved)
        if self.kept == self.draws:
            return said
        return f"{said}; the last {self.draws - self.kept:,} draws took less time than writing them, and are made again"


def status(folder: str | os.PathLike[str]) -> Status:
    """How far the run in a folder is; it may be under way."""
    at = Path(folder)
    asked, facts = read(at)
    states = {path.parent.name: packed.read(path) for path in sorted(at.glob(f"*/{STATE}"))}
    draws = states.pop(DRAWS, {})
    files = [path for path in at.rglob("*") if path.is_file()]
    times = [path.stat().st_mtime for path in at.glob(f"*/{STATE}")]
    known = draws.get("facts", {})
    warmup = sum(_warmed(at / name, state) for name, state in states.items())
    saved = datetime.fromtimestamp(max(times), UTC) if times else None
    size = sum(path.stat().st_size for path in files)
    kept, seconds = int(draws.get("made", 0)), known.get("seconds", {})
    made = max(kept, facts.get(ENDED, 0))
    return Status(asked, facts, worker(at), warmup, made, kept, known.get("goal"), seconds, saved, size)


def _clock(time: datetime) -> str:
    """As the clock on the wall shows it."""
    return time.astimezone().isoformat(" ", "seconds")


def _warmed(walk: Path, state: dict[str, Any]) -> int:
    """Draws of a walk of several calls."""
    before = sum(packed.read(walk / f"{call:03}")["made"] for call in range(state["call"]))
    return int(before + state["made"])
