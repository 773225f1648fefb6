"""The only sampling loop: seeds, chains, warm-up and progress; `stopping.py` says when there are enough draws.

Kernels are advanced by calls of about a fifth of a second; between calls the progress bar moves, a stop is noticed, and
a journal is kept (`journal.py`). The draws depend on the seed alone: not on how the steps are split into calls, not on
any clock, and not on how often the run was ended and went on.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.screen import shown
from tallbayes.data.timing import Phases
from tallbayes.engines import packed
from tallbayes.rows.room import require_free
from tallbayes.sampling.diagnostics import Diagnostics
from tallbayes.sampling.journal import Standing, Walk
from tallbayes.sampling.kernel import Draws, Kernel, Path, Streams
from tallbayes.sampling.past import DRAWS, Forgetful, Past, Progress
from tallbayes.sampling.request import Request
from tallbayes.sampling.seeds import seeds
from tallbayes.sampling.stopping import INTERRUPTED, Look, rule_for

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

Array = NDArray[np.float64]

CALL_SECONDS = 0.2


@dataclass(frozen=True)
class Run:
    """The draws of all chains and what it took to get them."""

    kernel: Kernel  # as warm-up has left it
    standing: Standing  # after the last draw
    theta: Array  # (chains, draws, width)
    sample_stats: dict[str, Array]  # (chains, draws) by name
    approximation: dict[str, Any]  # what is known of the error, where the kernel is not exact
    acceptance: dict[str, float]
    moved: float  # share of updates in which a chain moved
    rows_per_draw: float
    surrogate_rows_per_draw: float
    last: Look  # that ended it
    seed: int | None
    phases: Phases

    @property
    def interrupted(self) -> bool:
        """Whether the user ended it."""
        return self.last.stopped == INTERRUPTED

    @property
    def diagnostics(self) -> Diagnostics | None:
        """Of what the model has watched, if it was looked at after the last draw."""
        return self.last.found

    @property
    def stats(self) -> dict[str, Any]:
        """How the run went, as plain numbers and texts."""
        kernel, model = self.kernel, self.kernel.model
        return {
            "exact": kernel.exact,
            "approximation": self.approximation,
            "method": kernel.name,
            "why": kernel.why,
            "acceptance": self.acceptance,
            "rows_per_draw": self.rows_per_draw,
            "surrogate_rows_per_draw": self.surrogate_rows_per_draw,
            "seconds": self.phases.seconds,
            "rows": model.observations,
            "distinct_rows": model.rows.size,
            "passes": model.rows.passes,
            **model.rows.told,
            **kernel.facts(),
            "seed": self.seed,
            "stopped": self.last.stopped,
            "budget": self.last.budget,
            "interrupted": self.interrupted,
            "warnings": [],
            "doubts": [],
            "pulled": [],
        }


def run(kernel: Kernel, request: Request, phases: Phases, past: Past | None = None) -> Run:
    """Warm up, freeze, and draw until the rule that was asked for says that there are enough draws.

    Ctrl-C while drawing stops early and returns what there is; a second one, or one during warm-up, raises. A run with
    a past goes on from there.
    """
    past = past or Forgetful()
    root, chains = seeds(request.seed)[1], request.chains
    warmup = kernel.warmup if request.warmup is None else request.warmup
    width = sum(one.model.width for one in kernel.kernels)
    for what, draws in (("warmup draws", warmup), ("draws", request.draws if request.target_ess is None else 0)):
        _require_room(f"{draws or 0:,} {what} of {chains:,} chains", (draws or 0) * chains, 1, width)
    rng = Streams.spawn(root, chains)
    with _stop_on_interrupt() as stop, _progress_bar(request.progress, kernel.name) as bar:
        loop = _Loop(rng, stop, bar, past)
        with phases("warmup"):
            state = kernel.start(rng)
            start = packed.checksum(kernel.stored(state))
            past.began(start)
            loop.begin("warm-up", warmup * len(kernel.kernels))
            kernel, state = kernel.tune(state, warmup, loop.warm_up)
            checks = {"start": start, "warm": past.warmed(lambda: packed.checksum(kernel.stored(state)))}
        walk, rule = past.walk(DRAWS), rule_for(request, kernel)
        stood = walk.standing
        state, kept = walk.begin(kernel, state, rng)
        progress = Progress(kernel, request, phases, stood, checks)
        made, look = 0 if kept is None else len(kept.theta), Look(rule.first)
        if stood is not None and kept is not None:
            look = progress.next_look(rule, kept)
        loop.begin("draws", rule.total or look.goal, made)
        while not look.stopped:
            with phases("sampling"):
                facts_now = partial(progress.facts, look.goal, time.perf_counter())
                state, kept = loop.advance(
                    kernel, state, look.goal - made, walk, rng, kept=kept, stoppable=True, facts=facts_now
                )
            made = len(kept.theta)
            if stop.is_set():
                look = Look(look.goal, stopped=INTERRUPTED)
                break
            with phases("diagnostics"):
                look = progress.look(rule, kept, made)
            loop.aim(rule.total or look.goal, look.note)
        if kept is None or made == 0:
            raise KeyboardInterrupt
        facts = progress.facts(look.goal)
        if not walk.close(kernel, state, kept, rng, facts, must=look.stopped == INTERRUPTED):
            past.ended(made)
    full, surrogate = facts["spent"]
    path = Path(*(getattr(kept, name).swapaxes(0, 1) for name in Path._fields))
    found = kernel.finish(path, np.random.default_rng(root.spawn(1)[0]), phases)
    return Run(
        kernel,
        Standing(kernel.stored(state), rng, kept, facts),
        *found,
        _acceptance(kernel, kept),
        float(kept.accepted.mean()),
        full / (made * chains),
        surrogate / (made * chains),
        look,
        request.seed,
        phases,
    )


@dataclass
class _Loop:
    """Advances kernels call by call, keeping the progress bar alive."""

    rng: Streams
    stop: threading.Event
    bar: Bar | None
    past: Past
    walks: dict[int, Walk] = field(default_factory=dict)  # of warm-up, by shard
    steps: int = 1  # a call
    task: Any = None
    facts: dict[str, str] = field(default_factory=dict)

    def begin(self, phase: str, total: int, done: int = 0) -> None:
        """A new line of the progress bar."""
        if self.bar is not None:
            self.task = self.bar.add_task(phase, total=total, completed=done, facts="")

    def aim(self, total: int, note: str) -> None:
        """Show how many draws there are to be now, and what was found on the way."""
        if note:
            self.facts["ess"] = note
        if self.bar is not None:
            self.bar.update(self.task, total=total, facts="  ".join(self.facts.values()))

    def warm_up(
        self, kernel: Kernel, state: Any, steps: int, *, streams: Streams | None = None, shard: int = 0
    ) -> tuple[Any, Draws]:
        """See `Advance`. Shards have streams and journals of their own, and may be advanced from several threads."""
        streams = streams or self.rng
        if shard not in self.walks:
            self.walks[shard] = self.past.walk(f"warm-up-{shard:03}")
        walk = self.walks[shard]
        state, kept = walk.begin(kernel, state, streams)
        done = 0 if kept is None else len(kept.theta)
        if self.bar is not None:
            self.bar.update(self.task, advance=done)
        state, kept = self.advance(kernel, state, steps - done, walk, streams, kept=kept)
        walk.end(kernel, state, kept, streams)
        return state, kept

    def advance(
        self,
        kernel: Kernel,
        state: Any,
        steps: int,
        walk: Walk,
        streams: Streams,
        *,
        kept: Draws | None = None,
        stoppable: bool = False,
        facts: Callable[[], dict[str, Any]] = dict,
    ) -> tuple[Any, Draws]:
        """`kernel.advance` in calls of about CALL_SECONDS; a stop ends it early, or raises if it may not end early.

        The draws follow those that are `kept`, in the same memory. Between calls the journal of the walk is offered
        where the chains stand, and the facts.
        """
        made = 0 if kept is None else len(kept.theta)
        goal = made + steps
        while made < goal and not (stoppable and self.stop.is_set()):
            if self.stop.is_set():
                raise KeyboardInterrupt
            call = min(self.steps, goal - made)
            began = time.perf_counter()
            state, part = kernel.advance(state, call, streams)
            rate = (time.perf_counter() - began) / call
            self.steps = int(np.clip(CALL_SECONDS / rate, 1, 4 * self.steps))
            if kept is None or len(kept.theta) != goal:
                _, updates, chains = part.screened.shape
                _require_room(f"{goal - made:,} draws", (goal - made) * chains, updates, part.theta.shape[2])
            kept = kept or Draws.empty(0, part.screened.shape[1], *part.theta.shape[1:])
            kept.resize(goal)
            for every, new in zip(kept, part, strict=True):
                every[made : made + call] = new
            made += call
            if self.bar is not None:
                shares = " then ".join(f"{share:.2f}" for share in _acceptance(kernel, part).values())
                self.facts["accept"] = f"accept {shares}"
                self.bar.update(self.task, advance=call, facts="  ".join(self.facts.values()))
            walk.offer(kernel, state, kept, made, streams, facts)
        if kept is None:
            return state, Draws.empty(0, 1, *state.theta.shape)
        kept.resize(made)
        return state, kept


def _require_room(what: str, draws: int, updates: int, width: int) -> None:
    """Refuse draws of all chains that memory cannot hold."""
    require_free(what, draws * Draws.size(updates, width), "ask for fewer draws, fewer chains or a shorter warm-up")


def _acceptance(kernel: Kernel, draws: Draws) -> dict[str, float]:
    """Share of proposals that passed stage 1, and of those decided on all rows that were accepted.

    A kernel whose updates are of different kinds names them, and has a share for each.
    """
    if names := kernel.parts:
        shares = draws.screened.mean(axis=(0, 2))
        return dict(zip(names, map(float, shares), strict=True))
    screened = float(draws.screened.sum()) / max(1, draws.screened.size)
    if draws.decided.all() and np.isnan(draws.log_second).all():
        return {"stage 1": screened}
    accepted = draws.accepted[draws.decided]  # some moves need no look at the rows
    return {"stage 1": screened, "stage 2": int(accepted.sum()) / max(1, accepted.size)}


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the next Ctrl-C raises as usual.

    Not if it is ignored, as in the background of a shell, nor where the program around Python has its own way with it.
    """
    stop = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield stop
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        stop.set()

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress_bar(wanted: bool, name: str) -> Iterator[Bar | None]:
    if not wanted:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(f"{name} {{task.description:7}}"),
        BarColumn(bar_width=6),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[facts]}"),
    )
    with shown(*columns) as bar:
        yield bar
