"""When a run has enough draws: the number that was asked for, an ESS, or until diagnostics find no problems.

A rule looks at the draws of all chains now and then, and says how many there should be at the next look. What it says
follows from the draws and from counts, never from a clock, so that the seed decides everything, and the draws of a
longer run begin with those of a shorter one.

"Until there are no problems" is the very rule by which a fit is called converged (`diagnostics.problems`): the
run goes on until it holds, within a budget. The diagnostics of the last look are those of the fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.side_by_side import Parameters
from tallbayes.sampling import diagnostics
from tallbayes.sampling.diagnostics import Diagnostics
from tallbayes.sampling.kernel import Kernel
from tallbayes.sampling.request import DRAWS, MOST_DRAWS, Request

Array = NDArray[np.float64]

FIRST_LOOK = 200  # draws a chain before an ESS is first looked at; then whenever there are a quarter more

# What a run may take until it has converged, besides the draws that its kernel may make.
MOST_NUMBERS = 2**27  # kept in all chains: a gigabyte
MOST_ROWS = 30_000_000_000  # evaluated since the first draw: a few minutes
MARGIN = 1.1  # draws beyond those that should be enough, since an ESS is an estimate
LEAST_MORE, MOST_MORE = 1.25, 4.0  # times as many draws at the next look
ROUND = 100  # looks are at whole hundreds of draws
FIRST_FEW = 64  # parameters that are looked at before the others: coefficients, and the sd of groups

ASKED, CONVERGED, BUDGET, INTERRUPTED = "asked", "converged", "budget", "interrupted"  # why a run has stopped


class Look(NamedTuple):
    """What a look at the draws has found."""

    goal: int  # draws a chain at which to look again, or as many as there are: no more are needed
    note: str = ""  # for the progress bar
    stopped: str = ""  # why no more are needed
    budget: str = ""  # which has come to its end, if that is why
    found: Diagnostics | None = None  # of all draws, where all diagnostics were looked at


class Rule(Protocol):
    """Decides when there are enough draws."""

    @property
    def first(self) -> int:
        """Draws a chain at the first look."""

    @property
    def total(self) -> int | None:
        """Draws a chain that there will be, or may be, if that is known beforehand."""

    def look(self, draws: Callable[[], Parameters], made: int, rows: int) -> Look:
        """What to do after so many draws a chain, for which so many rows were evaluated."""


def rule_for(request: Request, kernel: Kernel) -> Rule:
    """The rule that a request asks for."""
    shown = NowAndThen() if request.progress else None
    if request.target_ess is not None:
        return TargetESS(request.target_ess, request.draws or MOST_DRAWS, request.chains, request.draws is not None)
    if request.draws is not None:
        return Asked(request.draws, shown)
    most, budget = kernel.most_draws, f"{kernel.most_draws:,} draws a chain"
    fits = MOST_NUMBERS // (request.chains * kernel.model.width)
    if fits < most:
        most, budget = max(DRAWS, fits), f"{MOST_NUMBERS:,} numbers kept"
    if most <= DRAWS:
        return Asked(DRAWS, shown)
    return Converged(most, budget, request.chains)


class NowAndThen:
    """When to do something that is only for show: not in the first second, and never for long."""

    def __init__(self) -> None:
        self._asked, self._next = 0.0, time.perf_counter() + 1.0

    def due(self) -> bool:
        """Whether it is time."""
        self._asked = time.perf_counter()
        return self._asked >= self._next

    def done(self) -> None:
        """It is done; the next time is when ten times as long has passed as it took."""
        now = time.perf_counter()
        self._next = now + max(1.0, 10 * (now - self._asked))


@dataclass(frozen=True)
class Asked:
    """So many draws. Whoever watches is now and then shown the ESS of those that there are."""

    most: int
    shown: NowAndThen | None = field(compare=False)

    @property
    def first(self) -> int:
        """See `Rule`."""
        return self.most if self.shown is None else min(self.most, FIRST_LOOK)

    @property
    def total(self) -> int:
        """See `Rule`."""
        return self.most

    def look(self, draws: Callable[[], Parameters], made: int, rows: int) -> Look:
        """See `Rule`."""
        note = ""
        if self.shown is not None and self.shown.due():
            note = _ess_note(float(np.min(diagnostics.ess(draws()))))
            self.shown.done()
        return Look(_quarter_more(made, self.most), note, ASKED if made >= self.most else "")


@dataclass(frozen=True)
class TargetESS:
    """Until the bulk ESS of every parameter is `target`."""

    target: float
    most: int
    chains: int
    bounded: bool  # by the user

    @property
    def first(self) -> int:
        """No parameter can have the ESS that was asked for before there are about as many draws."""
        return min(self.most, max(FIRST_LOOK, int(self.target / self.chains)))

    @property
    def total(self) -> int | None:
        """See `Rule`."""
        return self.most if self.bounded else None

    def look(self, draws: Callable[[], Parameters], made: int, rows: int) -> Look:
        """See `Rule`."""
        ess = float(np.min(diagnostics.ess(draws())))
        note = _ess_note(ess)
        if ess >= self.target or (self.bounded and made >= self.most):
            return Look(made, note, ASKED)
        if made >= self.most:
            return Look(made, note, BUDGET, f"{self.most:,} draws a chain")
        return Look(_quarter_more(made, self.most), note)


@dataclass(frozen=True)
class Converged:
    """Until diagnostics find no problems, or the budget ends; `budget` says in words what limits the draws.

    The first few parameters are looked at first: where these do not pass, there is no need to look at thousands of
    group effects, which mix faster than their sd.
    """

    most: int
    budget: str
    chains: int
    first = DRAWS
    total = None

    def look(self, draws: Callable[[], Parameters], made: int, rows: int) -> Look:
        """See `Rule`."""
        every = draws()
        allowed = made * MOST_ROWS // max(1, rows)
        most, budget = self.most, self.budget
        if allowed < most:  # a few draws more are not worth a look
            most, budget = allowed if allowed > LEAST_MORE * made else made, f"{MOST_ROWS:,} evaluations of rows"
        last = made >= most  # whatever comes out: all parameters are looked at, since the fit needs them
        found = diagnostics.diagnose(every[:, :, :FIRST_FEW])
        if every.shape[2] > FIRST_FEW and (last or diagnostics.lack(found, self.chains) <= 1):
            rest = diagnostics.diagnose(every[:, :, FIRST_FEW:])
            found = Diagnostics(*(np.concatenate(parts) for parts in zip(found, rest, strict=True)))
        lack, note = diagnostics.lack(found, self.chains), _ess_note(float(np.min(found.ess_bulk)))
        if lack <= 1:
            return Look(made, note, CONVERGED, "", found)
        if last:
            return Look(made, note, BUDGET, budget, found)
        more = made * float(np.clip(MARGIN * lack, LEAST_MORE, MOST_MORE))
        return Look(min(most, -int(-more // ROUND) * ROUND), note)


def _quarter_more(made: int, most: int) -> int:
    return min(most, made + max(1, made // 4))


def _ess_note(ess: float) -> str:
    return f"ESS {ess:,.0f}"
