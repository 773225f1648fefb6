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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.groups import thinned_setup as grouped_setup
from tallbayes.groups.mode import find_group_mode
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.thinned import Grouped
from tallbayes.models.glm import GLM
from tallbayes.models.mode import Mode, find_mode, warn_of_heavy_priors
from tallbayes.results.fit import few
from tallbayes.rows import threads
from tallbayes.rows.sharding import SHARDINGS, Shard, deal
from tallbayes.sampling import surrogate as surrogates
from tallbayes.sampling import thinned_setup
from tallbayes.sampling.combine import COMBINERS
from tallbayes.sampling.consensus import Consensus, on_each
from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
from tallbayes.sampling.metropolis import Metropolis
from tallbayes.sampling.proposals import (
    GroupSweep,
    Independence,
    Mixture,
    OneAtATime,
    Proposal,
    RandomWalk,
    Scattered,
    Start,
)
from tallbayes.sampling.subsample import Stratified
from tallbayes.sampling.subsampling import Subsampling
from tallbayes.sampling.surrogate import Description, Surrogate
from tallbayes.sampling.taylor import Taylor
from tallbayes.sampling.thinned import Thinned
from tallbayes.sampling.two_stage import TwoStage
from tallbayes.splines.model import MARS
from tallbayes.splines.reversible_jump import ReversibleJump
from tallbayes.splines.reversible_jump_setup import reversible_jump

Array = NDArray[np.float64]
AnySurrogate = Description | Callable[[Array], float]
AnyKernel = Metropolis | TwoStage | Thinned | Grouped | Consensus | Subsampling | ReversibleJump

METHODS = ("auto", "thinned", "two-stage", "mh", "consensus", "subsampling")
INNER = ("auto", "thinned", "two-stage", "mh")
SHARDS = 14  # of a consensus, as in the paper
SEEDS = 3  # of a run, for what comes before and in its chains
PROPOSALS = ("one-at-a-time", "random-walk", "independence", "mixture")
START_DF = 3.0  # degrees of freedom of starting points, where priors are not Normal
HEAVY_TAIL = 5.0  # degrees of freedom of independent proposals that must reach the tails
SUBCHAIN_SHARE = 0.1  # of the work of a draw that goes into the subchain, where the lengths allow it
SHORTEST, LONGEST = 5, 50  # subchains
PASS_OVERHEAD = 200_000  # what a step of a subchain costs besides its rows, in row evaluations times columns
SHARED, PYTHON = 0.5, 700_000  # what a pass costs a chain that shares it with others, and the call, in units of it
STRATIFIED, FEWEST = 10, 1_000  # the surrogate for groups has one row in so many, and at least these from each group
FIRST_SIZE = 1_000  # rows of the first estimates of a log-likelihood, before warm-up knows better
FITTING = 0.2  # acceptance of independent proposals below which the surrogate is no help


def make_kernel(
    model: GLM | MARS,
    method: str = "auto",
    *,
    surrogate: AnySurrogate | None = None,
    proposal: str | None = None,
    subchain: int | None = None,
    shards: int | None = None,
    inner: str | None = None,
    sharding: str | None = None,
    combine: str | None = None,
    workers: int | None = None,
    estimator: TaylorProxy | SplineProxy | None = None,
    seed: int | np.random.SeedSequence | None = None,
    phases: Phases | None = None,
) -> AnyKernel:
    """Find the mode, build the surrogate and put the kernel together; the arguments are those of `fit`.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> make_kernel(model, seed=1).name
    'thinned'
    """
    options: dict[str, Any] = {"surrogate": surrogate, "proposal": proposal, "subchain": subchain}
    divided: dict[str, Any] = {
        "shards": shards,
        "inner": inner,
        "sharding": sharding,
        "combine": combine,
        "workers": workers,
    }
    phases = phases or Phases()
    if isinstance(model, MARS):
        if given := [name for name, value in (divided | {"estimator": estimator}).items() if value is not None]:
            raise ValueError(f"{given[0]} is not for splines")
        with phases("surrogate"):
            return reversible_jump(model, method, surrogate, proposal, subchain, np.random.default_rng(seeds(seed)[1]))
    check_options(method, **options, estimator=estimator, **divided)
    if method == "consensus":
        return _consensus(model, seed, phases, options, **divided)
    mode_seed, surrogate_seed, _ = seeds(seed)
    if isinstance(model, Hierarchical):
        if method == "subsampling":
            raise ValueError("method 'subsampling' is not for models with group terms; use 'auto', which is exact")
        return _grouped(model, method, surrogate, proposal, subchain, phases, mode_seed, surrogate_seed)
    with phases("mode"):
        mode = find_mode(model, np.random.default_rng(mode_seed))
    rng = np.random.default_rng(surrogate_seed)
    thinned = method == "thinned" or (method == "auto" and all(one is None for one in options.values()))
    if not thinned:
        named = "two-stage" if method == "auto" else method
        warn_of_heavy_priors(model.coefficients, mode.factor[:, : mode.flat], 1 + len(mode.others), named)
    if method == "mh":
        return _metropolis(model, mode, proposal)
    if method == "subsampling":
        with phases("surrogate"):
            return _subsampling(model, mode, estimator or TaylorProxy(), rng)
    with phases("surrogate"):
        if method == "thinned":
            return thinned_setup.expand(model, mode, rng).kernel
        if method == "auto" and all(option is None for option in (surrogate, proposal, subchain)):
            return _choose(model, mode, rng)
        return _two_stage(model, mode, rng, surrogate or Taylor(), proposal, subchain)


def _consensus(
    model: GLM,
    seed: int | np.random.SeedSequence | None,
    phases: Phases,
    options: dict[str, Any],
    shards: int | None,
    inner: str | None,
    sharding: str | None,
    combine: str | None,
    workers: int | None,
) -> Consensus:
    """A kernel on each shard of the rows. One shard is the plain run, with the same seeds."""
    root = np.random.SeedSequence(seed) if isinstance(seed, int | None) else seed
    dealing, *others = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, SEEDS)).spawn(shards or SHARDS)
    how = sharding or ("groups" if model.grouped else "random")
    with phases("shards"):
        rng = np.random.default_rng(dealing)
        dealt = deal(model.rows, 1 + len(others), how, rng) if others else [Shard(model.rows)]
    own = [model.part(one.rows, 1 / len(dealt), one.groups) for one in dealt] if others else [model]
    workers = workers or threads.count()

    def build(shard: int) -> AnyKernel:
        return make_kernel(own[shard], inner or "auto", seed=(root, *others)[shard], **options)

    with phases("mode"):
        kernels = on_each(len(own), build, workers)
    groups = tuple(one.groups for one in dealt)
    return Consensus(model, tuple(kernels), groups, how, combine or COMBINERS[0], workers)


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
    thinned = method == "thinned" or (method == "auto" and all(one is None for one in (surrogate, proposal, subchain)))
    named = "thinned" if thinned else "two-stage" if method == "auto" else method
    warn_of_heavy_priors(model.coefficients, mode.flat[:, :0] if thinned else mode.flat, mode.modes, named)
    sweep = GroupSweep(2.4 * mode.conditional_sd, scale=model.group_prior.code, coefficients=p)
    if method == "mh":
        return Metropolis(model, sweep, mode)
    with phases("surrogate"):
        if thinned:
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
        return replace(_two_stage(model, mode, rng, Taylor(), None, None), why=f"{costly}; {fits}")
    why = f"{costly}, and the posterior is far from Gaussian: {longer if outlook.long_tailed else fits}"
    return replace(_metropolis(model, mode, None), why=why)


def _subsampling(model: GLM, mode: Mode, estimator: TaylorProxy | SplineProxy, rng: np.random.Generator) -> Subsampling:
    size, walk = estimator.size or FIRST_SIZE, RandomWalk(mode.factor, 2.38 / mode.theta.size**0.5)
    return Subsampling(model, mode, estimator.build(model, mode, rng), size, estimator.size is None, walk)


def _metropolis(model: GLM, mode: Mode, proposal: str | None) -> Metropolis:
    return Metropolis(model, _proposal(proposal or "random-walk", mode), _starts(model, mode))


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
    return TwoStage(model, built, _proposal(kind, mode), _starts(model, mode), subchain or None)


def _starts(model: GLM, mode: Mode) -> Start:
    """Where chains start: in the Gaussian at the mode, unless a prior makes the posterior far from Gaussian."""
    if model.prior.normal:
        return Independence(mode.center, mode.factor)
    return Scattered(tuple(Independence(one.center, one.factor, START_DF) for one in (mode, *mode.others)))


def seeds(seed: int | np.random.SeedSequence | None) -> list[np.random.SeedSequence]:
    """Independent seeds for the mode's pilot rows, the surrogate's rows and the chains."""
    return (seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)).spawn(SEEDS)


def fresh_seed() -> int:
    """A seed drawn at random, for those who gave none."""
    return int(np.random.SeedSequence().generate_state(1)[0])


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


def check_options(
    method: str,
    *,
    surrogate: AnySurrogate | None = None,
    proposal: str | None = None,
    subchain: int | None = None,
    estimator: TaylorProxy | SplineProxy | None = None,
    **divided: int | str | None,
) -> None:
    """Refuse impossible options before any data is read; `divided` are those of a consensus."""
    _check_choice("method", method, METHODS)
    _check_choice("proposal", proposal, PROPOSALS)
    options: dict[str, Any] = {"surrogate": surrogate, "subchain": subchain, "proposal": proposal}
    if method == "consensus":
        for name, choices in (("inner", INNER), ("sharding", SHARDINGS), ("combine", COMBINERS)):
            _check_choice(name, divided.get(name), choices)
        if surrogate is not None and not hasattr(surrogate, "build"):
            raise ValueError(
                "a function of the parameters is a surrogate for all rows, not for a shard's; describe one"
            )
        return check_options(str(divided.get("inner") or "auto"), **options)
    if estimator is not None and method != "subsampling":
        raise ValueError(f"an estimator is for method='subsampling', not for method={method!r}")
    if estimator is not None and not isinstance(estimator, TaylorProxy | SplineProxy):
        raise TypeError(f"estimator must be tb.TaylorProxy or tb.SplineProxy, not {type(estimator).__name__}")
    for name, given in divided.items():
        if given is not None:
            raise ValueError(f"{name} is for method='consensus', not for method={method!r}")
    if method == "mh":
        for name in ("surrogate", "subchain"):
            if options[name] is not None:
                raise ValueError(f"method 'mh' looks at all rows and takes no {name}; use method='two-stage' with it")
    if method in ("thinned", "subsampling"):
        for name, given in options.items():
            if given is not None:
                raise ValueError(f"method {method!r} has its own and takes no {name}; use method='two-stage' with it")


def _check_choice(name: str, given: object, choices: tuple[str, ...]) -> None:
    if given is not None and given not in choices:
        raise ValueError(f"{name} {given!r} is not known; choose one of {', '.join(choices)}")
