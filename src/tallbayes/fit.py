"""The front door: `fit` goes from a formula and data to a posterior; `make_kernel` and `sample` are its halves."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.timing import Phases
from tallbayes.families import Family
from tallbayes.groups.mode import GroupMode, group_facts
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.scale import ScalePrior
from tallbayes.groups.thinned import Grouped
from tallbayes.models.glm import GLM
from tallbayes.models.mode import SeparationWarning, TailWarning
from tallbayes.models.priors import AnyPrior
from tallbayes.results.fit import Fit
from tallbayes.rows.calibration import calibrate
from tallbayes.sampling import loop
from tallbayes.sampling.combine import SAID as COMBINED
from tallbayes.sampling.combine import combine as combine_shards
from tallbayes.sampling.consensus import Consensus, kernels_of
from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
from tallbayes.sampling.importance import POINTS, seen
from tallbayes.sampling.kernel import Kernel
from tallbayes.sampling.methods import AnySurrogate, check_options, fresh_seed, make_kernel, seeds
from tallbayes.sampling.proposals import OneAtATime, RandomWalk
from tallbayes.sampling.subsample import Stratified
from tallbayes.sampling.subsampling import Subsampling
from tallbayes.sampling.thinned import Thinned
from tallbayes.sampling.two_stage import TwoStage
from tallbayes.splines.model import MARS
from tallbayes.splines.result import mars_fit
from tallbayes.splines.reversible_jump import ReversibleJump

Array = NDArray[np.float64]


def fit(
    formula: str,
    data: Any,
    family: str | Family = "bernoulli",
    prior: AnyPrior | None = None,
    method: str = "auto",
    *,
    group_prior: ScalePrior | None = None,
    surrogate: AnySurrogate | None = None,
    proposal: str | None = None,
    subchain: int | None = None,
    shards: int | None = None,
    inner: str | None = None,
    sharding: str | None = None,
    combine: str | None = None,
    workers: int | None = None,
    estimator: TaylorProxy | SplineProxy | None = None,
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
    formula: such as "foreclosed ~ fico + dti + first_time"; see formulaic's grammar. A term (1 | bank) gives every bank
        an effect of its own, Normal around zero with a standard deviation that is estimated too.
    data: pandas, polars or pyarrow table, dict of arrays, or path (or glob) of CSV or Parquet files.
    family: "bernoulli" (outcomes 0 and 1), "poisson", or `tb.Bernoulli(link="probit")`, `tb.Binomial(trials="sent")`,
        `tb.Poisson(exposure="days")`.
    prior: `tb.Normal` or `tb.StudentT` for all coefficients, or a dict of them by name; Normal(0, 10) otherwise.
    group_prior: of that standard deviation: `tb.HalfCauchy(2.5)` unless given, `tb.HalfNormal` or `tb.InverseSquare`.
    method: "auto" chooses among the others and says why in `fit.stats["why"]`; "thinned" looks at a handful of rows a
        draw, "two-stage" at all rows for what a surrogate lets pass, "mh" (Metropolis-Hastings) at all rows always.
        These are exact. "consensus" samples shards of the rows and combines their draws, "subsampling" estimates the
        log-likelihood from some rows: both are approximate, and the result says how far off it may be.
    surrogate: what screens proposals in two-stage: `tb.Taylor`, `tb.CaseControl`, `tb.Subsample`, `tb.Stratified`,
        or any function of a parameter vector that approximates the log-likelihood.
    proposal: "one-at-a-time", "random-walk", "independence" or "mixture" (of the last two).
    subchain: number of screened steps before each look at all rows (0: decide on each update).
    shards: of a consensus, 14 unless given.
    inner: the method on each shard: "auto", "thinned", "two-stage" or "mh". What is said of a surrogate, a proposal or
        a subchain is meant for each shard.
    sharding: "random" observations; "stratified" by the levels of 0/1 columns, with rare levels kept together; whole
        "groups" of a group term.
    combine: "average" of the shards' draws, weighted by precision, or "gaussian": draws from the product of Gaussians,
        resampled with importance weights from all rows.
    workers: threads that work on shards; all cores unless given. They do not change the draws.
    estimator: of the log-likelihood, in subsampling: `tb.TaylorProxy` unless given, or the paper's `tb.SplineProxy`.
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
    options: dict[str, Any] = {"surrogate": surrogate, "proposal": proposal, "subchain": subchain}
    options |= {"shards": shards, "inner": inner, "sharding": sharding, "combine": combine, "workers": workers}
    options["estimator"] = estimator
    check_options(method, **options)
    _check_counts(draws=(draws, 1), chains=(chains, 1), warmup=(warmup, 0), subchain=(subchain, 0), seed=(seed, 0))
    _check_counts(shards=(shards, 1), workers=(workers, 1))
    if target_ess is not None and not target_ess > 0:
        raise ValueError(f"target_ess must be a positive number, not {target_ess!r}")
    seed = fresh_seed() if seed is None else seed
    strata = [surrogate.by] if isinstance(surrogate, Stratified) else []
    given: dict[str, Any] = {"weights": weights, "offset": offset, "strata": strata}
    parsed = Formula.parse(formula)
    if parsed.group is not None:
        model: GLM = Hierarchical(parsed, data, family, prior, group_prior, **given)
    elif group_prior is not None:
        raise ValueError("group_prior is for formulas with a group term such as (1 | bank)")
    else:
        model = GLM(parsed, data, family, prior, **given)
    phases = Phases(model.seconds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = make_kernel(model, method, **options, seed=seed, phases=phases)
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    said, doubts = (
        [str(one.message) for one in caught if issubclass(one.category, kind)]
        for kind in (SeparationWarning, TailWarning)
    )
    result = sample(kernel, draws, chains, seed, target_ess=target_ess, warmup=warmup, progress=progress, phases=phases)
    result.stats["warnings"], result.stats["doubts"] = said, doubts
    return result


def sample(
    kernel: Kernel | GLM | MARS,
    draws: int | None = None,
    chains: int = 4,
    seed: int | None = None,
    *,
    target_ess: float | None = None,
    warmup: int | None = None,
    progress: bool = True,
    phases: Phases | None = None,
) -> Fit:
    """Run chains of a kernel, or of the one that `make_kernel` makes of a model; the arguments are those of `fit`."""
    import xarray as xr

    _check_counts(draws=(draws, 1), chains=(chains, 1), warmup=(warmup, 0), seed=(seed, 0))
    if isinstance(kernel, GLM | MARS):
        seed = fresh_seed() if seed is None else seed
        phases = phases or Phases(kernel.seconds)
        kernel = make_kernel(kernel, seed=seed, phases=phases)
    phases = phases or Phases(kernel.model.seconds)
    if draws is None and target_ess is None:
        draws = 1_000
    if warmup is None:
        warmup = max(map(_warmup, kernels_of(kernel)))
    chain_seed = seeds(seed)[2]
    run = loop.run(kernel, draws, chains, chain_seed, warmup, phases, target_ess, progress)
    model, used = kernel.model, run.kernel
    if isinstance(model, MARS):
        with phases("effects"):
            return mars_fit(model, run.theta, run.log_posterior, _stats(run, {}, phases, seed), seed)
    theta, approximation = _approximated(run, phases, np.random.default_rng(chain_seed.spawn(1)[0]))
    size = {"chain": theta.shape[0], "draw": theta.shape[1]}
    coordinates = {name: np.arange(count) for name, count in size.items()}
    with phases("calibration"):
        calibration = calibrate(model.rows.by_predictor(theta.mean((0, 1))), model.family)
    variables, named = model.variables(theta)
    posterior = xr.Dataset(variables, coords=coordinates | named)
    # The thinned kernels never know the log posterior: they have not looked at all rows.
    unknown = isinstance(used, Thinned | Grouped | Consensus | Subsampling)
    known = {} if unknown else {"lp": (("chain", "draw"), run.log_posterior)}
    if isinstance(used, Subsampling):
        known["log_likelihood_variance"] = (("chain", "draw"), run.variance)
    stats = _stats(run, approximation, phases, seed)
    groups = None
    if isinstance(model, Hierarchical):
        owned = zip(kernels_of(used), getattr(used, "groups", (None,)), strict=True)
        modes = [(cast(GroupMode, one.initial), groups) for one, groups in owned]  # type: ignore[attr-defined]
        stats["groups"] = {
            "term": f"1|{model.group}",
            "count": len(model.levels),
            "prior": str(model.group_prior),
            "zero": modes[0][0].zero if len(modes) == 1 else None,
            "said": modes[0][0].said if len(modes) == 1 else f"their sd with prior {model.group_prior}",
        }
        groups = xr.Dataset(_facts(modes, len(model.levels)), coords={model.group: list(model.levels)})
    return Fit(
        posterior=posterior,
        sample_stats=xr.Dataset(known, coords=coordinates),
        stats=stats,
        formula=model.formula,
        family=model.family,
        offset=model.offset,
        has_offset=model.has_offset,
        groups=groups,
        calibration=calibration,
    )


def _stats(run: loop.Run, approximation: dict[str, Any], phases: Phases, seed: int | None) -> dict[str, Any]:
    """How the run went."""
    used, model = run.kernel, run.kernel.model
    inner = kernels_of(used)[0]
    screened = isinstance(inner, TwoStage) or (isinstance(inner, ReversibleJump) and inner.subchain > 0)
    return {
        "exact": used.exact,
        "approximation": approximation,
        "method": used.name,
        "why": used.why,
        "acceptance": run.acceptance,
        "rows_per_draw": run.rows_per_draw,
        "surrogate_rows_per_draw": run.surrogate_rows_per_draw,
        "seconds": phases.seconds,
        "rows": model.observations,
        "distinct_rows": model.rows.size,
        "surrogate": inner.surrogate.name if screened else None,  # type: ignore[attr-defined]
        "proposal": used.proposal.name,
        "subchain": getattr(inner, "subchain", None),
        "seed": seed,
        "interrupted": run.interrupted,
        "warnings": [],
        "doubts": [],
    }


def _approximated(
    run: loop.Run, phases: Phases, rng: np.random.Generator
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """The draws, those of shards being combined, and what is known of their error where a kernel is not exact."""
    used, model, theta = run.kernel, run.kernel.model, run.theta
    assert isinstance(model, GLM)
    names, facts = model.parameters, dict[str, Any]()
    if isinstance(used, Consensus):
        names = (*model.coefficients, names[-1]) if model.grouped else names
        with phases("combining"):
            theta, errors = combine_shards(used, theta, rng)
        facts = {"shards": len(used.kernels), "sharding": used.sharding, "combine": used.combiner}
        facts["inner"] = used.kernels[0].name
        told = f"{len(used.kernels)} shards; {COMBINED[used.combiner]}"
    elif isinstance(used, Subsampling):
        with phases("checking"):
            errors = seen(theta, model.log_posterior, POINTS, rng)
        facts = {"estimator": used.estimator.name, "size": used.size, "blocks": used.blocks}
        facts["variance"] = float(run.variance.mean())
        told = used.told(facts["variance"])
    else:
        return theta, {}
    return theta, {"said": [told, errors.said(names)], **facts, **errors.facts(names)}


def _facts(modes: list[tuple[GroupMode, NDArray[np.intp] | None]], count: int) -> dict[str, Any]:
    """What is known of each group besides its effect, from the modes of all rows or of the shards that have it."""
    found = [group_facts(mode) for mode, _ in modes]
    order = np.argsort(np.concatenate([np.arange(count) if groups is None else groups for _, groups in modes]))
    return {
        name: (dims, np.concatenate([one[name][1] for one in found])[order]) for name, (dims, _) in found[0].items()
    }


def _warmup(kernel: Kernel) -> int:
    """Draws for tuning and settling, unless a number was given."""
    if isinstance(kernel, ReversibleJump):
        return 1_000 if kernel.surrogate.partition is not None else 300
    slow = isinstance(kernel.proposal, OneAtATime | RandomWalk)
    return 500 if slow else 300 if isinstance(kernel, Grouped) else 200 if isinstance(kernel, Thinned) else 50


def _check_counts(**counts: tuple[Any, int]) -> None:
    """Refuse what is no whole number, or below its least value."""
    for name, (value, least) in counts.items():
        if value is not None and not (isinstance(value, int | np.integer) and value >= least):
            raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
