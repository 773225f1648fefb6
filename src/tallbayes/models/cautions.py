"""What a fit warns of: coefficients that the data alone do not settle, and priors that are at odds with the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.models.collinear import COLLINEAR
from tallbayes.rows.moments import Moments
from tallbayes.rows.tasks import Derivatives

Array = NDArray[np.float64]

WALK = 25  # Newton steps after which a coefficient that still moves has no maximum
STILL, ENDLESS = 0.01, 0.2  # moves of the largest linear predictor: none, and one that goes on
LITTLE = 1e-6  # gain in log-likelihood too small to walk for, and still far larger than rounding errors of 10^8 rows
FLAT = 1e-9  # share of a direction's curvature at zero below which rounding decides where it points
PULLED = 0.5  # standard errors by which a prior may move a coefficient without a word


class SeparationWarning(UserWarning):
    """The data alone give no finite estimate of a coefficient; the prior decides."""


class TailWarning(UserWarning):
    """A Student-t prior gives the posterior tails or modes that this sampler cannot be trusted to visit."""


class PriorWarning(UserWarning):
    """A prior moves a coefficient by more than half a standard error of what the data alone say."""


_NOTES: ContextVar[list[Warning] | None] = ContextVar("_NOTES", default=None)


@contextmanager
def noting() -> Iterator[list[Warning]]:
    """Note what is warned of instead of warning.

    Python could record warnings, too, but for the whole process: fits in several threads would have each other's.
    """
    notes = list[Warning]()
    before = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(before)


def warn(message: str, kind: type[Warning]) -> None:
    """Warn of something, or have it noted.

    >>> with noting() as notes:
    ...     warn("long tails", TailWarning)
    >>> notes
    [TailWarning('long tails')]
    """
    notes = _NOTES.get()
    if notes is None:
        warnings.warn(message, kind, stacklevel=4)
    else:
        notes.append(kind(message))


def warn_of_heavy_priors(coefficients: Sequence[str], flat: Array, modes: int, method: str) -> None:
    """Warn that a method has no proposals for flat directions (p, f) under Student-t priors, or for further modes."""
    if flat.size:
        names = ", ".join(repr(name) for name, row in zip(coefficients, flat, strict=True) if row.any())
        warn(
            f"the data give no finite estimate of {names}, and the Student-t prior has long tails there, which method "
            f"{method!r} may take forever to visit: these intervals cannot be vouched for; use method='thinned'",
            TailWarning,
        )
    if modes > 1:
        warn(
            f"a Student-t prior much narrower than the likelihood gives the posterior {modes} modes, between which "
            f"method {method!r} may never move: how much each weighs cannot be vouched for",
            TailWarning,
        )


class Top(Protocol):
    """Where a climb ended, and what was seen there."""

    @property
    def theta(self) -> Array:
        """The point."""

    @property
    def here(self) -> Derivatives:
        """The derivatives there."""


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # where nothing curves, as far away as priors may drive
def warn_of_separation(
    coefficients: Sequence[str],
    derivatives: Callable[[Array], Derivatives],
    top: Top,
    moments: Moments,
    start: Derivatives,
) -> list[str]:
    """Warn of coefficients that the likelihood alone would send to infinity, and return their names.

    Newton's method goes on from the mode without the prior. A finite maximum is soon reached: steps get short. On the
    way to infinity each step moves the linear predictor of the rows that matter by about one, for ever less gain. That
    is seen long before the gain drowns in rounding errors, after which steps say nothing.
    """
    theta, here, before = top.theta, top.here, np.inf
    weightless = FLAT * _spectrum(start.curvature[0])[1][0]
    for _ in range(WALK):
        scale, values, vectors = _spectrum(here.curvature[0])
        slope = vectors.T @ (scale * here.gradient[0])
        step = scale * (vectors @ (slope / np.maximum(values, np.finfo(float).eps)))
        move = moments.moves(step).max()
        if move < STILL:
            return []
        if step @ here.gradient[0] < LITTLE and move > 0.8 * before:
            break
        if values[0] < weightless:
            step = scale * vectors[:, 0]
            step /= moments.moves(step).max()
            break
        part, before = 1.0, move
        while (found := derivatives(theta + part * step)).value[0] < here.value[0] and part > 1e-6:
            part /= 4
        if found.value[0] < here.value[0]:  # as high as rounding lets us get
            break
        theta, here = theta + part * step, found
    endless = np.abs(step) * moments.reach > ENDLESS
    separated = [name for name, goes_on in zip(coefficients, endless, strict=True) if goes_on]
    for name in separated:
        warn(
            f"the data alone give no finite estimate of the coefficient of {name!r} (it separates the outcomes, or "
            "one of its levels has only zeros or only ones); its posterior depends on the prior",
            SeparationWarning,
        )
    return separated


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def warn_of_pull(coefficients: Sequence[str], curvature: Array, pull: Array, separated: Sequence[str]) -> None:
    """Warn where the prior moves coefficients far from where the data alone would have them.

    At the mode the likelihood climbs as steeply as the prior falls; one Newton step without the prior says how far away
    its maximum is. Coefficients for which it has none have been warned of.
    """
    scale, values, vectors = _spectrum(curvature)
    inverse = (vectors / np.maximum(values, COLLINEAR)) @ vectors.T
    moved = np.abs(inverse @ (scale * pull)) / np.sqrt(np.diag(inverse))
    far = [j for j in np.argsort(-moved) if moved[j] > PULLED and coefficients[j] not in separated]
    if far:
        shown = ", ".join(f"{coefficients[j]!r} by {moved[j]:.1f}" for j in far[:5])
        more = f" and {len(far) - 5} more by over {PULLED}" if len(far) > 5 else ""
        warn(
            f"the prior moves {shown}{more} standard errors away from what the data alone say; if you did not "
            "intend that, give wider priors, or none: the defaults follow each column's scale",
            PriorWarning,
        )


def _spectrum(curvature: Array) -> tuple[Array, Array, Array]:
    """What gives the curvature a unit diagonal, and its eigenvalues (ascending) and eigenvectors then."""
    scale = 1 / np.sqrt(np.diag(curvature))
    values, vectors = np.linalg.eigh(curvature * np.outer(scale, scale))
    return scale, values, vectors
