"""Bayesian MARS for classification: eta(x) = b0 + sum of b_m B_m(x), bases B_m as in `basis.py`, logit link.

The number of bases, the bases and the coefficients are all unknown. Priors: k uniform on 0..most (or a truncated
Poisson), bases by the law of `basis.py`, b0 ~ N(0, 10^2), b_m ~ N(0, 1 / lambda), lambda ~ Gamma(shape, rate).

A parameter vector has a fixed width, so that draws of varying dimension fit into one array: k, lambda, the intercept,
the coefficients, and the bases, a row of numbers each; what lies beyond k is zero.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.missing import CHOICES
from tallbayes.data.options import check_choice, check_number, check_texts, check_whole, is_number, refuse
from tallbayes.data.outcome import said
from tallbayes.data.per_row import as_numbers
from tallbayes.data.sources import opened
from tallbayes.data.texts import Texts
from tallbayes.data.timing import Phases
from tallbayes.families import Bernoulli
from tallbayes.families import check as check_outcomes
from tallbayes.models.limits import check_columns
from tallbayes.models.model import Result, Sampled, Variables
from tallbayes.models.prepared import Wanted, prepare
from tallbayes.models.priors import rounded
from tallbayes.rows.disk import DiskRows
from tallbayes.rows.looking import Look
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.moments import ColumnMoments
from tallbayes.rows.picking import NotBinary, Picked
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import Room
from tallbayes.splines.basis import BASES, MOST, WIDTH, Reference, Splines, admissible_share
from tallbayes.splines.per_row import SplineRows
from tallbayes.splines.sheet import Sheet
from tallbayes.splines.tables import MOST_KNOTS, knots_for

Array = NDArray[np.float64]


class _Reading(NamedTuple):
    """How data are read by a formula; see `fit`."""

    outcome: Any
    missing: str
    texts: Texts
    memory: int | str | None


INTERCEPT_SD = 10.0
MOST_BASES = 10_000  # a parameter vector has room for all of them
SIZES = (1e-9, 1e9)  # of what the priors of the precision and of the number of bases are made of
FEWEST = 20  # reference rows that are not zero in a basis
TRIES, ADMISSIBLE = 5_000, 0.002  # bases drawn to see how many have so many, and the least share of them that will do


def splines(theta: Array, most: int) -> Splines:
    """The splines of parameter vectors (..., width), in one row."""
    flat = theta.reshape(-1, theta.shape[-1])
    bases = np.ascontiguousarray(flat[:, most + 3 :]).reshape(len(flat), most, WIDTH)
    return Splines(flat[:, 0].astype(np.intp), np.ascontiguousarray(flat[:, 2 : most + 3]), bases)


class MARS:
    """A spline regression of an outcome 0 or 1.

    Give a formula and data, of which every column of the design but the intercept is a variable, or a matrix X
    (rows, variables) or data frame and outcomes y, or rows that are at hand already, in memory or on a disk, of which
    every column is a variable. `max_interaction` is the most variables in a basis, `max_bases` the
    most bases; `expected_bases` makes the prior of their number a Poisson instead of uniform. `precision` are shape and
    rate of the Gamma prior of lambda. Of the `reference` rows, drawn once with `seed`, a basis takes its knots and its
    scale, and at least `min_rows` must not be zero in it: 20 unless given, or a tenth of the reference rows if that is
    less. A variable is in a basis as a straight line with probability `lines` (always, if it has two values), or else
    as a hinge, which has its knot among `knots` quantiles: 256 unless there are so many variables that fewer make it
    fast. `lines=0` leaves hinges only, as in Payne and Mallick's paper. `column_memory` bytes may be used to keep
    columns of bases. `names` are those of the columns of a matrix. Convergence is judged by the log-odds of so many
    `watched` reference rows. With a formula, `outcome`, `missing`, `decimal`, `na_values` and `memory` are those of
    `tb.fit`.

    >>> X = np.random.default_rng(0).random((500, 2))
    >>> model = MARS(X, X[:, 0] > 0.5)
    >>> model.names
    ('x0', 'x1')
    """

    def __init__(
        self,
        formula: str | ArrayLike | RowsAtHand,
        data: Any = None,
        *,
        max_interaction: int = 2,
        max_bases: int = 100,
        expected_bases: float | None = None,
        precision: tuple[float, float] = (0.5, 0.5),
        lines: float = 0.5,
        knots: int | None = None,
        reference: int = 2_000,
        min_rows: int | None = None,
        column_memory: float = 1e9,
        watched: int = 20,
        names: Sequence[str] | None = None,
        seed: int = 0,
        outcome: Any = None,
        missing: str = "refuse",
        decimal: str = ".",
        na_values: Any = (),
        memory: int | str | None = None,
    ) -> None:
        check_whole("max_interaction", max_interaction, 1, MOST)
        check_whole("max_bases", max_bases, 1, MOST_BASES)
        check_whole("knots", knots, 2, optional=True)
        check_whole("reference", reference, 2)
        check_whole("min_rows", min_rows, optional=True)
        check_whole("watched", watched)
        check_whole("seed", seed, 0)
        check_choice("missing", missing, CHOICES)
        check_texts("names", names, "a list of names, one for each variable", optional=True)
        check_number("expected_bases", expected_bases, above=0, size=SIZES, optional=True)
        prior = as_numbers("precision", precision, "a positive shape and rate")
        if prior.shape != (2,) or not ((SIZES[0] <= prior) & (prior <= SIZES[1])).all():
            refuse("precision", f"a shape and a rate from {SIZES[0]:g} to {SIZES[1]:g}", precision)
        if not (is_number(lines) and 0 <= lines <= 1):
            refuse("lines", "a probability from 0 to 1", lines)
        if not (is_number(column_memory) and column_memory >= 0):
            refuse("column_memory", "a number of bytes", column_memory)
        phases = Phases()
        with phases("design"):
            self.rows = self._read(
                formula, data, names, _Reading(outcome, missing, Texts.of(decimal, na_values), memory)
            )
        self.observations, self.most, self.column_memory = self.rows.size, int(max_bases), column_memory
        self.precision = (float(prior[0]), float(prior[1]))
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(self.rows.size, min(reference, self.rows.size), replace=False))
        some, moments = self.rows.reduce_all((Picked(chosen), None), (ColumnMoments(), None))
        check_columns(self.names, moments.largest)
        self.look, values = Look(some, np.ones(some.size)), some.x
        fewest = min(FEWEST, max(1, chosen.size // 10)) if min_rows is None else int(min_rows)
        degree = min(int(max_interaction), len(values))
        count = knots if knots is not None else knots_for(values, degree) or MOST_KNOTS
        self.reference = Reference.of(values, count, degree, fewest, lines)
        self._check_reference(rng)
        self.reference_sheet = Sheet.of_rows(values, some.y, np.ones(chosen.size))
        counts = np.arange(self.most + 1)
        self.log_k, self.expected_bases = np.zeros(self.most + 1), expected_bases
        if expected_bases is not None:
            self.log_k = counts * math.log(expected_bases) - np.array([math.lgamma(k + 1) for k in counts])
        self.points = values[:, np.linspace(0, chosen.size - 1, min(watched, chosen.size)).astype(int)]
        self.seconds = phases.seconds

    def _read(
        self, formula: str | ArrayLike | RowsAtHand, data: Any, names: Sequence[str] | None, read: _Reading
    ) -> RowsAtHand:
        """Variables and outcomes, all checked."""
        self.formula: Formula | None = None
        self.left_out: Sequence[str] = ()
        self.outcome_said = ""  # what counts as 1, if that had to be said
        self.called = "arrays in memory"  # the data
        self.family = Bernoulli()
        if isinstance(formula, MemoryRows | DiskRows):
            self.named = names is not None
            self.names = _names(names, formula.columns)
            _check_rows(formula, self.names)
            return formula
        given: Any = formula
        if isinstance(formula, str):
            parsed, data = Formula.parse_for(formula, opened(data, read.texts))
            for what, there in (("an offset()", parsed.offset), ("counts of successes", parsed.trials)):
                if there is not None:
                    raise ValueError(f"the formula {formula!r} has {what}, which splines cannot have")
            if parsed.group is not None:
                raise ValueError(f"the formula {formula!r} has a group term, which splines cannot have; leave it out")
            if names is not None:
                raise ValueError("a formula has names of its own; leave names out")
            wanted = Wanted(self.family, {}, {}, (), read.outcome, read.missing, read.texts, merge=False)
            prepared = prepare(parsed, data, wanted, Room.of(read.memory, None))
            self.formula, self.left_out, self.called = prepared.formula, prepared.left_out, prepared.called
            every = self.formula.coefficients
            self.outcome_said = said(parsed.outcome, self.formula.event, prepared.ones, prepared.observations)
            self.named, self.names = True, tuple(name for name in every if name != "Intercept")
            if not self.names:
                raise ValueError(f"the formula {formula!r} has no variables; a spline needs at least one variable")
            return prepared.rows.without([j for j, name in enumerate(every) if name == "Intercept"])
        if names is None and hasattr(given, "columns"):
            names = list(given.columns)
        x, y, outcome = as_numbers("X", given, "numbers (rows, variables)").T, as_numbers("y", data), "y"
        self.named = names is not None
        if x.ndim != 2 or y.shape != x.shape[1:] or not x.size:
            raise ValueError(f"X must be (rows, variables) and y (rows,), but they are {x.T.shape} and {y.shape}")
        self.names = _names(names, len(x))
        for name, values in (*zip(self.names, x, strict=True), (outcome, y)):
            if not (finite := np.isfinite(values)).all():
                raise ValueError(f"{name!r} has missing or infinite values (first at row {int(finite.argmin())})")
        check_outcomes(self.family, y, outcome)
        return MemoryRows(x, y)

    def _check_reference(self, rng: np.random.Generator) -> None:
        """Refuse or warn where the reference rows leave nothing, or little, to choose bases from."""
        x, rows = self.reference.x, self.reference.x.shape[1]
        same = [name for name, column in zip(self.names, x, strict=True) if np.ptp(column) == 0]
        none = len(same) == len(self.names)
        if none or admissible_share(BASES.addresses, self.reference, rng, TRIES) < ADMISSIBLE:
            raise ValueError(
                f"hardly any basis has {self.reference.fewest} of {rows:,} reference rows that are not zero; values "
                "hardly differ: raise reference, lower min_rows, or drop variables that are almost constant"
            )
        if same:
            warnings.warn(
                f"{', '.join(map(repr, same))} {'is' if len(same) == 1 else 'are'} constant among the {rows:,} "
                f"reference rows, so that no basis can have {'it' if len(same) == 1 else 'them'}; raise reference",
                stacklevel=3,
            )

    @property
    def setup(self) -> Any:
        """How methods make kernels for it."""
        from tallbayes.splines.setup import SplineSetup  # here, since kernels need the model

        return SplineSetup

    def variables(self, theta: Array) -> Variables:
        """What is followed of each draw (chain, draw, width): k, lambda, and the log-odds of a few rows."""
        axes, log_odds = ("chain", "draw"), self._log_odds(theta)
        found = {"bases": (axes, theta[..., 0].astype(np.intp)), "precision": (axes, theta[..., 1])}
        return found | {"log_odds": ((*axes, "point"), log_odds)}, {}

    def result(self, run: Sampled) -> Result:
        """The splines of all draws, and what they say about variables."""
        from tallbayes.splines.result import spline_result  # here, since results need the model

        with run.phases("effects"):
            return spline_result(self, run)

    def described_prior(self) -> str:
        """The prior in words."""
        count = f"uniform from 0 to {self.most:,}"
        if self.expected_bases is not None:
            count = f"Poisson({rounded(self.expected_bases)}), cut at {self.most:,}"
        shape, rate = map(rounded, self.precision)
        return (
            f"The number of bases is {count}, and each basis as likely as any other of its kind. Coefficients of bases "
            f"are Normal(0, variance 1 / lambda), where lambda is Gamma({shape}, {rate}), and the intercept is "
            f"Normal(0, {INTERCEPT_SD:g})."
        )

    def per_row(self, drawn: Mapping[str, Any]) -> SplineRows:
        """The log-likelihood of single rows, by draws of the splines."""
        return SplineRows(drawn["splines"])

    def _log_odds(self, theta: Array) -> Array:
        return splines(theta, self.most).each(self.points).reshape(*theta.shape[:2], -1)

    def watched(self, theta: Array) -> Array:
        """What convergence is judged by, from draws (chain, draw, width): lambda, the log-odds of a few rows, and k.

        But k does not count where it never changes: a chain may well stay at the largest.
        """
        first = int(np.ptp(theta[..., 0]) == 0)
        return np.concatenate([theta[..., first:2], self._log_odds(theta)], axis=2)

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


def _names(names: Sequence[str] | None, columns: int) -> tuple[str, ...]:
    """Of the columns of a matrix."""
    found = tuple(f"x{j}" for j in range(columns)) if names is None else tuple(map(str, names))
    if not len(found) == len(set(found)) == columns:
        raise ValueError(f"X has {columns} columns, so there must be as many different names")
    return found


def _check_rows(rows: RowsAtHand, names: Sequence[str]) -> None:
    """Refuse rows that splines are not for."""
    first, wrong, moments = rows.reduce_all(
        (Picked(np.arange(min(1, rows.size))), None), (NotBinary(), None), (ColumnMoments(), None)
    )
    if not first.size:
        raise ValueError("there are no rows")
    for what, there in (("weights", first.weights.size), ("an offset", first.offset.size), ("groups", rows.groups)):
        if there:
            raise ValueError(f"these rows have {what}, which splines cannot have")
    if wrong is not None:
        raise ValueError(f"the outcome of row {wrong} is neither 0 nor 1, which splines need")
    for name, mean in zip(names, moments.mean.tolist(), strict=True):
        if not math.isfinite(mean):
            raise ValueError(f"{name!r} has missing or infinite values, or is too large to sum")
