"""The choice that method="auto" makes for a regression.

It rests on counted quantities, never on a clock, so that a seed gives the same draws everywhere: what a step of the
thinned kernel is expected to cost next to a pass over all rows, and what a few drawn rows say about the surrogate.

- Thinning is cheaper than passes: the thinned kernel. Where the posterior's tails are longer than the surrogate's, more
  of its proposals reach for them.
- It is not (few rows for many columns): passes over all rows, which chains share. Two-stage with the expansion as
  surrogate and subchains, unless the posterior is too far from Gaussian for that: then Metropolis-Hastings.

All of these are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tallbayes.sampling.kernel import Kernel
from tallbayes.sampling.metropolis import MetropolisKernel
from tallbayes.sampling.thinned_setup import Setup, pass_cost
from tallbayes.sampling.two_stage import TwoStageKernel
from tallbayes.sampling.words import few

SHARED, PYTHON = 0.5, 700_000  # what a pass costs a chain that shares it with others, and the call, in units of it
FITTING = 0.2  # acceptance of independent proposals below which the surrogate is no help


def choose(
    thinned: Setup, two_stage: Callable[[], TwoStageKernel], metropolis: Callable[[], MetropolisKernel]
) -> Kernel:
    """The thinned kernel, or one of the others, which are made only if they are chosen; it says why."""
    kernel, plan, outlook = thinned
    model, mode = kernel.model, kernel.mode
    rows, columns = model.rows.size, model.rows.columns
    cost, full = plan.cost(rows, columns), SHARED * pass_cost(rows, columns) + PYTHON
    touched = plan.rows(rows)
    fits = f"independent proposals should be accepted with probability {outlook.acceptance:.2f}"
    tails, name = "", model.coefficients[outlook.coefficient]
    longer = f"the tails are longer than those of its proposals (most for {name!r})"
    if outlook.long_tailed:
        tails = f"; {longer}, so more of them reach out"
    if mode.flat or mode.others:
        tails = "; its proposals reach the long tails and all modes that a Student-t prior makes"
    if cost <= full or mode.flat or mode.others:
        why = f"a draw should touch about {few(touched)} of {rows:,} rows, and {fits}{tails}"
        return replace(kernel, why=why)
    costly = f"thinning would touch about {few(touched)} of {rows:,} rows a draw, more work than a shared pass"
    if outlook.acceptance >= FITTING and not outlook.long_tailed:
        return replace(two_stage(), why=f"{costly}; {fits}")
    why = f"{costly}, and the posterior is far from Gaussian: {longer if outlook.long_tailed else fits}"
    return replace(metropolis(), why=why)
