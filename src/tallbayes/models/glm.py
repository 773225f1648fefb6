"""Generalised linear model: eta = X theta + offset, independent priors on theta."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import families
from tallbayes.data.formula import Formula, Parsed
from tallbayes.data.frames import check, read
from tallbayes.data.timing import Phases
from tallbayes.families import Family, Poisson
from tallbayes.models.likelihood import Direct, Follower
from tallbayes.models.model import Result, Sampled, Variables
from tallbayes.models.priors import AnyPrior, Prior
from tallbayes.rows.calibration import by_predictor, calibrate
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.tasks import Derivatives, LogLikelihood, LogLikelihoodDerivatives
from tallbayes.rows.track import Track

Array = NDArray[np.float64]


class Design(NamedTuple):
    """Columns, what they are called, and what some families know of each row besides its outcome."""

    columns: Columns
    outcome: str
    coefficients: tuple[str, ...]
    group: str | None = None
    levels: Sequence[Any] = ()
    trials: Array | None = None
    exposure: Array | None = None


class GLM:
    """A regression of one outcome on the columns of a formula.

    `data` is a pandas, polars or pyarrow table, a dict of arrays, or the path of CSV or Parquet files. `weights`
    (how many times each row counts) and `offset` (added to eta) are column names or arrays. `strata` names columns
    to keep with the rows for stratified subsamples. A formula may come parsed already.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> model.coefficients
    ('Intercept', 'x')
    >>> model.log_likelihood([[0.0, 0.0]]).round(3)
    array([-2.773])
    """

    grouped = False
    whole = True  # a part of the rows may lack levels that all of them have
    setup: Any = None  # the usual one

    def __init__(
        self,
        formula: str | Parsed,
        data: Any,
        family: str | Family = "bernoulli",
        prior: AnyPrior | None = None,
        *,
        weights: str | ArrayLike | None = None,
        offset: str | ArrayLike | None = None,
        strata: Sequence[str] = (),
    ) -> None:
        phases = Phases()
        with phases("design"):
            parsed = Formula.parse(formula) if isinstance(formula, str) else formula
            if self.grouped != (parsed.group is not None):
                needs, is_for = ("no", "tb.GLM") if self.grouped else ("a", "tb.Hierarchical")
                raise ValueError(
                    f"the formula {parsed.text!r} has {needs} group term (1 | g); {is_for} is for such formulas"
                )
            kind = families.resolve(family)
            trials, exposure = getattr(kind, "trials", None), getattr(kind, "exposure", None)
            named = [name for name in (weights, offset, trials, exposure) if isinstance(name, str)]
            frame = check(read(data, [*parsed.columns, *named, *strata]))
            learned, x, y = Formula.learn_checked(parsed, frame)
            codes = {name: frame[name].astype("category").cat.codes.to_numpy() for name in strata}
            if learned.group is not None:
                codes[learned.group] = learned.group_codes_checked(frame)
            given = partial(_per_row, frame, y.size)
            columns = Columns(x, y, given("weights", weights), given("offset", offset), codes)
            names = learned.outcome, learned.coefficients, learned.group, learned.group_levels
            self._set(Design(columns, *names, given("trials", trials), given("exposure", exposure)), kind, prior)
        self.formula: Formula | None = learned
        self.offset = offset if isinstance(offset, str) else None
        self.seconds = phases.seconds

    @classmethod
    def from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        family: str | Family = "bernoulli",
        prior: AnyPrior | None = None,
        *,
        coefficients: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> GLM:
        """The model of a design matrix X (rows, columns) that you made yourself, intercept included.

        Columns that lie contiguous in memory (order="F") are used without a copy. Coefficients are named x0, x1, ...
        unless you name them.

        >>> model = GLM.from_arrays([[1.0, 0.2], [1.0, 0.9], [1.0, 0.4]], [0, 1, 0])
        >>> model.coefficients
        ('x0', 'x1')
        """
        self = cls.__new__(cls)
        self._from_arrays(X, y, family, prior, coefficients, weights, offset)
        return self

    def _from_arrays(
        self,
        X: ArrayLike,
        y: ArrayLike,
        family: str | Family,
        prior: AnyPrior | None,
        coefficients: Sequence[str] | None,
        weights: ArrayLike | None,
        offset: ArrayLike | None,
        groups: tuple[NDArray[np.intp], Sequence[Any]] | None = None,
    ) -> None:
        """`groups`, if any, are the number of each row's group and the names of all groups."""
        phases = Phases()
        with phases("design"):
            x, outcome = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
            if x.ndim != 2 or outcome.shape != x.shape[:1] or not x.size:
                raise ValueError(f"X must be (rows, columns) and y (rows,), but they are {x.shape} and {outcome.shape}")
            names = tuple((f"x{j}" for j in range(x.shape[1])) if coefficients is None else map(str, coefficients))
            if not len(names) == len(set(names)) == x.shape[1]:
                raise ValueError(f"X has {x.shape[1]} columns, so there must be as many different coefficient names")
            for name, values in (*zip(names, x.T, strict=True), ("y", outcome)):
                if not np.isfinite(values.sum()):
                    raise ValueError(f"{name!r} has missing or infinite values, or is too large to sum")
            kind = families.resolve(family)
            if getattr(kind, "trials", None) or getattr(kind, "exposure", None):
                raise ValueError(
                    f"{kind} names a column, but arrays have none: give each row twice with y=1 and y=0 and weights "
                    "instead of trials, or offset=np.log(exposure)"
                )
            given, x = partial(_per_row, None, outcome.size), np.ascontiguousarray(x.T)
            columns = Columns(x, outcome, given("weights", weights), given("offset", offset), {})
            design = Design(columns, "y", names)
            if groups is not None:
                codes, levels = groups
                design = Design(columns._replace(strata={"group": codes}), "y", names, "group", levels)
            self._set(design, kind, prior)
        self.formula, self.offset, self.seconds = None, None, phases.seconds

    def _set(self, design: Design, family: Family, prior: AnyPrior | None) -> None:
        """What the two ways to make a model have in common, from the design on."""
        (x, y, weights, offset, codes), trials, group = design.columns, design.trials, design.group
        self.family = family
        self.coefficients = design.coefficients
        self.prior = Prior.of(prior, self.coefficients)
        self._group, self.levels = group or "", tuple(design.levels)
        self.has_offset = offset is not None
        self.observations = y.size
        if design.exposure is not None:
            assert isinstance(family, Poisson)
            offset = family.log_exposure(design.exposure) + (0.0 if offset is None else offset)
        if weights is not None and ((weights < 0).any() or not weights.any()):
            raise ValueError(
                f"weights must be positive or zero, and some positive; the smallest is {weights.min():g} "
                f"(row {int(weights.argmin())})"
            )

        def heard(values: Array) -> Array:
            """A row with weight 0 says nothing: it gets the value of another, so that the others keep their numbers."""
            return values if weights is None else np.where(weights > 0, values, values[weights.argmax()])

        family.check(heard(y), design.outcome, *([] if trials is None else [heard(trials)]))
        if trials is not None:
            counts = np.concatenate([y, trials - y])  # as rows with y=1 and with y=0
            weights = counts if weights is None else counts * np.tile(weights, 2)
            x, y = np.tile(x, 2), np.repeat([1.0, 0.0], y.size)
            offset = None if offset is None else np.tile(offset, 2)
            codes = {name: np.tile(code, 2) for name, code in codes.items()}
        keep = np.arange(y.size) if weights is None else np.flatnonzero(weights)
        if group is not None:
            keep = keep[_order(codes[group][keep], len(self.levels))]
        columns = Columns(x, y, weights, offset, codes)
        if keep.size < y.size or group is not None:
            columns = columns.take(keep)
        self.rows: RowsAtHand = MemoryRows(*columns.without_duplicates(), group, len(self.levels))

    def log_likelihood(self, params: ArrayLike) -> Array:
        """Log-likelihood of each parameter vector: one pass over all rows."""
        return np.asarray(self.rows.reduce(LogLikelihood(self.family.tag), params))

    def derivatives(self, params: ArrayLike) -> Derivatives:
        """Log-likelihood, its gradient and minus its curvature at each parameter vector: one pass over all rows."""
        return self.rows.reduce(LogLikelihoodDerivatives(self.family.tag), params)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that is sampled, in the order of a parameter vector."""
        return self.coefficients

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""
        return self.rows.width

    def watched(self, theta: Array) -> Array:
        """What convergence is judged by, from draws (chain, draw, parameter)."""
        return theta

    def result(self, run: Sampled) -> Result:
        """The draws by name, predictions held against outcomes, and what is needed to predict."""
        with run.phases("calibration"):
            calibration = calibrate(by_predictor(self.rows, run.theta.mean((0, 1))), self.family)
        others: dict[str, Any] = {"formula": self.formula, "family": self.family, "calibration": calibration}
        others |= {"offset": self.offset, "has_offset": self.has_offset}
        posterior = self.variables(run.theta)
        return Result("regression", posterior, run.sample_stats, run.stats, others, run.diagnostics)

    def variables(self, theta: Array) -> Variables:
        """Posterior variables and their coordinates, from draws (chain, draw, parameter)."""
        return {"beta": (("chain", "draw", "coefficient"), theta)}, {"coefficient": list(self.coefficients)}

    def part(self, rows: RowsAtHand, share: float, groups: NDArray[np.intp] | None = None) -> Self:
        """The same model of some of the rows, and of some of the groups if there are any, with a share of the prior.

        That is the prior to the power `share`, so that the posteriors of all parts multiply to that of the whole.
        """
        model = copy(self)
        model.rows, model.prior, model.whole = rows, self.prior.to_the_power(share), False
        return model

    def log_prior(self, params: Array) -> Array:
        """Log prior density of each parameter vector."""
        return self.prior.log_density(params)

    def log_posterior(self, params: Array) -> Array:
        """Log posterior density of each parameter vector, up to a constant: one pass over all rows."""
        return np.asarray(self.log_likelihood(params) + self.log_prior(params))

    @property
    def sizes(self) -> Array:
        """Rows touched when one entry of a parameter vector moves."""
        return self.rows.keep(Track, self.family.tag).sizes

    def follow(self, by_column: bool) -> Follower:
        """The log-likelihood of chains that move one column at a time or all at once."""
        return self.rows.keep(Track, self.family.tag) if by_column else Direct(self.log_likelihood)


def _order(codes: NDArray[Any], groups: int) -> NDArray[np.intp]:
    """The order that brings each group's rows together; small numbers are sorted fastest."""
    return np.argsort(codes.astype(np.uint16) if groups <= 1 << 16 else codes, kind="stable")


def _per_row(frame: Any, size: int, what: str, given: Any) -> Array | None:
    """What was given for each row: a column of the frame, which has been checked with the others, or other numbers."""
    if given is None:
        return None
    named = isinstance(given, str)
    try:
        values = np.asarray(frame[given] if named else given, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be numbers: a column's name or one number per row") from None
    if named:
        return values
    if values.shape != (size,):
        raise ValueError(f"{what} has shape {values.shape}, but the data has {size} rows")
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(f"{what} has {int(bad.sum())} missing or infinite values (first at row {int(bad.argmax())})")
    return values
