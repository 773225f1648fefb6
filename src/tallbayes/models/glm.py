"""Generalised linear model: eta = X theta + offset, independent priors on theta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import families
from tallbayes.data import check, read
from tallbayes.families import Bernoulli
from tallbayes.formula import Formula
from tallbayes.likelihood import Direct, Follower
from tallbayes.phases import Phases
from tallbayes.priors import Normal, Prior
from tallbayes.rows import Derivatives, LogLikelihood, LogLikelihoodDerivatives, MemoryRows

Array = NDArray[np.float64]


class GLM:
    """A regression of one outcome on the columns of a formula.

    `data` is a pandas, polars or pyarrow table, a dict of arrays, or the path of CSV or Parquet files. `weights`
    (how many times each row counts) and `offset` (added to eta) are column names or arrays. `strata` names columns
    to keep with the rows for stratified subsamples.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> model.coefficients
    ('Intercept', 'x')
    >>> model.log_likelihood([[0.0, 0.0]]).round(3)
    array([-2.773])
    """

    def __init__(
        self,
        formula: str,
        data: Any,
        family: str | Bernoulli = "bernoulli",
        prior: Normal | Mapping[str, Normal] | None = None,
        *,
        weights: str | ArrayLike | None = None,
        offset: str | ArrayLike | None = None,
        strata: Sequence[str] = (),
    ) -> None:
        phases = Phases()
        with phases("design"):
            self._prepare(formula, data, family, prior, weights, offset, strata)
        self.seconds = phases.seconds

    def _prepare(
        self,
        formula: str,
        data: Any,
        family: str | Bernoulli,
        prior: Normal | Mapping[str, Normal] | None,
        weights: str | ArrayLike | None,
        offset: str | ArrayLike | None,
        strata: Sequence[str],
    ) -> None:
        named = [name for name in (weights, offset) if isinstance(name, str)]
        frame = read(data, list(dict.fromkeys([*Formula.parse(formula).columns, *named, *strata])))
        check(frame)
        self.formula, x, y = Formula.learn_checked(formula, frame)
        self.family = families.resolve(family)
        self.coefficients: tuple[str, ...] = self.formula.coefficients
        self.prior = Prior.of(prior, self.coefficients)
        self.offset = offset if isinstance(offset, str) else None
        self.has_offset = offset is not None
        self.observations = y.size
        row_weights = _per_row("weights", weights, frame, y.size)
        row_offset = _per_row("offset", offset, frame, y.size)
        codes = {name: frame[name].astype("category").cat.codes.to_numpy() for name in strata}
        if row_weights is not None:
            if (row_weights < 0).any() or not row_weights.any():
                raise ValueError(
                    f"weights must be positive or zero, and some positive; the smallest is {row_weights.min():g} "
                    f"(row {int(row_weights.argmin())})"
                )
            if not row_weights.all():  # a row with weight 0 says nothing
                keep = row_weights > 0
                x, y, row_weights = x[:, keep], y[keep], row_weights[keep]
                row_offset = None if row_offset is None else row_offset[keep]
                codes = {name: code[keep] for name, code in codes.items()}
        self.family.check(y, self.formula.outcome)
        self.rows = MemoryRows(x, y, row_weights, row_offset, codes).collapsed()
        self.rows.touched = 0

    def log_likelihood(self, params: ArrayLike) -> Array:
        """Log-likelihood of each parameter vector: one pass over all rows."""
        return np.asarray(self.rows.sum(LogLikelihood(self.family.tag), params))

    def derivatives(self, params: ArrayLike) -> Derivatives:
        """Log-likelihood, its gradient and minus its curvature at each parameter vector: one pass over all rows."""
        found: Derivatives = self.rows.sum(LogLikelihoodDerivatives(self.family.tag), params)
        return found

    def log_prior(self, params: Array) -> Array:
        """Log prior density of each parameter vector."""
        return self.prior.log_density(params)

    def follow(self, theta: Array, by_column: bool) -> Follower:
        """The log-likelihood of chains at the rows of theta, which move one column at a time or all at once."""
        return self.rows.track(self.family.tag, theta) if by_column else Direct(self.log_likelihood, theta)


def _per_row(what: str, given: Any, frame: Any, size: int) -> Array | None:
    """Weights or offsets as an array: a column of the frame, or what the user gave."""
    if given is None:
        return None
    try:
        values = np.asarray(frame[given] if isinstance(given, str) else given, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be numbers: a column's name or one number per row") from None
    if values.shape != (size,):
        raise ValueError(f"{what} has shape {values.shape}, but the data has {size} rows")
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(f"{what} has {int(bad.sum())} missing or infinite values (first at row {int(bad.argmax())})")
    return values
