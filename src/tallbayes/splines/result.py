"""MARSFit: the posterior of a spline. Draws of varying dimension, what they say about variables, and predictions.

Draws share bases, since most moves leave most of them alone: the posterior holds numbers of bases, and a table has each
different basis once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from tallbayes.data.new_rows import new_rows
from tallbayes.data.pieces import Source
from tallbayes.data.tally import Where, row
from tallbayes.models.model import Result, Sampled
from tallbayes.results.datasets import Given, dataset
from tallbayes.results.example import example
from tallbayes.results.fit import DRAWS, Fit
from tallbayes.results.predict import Asked, Predicted, as_table, check_interval, evenly_spaced, summarise
from tallbayes.results.story import enumerated
from tallbayes.rows.arrays import Arrays
from tallbayes.rows.calibration import by_predictor, calibrate
from tallbayes.sampling import diagnostics
from tallbayes.sampling.diagnostics import Diagnostics
from tallbayes.splines.basis import DEGREE, KNOT, MEAN, SD, SIGN, VARIABLE, WIDTH, Splines, mean_spline
from tallbayes.splines.effects import SUBSETS, effect, subset_means, total_effects
from tallbayes.splines.model import MARS, splines

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Array = NDArray[np.float64]

KEPT = 200  # draws that say how much variables matter
AVERAGED = 20  # draws that make the predictions which are held against outcomes
LEVELS = 101  # quantiles of each variable
GRID, FEW = 60, 10  # points of an effect; values of a variable that are all shown
SHOWN = 8  # log-odds in a printed fit
OFTEN = 0.1  # share of draws with the most bases above which their number should have been larger
EFFECT = ("mean", "lower", "upper", "sd")  # what is known of an effect
PARTS = ("degree", *(f"{what}_{j}" for what in ("variable", "sign", "knot") for j in (1, 2, 3)), "mean", "sd")


class MARSFit(Fit):
    """A posterior sample of a `MARS` model.

    `posterior` holds the number of `bases` (chain, draw), the `precision` lambda, and the `log_odds` (chain, draw,
    point) of a few rows, by which convergence is judged. `splines` holds the coefficients `beta` (chain, draw, term),
    the intercept first and NaN where a draw has no such term, and the `basis` of each term but the intercept: its
    number in `table`, or -1. `sample_stats` holds the log-likelihood.

    >>> X = np.random.default_rng(0).random((300, 2))
    >>> import tallbayes as tb
    >>> fit = tb.sample(tb.MARS(X, X[:, 0] > 0.5), draws=50, warmup=100, chains=2, seed=1, progress=False)
    >>> fit.predict([[0.1, 0.5], [0.9, 0.5]])["mean"].round()
    0    0.0
    1    1.0
    Name: mean, dtype: float64
    >>> fit.importance()["effect"].idxmax()
    'x0'
    """

    kind: ClassVar[str] = "mars"
    datasets: ClassVar[dict[str, str]] = DRAWS | {"splines": "splines", "table": "constant_data"}

    splines: xr.Dataset = dataset()
    table: xr.Dataset = dataset()

    def __init__(self, *, splines: Given, table: Given, **parts: Any) -> None:
        super().__init__(**parts)
        self.splines, self.table = splines, table

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(str(name) for name in self.table["variable"].values)

    @property
    def _model(self) -> str:
        """What was fitted, in two words."""
        return "Bayesian MARS"

    @property
    def _title(self) -> str:
        """The formula, or the variables."""
        return self.formula.text if self.formula is not None else f"Splines of {enumerated(self.variables)}"

    @property
    def coefficients(self) -> tuple[str, ...]:
        """A spline has no coefficients of a fixed meaning."""
        return ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """What is followed: the number of bases, lambda, and the log-odds of a few rows."""
        points = self.posterior.sizes["point"]
        return ("bases", "precision", *(f"log_odds[{point}]" for point in range(points)))

    @property
    def _draws(self) -> Array:
        bases, precision = (self._values(name)[..., None] for name in ("bases", "precision"))
        return np.concatenate([bases, precision, self._values("log_odds", "point")], axis=2)

    @cached_property
    def _all(self) -> tuple[Splines, Array]:
        """All draws in one row, and the means of subsets of each one's hinges."""
        beta = np.nan_to_num(self.splines["beta"].values)
        number = self.splines["basis"].values.reshape(-1, beta.shape[-1] - 1)
        bases, means = self.table["bases"].values, self.table["means"].values
        some = number >= 0
        of_draw, of_means = np.zeros((*number.shape, WIDTH)), np.zeros((*number.shape, SUBSETS))
        of_draw[some], of_means[some] = bases[number[some]], means[number[some]]
        count = self._values("bases").reshape(-1).astype(np.intp)
        return Splines(count, beta.reshape(count.size, -1), of_draw), of_means

    def _design(self, new_data: Any, where: Where = row) -> Array:
        """Variables (d, rows) of new data."""
        if self.formula is not None:
            x = self.formula.apply(new_data, where)
            return x[[j for j, name in enumerate(self.formula.coefficients) if name != "Intercept"]]
        if hasattr(new_data, "columns") and self.stats["named"]:
            missing = [name for name in self.variables if name not in new_data.columns]
            if missing:
                raise ValueError(
                    f"new data has no column {missing[0]!r}; it has {', '.join(map(repr, new_data.columns))}"
                )
            new_data = new_data[list(self.variables)]
        x = np.asarray(new_data, dtype=float)
        if x.ndim != 2 or x.shape[1] != len(self.variables):
            raise ValueError(f"new data must be (rows, {len(self.variables)} variables), but it is {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError("new data has missing or infinite values; drop or impute them before predicting")
        return np.ascontiguousarray(x.T)

    def log_odds(self, new_data: Any, draws: int | None = None) -> Array:
        """Draws (chain, draw, row) of the log-odds of new rows: their ESS says how well predictions are known.

        `draws` is the number of draws of each chain, evenly spaced; all unless given.
        """
        chains, every = self.posterior.sizes["chain"], self.posterior.sizes["draw"]
        kept = evenly_spaced(every if draws is None else draws, every)
        each = (kept + every * np.arange(chains)[:, None]).ravel()
        return self._all[0].some(each).each(self._design(new_data)).reshape(chains, kept.size, -1)

    def _problems(self) -> list[str]:
        """What is wrong with the draws.

        That k never changes is not against them, but that it is often as large as it may be is.
        """
        bases, most = self._values("bases"), self.splines.sizes["slot"]
        first = int(np.ptp(bases) == 0)
        found = Diagnostics(*(part[first:] for part in self._diagnostics))
        said = diagnostics.problems(self._draws[..., first:], self.parameters[first:], found)
        if (share := float((bases == most).mean())) > OFTEN:
            said.append(f"{share:.0%} of draws have as many bases as they may; raise max_bases above {most}")
        return said

    def predict(
        self, new_data: Any, offset: ArrayLike | None = None, draws: int = 300, interval: float = 0.94, seed: int = 0
    ) -> pd.DataFrame:
        """Posterior mean and interval of each row's probability, from evenly spaced draws."""
        if self.formula is not None:
            return super().predict(new_data, offset, draws, interval, seed)
        summary = self._summary(Asked(offset, draws, interval, seed))
        return as_table(summary(self._design(new_data)), interval, new_data)

    def _predicted(self, source: Source, keep: Sequence[str], asked: Asked) -> Iterator[Predicted]:
        if self.formula is None:
            raise ValueError("this fit has no formula, so it cannot predict rows by name; use fit.predict(array)")
        summary, parsed = self._summary(asked), self.formula.parsed
        for rows in new_rows(source, parsed.predictors, parsed.dates, keep):
            yield Predicted(rows, summary(self._design(rows.source, rows.where)))

    def _summary(self, asked: Asked) -> Callable[[Array], Array]:
        """What makes means and intervals (3, row) of variables (d, row)."""
        if asked.offset is not None:
            raise ValueError("the model was fitted without an offset, so predict takes none")
        asked.check()
        every = self._all[0]
        chosen = every.some(evenly_spaced(asked.draws, every.sizes.size))

        def summary(x: Array) -> Array:
            rows = np.arange(x.shape[1])
            return summarise(rows, chosen.sizes.size, lambda some: chosen.each(x[:, some]).T, expit, asked.interval)

        return summary

    def importance(self) -> pd.DataFrame:
        """How much each variable matters, one line each.

        `included` is the share of draws with a basis that has it, `bases` the mean number of them, and `effect` the
        standard deviation of what changes in the log-odds with that variable alone, with its 94% interval.
        """
        import pandas as pd

        every, _ = self._all
        degree, variable = every.bases[..., DEGREE], every.bases[..., VARIABLE : VARIABLE + 3]
        has = [((variable == v) & (np.arange(3) < degree[..., None])).any(2).sum(1) for v in range(len(self.variables))]
        effects = self.table["effects"].values
        low, high = np.quantile(effects, [0.03, 0.97], axis=0)
        columns = {
            "included": [float((count > 0).mean()) for count in has],
            "bases": [float(count.mean()) for count in has],
            "effect": effects.mean(0),
            "eti94_lb": low,
            "eti94_ub": high,
        }
        return pd.DataFrame(columns, index=pd.Index(self.variables)).sort_values("effect", ascending=False)

    def effect(
        self, *variables: str, grids: tuple[ArrayLike, ...] | None = None, draws: int = 300, interval: float = 0.94
    ) -> xr.Dataset:
        """The log-odds as a function of one or two variables, averaged over the others: mean, interval, and sd.

        `grids` are the values of each variable, from its 1% to its 99% quantile unless given.
        """
        import xarray as xr

        if not 1 <= len(variables) <= 2 or len(set(variables)) < len(variables):
            raise ValueError(f"an effect is one of one variable or of two different ones, not of {variables!r}")
        for name in variables:
            if name not in self.variables:
                raise ValueError(f"there is no variable {name!r}; there are {', '.join(map(repr, self.variables))}")
            if name in EFFECT:
                raise ValueError(f"a variable called {name!r} cannot be told from what an effect is made of; rename it")
        check_interval(interval)
        places = tuple(self.variables.index(name) for name in variables)
        given = tuple(self._grid(place) for place in places) if grids is None else grids
        at = tuple(np.asarray(grid, dtype=float) for grid in given)
        if len(at) != len(places) or any(grid.ndim != 1 for grid in at):
            raise ValueError(f"grids must have a list of values for each of {', '.join(map(repr, variables))}")
        every, means = self._all
        kept = evenly_spaced(draws, every.sizes.size)
        values = effect(every.some(kept), means[kept], places, at)
        low, high = np.quantile(values, [(1 - interval) / 2, (1 + interval) / 2], axis=0)
        found = zip(EFFECT, (values.mean(0), low, high, values.std(0)), strict=True)
        return xr.Dataset({name: (variables, part) for name, part in found}, dict(zip(variables, at, strict=True)))

    def _grid(self, variable: int) -> Array:
        """Values between the 1% and the 99% quantile; of a variable that takes few, all of those."""
        quantiles = self.table["quantiles"].values[variable]
        values = np.unique(quantiles)
        return values if values.size <= FEW else np.linspace(quantiles[1], quantiles[-2], GRID)

    def _effects(self) -> list[str]:
        from tallbayes.splines.report import spline_section

        return [spline_section(self)]

    def _advice(self) -> list[str]:
        return [
            "Chains of splines take long to meet: draw more. Predictions agree well before the splines do; compare "
            "those of single chains."
        ]

    @property
    def _shown(self) -> int:
        return 2 + SHOWN

    def _left_out(self) -> list[str]:
        more = self.posterior.sizes["point"] - SHOWN
        return [f"... and {more:,} more log-odds; fit.summary() has them all"] if more > 0 else []

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n\n{self.importance().round(3).to_string()}"

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}\n{self.importance().round(3).to_html()}"


@dataclass(frozen=True, eq=False)
class _Mean:
    """The mean of some splines, as a predictor of rows."""

    splines: Splines

    @property
    def looks(self) -> int:
        """See `Predictor`."""
        return self.splines.sizes.size

    def of(self, arrays: Arrays, params: Array) -> Array:
        """See `Predictor`."""
        return mean_spline(arrays, self.splines)


def spline_result(model: MARS, run: Sampled) -> Result:
    """What is told of draws (chain, draw, width)."""
    theta = run.theta
    chains, draws = theta.shape[:2]
    every = splines(theta, model.most)
    live = np.arange(model.most) < every.sizes[:, None]
    bases, number = np.unique(every.bases[live], axis=0, return_inverse=True)
    basis = np.full(live.shape, -1, np.int32)
    basis[live] = number.reshape(-1)
    beta = np.where(np.concatenate([np.ones((len(live), 1), bool), live], axis=1), every.coefficients, np.nan)
    means = np.empty((len(bases), SUBSETS))
    subset_means(model.reference.x, bases, means)
    some = every.some(evenly_spaced(KEPT, every.sizes.size))
    effects = total_effects(some, model.reference, np.random.default_rng(run.seed))
    levels = np.linspace(0, 1, LEVELS)
    quantiles = np.quantile(model.reference.x, levels, axis=1, method="inverted_cdf")  # values that rows have
    averaged = every.some(evenly_spaced(AVERAGED, every.sizes.size))
    axes = ("chain", "draw")
    drawn = {
        "beta": ((*axes, "term"), beta.reshape(chains, draws, -1)),
        "basis": ((*axes, "slot"), basis.reshape(chains, draws, -1)),
    }
    table = {
        "bases": (("basis", "part"), bases),
        "means": (("basis", "subset"), means),
        "quantiles": (("variable", "level"), quantiles.T),
        "points": (("point", "variable"), model.points.T),
        "effects": (("kept", "variable"), effects),
    }
    others = {
        "formula": model.formula,
        "splines": (drawn, {"chain": np.arange(chains), "draw": np.arange(draws)}),
        "table": (table, {"variable": list(model.names), "part": list(PARTS)}),
        "calibration": calibrate(by_predictor(model.rows, None, _Mean(averaged), model.look), model.family),
    }
    stats = run.stats | {"named": model.named, "outcome": model.outcome_said}
    stats["told"] = [*([model.outcome_said] if model.outcome_said else []), *model.left_out]
    return Result("mars", model.variables(theta), run.sample_stats, stats, others)


def example_mars(seed: int = 0) -> MARSFit:
    """A small fit made of random numbers, to try things with.

    The log-odds rise with age, more so where `urban` is 1; half of the draws have a little of `income` too.

    >>> fit = example_mars()
    >>> fit.variables
    ('age', 'income', 'urban')
    >>> fit.effect("age", grids=([30.0, 70.0],))["mean"].values.round(1)
    array([-1.7,  0.8])
    """
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(20, 80, 200), rng.normal(50, 15, 200), rng.random(200) < 0.4])
    model = MARS(x, rng.random(200) < 0.5, max_bases=4, names=("age", "income", "urban"))
    hinges = [({0: knot}, {2: 0.0}, {0: knot, 2: 0.0}, {1: knot + 5}) for knot in rng.normal(45, 2, 8)]
    bases = [[_basis(x, knots) for knots in each] for each in hinges]
    theta = np.zeros((2, 40, model.width))
    for i, draw in enumerate(theta.reshape(80, -1)):  # laid out as `splines` reads it
        size = 3 + i % 2
        draw[:2] = size, rng.gamma(2.0)
        draw[2 : size + 3] = rng.normal([-0.5, 0.9, 0.5, 0.6, 0.1][: size + 1], 0.1)
        draw[7:].reshape(4, WIDTH)[:size] = rng.choice(bases)[:size]
    facts = {"method": "two-stage reversible jump", "rows": 200, "distinct_rows": 200, "rows_per_draw": 200.0}
    stats = example(seed, chains=1, draws=1).stats | facts
    known = {"total_log_likelihood": rng.normal(-100, 2, (2, 40))}
    run: Any = SimpleNamespace(theta=theta, sample_stats=known, stats=stats, seed=seed)
    return MARSFit.of(spline_result(model, run))


def _basis(x: Array, knots: dict[int, float]) -> Array:
    """The product of rising hinges with these knots, one per variable, standardised on rows x (n, d)."""
    variables, basis = list(knots), np.zeros(WIDTH)
    column = np.maximum(x[:, variables] - list(knots.values()), 0.0).prod(axis=1)
    for part, value in ((VARIABLE, variables), (SIGN, 1.0), (KNOT, list(knots.values()))):
        basis[part : part + len(knots)] = value
    basis[[DEGREE, MEAN, SD]] = len(knots), column.mean(), column.std()
    return basis
