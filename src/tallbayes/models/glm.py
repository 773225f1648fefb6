"""Generalised linear model: eta = X theta + offset, independent priors on theta."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import families
from tallbayes.data.formula import Formula
from tallbayes.data.missing import CHOICES
from tallbayes.data.once import once
from tallbayes.data.options import check_choice, check_kind, check_texts
from tallbayes.data.outcome import said
from tallbayes.data.parsed import Parsed
from tallbayes.data.per_row import as_numbers, require_order
from tallbayes.data.sources import opened
from tallbayes.data.tally import row
from tallbayes.data.texts import Texts
from tallbayes.data.timing import Phases
from tallbayes.families import Bernoulli, Family
from tallbayes.families.gaussian import Gaussian
from tallbayes.models import collinear as dependence
from tallbayes.models.building import Looked
from tallbayes.models.design import FORMULA, numbers, parse_for, per_row, priors_of
from tallbayes.models.first import First, first_pass
from tallbayes.models.likelihood import FamilyLikelihood, Follower
from tallbayes.models.limits import check_columns, check_means, check_weights
from tallbayes.models.model import AnyMode, Result, Sampled, Variables
from tallbayes.models.per_row import Regression
from tallbayes.models.prepared import Wanted, prepare
from tallbayes.models.priors import AnyPrior, GivenPrior, Prior, without_texts
from tallbayes.models.side_by_side import Parameters
from tallbayes.rows.building import builder
from tallbayes.rows.calibration import FARTHEST, Sums, by_predictor, calibrate, described_outcomes
from tallbayes.rows.duplicates import Columns
from tallbayes.rows.moments import Moments
from tallbayes.rows.protocol import Measure, RowsAtHand
from tallbayes.rows.room import Room
from tallbayes.rows.tasks import Derivatives, Fitted, LogLikelihoodDerivatives

Array = NDArray[np.float64]


class GLM:
    """A regression of one outcome on the columns of a formula.

    `data` is a pandas, polars or pyarrow table, a dict of arrays, or a path as `tb.fit` takes it. `weights`
    (how many times each row counts) and `offset` (added to eta) are column names or arrays. `strata` names columns
    to keep with the rows for stratified subsamples. `outcome` is the value of the outcome's column that counts as 1,
    `missing="drop"` leaves out rows with missing values, `collinear="drop"` columns that are linear combinations of
    those before them; `decimal` and `na_values` are how the data write numbers and missing values. Rows that do not fit
    into `memory` (half of what is free, unless given) go to disk, and a `cache` folder keeps them. A formula may come
    parsed already.

    >>> model = GLM("y ~ x", {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    >>> model.coefficients
    ('Intercept', 'x')
    >>> model.log_likelihood([[0.0, 0.0]]).round(3)
    array([-2.773])
    """

    grouped = False
    gaussian = False
    whole = True  # a part of the rows may lack levels that all of them have
    setup: Any = None  # the usual one
    outcome_said = ""  # what counts as 1, if that had to be said
    left_out: Sequence[str] = ()  # rows and columns, a sentence each
    called = "arrays in memory"  # the data

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
        decimal: str = ".",
        na_values: Any = (),
        collinear: str = "refuse",
        memory: int | str | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        check_choice("missing", missing, CHOICES)
        check_choice("collinear", collinear, dependence.CHOICES)
        check_texts("strata", strata, "a list of columns' names")
        phases, prior, texts = Phases(), without_texts(prior), Texts.of(decimal, na_values)
        with phases("design"):
            check_kind("formula", formula, (str, Parsed), FORMULA)
            if isinstance(formula, str):
                parsed, data = parse_for(formula, opened(data, texts), family, weights, offset)
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
            given = {"weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
            columns = {what: name for what, name in given.items() if isinstance(name, str)}
            for what, values in given.items():
                require_order(what, values, data)
            arrays = {
                what: numbers(what, values)
                for what, values in given.items()
                if not (values is None or isinstance(values, str))
            }
            wanted = Wanted(kind, columns, arrays, strata, outcome, missing, texts)
            prepared = prepare(parsed, data, wanted, Room.of(memory, cache), cache)
            rows, fitted, left_out, self.observations, ones, first, self.called = prepared
            self.has_offset = offset is not None
            self._set(rows, kind, fitted.coefficients, fitted.group, fitted.group_levels)
            if first is not None:
                self.first = first
            self.left_out = left_out
            self._check_sizes()
            gone = self._leave_out_dependent() if collinear == "drop" else []
            fitted = fitted.without(gone)
            self._set_prior(priors_of(prior, gone))
            self.try_family()
        self.outcome_said = said(fitted.outcome, fitted.event, ones, self.observations)
        self.formula: Formula | None = fitted
        self.offset = offset if isinstance(offset, str) else None
        self.seconds = phases.seconds

    def _check_sizes(self) -> None:
        """Refuse numbers that are too large or too small."""
        check_weights(self.rows, getattr(self.family, "trials", None))
        check_columns(self.coefficients, self.moments.largest)

    def _set_prior(self, given: AnyPrior | None) -> None:
        self.prior = Prior.of(given, self.coefficients, self.moments, self._outcome_scale)
        if not self.family.location:  # there, means may be as far away as outcomes
            check_means(self.coefficients, self.prior, self.moments.largest)

    def _leave_out_dependent(self) -> list[str]:
        """Go on without columns that are linear combinations of those before them; returns their names."""
        curvature = self.first.at_zero.curvature[0]
        found = dependence.dependent(self.coefficients, self.moments.largest, curvature)
        gone = [self.coefficients[column] for column, _ in found]
        if gone:
            self.left_out = [*self.left_out, *dependence.said(self.coefficients, found)]
            kept = tuple(name for name in self.coefficients if name not in gone)
            rows = self.rows.without([column for column, _ in found])
            self._set(rows, self.family, kept, self._group or None, self.levels)
        return gone

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
        collinear: str = "refuse",
    ) -> GLM:
        """The model of a design matrix X (rows, columns) that you made yourself, intercept included.

        Columns that lie contiguous in memory (order="F") are used without a copy. Coefficients are named x0, x1, ...
        unless you name them. `collinear="drop"` leaves out those that are linear combinations of columns before them.

        >>> model = GLM.from_arrays([[1.0, 0.2], [1.0, 0.9], [1.0, 0.4]], [0, 1, 0])
        >>> model.coefficients
        ('x0', 'x1')
        """
        self = cls.__new__(cls)
        self._from_arrays(X, y, family, prior, coefficients, weights, offset, collinear=collinear)
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
        collinear: str = "refuse",
    ) -> None:
        """`groups`, if any, are the number of each row's group and the names of all groups."""
        check_choice("collinear", collinear, dependence.CHOICES)
        phases, prior = Phases(), without_texts(prior)
        with phases("design"):
            check_texts("coefficients", coefficients, "a list of names, one for each column of X", optional=True)
            x, outcome = as_numbers("X", X, "numbers (rows, columns)"), as_numbers("y", y)
            if x.ndim != 2 or outcome.shape != x.shape[:1] or not x.size:
                raise ValueError(f"X must be (rows, columns) and y (rows,), but they are {x.shape} and {outcome.shape}")
            names = tuple((f"x{j}" for j in range(x.shape[1])) if coefficients is None else coefficients)
            if not len(names) == len(set(names)) == x.shape[1] or not all(map(str.strip, names)):
                raise ValueError(f"X has {x.shape[1]} columns, so there must be as many different coefficient names")
            for name, values in (*zip(names, x.T, strict=True), ("y", outcome)):
                if not (finite := np.isfinite(values)).all():
                    raise ValueError(f"{name!r} has missing or infinite values (first at row {int(finite.argmin())})")
            kind = families.with_trials(families.resolve(family), None)
            if getattr(kind, "trials", None) or getattr(kind, "exposure", None):
                raise ValueError(
                    f"{kind} names a column, but arrays have none: give each row twice with y=1 and y=0 and weights "
                    "instead of trials, or offset=np.log(exposure)"
                )
            own, added = (
                per_row(what, values, outcome.size) for what, values in [("weights", weights), ("offset", offset)]
            )
            codes, levels = groups or (None, ())
            group = None if codes is None else "group"
            strata = {} if codes is None else {"group": codes}
            looked, building = Looked(kind, "y"), builder(len(names), outcome.size, group, len(levels))
            columns = Columns(np.ascontiguousarray(x.T), outcome, own, added, strata)
            looked.add(columns, row)
            looked.finish(outcome.size)
            building.add(columns)
            self.has_offset, self.observations = offset is not None, outcome.size
            self._set(building.finish(), kind, names, group, levels)
            self._check_sizes()
            gone = self._leave_out_dependent() if collinear == "drop" else []
            self._set_prior(priors_of(prior, gone))
            self.try_family()
        self.formula, self.offset, self.seconds = None, None, phases.seconds

    def _set(
        self, rows: RowsAtHand, family: Family, coefficients: tuple[str, ...], group: str | None, levels: Sequence[Any]
    ) -> None:
        """What all ways to make a model have in common."""
        if isinstance(family, Gaussian) and not self.gaussian:
            raise ValueError(
                "family 'gaussian' has a standard deviation to estimate: use tb.fit or tb.GaussianModel, without groups"
            )
        self.rows, self.family, self.coefficients = rows, family, coefficients
        self._group, self.levels = group or "", tuple(levels)
        if taken := {*coefficients, self._group}.intersection(self.names[len(coefficients) :]):
            raise ValueError(f"column {min(taken)!r} has the name of another parameter of the model; rename it")
        vars(self).pop("first", None)  # it was of columns that were left out since

    @once
    def first(self) -> First:
        """What one pass over the rows tells before anything else is known."""
        return first_pass(self.rows, self.family.tag_at_zero)

    @property
    def _outcome_scale(self) -> tuple[float, float]:
        """Mean (if there is an intercept) and sd of outcomes less offsets, if linear predictors are on their scale."""
        if not self.family.location:
            return 0.0, 1.0
        here, weight, mean = self.first.at_zero, self.rows.total_weight, 0.0
        if (intercept := self.moments.intercept) >= 0:
            mean = float(here.gradient[0, intercept] / (weight * self.moments.mean[intercept]))
        squares = -2 * float(here.value[0]) / weight
        return mean, max(squares - mean**2, np.finfo(float).eps * squares) ** 0.5 or 1.0

    @property
    def start(self) -> Array:
        """Where to begin the search for the mode: at zero, or where least squares are if eta is where outcomes are."""
        if not self.family.location:
            return np.zeros(len(self.coefficients))
        here = self.first.at_zero
        return np.asarray(np.linalg.lstsq(here.curvature[0], here.gradient[0])[0])

    def try_family(self, theta: Array | None = None) -> None:
        """Refuse a user's own family whose functions do not fit each other, on some rows; best at a mode."""
        if not self.family.untried:
            return
        look = self.first.look
        arrays = self.rows.keep(lambda arrays, count: arrays) if look is None else look.arrays
        self.family.try_on(arrays.y, None if theta is None else arrays.predictors(theta[None])[0])

    @property
    def moments(self) -> Moments:
        """What the columns look like."""
        return self.first.moments

    def on(self, rows: RowsAtHand) -> FamilyLikelihood:
        """The log-likelihood of some rows."""
        return FamilyLikelihood(rows, self.family.tag)

    def log_likelihood(self, params: ArrayLike) -> Array:
        """Log-likelihood of each parameter vector: one pass over all rows."""
        return self.on(self.rows).log_likelihood(params)

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

    def watched(self, theta: Array) -> Parameters:
        """What convergence is judged by, from draws (chain, draw, parameter)."""
        return theta

    def result(self, run: Sampled) -> Result:
        """The draws by name, predictions held against outcomes, and what is needed to predict."""
        with run.phases("calibration"):
            farthest = np.inf if self.family.location else FARTHEST
            cells = by_predictor(self.rows, run.theta.mean((0, 1)), look=self.first.look, farthest=farthest)
            return self._result("regression", run, cells)

    def per_row(self, drawn: Mapping[str, Array]) -> Regression:
        """The log-likelihood of single rows, by draws (draw, ...) of each posterior variable."""
        return Regression(self.family, drawn["beta"])

    def _result(self, kind: str, run: Sampled, cells: Sums) -> Result:
        """What a fit of some kind is made of; `cells` are predictions and outcomes of the rows."""
        others: dict[str, Any] = {"formula": self.formula, "family": self.family}
        others |= {"calibration": calibrate(cells, self.family), "offset": self.offset, "has_offset": self.has_offset}
        others |= {"prior": self.described_prior()}
        told = [*([self.outcome_said] if self.outcome_said else []), *self.left_out]
        stats = run.stats | {"outcome": self.outcome_said, "told": told, "bounds": self.family.tag.trust}
        stats |= {"data": self.called, "default_priors": self.default_priors, "outcomes": described_outcomes(cells)}
        stats["columns"] = {name: values.tolist() for name, values in self.moments._asdict().items()}
        return Result(kind, self.variables(run.theta), run.sample_stats, stats, others, run.diagnostics)

    def described_prior(self) -> dict[str, str]:
        """The prior of each parameter in words, by its name."""
        return dict(zip(self.coefficients, self.prior.described(), strict=True))

    @property
    def default_priors(self) -> list[str]:
        """Names of the parameters that have default priors."""
        return [name for name, given in zip(self.coefficients, self.prior.given, strict=True) if not given]

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

    @property
    def row_cost(self) -> float:
        """What a row costs that is evaluated at a parameter vector, in columns."""
        return self.rows.columns

    @property
    def normal(self) -> bool:
        """Whether all priors are Normal, so that the posterior has the tails of one."""
        return self.prior.normal

    def log_prior(self, params: Array) -> Array:
        """Log prior density of each parameter vector."""
        return self.prior.log_density(params)

    def log_posterior(self, params: Array) -> Array:
        """Log posterior density of each parameter vector, up to a constant: one pass over all rows."""
        return np.asarray(self.log_likelihood(params) + self.log_prior(params))

    @property
    def sizes(self) -> Array:
        """Rows touched when one entry of a parameter vector moves."""
        return self.on(self.rows).sizes

    def follow(self, by_column: bool) -> Follower:
        """The log-likelihood of chains that move one column at a time or all at once."""
        return self.on(self.rows).follow(by_column)

    def measure(self, mode: AnyMode, outcome: float) -> Measure:
        """What rows without an event are drawn in proportion to, where the mean outcome is known."""
        return Fitted(self.family, mode.theta, outcome)

    @property
    def bounded(self) -> bool:
        """Whether what an expansion leaves out of each row has a bound."""
        return self.family.tag.trust != "none"

    def require_bounds(self, who: str) -> None:
        """Raise an error if bounds are needed and the family has none."""
        if not self.bounded:
            raise ValueError(
                f"{who} needs bounds on third derivatives, which this family does not have: give tb.family an "
                "expression without abs() of eta, or derivatives=, third= and bound=; or use method='two-stage' or 'mh'"
            )
