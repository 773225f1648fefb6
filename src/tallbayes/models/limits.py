"""How large and how small numbers may be, so that sums over all rows keep the digits that matter.

A number has 16 digits. What decides between two parameter vectors is a difference of about one between their log
posteriors, so these must not be so large that rounding hides it; and squares of what is summed must be numbers
themselves. Data beyond these limits are in the wrong units, or wrong: they are refused before anything is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.checks import SIZES
from tallbayes.models.priors import Prior
from tallbayes.rows.moments import Moments

Array = NDArray[np.float64]

WEIGHTS = (1e-6, 1e12)  # that all rows have together: less says nothing, with more rounding hides a log-likelihood of 1
OFFSETS = 100.0  # of a linear predictor whose exponential is a mean, odds or a hazard
LARGEST = 1e13  # a log posterior at its mode: the last digit of such a number is .002
WIDEST = 1e5  # linear predictors at a prior's mean; and how far it may let them go where outcomes are separated


class Weighed(Protocol):
    """Rows with weights."""

    @property
    def total_weight(self) -> float:
        """Of all rows."""


def check_columns(names: Sequence[str], largest: Array) -> None:
    """Refuse columns whose largest value is out of bounds; those that are all zero are another matter.

    >>> check_columns(["fico"], np.array([1e200]))
    Traceback (most recent call last):
    ValueError: column 'fico' reaches 1e+200 in size, but must reach between 1e-50 and 1e+50: its squares are...
    """
    for name, size in zip(names, largest.tolist(), strict=True):
        if size and not SIZES[0] <= size <= SIZES[1]:
            raise ValueError(
                f"column {name!r} reaches {size:.3g} in size, but must reach between {SIZES[0]:g} and {SIZES[1]:g}: "
                "its squares are summed; give it in other units"
            )


def check_weights(rows: Weighed, trials: str | None = None) -> None:
    """Refuse rows whose weights, or numbers of trials, are together too large or too small."""
    total = rows.total_weight
    if WEIGHTS[0] <= total <= WEIGHTS[1]:
        return
    what = "weights" if trials is None else f"the trials {trials!r}, times weights if there are any,"
    why = "rows say nothing" if total < 1 else "rounding hides what they say"
    raise ValueError(
        f"{what} add up to {total:.3g}, but must add up to between {WEIGHTS[0]:g} and {WEIGHTS[1]:g}: beyond that "
        f"{why}; a weight is how often a row counts"
    )


def check_height(log_likelihood: float, log_prior: float, outcome: str = "") -> None:
    """Refuse a mode where rounding hides differences of one in the log posterior.

    >>> check_height(-1e15, 0.0)
    Traceback (most recent call last):
    ValueError: the log-likelihood is -1e+15 where the posterior is highest, and so large that rounding hides...
    """
    for what, remedy, value in (
        ("log-likelihood", f"outcomes{outcome}, counts or weights are too large for this family", log_likelihood),
        ("log prior", "the prior is too narrow for how far it is from what the data say", log_prior),
    ):
        if not abs(value) <= LARGEST:
            raise ValueError(
                f"the {what} is {value:.3g} where the posterior is highest, and so large that rounding hides "
                f"differences of one (the limit is {LARGEST:g}); {remedy}"
            )


def check_means(coefficients: Sequence[str], prior: Prior, largest: Array) -> None:
    """Refuse priors with means so far out that the log-likelihood there has no digits left, or is not a number.

    >>> prior = Prior(*(np.array([one]) for one in (1e6, 1.0, np.inf, np.inf, 0.0)))
    >>> check_means(["fico"], prior, np.array([850.0]))
    Traceback (most recent call last):
    ValueError: the prior of 'fico' has its mean at 1e+06, where linear predictors reach 8.5e+08; the limit is 100000...
    """
    for name, mean, size in zip(coefficients, prior.mean.tolist(), largest.tolist(), strict=True):
        if not abs(mean) * size <= WIDEST:
            raise ValueError(
                f"the prior of {name!r} has its mean at {mean:.3g}, where linear predictors reach "
                f"{abs(mean) * size:.3g}; the limit is {WIDEST:g}: give the mean per unit of the column"
            )


def check_separated(coefficients: Sequence[str], separated: Sequence[str], prior: Prior, moments: Moments) -> None:
    """Refuse priors of coefficients that the data alone send to infinity, if they let linear predictors go very far.

    The posterior then is the prior cut off by all rows: its edges are sharp beside its size, and no proposal fits it.
    """
    for j in np.flatnonzero(wide(prior, moments)).tolist():
        if coefficients[j] in separated:
            scale, size = float(prior.scale[j]), float(_sizes(prior, moments)[j])
            raise ValueError(
                f"the data alone give no finite estimate of the coefficient of {coefficients[j]!r}, and its prior with "
                f"scale {scale:.3g} lets it change linear predictors by {scale * size:.3g}, where {WIDEST:g} is the "
                f"limit; give it a scale of {WIDEST / size:.2g} or less, or no prior: the defaults follow the columns"
            )


def wide(prior: Prior, moments: Moments) -> NDArray[np.bool_]:
    """Which coefficients have a prior that is too wide where the data alone send them to infinity."""
    return np.asarray(prior.scale * _sizes(prior, moments) > WIDEST)


def _sizes(prior: Prior, moments: Moments) -> Array:
    """How far a unit of each coefficient moves linear predictors, given the one that the intercept's prior is of."""
    return moments.reach if prior.means.any() else moments.largest
