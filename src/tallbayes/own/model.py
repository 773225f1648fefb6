"""A model of the user's own: any log-likelihood that gives one number a row."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.missing import CHOICES
from tallbayes.data.options import check_choice, check_function, check_text
from tallbayes.data.sources import open_source
from tallbayes.data.texts import Texts
from tallbayes.data.timing import Phases
from tallbayes.engines.opening import on_engine
from tallbayes.models.design import numbers
from tallbayes.models.likelihood import Direct, Follower
from tallbayes.models.limits import check_weights
from tallbayes.models.model import AnyMode, Result, Sampled, Variables
from tallbayes.models.prepared import Wanted, prepare
from tallbayes.own.columns import NoFamily, chosen, layout, names, refuse_text
from tallbayes.own.fit import ModelFit
from tallbayes.own.function import Derivatives, RowFunction
from tallbayes.own.parameters import JointPrior, Parameters
from tallbayes.own.per_row import OwnRows
from tallbayes.own.priors import ParameterPrior
from tallbayes.own.setup import OwnSetup
from tallbayes.own.tasks import OwnDerivatives, OwnLogLikelihood, Size
from tallbayes.own.trial import try_derivatives, try_prior, try_values
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.room import Room

Array = NDArray[np.float64]

TRIED = 1_000  # rows on which functions are tried


class Model:
    """A posterior from any log-likelihood of rows.

    `log_likelihood(theta, rows)` gives one number for each of some rows. `theta` has the parameters and `rows` the
    columns, each after a dot: `theta.slope * rows.dose`. It may be plain NumPy, compiled by Numba, or written for JAX
    (with `derivatives="jax"`, which compiles it, too), and is called with runs of rows, from several threads.

    Parameters
    ----------
    log_likelihood: the function; `-np.inf` says that a row is impossible.
    prior: a dict with a prior for each parameter (`tb.Normal`, `tb.StudentT`, `tb.HalfNormal`, `tb.HalfCauchy`,
        `tb.LogNormal`, `tb.Uniform`), or a function of theta that gives the log density of all of them.
    start: a dict with a number or an array for each parameter: where the search for the mode begins. An array gives
        the parameter its shape.
    data: whatever `tb.fit` takes: a frame, a dict of arrays, files, a query.
    columns: those that the function needs, all of them unless given. With a dict, the names that it has for them:
        `{"dose": "Dose (mg)"}`.
    levels: columns of text or categories; a row has the number of its level, counted from 0 in sorted order.
    outcome: the column that `tb.CaseControl` looks at, and for which rows with 0 are many.
    positive: parameters that are positive although their prior is not.
    derivatives: "jax", or a function of theta and rows that gives the first (parameters, rows) and the second
        derivatives (parameters, parameters, rows) of each row's number in the entries of theta. Without it, the search
        for the mode uses differences.
    weights: how often each row counts: a column's name or one number a row.

    `missing`, `decimal`, `na_values`, `memory`, `cache` and `engine` are as for `tb.fit`.

    >>> import tallbayes as tb
    >>> rng = np.random.default_rng(1)
    >>> data = {"y": rng.normal(3.0, 2.0, 1_000)}
    >>> def normal(theta, rows):
    ...     return -0.5 * ((rows.y - theta.center) / theta.sd) ** 2 - np.log(theta.sd)
    >>> prior = {"center": tb.Normal(0, 10), "sd": tb.HalfNormal(10)}
    >>> model = tb.Model(normal, prior, start={"center": 0.0, "sd": 1.0}, data=data)
    >>> tb.sample(model, seed=1, draws=500, progress=False).summary()["mean"].round()
    center    3.0
    sd        2.0
    Name: mean, dtype: float64
    """

    whole = True
    setup: Any = OwnSetup
    row_cost = 40.0  # a pass of NumPy's functions, beside one over as many columns of a regression

    def __init__(
        self,
        log_likelihood: Callable[[Any, Any], Any],
        prior: Mapping[str, ParameterPrior] | JointPrior,
        start: Mapping[str, ArrayLike],
        data: Any,
        *,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        levels: Sequence[str] = (),
        outcome: str | None = None,
        positive: Sequence[str] = (),
        derivatives: Callable[[Any, Any], Any] | str | None = None,
        weights: str | ArrayLike | None = None,
        missing: str = "refuse",
        decimal: str = ".",
        na_values: Any = (),
        memory: int | str | None = None,
        cache: str | os.PathLike[str] | None = None,
        engine: Any = None,
    ) -> None:
        gives = "a function of theta and rows that gives a number for each row"
        check_function("log_likelihood", log_likelihood, gives)
        if not (isinstance(derivatives, str) and derivatives == "jax"):
            check_function("derivatives", derivatives, "a function of theta and rows, or 'jax'", optional=True)
        if isinstance(engine, str):
            raise ValueError("engine= takes a client here, not an address: tb.Model(..., engine=Client(address))")
        check_text("outcome", outcome, "the name of a column", optional=True)
        check_choice("missing", missing, CHOICES)
        texts = Texts.of(decimal, na_values)
        self.parameters = Parameters.of(start, prior, names("positive", positive))
        phases, self.outcome = Phases(), outcome
        with phases("design"), on_engine(engine, data, texts) as held:
            held = open_source(held)
            named = chosen(columns, held.names, [weights] if isinstance(weights, str) else [])
            levelled = names("levels", levels)
            given = {"weights": weights}
            wanted = Wanted(
                NoFamily(),
                {what: name for what, name in given.items() if isinstance(name, str)},
                {what: numbers(what, values) for what, values in given.items() if not isinstance(values, str | None)},
                [named.get(name, name) for name in levelled],
                None,
                missing,
                texts,
            )
            fields, text = layout(named, levelled, outcome, held.names)
            parsed = Formula.parse_for(text, held)[0]
            prepared = prepare(parsed, held, wanted, Room.of(memory, cache), cache)
            refuse_text(prepared.formula.coefficients, fields)
            self.rows: RowsAtHand = prepared.rows
            check_weights(self.rows)
            self.left_out, self.observations = prepared.left_out, prepared.observations
            self.called = prepared.called
            self.function = RowFunction(log_likelihood, self.parameters.shapes, fields, derivatives)
            self._try()
        self.seconds = phases.seconds

    def _try(self) -> None:
        """Refuse functions that do not give what they should, on some rows at the start."""
        x, some = self.parameters.start, self.rows.run(0, min(self.rows.size, TRIED))
        try_values(self.function, x, some)
        try_prior(self.parameters)
        u = self.parameters.free(x)
        if not np.isfinite(self.log_posterior(u[None])[0]):
            raise ValueError(
                f"the posterior is zero at the start, where {self.parameters.shapes.told(x)}: a row or the prior has a "
                "log density of -inf there; start elsewhere"
            )
        if self.function.derivatives is not None:
            try_derivatives(self.function, x, some)

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""
        return self.parameters.shapes.width

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that is sampled, in the order of a parameter vector."""
        return self.parameters.shapes.labels

    @property
    def normal(self) -> bool:
        """Whether the tails are Normal: with any likelihood that is not known, and chains start as if they were."""
        return True

    def on(self, rows: RowsAtHand) -> OwnLikelihood:
        """The log-likelihood of some rows."""
        return OwnLikelihood(self, rows)

    def log_likelihood(self, params: ArrayLike) -> Array:
        """Log-likelihood of each parameter vector, on the scale on which chains move: one pass over all rows."""
        return self.on(self.rows).log_likelihood(params)

    def log_prior(self, params: Array) -> Array:
        """Log prior density of each parameter vector, on the scale on which chains move."""
        return self.parameters.log_prior(params)

    def log_posterior(self, params: Array) -> Array:
        """Log posterior density of each parameter vector, up to a constant: one pass over all rows."""
        return np.asarray(self.log_likelihood(params) + self.log_prior(params))

    def derivatives(self, u: Array) -> Derivatives:
        """Log-likelihood, gradient and minus the curvature at one parameter vector: one pass over all rows."""
        found = self.rows.reduce(OwnDerivatives(self.function, self.parameters.natural(u)))
        return in_u(self.parameters, u, found)

    @property
    def sizes(self) -> Array:
        """Rows touched when one entry of a parameter vector moves: all of them."""
        return self.on(self.rows).sizes

    def follow(self, by_column: bool) -> Follower:
        """The log-likelihood of chains."""
        return self.on(self.rows).follow(by_column)

    def measure(self, mode: AnyMode, outcome: float) -> Size:
        """Rows without an event are drawn in proportion to the size of their log-likelihood at the mode."""
        mean = abs(mode.dense.log_likelihood) / self.rows.total_weight
        return Size(self.function, self.parameters.natural(mode.theta), mean)

    def require_bounds(self, who: str) -> NoReturn:
        """Raise an error: rows of such a model have no known bounds."""
        raise ValueError(
            f"{who} needs bounds on third derivatives, which a tb.Model does not have; use method='two-stage' or 'mh', "
            "or, if the model has a linear predictor, tb.family and tb.fit"
        )

    def part(self, rows: RowsAtHand, share: float, groups: Any = None) -> Self:
        """The same model of some of the rows, with the prior to the power `share`."""
        model = copy(self)
        model.rows, model.parameters, model.whole = rows, self.parameters.to_the_power(share), False
        return model

    def few(self, size: int, rng: np.random.Generator) -> Self:
        """The same model of a weighted subsample of the rows: more of those that the start finds unlikely."""
        model, x = copy(self), self.parameters.start
        mean = abs(float(self.rows.reduce(OwnLogLikelihood(self.function, x[None]))[0])) / self.rows.total_weight
        model.rows = self.rows.sample(size, rng, measure=Size(self.function, x, mean))
        return model

    def variables(self, theta: Array) -> Variables:
        """Posterior variables and their coordinates, from draws (chain, draw, width)."""
        x, found, start = self.parameters.natural(theta), {}, 0
        for name, shape, size in zip(
            self.parameters.shapes.names, self.parameters.shapes.shapes, self.parameters.shapes.sizes, strict=True
        ):
            axes = tuple(f"{name}_dim_{axis}" for axis in range(len(shape)))
            values = x[..., start : start + size].reshape(*x.shape[:2], *shape)
            found[name] = (("chain", "draw", *axes), values)
            start += size
        every = zip(self.parameters.shapes.names, self.parameters.shapes.shapes, strict=True)
        return found, {f"{name}_dim_{axis}": list(range(n)) for name, shape in every for axis, n in enumerate(shape)}

    def watched(self, theta: Array) -> Array:
        """What convergence is judged by, from draws (chain, draw, width)."""
        return self.parameters.natural(theta)

    def per_row(self, drawn: Mapping[str, Array]) -> OwnRows:
        """The log-likelihood of single rows, by draws (draw, ...) of each posterior variable."""
        values = [drawn[name].reshape(len(drawn[name]), -1) for name in self.parameters.shapes.names]
        return OwnRows(self.function, self.parameters, np.concatenate(values, axis=1))

    def result(self, run: Sampled) -> Result:
        """The draws by name."""
        told = {"log_likelihood": self.function.name, "columns": [field.name for field in self.function.fields]}
        told |= {"derivatives": self.function.derived}
        stats = run.stats | {"outcome": "", "told": list(self.left_out), "bounds": "none", "model": told}
        stats["data"] = self.called
        others = {"prior": self.parameters.described()}
        return Result(ModelFit.kind, self.variables(run.theta), run.sample_stats, stats, others, run.diagnostics)


class OwnLikelihood:
    """A user's log-likelihood of some rows; see `Likelihood`."""

    def __init__(self, model: Model, rows: RowsAtHand) -> None:
        self._model, self.rows = model, rows

    @property
    def sizes(self) -> Array:
        """See `Likelihood`."""
        return np.array([float(self.rows.size)])

    def log_likelihood(self, params: ArrayLike) -> Array:
        """See `Likelihood`."""
        x = self._model.parameters.natural(np.atleast_2d(np.asarray(params, dtype=float)))
        return self.rows.reduce(OwnLogLikelihood(self._model.function, x))

    def follow(self, by_column: bool) -> Follower:
        """See `Likelihood`."""
        return Direct(self.log_likelihood)


def in_u(parameters: Parameters, u: Array, here: Derivatives) -> Derivatives:
    """Derivatives in x as derivatives in u."""
    first, second = parameters.slopes(u)
    curvature = here.curvature * np.outer(first, first) - np.diag(here.gradient * second)
    return Derivatives(here.value, here.gradient * first, curvature)
