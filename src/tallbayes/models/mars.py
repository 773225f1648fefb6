"""Bayesian MARS for classification: eta(x) = b0 + sum of b_m B_m(x), bases B_m as in `basis.py`, logit link.

The number of bases, the bases and the coefficients are all unknown. Priors: k uniform on 0..most (or a truncated
Poisson), bases by the law of `basis.py`, b0 ~ N(0, 10^2), b_m ~ N(0, 1 / lambda), lambda ~ Gamma(shape, rate).

A parameter vector has a fixed width, so that draws of varying dimension fit into one array: k, lambda, the intercept,
the coefficients, and the bases, a row of numbers each; what lies beyond k is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.basis import MOST, WIDTH, Reference, Splines
from tallbayes.data import check, read
from tallbayes.families import Bernoulli
from tallbayes.formula import Formula
from tallbayes.phases import Phases
from tallbayes.rows import MemoryRows
from tallbayes.sheet import Sheet

Array = NDArray[np.float64]

INTERCEPT_SD = 10.0


def splines(theta: Array, most: int) -> Splines:
    """The splines of parameter vectors (..., width), in one row."""
    flat = theta.reshape(-1, theta.shape[-1])
    bases = np.ascontiguousarray(flat[:, most + 3 :]).reshape(len(flat), most, WIDTH)
    return Splines(flat[:, 0].astype(np.intp), np.ascontiguousarray(flat[:, 2 : most + 3]), bases)


class MARS:
    """A spline regression of an outcome 0 or 1.

    Give a formula and data, of which every column of the design but the intercept is a variable, or a matrix X (rows,
    variables) and outcomes y. `max_interaction` is the most variables in a basis, `max_bases` the most bases;
    `expected_bases` makes the prior of their number a Poisson instead of uniform. `precision` are shape and rate of the
    Gamma prior of lambda. Of the `reference` rows, drawn once with `seed`, a basis takes its knots and its scale, and
    at least `min_rows` must not be zero in it. `memory` bytes may be used to keep columns of bases.

    >>> X = np.random.default_rng(0).random((500, 2))
    >>> model = MARS(X, X[:, 0] > 0.5)
    >>> model.names
    ('x0', 'x1')
    """

    def __init__(
        self,
        formula: str | ArrayLike,
        data: Any,
        *,
        max_interaction: int = 3,
        max_bases: int = 20,
        expected_bases: float | None = None,
        precision: tuple[float, float] = (0.5, 0.5),
        reference: int = 2_000,
        min_rows: int = 20,
        memory: float = 1e9,
        watched: int = 20,
        names: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        for name, value, least in (
            ("max_interaction", max_interaction, 1),
            ("max_bases", max_bases, 1),
            ("reference", reference, 2),
            ("min_rows", min_rows, 1),
            ("watched", watched, 1),
        ):
            if not (isinstance(value, int | np.integer) and value >= least):
                raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
        if max_interaction > MOST:
            raise ValueError(f"max_interaction must be at most {MOST}, not {max_interaction}")
        if not (len(precision) == 2 and min(precision) > 0):
            raise ValueError(f"precision must be a positive shape and rate, not {precision!r}")
        if expected_bases is not None and not expected_bases > 0:
            raise ValueError(f"expected_bases must be positive, not {expected_bases!r}")
        if not memory >= 0:
            raise ValueError(f"memory must be a number of bytes, not {memory!r}")
        phases = Phases()
        with phases("design"):
            self.formula: Formula | None = None
            if isinstance(formula, str):
                parsed = Formula.parse(formula)
                if parsed.group is not None:
                    raise ValueError(
                        f"the formula {formula!r} has a group term, which splines cannot have; leave it out"
                    )
                frame = read(data, list(parsed.columns))
                check(frame)
                self.formula, x, y = Formula.learn_checked(formula, frame)
                kept = [j for j, name in enumerate(self.formula.coefficients) if name != "Intercept"]
                if not kept:
                    raise ValueError(f"the formula {formula!r} has no variables; a spline needs at least one variable")
                x, names, outcome = x[kept], [self.formula.coefficients[j] for j in kept], self.formula.outcome
            else:
                x, y, outcome = np.asarray(formula, dtype=float).T, np.asarray(data, dtype=float), "y"
            if x.ndim != 2 or y.shape != x.shape[1:] or not x.size:
                raise ValueError(f"X must be (rows, variables) and y (rows,), but they are {x.T.shape} and {y.shape}")
            self.names = tuple(f"x{j}" for j in range(len(x))) if names is None else tuple(map(str, names))
            if not len(self.names) == len(set(self.names)) == len(x):
                raise ValueError(f"X has {len(x)} columns, so there must be as many different names")
            for name, values in (*zip(self.names, x, strict=True), (outcome, y)):
                if not np.isfinite(values.sum()):
                    raise ValueError(f"{name!r} has missing or infinite values, or is too large to sum")
            self.family = Bernoulli()
            self.family.check(y, outcome)
            self.rows = MemoryRows(x, y)
            self.rows.touched = 0
        chosen = np.sort(np.random.default_rng(seed).choice(y.size, min(reference, y.size), replace=False))
        values = np.ascontiguousarray(x[:, chosen], dtype=float)
        if not np.ptp(values, axis=1).any():
            raise ValueError(
                f"no variable takes values that differ among {chosen.size:,} rows, so there is nothing to fit"
            )
        self.observations, self.most, self.memory, self.precision = y.size, int(max_bases), memory, precision
        fewest = min(min_rows, max(1, chosen.size // 10))
        degree = min(max_interaction, len(x), MOST)
        self.reference = Reference(values, np.sort(values, axis=1), degree, fewest)
        self.reference_sheet = Sheet.of_rows(values, y[chosen].astype(float), np.ones(chosen.size))
        counts = np.arange(self.most + 1)
        self.log_k = np.zeros(self.most + 1)
        if expected_bases is not None:
            self.log_k = counts * math.log(expected_bases) - np.array([math.lgamma(k + 1) for k in counts])
        self.points = values[:, np.linspace(0, chosen.size - 1, min(watched, chosen.size)).astype(int)]
        self.seconds = phases.seconds

    def watched(self, theta: Array) -> Array:
        """What convergence is judged by, from draws (chain, draw, width): k, lambda, and the log-odds of a few rows."""
        log_odds = splines(theta, self.most).each(self.points).reshape(*theta.shape[:2], -1)
        return np.concatenate([theta[..., :2], log_odds], axis=2)

    @property
    def nothing(self) -> Array:
        """The parameter vector without any basis, at the share of ones that the reference rows have."""
        theta, (ones, rows) = np.zeros(self.width), (self.reference_sheet.y.sum(), self.reference_sheet.y.size)
        theta[1], theta[2] = self.precision[0] / self.precision[1], math.log((ones + 0.5) / (rows - ones + 0.5))
        return theta

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""
        return 3 + self.most * (1 + WIDTH)
