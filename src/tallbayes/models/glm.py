"""Generalised linear model: eta = X theta + offset, independent priors on theta."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import families
from tallbayes.data.formula import Formula
from tallbayes.data.frames import DROP, check, read
from tallbayes.data.missing import CHOICES, leave_out
from tallbayes.data.outcome import said
from tallbayes.data.parsed import Parsed
from tallbayes.data.timing import Phases
from tallbayes.families import Bernoulli, Family, Poisson
from tallbayes.models import collinear as dependence
from tallbayes.models.design import Design, named, numbers, parse_for, per_row, priors_of, without
from tallbayes.models.first import First, first_pass
from tallbayes.models.likelihood import Direct, Follower
from tallbayes.models.model import Result, Sampled, Variables
from tallbayes.models.priors import AnyPrior, GivenPrior, Prior, without_texts
from tallbayes.rows.calibration import by_predictor, calibrate
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.moments import Moments
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.tasks import Derivatives, LogLikelihood, LogLikelihoodDerivatives
from tallbayes.rows.track import Track

Array = NDArray[np.float64]


class GLM:
    """A regression of one outcome on the columns of a formula.

    `data` is a pandas, polars or pyarrow table, a dict of arrays, or a path as `tb.fit` takes it. `weights`
    (how many times each row counts) and `offset` (added to eta) are column names or arrays. `strata` names columns
    to keep with the rows for stratified subsamples. `outcome` is the value of the outcome's column that counts as 1,
    `missing="drop"` leaves out rows with missing values, `collinear="drop"` columns that are linear combinations of
    those before them. A formula may come parsed already.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> model.coefficients
    ('Intercept', 'x')
    >>> model.log_likelihood([[0.0, 0.0]]).round(3)
    array([-2.773])
    """

    grouped = False
    whole = True  # a part of the rows may lack levels that all of them have
    setup: Any = None  # the usual one
    outcome_said = ""  # what counts as 1, if that had to be said
    left_out: Sequence[str] = ()  # rows and columns, a sentence each

    def __init__(
        self,
        formula: str | Parsed,
        data: Any,
        family: str | Family = "bernoulli",
        prior: GivenPrior | None = None,
        *,
        weights: str | ArrayLike | None = None,
        offset: str | ArrayLike | None = None,
        strata: Sequence[str] = (),
        outcome: Any = None,
        missing: str = "refuse",
        collinear: str = "refuse",
    ) -> None:
        for option, value, choices in (
            ("missing", missing, CHOICES),
            ("collinear", collinear, dependence.CHOICES),
        ):
            if value not in choices:
                raise ValueError(f"{option}={value!r} is not known; choose one of {', '.join(choices)}")
        phases, prior = Phases(), without_texts(prior)
        with phases("design"):
            if isinstance(formula, str):
                parsed, data = parse_for(formula, data, family, weights, offset)
            else:
                parsed = formula
            if self.grouped != (parsed.group is not None):
                needs, is_for = ("no", "tb.GLM") if self.grouped else ("a", "tb.Hierarchical")
                raise ValueError(
                    f"the formula {parsed.text!r} has {needs} group term (1 | g); {is_for} is for such formulas"
                )
            kind = families.resolve(family)
            trials, exposure = getattr(kind, "trials", None), getattr(kind, "exposure", None)
            kind = families.with_trials(kind, None if parsed.trials is None else parsed.trials.text)
            if outcome is not None and not isinstance(kind, Bernoulli):
                raise ValueError(f"outcome= says what counts as 1, for family 'bernoulli', not for {kind.name!r}")
            others = [*named(family, weights, offset), *strata]
            frame = read(data, [*parsed.columns, *others], [name for name in parsed.dates if name not in others])
            left_out: list[str] = []
            if missing == "drop":
                given = {"weights": weights, "offset": offset}
                arrays = {
                    what: numbers(what, values, len(frame))
                    for what, values in given.items()
                    if not (values is None or isinstance(values, str))
                }
                frame, kept, left_out = leave_out(frame, arrays)
                weights, offset = (arrays[what][kept] if what in arrays else given[what] for what in given)
            frame = check(frame, DROP)
            if left_out:
                frame = frame.set_axis(range(len(frame)))
            learned, x, y = Formula.learn_checked(parsed, frame, outcome, isinstance(kind, Bernoulli))
            codes = {name: frame[name].astype("category").cat.codes.to_numpy() for name in strata}
            if learned.group is not None:
                codes[learned.group] = learned.group_codes_checked(frame)
            given_as = partial(per_row, frame, y.size)
            columns = Columns(x, y, given_as("weights", weights), given_as("offset", offset), codes)
            names = learned.outcome, learned.coefficients, learned.group, learned.group_levels
            design = Design(columns, *names, given_as("trials", trials), given_as("exposure", exposure))
            if parsed.trials is not None:
                design = design._replace(trials=learned.trials_checked(frame))
            if parsed.offset is not None:
                design = design._replace(added=learned.offset_checked(frame))
            self._set(design, kind, prior)
            if collinear == "drop" and (found := self._dependent()):
                left_out += dependence.said(self.coefficients, found)
                learned = learned.without(self.coefficients[column] for column, _ in found)
                self._set(without(design, [column for column, _ in found]), kind, priors_of(prior, learned))
        self.outcome_said = "" if learned.event is None else said(learned.outcome, learned.event, y)
        self.left_out = left_out
        self.formula: Formula | None = learned
        self.offset = offset if isinstance(offset, str) else None
        self.seconds = phases.seconds

    def _dependent(self) -> list[dependence.Dependent]:
        """Columns that are linear combinations of those before them."""
        curvature = self.first.at_zero.curvature[0]
        return dependence.dependent(self.coefficients, self.moments.largest, curvature)

    @classmethod
    def from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        family: str | Family = "bernoulli",
        prior: GivenPrior | None = None,
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
        prior: GivenPrior | None,
        coefficients: Sequence[str] | None,
        weights: ArrayLike | None,
        offset: ArrayLike | None,
        groups: tuple[NDArray[np.intp], Sequence[Any]] | None = None,
    ) -> None:
        """`groups`, if any, are the number of each row's group and the names of all groups."""
        phases, prior = Phases(), without_texts(prior)
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
            kind = families.with_trials(families.resolve(family), None)
            if getattr(kind, "trials", None) or getattr(kind, "exposure", None):
                raise ValueError(
                    f"{kind} names a column, but arrays have none: give each row twice with y=1 and y=0 and weights "
                    "instead of trials, or offset=np.log(exposure)"
                )
            given, x = partial(per_row, None, outcome.size), np.ascontiguousarray(x.T)
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
        self._group, self.levels = group or "", tuple(design.levels)
        self.has_offset = offset is not None
        self.observations = y.size
        if design.exposure is not None:
            assert isinstance(family, Poisson)
            offset = family.log_exposure(design.exposure) + (0.0 if offset is None else offset)
        if design.added is not None:
            offset = design.added + (0.0 if offset is None else offset)
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
        vars(self).pop("first", None)  # it was of columns that were left out since
        self.prior = Prior.of(prior, self.coefficients, self.moments)

    @cached_property
    def first(self) -> First:
        """What one pass over the rows tells before anything else is known."""
        return first_pass(self.rows, self.family.tag)

    @property
    def moments(self) -> Moments:
        """What the columns look like."""
        return self.first.moments

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
            cells = by_predictor(self.rows, run.theta.mean((0, 1)), look=self.first.look)
            calibration = calibrate(cells, self.family)
        others: dict[str, Any] = {"formula": self.formula, "family": self.family, "calibration": calibration}
        others |= {"offset": self.offset, "has_offset": self.has_offset, "prior": self.described_prior()}
        told = [*([self.outcome_said] if self.outcome_said else []), *self.left_out]
        stats = run.stats | {"outcome": self.outcome_said, "told": told}
        return Result("regression", self.variables(run.theta), run.sample_stats, stats, others, run.diagnostics)

    def described_prior(self) -> dict[str, str]:
        """The prior of each parameter in words, by its name."""
        return dict(zip(self.coefficients, self.prior.described(), strict=True))

    def variables(self, theta: Array) -> Variables:
        """Posterior variables and their coordinates, from draws (chain, draw, parameter)."""
        return {"beta": (("chain", "draw", "coefficient"), theta)}, {"coefficient": list(self.coefficients)}

    def part(self, rows: RowsAtHand, share: float, groups: NDArray[np.intp] | None = None) -> Self:
        """The same model of some of the rows, and of some of the groups if there are any, with a share of the prior.

        That is the prior to the power `share`, so that the posteriors of all parts multiply to that of the whole.
        """
        model = copy(self)
        model.rows, model.prior, model.whole = rows, self.prior.to_the_power(share), False
        vars(model).pop("first", None)  # the part's rows have their own
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
