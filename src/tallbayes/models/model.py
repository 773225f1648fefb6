"""What the core asks of every model, and what a model makes of a run.

A model says how wide a parameter vector is, by what convergence is judged, and which result a run has; how kernels are
made for it is up to the set-up that it names (`sampling/setup.py`). Nobody asks which model it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.models.likelihood import Follower, Likelihood
from tallbayes.models.per_row import PerRow
from tallbayes.models.side_by_side import Parameters
from tallbayes.rows.protocol import Measure

Array = NDArray[np.float64]
Variables = tuple[dict[str, Any], dict[str, Any]]  # (dimensions, values) by name, and coordinates


class Sampled(Protocol):
    """A run that has ended."""

    @property
    def theta(self) -> Array:
        """Draws (chain, draw, width)."""

    @property
    def sample_stats(self) -> dict[str, Array]:
        """What is known of each draw (chain, draw), by name."""

    @property
    def stats(self) -> dict[str, Any]:
        """How the run went."""

    @property
    def seed(self) -> int | None:
        """Of the run."""

    @property
    def phases(self) -> Phases:
        """Seconds by phase."""

    @property
    def kernel(self) -> Any:
        """The kernel that was used."""

    @property
    def diagnostics(self) -> Any:
        """Those of `Model.watched` of all draws, if the run has looked at them; else None."""


class Result(NamedTuple):
    """What a fit is made of, as plain arrays; `kind` says which fit that is."""

    kind: str
    posterior: Variables
    sample_stats: dict[str, Array]
    stats: dict[str, Any]
    others: dict[str, Any]  # by name, as the fit of that kind takes them
    diagnostics: Any = None  # of the fit's `draws`, where they are known already


class AnyMode(Protocol):
    """What surrogates may ask of a mode."""

    @property
    def theta(self) -> Array:
        """The mode as a parameter vector."""

    @property
    def dense(self) -> Any:
        """The expansion with all second derivatives (`mode.py`); raises ValueError where there is none."""


class Model(Protocol):
    """A posterior distribution over parameter vectors."""

    @property
    def rows(self) -> Any:
        """The data."""

    @property
    def observations(self) -> int:
        """Rows that the data had before equal ones were merged."""

    @property
    def seconds(self) -> dict[str, float]:
        """That it took to make the model, by phase."""

    @property
    def setup(self) -> Any:
        """How methods make kernels for it: a class as in `sampling/setup.py`, or None for the usual one."""

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that is sampled, in the order of a parameter vector; of splines, those of the variables."""

    def variables(self, theta: Array) -> Variables:
        """Posterior variables and their coordinates, from draws (chain, draw, width)."""

    def watched(self, theta: Array) -> Parameters:
        """What convergence is judged by, from draws (chain, draw, width): what the fit has as its `draws`."""

    def result(self, run: Sampled) -> Result:
        """What the run has found."""

    def per_row(self, drawn: Mapping[str, Any]) -> PerRow:
        """The log-likelihood of single rows, by draws (draw, ...) of each posterior variable."""


class Posterior(Model, Protocol):
    """A model whose parameter vectors have a log-likelihood and a log prior: what Metropolis-Hastings needs."""

    whole: bool  # whether its rows are all that there are

    @property
    def sizes(self) -> Array:
        """Rows touched when one entry of a parameter vector moves, or (1,) for any."""

    @property
    def normal(self) -> bool:
        """Whether all priors are Normal, so that the posterior has the tails of one."""

    @property
    def row_cost(self) -> float:
        """What a row costs that is evaluated at a parameter vector, in columns of a regression."""

    def on(self, rows: Any) -> Likelihood:
        """The log-likelihood of some rows."""

    def log_likelihood(self, params: Array) -> Array:
        """Log-likelihood of each parameter vector: one pass over all rows."""

    def log_prior(self, params: Array) -> Array:
        """Log prior density of each parameter vector."""

    def log_posterior(self, params: Array) -> Array:
        """Log posterior density of each parameter vector, up to a constant: one pass over all rows."""

    def follow(self, by_column: bool) -> Follower:
        """The log-likelihood of chains that move one column at a time or all at once."""

    def measure(self, mode: AnyMode, outcome: float) -> Measure:
        """What rows without an event are drawn in proportion to, where the mean outcome is known."""

    def require_bounds(self, who: str) -> None:
        """Raise if rows have no bounds, and somebody needs them."""

    def part(self, rows: Any, share: float, groups: Any = None) -> Any:
        """The same model of some of the rows, with a share of the prior."""
