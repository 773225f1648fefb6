"""Methods: values that say how to sample, each with its own options.

An option that does not belong to a method cannot be given to it. What can be checked without data is checked when a
method is made, the rest where the model is known (`setup.py`). The short names stand for the methods' defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tallbayes.data.options import check_choice, check_kind, check_text, check_whole, refuse
from tallbayes.data.timing import Phases
from tallbayes.models.model import Model
from tallbayes.rows.sharding import SHARDINGS
from tallbayes.sampling.combine import COMBINERS
from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
from tallbayes.sampling.kernel import Kernel
from tallbayes.sampling.seeds import Seed
from tallbayes.sampling.setup import setup_for
from tallbayes.sampling.surrogate import AnySurrogate, columns_of, described

PROPOSAL = "the name of a proposal, such as 'random-walk'"
LONGEST_SUBCHAIN = 1_000  # steps before each look at all rows: more would only hide how far a run is
MOST_SHARDS = 10_000  # each has a kernel and a warm-up of its own


class Method(Protocol):
    """Says how to sample."""

    @property
    def exact(self) -> bool:
        """Whether its draws follow the posterior itself."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that it needs besides those of the formula."""

    def kernel(self, model: Any, seed: Seed = None, phases: Phases | None = None) -> Kernel:
        """The kernel for a model: the mode is found and the surrogate built, and seconds are added to the phases."""


@dataclass(frozen=True)
class Auto:
    """Chooses the exact method that should cost least; the fit says why. For groups and splines the choice is fixed.

    >>> import tallbayes as tb
    >>> model = tb.GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> Auto().kernel(model, seed=1).name
    'thinned'
    """

    exact = True
    columns = ()

    def kernel(self, model: Model, seed: Seed = None, phases: Phases | None = None) -> Kernel:
        """See `Method`."""
        return setup_for(model, seed, phases).auto()


@dataclass(frozen=True)
class Thinned:
    """Two-stage Metropolis-Hastings whose second stage looks at only a handful of rows a draw. Exact."""

    exact = True
    columns = ()

    def kernel(self, model: Model, seed: Seed = None, phases: Phases | None = None) -> Kernel:
        """See `Method`."""
        return setup_for(model, seed, phases).thinned()


@dataclass(frozen=True)
class MH:
    """Metropolis-Hastings, which looks at all rows for every proposal. Exact.

    `proposal` is "random-walk" unless given, "one-at-a-time", "independence" or "mixture" (of the first and the
    third); for group terms "one-at-a-time", for splines "informed" or "random-walk".

    >>> MH(proposal="one-at-a-time")
    MH(proposal='one-at-a-time')
    """

    proposal: str | None = None
    exact = True
    columns = ()

    def __post_init__(self) -> None:
        check_text("proposal", self.proposal, PROPOSAL, optional=True)

    def kernel(self, model: Model, seed: Seed = None, phases: Phases | None = None) -> Kernel:
        """See `Method`."""
        return setup_for(model, seed, phases).metropolis(self.proposal)


@dataclass(frozen=True)
class TwoStage:
    """Two-stage Metropolis-Hastings, which looks at all rows only for proposals that pass a surrogate. Exact.

    `surrogate` is `tb.Taylor()` unless given, `tb.CaseControl`, `tb.Subsample`, `tb.Stratified`, or any function of a
    parameter vector that approximates the log-likelihood; for group terms `tb.Stratified` by group, for splines
    `tb.Cells()`. `proposal` is as for `tb.MH`. `subchain` is the number of screened steps before each look at all
    rows; 0: all rows decide on each update.

    >>> import tallbayes as tb
    >>> TwoStage(tb.CaseControl(10_000), subchain=5)
    TwoStage(surrogate=CaseControl(size=10000, uniform=False), proposal=None, subchain=5)
    """

    surrogate: AnySurrogate | None = None
    proposal: str | None = None
    subchain: int | None = None
    exact = True

    def __post_init__(self) -> None:
        check_text("proposal", self.proposal, PROPOSAL, optional=True)
        check_whole("subchain", self.subchain, 0, LONGEST_SUBCHAIN, optional=True)
        if self.surrogate is not None:
            described(self.surrogate)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Method`."""
        return columns_of(self.surrogate)

    def kernel(self, model: Model, seed: Seed = None, phases: Phases | None = None) -> Kernel:
        """See `Method`."""
        surrogate = None if self.surrogate is None else described(self.surrogate)
        return setup_for(model, seed, phases).two_stage(surrogate, self.proposal, self.subchain)


@dataclass(frozen=True)
class Consensus:
    """Consensus Monte Carlo: samples each shard of the rows on its own and combines their draws. Approximate.

    `inner` is the exact method on each shard, `tb.Auto()` unless given: a value or its name. `sharding` is "random",
    "stratified" by the levels of 0/1 columns, with rare levels kept together, or whole "groups" of a group term.
    `combine` is "average" of the shards' draws, weighted by precision, or "gaussian": draws from the product of
    Gaussians, resampled with importance weights from all rows. `workers` are threads that work on shards; all cores
    unless given. They do not change the draws.

    >>> Consensus(8, inner=MH())
    Consensus(shards=8, inner=MH(proposal=None), sharding=None, combine=None, workers=None)
    """

    shards: int = 14
    inner: Any = None
    sharding: str | None = None
    combine: str | None = None
    workers: int | None = None
    exact = False

    def __post_init__(self) -> None:
        check_whole("shards", self.shards, 1, MOST_SHARDS)
        check_whole("workers", self.workers, optional=True)
        check_choice("sharding", self.sharding, SHARDINGS, optional=True)
        check_choice("combine", self.combine, COMBINERS, optional=True)
        inner = named("auto" if self.inner is None else self.inner, INNER, "inner")
        if not inner.exact:
            raise ValueError(f"inner must be an exact method, not {inner!r}; choose one of {', '.join(INNER)}")
        object.__setattr__(self, "inner", inner)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the inner method."""
        return tuple(self.inner.columns)

    def kernel(self, model: Model, seed: Seed = None, phases: Phases | None = None) -> Kernel:
        """See `Method`."""
        return setup_for(model, seed, phases).consensus(self)


@dataclass(frozen=True)
class Subsampling:
    """Subsampling Metropolis-Hastings: the log-likelihood is estimated from some rows. Approximate.

    `estimator` is `tb.TaylorProxy()` unless given, or the paper's `tb.SplineProxy`.

    >>> Subsampling(SplineProxy(7_000))
    Subsampling(estimator=SplineProxy(size=7000, points=1000))
    """

    estimator: TaylorProxy | SplineProxy | None = None
    exact = False
    columns = ()

    def __post_init__(self) -> None:
        ours = (TaylorProxy, SplineProxy)
        check_kind("estimator", self.estimator, ours, "tb.TaylorProxy or tb.SplineProxy", optional=True)

    def kernel(self, model: Model, seed: Seed = None, phases: Phases | None = None) -> Kernel:
        """See `Method`."""
        return setup_for(model, seed, phases).subsampling(self.estimator or TaylorProxy())


KINDS: dict[str, type[Any]] = {
    "auto": Auto,
    "thinned": Thinned,
    "two-stage": TwoStage,
    "mh": MH,
    "consensus": Consensus,
    "subsampling": Subsampling,
}
METHODS = tuple(KINDS)
INNER = ("auto", "thinned", "two-stage", "mh")


def named(method: str | Method, choices: tuple[str, ...] = METHODS, what: str = "method") -> Method:
    """The method itself, or the one of that name with its defaults.

    >>> named("mh")
    MH(proposal=None)
    """
    if isinstance(method, str):
        check_choice(what, method, choices)
        found: Method = KINDS[method]()
        return found
    if not hasattr(method, "kernel") or isinstance(method, type):
        refuse(what, f"one of {', '.join(map(repr, choices))}, or a value such as tb.TwoStage(subchain=5)", method)
    return method
