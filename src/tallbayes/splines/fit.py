"""MARSFit: the posterior of a spline. Draws of varying dimension, what they say about variables, and predictions.

Draws share bases, since most moves leave most of them alone: the posterior holds numbers of bases, and a table has each
different basis once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from tallbayes.data.new_rows import new_rows
from tallbayes.data.once import once
from tallbayes.data.options import check_choice, check_texts
from tallbayes.data.per_row import as_numbers
from tallbayes.data.pieces import Source
from tallbayes.data.tally import Where, row
from tallbayes.models.priors import rounded
from tallbayes.results.datasets import Given, dataset
from tallbayes.results.expected import Centre, Draws
from tallbayes.results.fit import Fit
from tallbayes.results.posterior import DRAWS
from tallbayes.results.predict import Asked, Predicted, as_table, check_interval, evenly_spaced, summarise
from tallbayes.results.story import enumerated
from tallbayes.sampling import diagnostics
from tallbayes.sampling.diagnostics import Diagnostics
from tallbayes.splines.basis import DEGREE, MOST, VARIABLE, WIDTH, Splines
from tallbayes.splines.effects import SUBSETS, effect
from tallbayes.splines.expected import FEW, SplineCentre, SplineDraws, variables
from tallbayes.splines.probabilities import EFFECT, INTERVAL, effect_dataset, effect_summary, grid_of, stored_effect

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

EFFECT_DRAWS = 300  # that make an effect on the scale of the log-odds unless a number is given
SHOWN, SLOWEST = 8, 4  # log-odds in a printed fit, and among the diagnostics of a report
NO_OFFSET = "the model was fitted without an offset, so predictions take none"
OFTEN = 0.1  # share of draws with the most bases above which their number should have been larger


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
        """The quantities that are followed: the number of bases, lambda, and the log-odds of a few rows."""
        points = self.posterior.sizes["point"]
        return ("bases", "precision", *(f"log_odds[{point}]" for point in range(points)))

    @property
    def main_parameters(self) -> tuple[str, ...]:
        """The number of bases, lambda, and the few log-odds with the fewest effective draws."""
        slowest = np.sort(np.argsort(self._diagnostics.ess_bulk[2:], kind="stable")[:SLOWEST]) + 2
        return (*self.parameters[:2], *(self.parameters[i] for i in slowest))

    @property
    def _draws(self) -> Array:
        bases, precision = (self._values(name)[..., None] for name in ("bases", "precision"))
        return np.concatenate([bases, precision, self._values("log_odds", "point")], axis=2)

    @once
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

    def _chosen_draws(self, chosen: NDArray[np.intp]) -> dict[str, Any]:
        """See `Fit._chosen_draws`: the splines."""
        return {"splines": self._all[0].some(chosen)}

    def _check(self) -> None:
        bases, means, number = self.table["bases"].values, self.table["means"].values, self.splines["basis"].values
        beta, count, most = self.splines["beta"].values, self._values("bases"), number.shape[-1]
        if beta.shape != (*count.shape, most + 1) or number.shape[:2] != count.shape or count.min() < 0:
            raise ValueError("the coefficients of the splines do not fit the draws")
        if count.max() > most or number.max(initial=-1) >= len(bases) or number.dtype.kind != "i":
            raise ValueError("splines have bases that are not in their table")
        if not (np.arange(most) < count[..., None])[number >= 0].all() or not np.isfinite(bases).all():
            raise ValueError("splines have more bases than they should")
        if bases.shape[1:] != (WIDTH,) or means.shape != (len(bases), SUBSETS):
            raise ValueError("the bases of splines are not as they were written")
        degree, variables = bases[:, DEGREE], bases[:, VARIABLE : VARIABLE + MOST]
        if not np.isin(degree, range(1, MOST + 1)).all() or not np.isin(variables, range(len(self.variables))).all():
            raise ValueError("bases of splines have variables that are not there")
        names = () if self.formula is None else self.formula.coefficients
        if self.formula is not None and tuple(name for name in names if name != "Intercept") != self.variables:
            raise ValueError("the variables of the splines are not those of the formula")

    def _design(self, new_data: Any, where: Where = row) -> Array:
        """Variables (d, rows) of new data."""
        if self.formula is not None:
            return variables(self.formula, self.formula.apply(new_data, where))
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
            said.append(f"{share:.0%} of draws have as many bases as they can; raise max_bases above {most}")
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
        summary, formula = self._summary(asked), self.formula
        for rows in new_rows(source, formula.parsed.predictors, formula.clean_raw, keep):
            yield Predicted(rows, summary(self._design(rows.source, rows.where)))

    def _summary(self, asked: Asked) -> Callable[[Array], Array]:
        """What makes means and intervals (3, row) of variables (d, row)."""
        if asked.offset is not None:
            raise ValueError(NO_OFFSET)
        asked.check()
        every = self._all[0]
        chosen = every.some(evenly_spaced(asked.draws, every.sizes.size))

        def summary(x: Array) -> Array:
            rows = np.arange(x.shape[1])
            return summarise(rows, chosen.sizes.size, lambda some: chosen.each(x[:, some]).T, expit, asked.interval)

        return summary

    def _centre(self, offset: float | None) -> Centre:
        if offset is not None:
            raise ValueError(NO_OFFSET)
        assert self.formula is not None
        every = self._all[0]
        return SplineCentre(self.formula.to_json(), every.some(evenly_spaced(FEW, every.sizes.size)))

    def _some(self, draws: int, seed: int) -> Draws:
        every, chains, kept = self._all[0], self.posterior.sizes["chain"], self._kept(draws)
        numbers = kept + self.posterior.sizes["draw"] * np.arange(chains)[:, None]
        return SplineDraws(every.some(numbers.ravel()), chains)

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
        self,
        *variables: str,
        scale: str = "log-odds",
        grids: tuple[ArrayLike, ...] | None = None,
        draws: int | None = None,
        interval: float = INTERVAL,
    ) -> xr.Dataset:
        """The effect of one or two variables, averaged over the others: mean, interval, and sd at each value.

        On the scale of the log-odds, the default, that is the mean of the log-odds, from 300 draws unless `draws` says
        otherwise, at the values that `grids` have for each variable, from its 1% to its 99% quantile unless given. On
        the scale "probability" it is the mean probability of some hundred rows of the data with the variables set to
        these values. It was computed when the fit was made, since a fit holds no rows: for each variable, and for the
        few pairs that share the most bases, with 94% intervals.

        >>> from tallbayes.splines.example import example_mars
        >>> fit = example_mars()
        >>> fit.effect("urban")["mean"].values.round(1)
        array([-1.1,  0.7])
        >>> fit.effect("urban", scale="probability")["mean"].values.round(1)
        array([0.3, 0.6])
        """
        places = self._places(variables)
        check_interval(interval)
        check_choice("scale", scale, ("log-odds", "probability"))
        if scale == "probability":
            if grids is not None or draws is not None or interval != INTERVAL:
                raise ValueError(
                    f'effects with scale="probability" are stored with {INTERVAL:.0%} intervals, so that grids, draws '
                    'and another interval do not go with it; leave them out, or take scale="log-odds"'
                )
            return effect_dataset(variables, *stored_effect(self.table, places))
        given = tuple(grid_of(self.table["quantiles"].values[place]) for place in places) if grids is None else grids
        at = tuple(as_numbers("grids", grid, "a list of numbers for each variable") for grid in given)
        if len(at) != len(places) or any(grid.ndim != 1 for grid in at):
            raise ValueError(f"grids must have a list of values for each of {', '.join(map(repr, variables))}")
        every, means = self._all
        kept = evenly_spaced(EFFECT_DRAWS if draws is None else draws, every.sizes.size)
        values = effect(every.some(kept), means[kept], places, at)
        return effect_dataset(variables, effect_summary(values, interval), at)

    def _places(self, variables: tuple[str, ...]) -> tuple[int, ...]:
        """Numbers of one or two variables."""
        check_texts("variables", variables, "names of variables")
        if not 1 <= len(variables) <= 2 or len(set(variables)) < len(variables):
            raise ValueError(f"an effect is that of one variable, or of two different ones, not of {variables!r}")
        for name in variables:
            if name not in self.variables:
                raise ValueError(f"there is no variable {name!r}; there are {', '.join(map(repr, self.variables))}")
            if name in EFFECT:
                raise ValueError(f"a variable called {name!r} cannot be told from what an effect is made of; rename it")
        return tuple(self.variables.index(name) for name in variables)

    def _ratios(self) -> NDArray[np.bool_]:
        raise ValueError(
            "exponentiate=True is for coefficients, and splines have none; fit.effect says what variables do"
        )

    def _pictures(self) -> dict[str, Callable[..., Figure]]:
        from tallbayes.splines.plots import effects, importance  # here, since pictures need fits

        return {"effects": effects, "importance": importance}

    def _effects(self) -> list[str]:
        from tallbayes.splines.report import spline_sections

        return spline_sections(self)

    def _explained(self) -> dict[str, str]:
        from tallbayes.splines.report import points_in_words

        return points_in_words(self)

    def _advice(self) -> list[str]:
        return [
            "Chains of splines take a long time to meet: draw more. Predictions agree well before the splines do; "
            "compare those of single chains."
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
        from tallbayes.results.notebook import block

        return block(self, {"How much each variable matters": self.importance().map(rounded)})
