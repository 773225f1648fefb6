"""The past of a run: where it stood when it was ended, and what it had counted by then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tallbayes.data.timing import Phases
from tallbayes.models.model import Model
from tallbayes.sampling.journal import Standing, Walk
from tallbayes.sampling.kernel import Draws, Kernel
from tallbayes.sampling.request import Request
from tallbayes.sampling.stopping import Look, Rule

DRAWS = "draws"  # the walk whose draws are kept
LASTING = ("warmup", "sampling", "diagnostics")  # phases whose seconds are those of all processes of a run
LIGHTER = 5  # rows of a surrogate lie together, near at hand, and so many cost about as much as one of all rows


class CheckpointError(ValueError):
    """A run cannot go on; the message says why."""


class Past(Protocol):
    """What is known of a run that goes on, and who remembers the present one."""

    def pinned(self, name: str, given: Any, make: Callable[[], Any]) -> Any:
        """What was given, or was taken for it the first time; it is made if that is now."""

    def holds(self, model: Model) -> None:
        """These are model and data; raises CheckpointError if they were others the first time."""

    def began(self, start: int) -> None:
        """The checksum of where chains start; raises CheckpointError if it was another one the first time."""

    def warmed(self, checksum: Callable[[], int]) -> int:
        """The checksum of where chains are after warm-up, 0 if it need not be known; raises as `began` does."""

    def walk(self, name: str) -> Walk:
        """The journal of a walk."""

    def ended(self, made: int) -> None:
        """The run has ended with so many draws a chain, not all of which are kept."""


@dataclass(frozen=True)
class Forgetful:
    """A past that nothing is added to: none, or what a fit knows of where its run has stopped."""

    standing: Standing | None = None

    def pinned(self, name: str, given: Any, make: Callable[[], Any]) -> Any:
        """See `Past`."""
        return make() if given is None else given

    def holds(self, model: Model) -> None:
        """See `Past`: with other data chains would go elsewhere."""

    def began(self, start: int) -> None:
        """See `Past`."""
        self._know("start", start, "start elsewhere")

    def warmed(self, checksum: Callable[[], int]) -> int:
        """See `Past`: some chains start at the same place whatever the data are, but none of them stays there."""
        found = checksum()
        self._know("warm", found, "go elsewhere")
        return found

    def _know(self, name: str, found: int, what: str) -> None:
        known = found if self.standing is None else self.standing.facts[name]
        if known not in (found, 0):
            raise CheckpointError(
                "a fit goes on with the data and arguments that it was made from, but with these its chains would "
                f"{what}: the data, a function of yours or a library has changed. Fit again"
            )

    def walk(self, name: str) -> Walk:
        """See `Past`."""
        return Walk(standing=self.standing.copy() if self.standing and name == DRAWS else None)

    def ended(self, made: int) -> None:
        """See `Past`."""


class Progress:
    """What a run counts since its first draw, whichever process has made it."""

    def __init__(
        self, kernel: Kernel, request: Request, phases: Phases, stood: Standing | None, checks: dict[str, int]
    ) -> None:
        self._kernel, self._request, self._phases, self._checks = kernel, request, phases, checks
        self._stood = {} if stood is None else stood.facts
        done = self._stood.get("spent", (0, 0))
        self._before = tuple(now - then for now, then in zip(kernel.touched, done, strict=True))
        for phase, seconds in self._stood.get("seconds", {}).items():  # of processes before this one
            phases.seconds[phase] = phases.seconds.get(phase, 0.0) + seconds

    @property
    def spent(self) -> tuple[int, int]:
        """Rows of the full data and of the surrogate that were touched."""
        full, surrogate = (now - then for now, then in zip(self._kernel.touched, self._before, strict=True))
        return full, surrogate

    @property
    def _asked(self) -> list[Any]:
        return [self._request.draws, self._request.target_ess]

    def facts(self, goal: int, since: float | None = None) -> dict[str, Any]:
        """For who goes on: what was counted, and what was to be done; `since` then it draws, if it does."""
        seconds = {name: spent for name, spent in self._phases.seconds.items() if name in LASTING}
        if since is not None:
            seconds["sampling"] = seconds.get("sampling", 0.0) + time.perf_counter() - since
        counted = {"spent": self.spent, "goal": goal, "seconds": seconds}
        return counted | {"asked": self._asked} | self._checks

    def look(self, rule: Rule, kept: Draws, made: int) -> Look:
        """A look at the first so many draws."""
        full, surrogate = self.spent
        rows = (full + surrogate // LIGHTER) * made // len(kept.theta)
        return rule.look(partial(self._kernel.model.watched, kept.theta[:made].swapaxes(0, 1)), made, rows)

    def next_look(self, rule: Rule, kept: Draws) -> Look:
        """When to look again, if the run goes on: as it was, or as a run would that was asked for this."""
        if self._stood.get("asked") == self._asked:
            return Look(self._stood["goal"])
        made, look = len(kept.theta), Look(rule.first)
        while look.goal <= made and not look.stopped:
            look = self.look(rule, kept, look.goal)
        return look._replace(goal=max(look.goal, made), found=None)
