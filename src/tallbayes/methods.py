"""From the name of a method to a kernel, and the choice that method="auto" makes.

The choice rests on counted quantities, never on a clock, so that a seed gives the same draws everywhere: what a step of
the thinned kernel is expected to cost next to a pass over all rows, and what a few drawn rows say about the surrogate.

- Thinning is cheaper than passes: the thinned kernel. Where the posterior's tails are longer than the surrogate's, more
  of its proposals reach for them.
- It is not (few rows for many columns): passes over all rows, which chains share. Two-stage with the expansion as
  surrogate and subchains, unless the posterior is too far from Gaussian for that: then Metropolis-Hastings.

Models with group effects always get the thinned kernel: its moves look at one group at a time, and where a group's rows
are few it evaluates them all. All of these are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tallbayes import surrogates
from tallbayes.group_mode import find_group_mode
from tallbayes.kernels import grouped_setup, thinned_setup
from tallbayes.kernels.grouped import Grouped
from tallbayes.kernels.metropolis import Metropolis
from tallbayes.kernels.thinned import Thinned
from tallbayes.kernels.two_stage import TwoStage
from tallbayes.mode import Mode, find_mode
from tallbayes.models.glm import GLM
from tallbayes.models.hierarchical import Hierarchical
from tallbayes.phases import Phases
from tallbayes.proposals import GroupSweep, Independence, Mixture, OneAtATime, Proposal, RandomWalk
from tallbayes.result import few
from tallbayes.surrogates import Description, Surrogate
from tallbayes.surrogates.subsample import Stratified
from tallbayes.surrogates.taylor import Taylor

Array = NDArray[np.float64]
AnySurrogate = Description | Callable[[Array], float]
AnyKernel = Metropolis | TwoStage | Thinned | Grouped

METHODS = ("auto", "thinned", "two-stage", "mh")
PROPOSALS = ("one-at-a-time", "random-walk", "independence", "mixture")
HEAVY_TAIL = 5.0  # degrees of freedom of independent proposals that must reach the tails
SUBCHAIN_SHARE = 0.1  # of the work of a draw that goes into the subchain, where the lengths allow it
SHORTEST, LONGEST = 5, 50  # subchains
PASS_OVERHEAD = 200_000  # what a step of a subchain costs besides its rows, in row evaluations times columns
SHARED, PYTHON = 0.5, 700_000  # what a pass costs a chain that shares it with others, and the call, in units of it
STRATIFIED, FEWEST = 10, 1_000  # the surrogate for groups has one row in so many, and at least these from each group
FITTING = 0.2  # acceptance of independent proposals below which the surrogate is no help


def make_kernel(
    model: GLM,
    method: str = "auto",
    *,
    surrogate: AnySurrogate | None = None,
    proposal: str | None = None,
    subchain: int | None = None,
    seed: int | None = None,
    phases: Phases | None = None,
) -> AnyKernel:
    """Find the mode, build the surrogate and put the kernel together; the arguments are those of `fit`.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> make_kernel(model, seed=1).name
    'thinned'
    """
    check_options(method, surrogate, proposal, subchain)
    phases = phases or Phases()
    mode_seed, surrogate_seed, _ = seeds(seed)
    if isinstance(model, Hierarchical):
        return _grouped(model, method, surrogate, proposal, subchain, phases, mode_seed, surrogate_seed)
    with phases("mode"):
        mode = find_mode(model, np.random.default_rng(mode_seed))
    rng = np.random.default_rng(surrogate_seed)
    if method == "mh":
        return _metropolis(model, mode, proposal)
    with phases("surrogate"):
        if method == "thinned":
            return thinned_setup.expand(model, mode, rng).kernel
        if method == "auto" and all(option is None for option in (surrogate, proposal, subchain)):
            return _choose(model, mode, rng)
        return _two_stage(model, mode, rng, surrogate or Taylor(), proposal, subchain)


def _grouped(
    model: Hierarchical,
    method: str,
    surrogate: AnySurrogate | None,
    proposal: str | None,
    subchain: int | None,
    phases: Phases,
    mode_seed: np.random.SeedSequence,
    surrogate_seed: np.random.SeedSequence,
) -> AnyKernel:
    """The same for a model with group effects."""
    if proposal not in (None, "one-at-a-time"):
        raise ValueError(
            f"proposal {proposal!r} is not for models with group terms; leave it out or use 'one-at-a-time'"
        )
    with phases("mode"):
        mode = find_group_mode(model, np.random.default_rng(mode_seed))
    rng, p = np.random.default_rng(surrogate_seed), len(model.coefficients)
    sweep = GroupSweep(2.4 * mode.conditional_sd, scale=model.group_prior.code, coefficients=p)
    if method == "mh":
        return Metropolis(model, sweep, mode)
    with phases("surrogate"):
        if method == "thinned" or (method == "auto" and all(one is None for one in (surrogate, proposal, subchain))):
            kernel, outlook = grouped_setup.expand(mode, rng)
            why = f"a draw should touch about {few(outlook.rows)} of {model.rows.size:,} rows"
            return replace(kernel, why=why if method == "auto" else "")
        if surrogate is None:
            surrogate = Stratified(max(FEWEST, model.rows.size // (STRATIFIED * model.rows.groups)), model.group)
        return TwoStage(model, surrogates.build(surrogate, model, mode, rng), sweep, mode, subchain or None)


def _choose(model: GLM, mode: Mode, rng: np.random.Generator) -> AnyKernel:
    """What method="auto" takes, and why."""
    kernel, plan, outlook = thinned_setup.expand(model, mode, rng)
    rows, columns = model.rows.size, model.rows.columns
    cost, full = plan.cost(rows, columns), SHARED * thinned_setup.pass_cost(rows, columns) + PYTHON
    touched = plan.rows(rows)
    fits = f"independent proposals should be accepted with probability {outlook.acceptance:.2f}"
    tails = ""
    if outlook.long_tailed:
        name = model.coefficients[outlook.coefficient]
        tails = f"; the tails are longer than those of its proposals (most for {name!r}), so more of them reach out"
    if cost <= full:
        why = f"a draw should touch about {few(touched)} of {rows:,} rows, and {fits}{tails}"
        return replace(kernel, why=why)
    costly = f"thinning would touch about {few(touched)} of {rows:,} rows a draw, more work than a shared pass"
    if outlook.acceptance >= FITTING and not outlook.long_tailed:
        return replace(_two_stage(model, mode, rng, Taylor(), None, None), why=f"{costly}; {fits}")
    why = f"{costly}, and the posterior is far from Gaussian: {fits}"
    return replace(_metropolis(model, mode, None), why=why)


def _metropolis(model: GLM, mode: Mode, proposal: str | None) -> Metropolis:
    return Metropolis(model, _proposal(proposal or "random-walk", mode), Independence(mode.center, mode.factor))


def _two_stage(
    model: GLM,
    mode: Mode,
    rng: np.random.Generator,
    surrogate: AnySurrogate,
    proposal: str | None,
    subchain: int | None,
) -> TwoStage:
    built = surrogates.build(surrogate, model, mode, rng)
    expansion = isinstance(surrogate, Taylor)
    if subchain is None:
        subchain = _subchain_length(model, built) if expansion else 0
    kind = proposal or ("mixture" if expansion else "one-at-a-time")
    return TwoStage(model, built, _proposal(kind, mode), Independence(mode.center, mode.factor), subchain or None)


def seeds(seed: int | None) -> list[np.random.SeedSequence]:
    """Independent seeds for the mode's pilot rows, the surrogate's rows and the chains."""
    return np.random.SeedSequence(seed).spawn(3)


def _proposal(kind: str, mode: Mode) -> Proposal:
    """Proposals shaped by the curvature at the mode; warm-up tunes the scale where there is one."""
    p = mode.theta.size
    walk = RandomWalk(mode.factor, 2.38 / p**0.5)
    if kind == "one-at-a-time":
        return OneAtATime(2.4 * mode.conditional_sd)
    if kind == "random-walk":
        return walk
    if kind == "independence":
        return Independence(mode.center, mode.factor, HEAVY_TAIL)
    return Mixture(Independence(mode.center, mode.factor, HEAVY_TAIL), walk)


def _subchain_length(model: GLM, surrogate: Surrogate) -> int:
    """As many steps as keep the subchain's work at a small share of a pass over all rows."""
    p = model.rows.columns
    step = surrogate.size * p + PASS_OVERHEAD
    return int(np.clip(SUBCHAIN_SHARE * (model.rows.size * p + PASS_OVERHEAD) / step, SHORTEST, LONGEST))


def check_options(method: str, surrogate: AnySurrogate | None, proposal: str | None, subchain: int | None) -> None:
    """Refuse impossible options before any data is read."""
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not known; choose one of {', '.join(METHODS)}")
    if proposal is not None and proposal not in PROPOSALS:
        raise ValueError(f"proposal {proposal!r} is not known; choose one of {', '.join(PROPOSALS)}")
    options = {"surrogate": surrogate, "subchain": subchain, "proposal": proposal}
    if method == "mh":
        for name in ("surrogate", "subchain"):
            if options[name] is not None:
                raise ValueError(f"method 'mh' looks at all rows and takes no {name}; use method='two-stage' with it")
    if method == "thinned":
        for name, given in options.items():
            if given is not None:
                raise ValueError(f"method 'thinned' has its own and takes no {name}; use method='two-stage' with it")
