"""The front door: `fit` goes from a formula and data to a posterior; `make_kernel` and `sample` are its two halves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import chains as loop
from tallbayes import surrogates
from tallbayes.families import Bernoulli
from tallbayes.kernels import Kernel
from tallbayes.kernels.metropolis import Metropolis
from tallbayes.kernels.two_stage import TwoStage
from tallbayes.mode import Mode, SeparationWarning, find_mode
from tallbayes.models.glm import GLM
from tallbayes.phases import Phases
from tallbayes.priors import Normal
from tallbayes.proposals import Independence, Mixture, OneAtATime, Proposal, RandomWalk
from tallbayes.result import Fit
from tallbayes.surrogates import Description, Surrogate
from tallbayes.surrogates.subsample import Stratified
from tallbayes.surrogates.taylor import Taylor

Array = NDArray[np.float64]
AnySurrogate = Description | Callable[[Array], float]

METHODS = ("auto", "mh", "two-stage")
PROPOSALS = ("one-at-a-time", "random-walk", "independence", "mixture")
HEAVY_TAIL = 5.0  # degrees of freedom of independent proposals that must reach the tails
SUBCHAIN_SHARE = 0.1  # of the work of a draw that goes into the subchain, where the lengths allow it
SHORTEST, LONGEST = 5, 50  # subchains
PASS_OVERHEAD = 200_000  # what a step of a subchain costs besides its rows, in row evaluations times columns


def fit(
    formula: str,
    data: Any,
    family: str | Bernoulli = "bernoulli",
    prior: Normal | Mapping[str, Normal] | None = None,
    method: str = "auto",
    *,
    surrogate: AnySurrogate | None = None,
    proposal: str | None = None,
    subchain: int | None = None,
    draws: int | None = None,
    target_ess: float | None = None,
    chains: int = 4,
    warmup: int | None = None,
    seed: int | None = None,
    weights: str | ArrayLike | None = None,
    offset: str | ArrayLike | None = None,
    progress: bool = True,
) -> Fit:
    """Fit a Bayesian regression to all rows of the data.

    Parameters
    ----------
    formula: such as "foreclosed ~ fico + dti + first_time"; see formulaic's grammar.
    data: pandas, polars or pyarrow table, dict of arrays, or path (or glob) of CSV or Parquet files.
    family: "bernoulli" (outcomes 0 and 1, logit link).
    prior: `tb.Normal` for all coefficients, or a dict of them by name; Normal(0, 10) otherwise.
    method: "auto", "mh" (Metropolis-Hastings on all rows) or "two-stage". At present "auto" is two-stage with `Taylor`.
    surrogate: what screens proposals in two-stage: `tb.Taylor`, `tb.CaseControl`, `tb.Subsample`, `tb.Stratified`,
        or any function of a parameter vector that approximates the log-likelihood.
    proposal: "one-at-a-time", "random-walk", "independence" or "mixture" (of the last two).
    subchain: number of screened steps before each look at all rows (0: decide on each update).
    draws: kept draws a chain (default 1,000). With `target_ess`, the most there may be.
    target_ess: stop as soon as every coefficient has this many effective draws.
    chains: they run together, sharing passes over the data.
    warmup: draws for tuning and settling, not kept.
    seed: the same seed gives the same draws; drawn at random and recorded in `fit.stats` if None.
    weights: how often each row counts: a column's name or one number a row.
    offset: added to the linear predictor: a column's name or one number a row.
    progress: whether to show a progress bar.

    >>> import tallbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal(2_000)
    >>> y = rng.random(2_000) < 1 / (1 + np.exp(1 - x))
    >>> fit = tb.fit("y ~ x", {"x": x, "y": y}, draws=500, seed=1, progress=False)
    >>> fit.summary()[["mean", "sd"]].round(1)
               mean   sd
    Intercept  -1.0  0.1
    x           1.0  0.1
    """
    _check_options(method, surrogate, proposal, subchain)
    _check_counts(draws=(draws, 1), chains=(chains, 1), warmup=(warmup, 0), subchain=(subchain, 0), seed=(seed, 0))
    if target_ess is not None and not target_ess > 0:
        raise ValueError(f"target_ess must be a positive number, not {target_ess!r}")
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    strata = [surrogate.by] if isinstance(surrogate, Stratified) else []
    model = GLM(formula, data, family, prior, weights=weights, offset=offset, strata=strata)
    phases = Phases(model.seconds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = make_kernel(
            model, method, surrogate=surrogate, proposal=proposal, subchain=subchain, seed=seed, phases=phases
        )
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    said = [str(warning.message) for warning in caught if issubclass(warning.category, SeparationWarning)]
    result = sample(kernel, draws, chains, seed, target_ess=target_ess, warmup=warmup, progress=progress, phases=phases)
    result.stats["warnings"] = said
    return result


def make_kernel(
    model: GLM,
    method: str = "auto",
    *,
    surrogate: AnySurrogate | None = None,
    proposal: str | None = None,
    subchain: int | None = None,
    seed: int | None = None,
    phases: Phases | None = None,
) -> Metropolis | TwoStage:
    """Find the mode, build the surrogate and put the kernel together; the arguments are those of `fit`."""
    _check_options(method, surrogate, proposal, subchain)
    phases = phases or Phases()
    mode_seed, surrogate_seed, _ = _seeds(seed)
    with phases("mode"):
        mode = find_mode(model, np.random.default_rng(mode_seed))
    initial = Independence(mode.center, mode.factor)
    if method == "mh":
        return Metropolis(model, _proposal(proposal or "random-walk", mode), initial)
    chosen = surrogate or Taylor()
    with phases("surrogate"):
        built = surrogates.build(chosen, model, mode, np.random.default_rng(surrogate_seed))
    expansion = isinstance(chosen, Taylor)
    if subchain is None:
        subchain = _subchain_length(model, built) if expansion else 0
    kind = proposal or ("mixture" if expansion else "one-at-a-time")
    return TwoStage(model, built, _proposal(kind, mode), initial, subchain or None)


def sample(
    kernel: Kernel,
    draws: int | None = None,
    chains: int = 4,
    seed: int | None = None,
    *,
    target_ess: float | None = None,
    warmup: int | None = None,
    progress: bool = True,
    phases: Phases | None = None,
) -> Fit:
    """Run chains of a kernel and return their draws; the arguments are those of `fit`."""
    import xarray as xr

    phases = phases or Phases(kernel.model.seconds)
    if draws is None and target_ess is None:
        draws = 1_000
    if warmup is None:
        warmup = 500 if isinstance(kernel.proposal, OneAtATime | RandomWalk) else 50
    run = loop.run(kernel, draws, chains, _seeds(seed)[2], warmup, phases, target_ess, progress)
    model, used = kernel.model, run.kernel
    size = {"chain": run.theta.shape[0], "draw": run.theta.shape[1]}
    coordinates = {name: np.arange(count) for name, count in size.items()}
    posterior = xr.Dataset(
        {"beta": (("chain", "draw", "coefficient"), run.theta)},
        coords=coordinates | {"coefficient": list(model.coefficients)},
    )
    stats: dict[str, Any] = {
        "exact": kernel.exact,
        "method": kernel.name,
        "acceptance": run.acceptance,
        "rows_per_draw": run.rows_per_draw,
        "surrogate_rows_per_draw": run.surrogate_rows_per_draw,
        "seconds": phases.seconds,
        "rows": model.observations,
        "distinct_rows": model.rows.size,
        "surrogate": used.surrogate.name if isinstance(used, TwoStage) else None,
        "proposal": used.proposal.name,
        "subchain": getattr(used, "subchain", None),
        "seed": seed,
        "interrupted": run.interrupted,
        "warnings": [],
    }
    return Fit(
        posterior=posterior,
        sample_stats=xr.Dataset({"lp": (("chain", "draw"), run.log_posterior)}, coords=coordinates),
        stats=stats,
        formula=model.formula,
        family=model.family.name,
        offset=model.offset,
        has_offset=model.has_offset,
    )


def _seeds(seed: int | None) -> list[np.random.SeedSequence]:
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


def _check_options(method: str, surrogate: AnySurrogate | None, proposal: str | None, subchain: int | None) -> None:
    """Refuse impossible options before any data is read."""
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not known; choose one of {', '.join(METHODS)}")
    if proposal is not None and proposal not in PROPOSALS:
        raise ValueError(f"proposal {proposal!r} is not known; choose one of {', '.join(PROPOSALS)}")
    if method == "mh":
        for name, given in (("surrogate", surrogate), ("subchain", subchain)):
            if given is not None:
                raise ValueError(f"method 'mh' looks at all rows and takes no {name}; use method='two-stage' with it")


def _check_counts(**counts: tuple[Any, int]) -> None:
    """Refuse what is no whole number, or below its least value."""
    for name, (value, least) in counts.items():
        if value is not None and not (isinstance(value, int | np.integer) and value >= least):
            raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
