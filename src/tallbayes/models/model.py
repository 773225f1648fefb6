"""What the core asks of every model, and what a model makes of a run.

A model says how wide a parameter vector is, by what convergence is judged, and which result a run has; how kernels are
made for it is up to the set-up that it names (`sampling/setup.py`). Nobody asks which model it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.timing import Phases
from tallbayes.models.side_by_side import Parameters

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

    def variables(self, theta: Array) -> Variables:
        """Posterior variables and their coordinates, from draws (chain, draw, width)."""

    def watched(self, theta: Array) -> Parameters:
        """What convergence is judged by, from draws (chain, draw, width): what the fit has as its `draws`."""

    def result(self, run: Sampled) -> Result:
        """What the run has found."""
