"""Fit: what sampling leaves behind. Draws, the story of the run, and enough of the model to predict; no rows.

`file.py` says how one is saved, `story.py` how the run is told, `example.py` has one to try things with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.formula import Formula
from tallbayes.data.once import once
from tallbayes.data.options import check_flag, check_kind, check_texts, check_whole
from tallbayes.data.pieces import Source
from tallbayes.data.progress import showing
from tallbayes.data.sources import open_source
from tallbayes.families import Bernoulli, Family
from tallbayes.models.model import Result
from tallbayes.models.priors import rounded
from tallbayes.models.side_by_side import Parameters
from tallbayes.results.datasets import Given, dataset, sizes
from tallbayes.results.expected import Centre, Draws, LinearCentre, LinearDraws, posterior_mean
from tallbayes.results.intervals import Interval
from tallbayes.results.predict import (
    Asked,
    Effects,
    Offsets,
    Predicted,
    as_table,
    evenly_spaced,
    gathered,
    names_of,
    predicted,
)
from tallbayes.results.ratios import require_ratio
from tallbayes.results.story import enumerated, facts, story
from tallbayes.results.table import exponentiated, table
from tallbayes.rows.calibration import Calibration
from tallbayes.sampling import diagnostics
from tallbayes.sampling.diagnostics import Diagnostics

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from tallbayes.results.changes import Variables
    from tallbayes.results.elpd import Elpd
    from tallbayes.results.more import Origin
    from tallbayes.sampling.journal import Standing

Array = NDArray[np.float64]

BERNOULLI = Bernoulli()
DRAWS = {"posterior": "posterior", "sample_stats": "sample_stats"}  # the datasets of every fit


class Fit:
    """A posterior sample of one model.

    `posterior` holds `beta` (chain, draw, coefficient), `sample_stats` the log posterior `lp` (chain, draw) where the
    sampler knows it. `stats` says how the run went: seconds by phase, acceptance by stage, rows touched per draw,
    exact or not. `prior` has the prior of each parameter in words, by name. `fit["fico"]` are the draws (chain, draw)
    of one parameter.

    Fits with a group term (`tb.HierarchicalFit`) and of splines (`tb.MARSFit`) have more.

    >>> from tallbayes.results.example import example
    >>> fit = example()
    >>> fit.posterior["beta"].dims
    ('chain', 'draw', 'coefficient')
    >>> fit.summary()["mean"].round(1).to_dict()
    {'Intercept': -1.0, 'fico': 0.5}
    """

    kinds: ClassVar[dict[str, type[Fit]]] = {}  # of fits, by the name that a file has for them
    kind: ClassVar[str] = "regression"
    datasets: ClassVar[dict[str, str]] = DRAWS  # by argument, their names in a file
    called: ClassVar[str] = "coefficient"  # what its parameters are called
    group: str | None = None  # the column g of a group term (1 | g)
    groups: xr.Dataset | None = None  # what is known of each group, if there are any
    standing: Standing | None = None  # where its chains have stopped
    origin: Origin | None = None  # how it was made
    continued: bytes | None = None  # both as a file has them, where it was loaded (`continuation.py`)

    posterior: xr.Dataset = dataset()
    sample_stats: xr.Dataset = dataset()

    def __init_subclass__(cls) -> None:
        Fit.kinds[cls.kind] = cls

    def __init__(
        self,
        *,
        posterior: Given,
        sample_stats: Given,
        stats: dict[str, Any],
        formula: Formula | None = None,
        family: Family = BERNOULLI,
        offset: str | None = None,
        has_offset: bool = False,
        calibration: Calibration | None = None,
        prior: dict[str, str] | None = None,
    ) -> None:
        lengths = sizes(posterior)
        if lengths["chain"] * lengths["draw"] == 0:
            raise ValueError("a fit needs at least one draw, but the posterior has none")
        self.posterior, self.sample_stats = posterior, sample_stats
        self.stats = stats
        self.formula = formula
        self.family = family
        self.offset = offset
        self.has_offset = has_offset or offset is not None
        self.prior = prior or {}
        self._calibration = calibration

    @classmethod
    def of(cls, result: Result) -> Self:
        """The fit that a model's result is made into."""
        variables, coordinates = result.posterior
        axes = ("chain", "draw")
        shape = np.shape(next(iter(variables.values()))[1])
        index = {axis: np.arange(size) for axis, size in zip(axes, shape, strict=False)}
        known = {name: (axes, values) for name, values in result.sample_stats.items()}
        draws: dict[str, Given] = {"posterior": (variables, index | coordinates), "sample_stats": (known, index)}
        self = cls(**draws, stats=result.stats, **result.others)
        if result.diagnostics is not None:
            self._diagnostics = result.diagnostics  # takes the place of what would be computed
        return self

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(str(name) for name in self.posterior["coefficient"].values)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters, in the order of `draws`.

        >>> from tallbayes.results.example import example
        >>> example().parameters
        ('Intercept', 'fico')
        """
        return self.coefficients

    @property
    def main_parameters(self) -> tuple[str, ...]:
        """The parameters that are shown where all would be too many."""
        return self.parameters

    @property
    def _model(self) -> str:
        """What was fitted, in two words."""
        return f"{self.family.title[:1].upper()}{self.family.title[1:]} regression"

    @property
    def _title(self) -> str:
        """The formula, or what the outcome was regressed on."""
        return self.formula.text if self.formula is not None else f"Regression on {enumerated(self.coefficients)}"

    @property
    def draws(self) -> Array:
        """All parameters as an array of shape (chain, draw, parameter)."""
        return np.ascontiguousarray(self._draws)

    @property
    def _draws(self) -> Parameters:
        """All parameters as the posterior has them: no copy of thousands of group effects is made."""
        return self._values("beta", "coefficient")

    def _values(self, name: str, *axis: str) -> Array:
        return np.asarray(self.posterior[name].transpose("chain", "draw", *axis).values)

    @property
    def minutes(self) -> float:
        """Minutes of sampling, without set-up and warm-up."""
        return float(self.stats["seconds"]["sampling"]) / 60

    @once
    def _diagnostics(self) -> Diagnostics:
        """Computed when first asked for, unless the run has looked at them."""
        return diagnostics.diagnose(self._draws)

    def summary(self, exponentiate: bool = False, interval: float = 0.94, kind: str = "eti") -> pd.DataFrame:
        """One line per parameter: posterior mean, sd and 94% interval, and how far to trust them.

        `interval` is the share of draws in the interval, `kind` "eti" (equal tails) or "hdi" (the shortest one). With
        `exponentiate`, mean, sd, interval and Monte Carlo errors are those of exp(draws) of coefficients and of effects
        of groups: odds ratios, or ratios of means (rates) with a log link, or of hazards with cloglog; for the
        intercept, the odds or the mean where all columns are 0. The sd of the groups stays as it is.

        >>> from tallbayes.results.example import example
        >>> example().summary()[["mean", "sd", "r_hat"]].round(2)
                   mean    sd  r_hat
        Intercept  -1.0  0.05    1.0
        fico        0.5  0.05    1.0
        >>> example().summary(exponentiate=True, interval=0.9, kind="hdi")[["mean", "hdi90_lb", "hdi90_ub"]].round(1)
                   mean  hdi90_lb  hdi90_ub
        Intercept   0.4       0.3       0.4
        fico        1.7       1.5       1.8
        """
        check_flag("exponentiate", exponentiate)
        asked = Interval.of(interval, kind)
        if exponentiate:
            return exponentiated(self._draws, self.parameters, self._ratios(), self.minutes, asked)
        return table(self._draws, self.parameters, self._diagnostics, self.minutes, asked)

    def _ratios(self) -> NDArray[np.bool_]:
        """Of which parameters exp is a ratio: of coefficients, and of effects of groups, which come last."""
        require_ratio(self.family)
        place = np.arange(len(self.parameters))
        return (place < len(self.coefficients)) | (place >= len(self.main_parameters))

    def __getitem__(self, name: str) -> xr.DataArray:
        """Draws (chain, draw) of one of `parameters`, a copy.

        >>> from tallbayes.results.example import example
        >>> example()["fico"].dims
        ('chain', 'draw')
        """
        from tallbayes.results.questions import parameter

        return parameter(self, name)

    def __iter__(self) -> Iterator[str]:
        """Names of all parameters."""
        return iter(self.parameters)

    def draws_frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """The draws as a table: a line for each chain and draw, a column for each parameter, or for those named.

        >>> from tallbayes.results.example import example
        >>> example(draws=2, chains=1).draws_frame().round(1)
                    Intercept  fico
        chain draw
        0     0          -1.0   0.5
              1          -1.0   0.5
        """
        from tallbayes.results.questions import draws_frame

        return draws_frame(self, names)

    def prob(self, statement: str) -> float:
        """The posterior probability of a statement about parameters: the share of draws in which it is true.

        A statement compares parameters, numbers, and what is computed from them by + - * / **, abs, exp, log and sqrt,
        and joins comparisons by `and`, `or` and `not`. Names are written as in `parameters`; where one could also be
        read as something else, put it in backticks.

        The Monte Carlo standard error of a probability p is about sqrt(p (1 - p) / n), with the `ess_bulk` of the
        parameters for n. A probability of 0 or 1 means that the statement was true in none, or all, of about n
        independent draws.

        >>> from tallbayes.results.example import example
        >>> example().prob("fico > 0"), example().prob("Intercept < -1 and 0.4 < fico < 0.6")
        (1.0, 0.4895)
        """
        from tallbayes.results.questions import probability

        return probability(self, statement)

    def contrast(
        self,
        contrasts: str | Sequence[str] | Mapping[str, str],
        exponentiate: bool = False,
        interval: float = 0.94,
        kind: str = "eti",
    ) -> pd.DataFrame:
        """One line per expression of parameters, such as a difference of two, with the columns of `summary`.

        `contrasts` is an expression, a list of them, or a dict of them by name; `prob` says what they can hold. With
        `exponentiate`, a difference of coefficients becomes a ratio of odds, means or hazards.

        >>> from tallbayes.results.example import example
        >>> example().contrast({"at 1": "Intercept + fico", "ratio": "exp(fico)"})[["mean", "sd"]].round(1)
               mean   sd
        at 1   -0.5  0.1
        ratio   1.7  0.1
        """
        from tallbayes.results.questions import contrast

        return contrast(self, contrasts, exponentiate, Interval.of(interval, kind))

    def plot(self, names: Sequence[str] | None = None, kind: str = "forest") -> Figure:
        """A picture of the fit, as a matplotlib Figure; the functions of `tb.plots` have more options.

        `kind` is "forest" (intervals), "density", "trace" or "speed", of the parameters in `names`; or "calibration" or
        "seconds", with groups "caterpillar", and of splines "effects" or "importance", which are of the whole fit.

        >>> from tallbayes.results.example import example
        >>> [panel.get_title() for panel in example().plot(["fico"], "density").axes]
        ['fico']
        """
        from tallbayes.results.pictures import plot

        return plot(self, names, kind, self._pictures())

    def _pictures(self) -> dict[str, Callable[..., Figure]]:
        """Pictures that only this kind of fit has."""
        return {}

    def edpm(self, thin: int = 1, setup: bool = False) -> pd.Series[float]:
        """Effective draws per minute of sampling; with `setup`, per minute of the whole run except diagnostics.

        >>> from tallbayes.results.example import example
        >>> fit = example()
        >>> bool((fit.edpm() > fit.edpm(setup=True)).all())
        True
        """
        import pandas as pd

        check_whole("thin", thin)
        check_flag("setup", setup)
        before = sum(spent for phase, spent in self.stats["seconds"].items() if phase != "diagnostics")
        minutes = before / 60 if setup else self.minutes
        values = self._diagnostics.ess_bulk / minutes if thin == 1 else diagnostics.edpm(self._draws, minutes, thin)
        return pd.Series(values, index=pd.Index(self.parameters), name="edpm")

    def problems(self) -> list[str]:
        """Problems with the draws and priors that conflict with the data, one sentence each; empty if all is well.

        A prior is named if it moves a coefficient by more than half a standard error from what the data alone say. The
        draws are still right for that prior.

        >>> from tallbayes.results.example import example
        >>> example().problems()
        []
        """
        return [*self._problems(), *self.stats["pulled"]]

    def _problems(self) -> list[str]:
        """What is wrong with the draws."""
        found = self._diagnostics
        said = diagnostics.problems(self._draws, self.parameters, found)
        if said and (budget := self.stats.get("budget")):
            made = self.posterior.sizes["draw"], self.posterior.sizes["chain"]
            said.append(diagnostics.cut_short(found, self.parameters, *made, budget))
        return [*self.stats["doubts"], *said]

    @property
    def converged(self) -> bool:
        """Whether no diagnostic finds a problem with the draws.

        Diagnostics compare chains with each other. With an approximate method (`stats["exact"]` is False) they may
        agree and still all be off. There this means "mixed", which is what printed fits and reports say.

        >>> from tallbayes.results.example import example
        >>> fit = example()
        >>> fit.stats["exact"], fit.converged
        (True, True)
        """
        return not self._problems()

    def more(
        self, draws: int | None = None, target_ess: float | None = None, *, progress: bool = True, **again: Any
    ) -> Fit:
        """Another fit that continues this one: with so many more `draws` per chain, or until all have `target_ess`.

        The draws are those of one longer run, bit for bit. The data are read once more, and set-up and warm-up are done
        again; with a checkpoint they go on in its folder, and warm-up is not done again. A fit that was loaded needs
        whatever its file does not hold: data that were not a file, as in `more(draws=1_000, data=frame)`; weights and
        offsets that were arrays; functions of yours; an `engine`; the `model` of `tb.sample`.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=100, seed=1, progress=False)
        >>> longer = fit.more(draws=50, progress=False)
        >>> longer.draws.shape, bool((longer.draws[:, :100] == fit.draws).all())
        ((4, 150, 2), True)
        """
        from tallbayes.results.more import go_on

        return go_on(self, draws, target_ess, again, progress)

    def update(self, formula: str = "~ .", **changes: Any) -> Fit:
        """Another fit, made like this one except for its formula and the arguments that are given.

        A '.' stands for the old left or right side, `- x` takes a term away, and the left side may be omitted. A group
        term or offset() is removed as a whole, as in "~ . - (1 | bank)"; a spline s(...) can only be replaced. All
        other arguments of `tb.fit`, the seed included, are those of this fit, except `checkpoint`: the new fit has none
        unless one is given. A fit that was loaded or copied needs whatever its file does not hold, such as `data` that
        were not a file.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "z": [1.0, 0.0, 0.0, 1.0], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=100, seed=1, progress=False)
        >>> fit.update("~ . + z", prior=tb.Normal(0, 1), progress=False).parameters
        ('Intercept', 'x', 'z')
        """
        from tallbayes.results.update import update

        return update(self, formula, changes)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: all but the user's data."""
        origin = self.origin
        return vars(self) | ({} if origin is None else {"origin": replace(origin, given={})})

    def predict(
        self, new_data: Any, offset: ArrayLike | None = None, draws: int = 300, interval: float = 0.94, seed: int = 0
    ) -> pd.DataFrame:
        """Posterior mean and interval of each row's expected outcome, from evenly spaced draws.

        That is a probability, the expected share for counts of successes, and for Poisson counts the expected count at
        the exposure in `new_data`. An offset that was a column of the data is read from `new_data`. Where the model was
        fitted with an array of offsets, give `offset`: one number per row, or one for all. Rows are read piece by
        piece, so that only the three numbers of each are held; `predict_to` holds not even those.

        With a group term, rows of a group that the fit has seen get the draws of its effect. Any other group gets
        effects drawn from N(0, sigma^2), one for each draw of sigma and shared by all its rows. They depend only on
        `seed` and the name of the group: the same seed gives the same prediction, whatever other rows there are.

        >>> from tallbayes.results.example import example
        >>> example().predict({"fico": [-1.0, 1.0]}).round(1)
           mean  eti94_lb  eti94_ub
        0   0.2       0.2       0.2
        1   0.4       0.3       0.4
        """
        source = self._opened(new_data)
        parts = self._predicted(source, (), Asked(offset, draws, interval, seed))
        return as_table(gathered(parts, source.rows), interval, new_data)

    def predict_to(
        self,
        new_data: Any,
        target: str | os.PathLike[str] | IO[bytes],
        keep: Sequence[str] = (),
        *,
        offset: ArrayLike | None = None,
        draws: int = 300,
        interval: float = 0.94,
        seed: int = 0,
        progress: bool = True,
    ) -> int:
        """Write what `predict` gives to a Parquet or CSV file, however many rows there are, and return their number.

        `keep` names columns of the data to write before the predictions. Rows are read and written piece by piece, and
        the file appears when it is complete. An open file, such as `sys.stdout.buffer`, gets CSV.

        >>> from tallbayes.results.example import example
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = example().predict_to({"id": [7, 8], "fico": [-1.0, 1.0]}, f"{folder}/new.csv", keep=["id"])
        ...     rows, Path(folder, "new.csv").read_text().splitlines()[0]
        (2, 'id,mean,eti94_lb,eti94_ub')
        """
        from tallbayes.results.prediction_file import write

        check_texts("keep", keep, "a list of columns' names")
        check_flag("progress", progress)
        source, asked = self._opened(new_data), Asked(offset, draws, interval, seed)
        with showing(progress):
            return write(target, self._predicted(source, keep, asked), names_of(interval), source, keep)

    def loo(self, rows: int = 10_000, *, seed: int = 0, progress: bool = True, **again: Any) -> Elpd:
        """Leave-one-out cross-validation: how well rows are predicted by the posterior of all others.

        It uses importance sampling with Pareto smoothing for some `rows`, drawn at random with this `seed`, and an
        approximation for all rows. `subsampling_se` says how far off that may be; it is 0 where all rows are looked at.
        A row of weight w is w observations, of which one is left out; of a binomial outcome, one trial is left out.
        With groups, the group of the row that is left out is known.

        The data are read once more. A fit that was loaded needs whatever its file does not hold, as for `more`: data
        that were not a file, as in `loo(data=frame)`; the `model` of `tb.sample`; an `engine`.

        >>> import numpy as np
        >>> import tallbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal(5_000)
        >>> data = {"x": x, "y": rng.random(5_000) < 1 / (1 + np.exp(1 - x))}
        >>> fit = tb.fit("y ~ x", data, draws=500, seed=1, progress=False)
        >>> loo = fit.loo(rows=1_000, progress=False)
        >>> round(loo.p), loo.warning
        (2, False)
        """
        from tallbayes.results.cross_validation import elpd

        return elpd("loo", self, rows, seed, progress, again)

    def waic(self, rows: int = 10_000, *, seed: int = 0, progress: bool = True, **again: Any) -> Elpd:
        """The widely applicable information criterion, with the arguments of `loo`, which is the better choice."""
        from tallbayes.results.cross_validation import elpd

        return elpd("waic", self, rows, seed, progress, again)

    def log_likelihood(
        self, rows: int | ArrayLike | None = 1_000, *, seed: int = 0, progress: bool = True, **again: Any
    ) -> xr.DataArray:
        """The log-likelihood (chain, draw, row) of some rows: a number of random ones, or those given by number.

        Rows are counted from 0, without those that were left out. None means all of them, if there is enough memory.
        The data are read once more; see `loo` for what a loaded fit needs.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=100, seed=1, progress=False)
        >>> fit.log_likelihood(rows=[0, 3], progress=False).sizes
        Frozen({'chain': 4, 'draw': 100, 'row': 2})
        """
        from tallbayes.results.log_likelihood import log_likelihood

        return log_likelihood(self, rows, seed, progress, again)

    def _chosen_draws(self, chosen: NDArray[np.intp]) -> dict[str, Any]:
        """Some draws (draw, ...) of each posterior variable, by the numbers that they have in all chains together."""
        found = {}
        for name, values in self.posterior.data_vars.items():
            every = values.transpose("chain", "draw", ...).values
            found[str(name)] = every[divmod(chosen, every.shape[1])]
        return found

    def _opened(self, new_data: Any) -> Source:
        """New data, of which files are read as those were that the model was fitted to."""
        return open_source(new_data) if self.formula is None else open_source(new_data, self.formula.texts)

    def _predicted(self, source: Source, keep: Sequence[str], asked: Asked) -> Iterator[Predicted]:
        """Predictions piece by piece, and the columns to keep of each piece."""
        if self.formula is None:
            raise ValueError(
                "this fit has no formula, so it cannot predict; compute from fit.posterior['beta'] instead"
            )
        asked.check()
        beta = self._values("beta", "coefficient")
        chosen = evenly_spaced(asked.draws, beta.shape[0] * beta.shape[1])
        beta = np.ascontiguousarray(beta[divmod(chosen, beta.shape[1])])
        offsets = Offsets(asked.offset, self.offset, self.has_offset, self.family)
        effects = self._effects_of(chosen, asked.seed)
        return predicted(self.formula, source, keep, beta, offsets, effects, self.family.mean, asked.interval)

    def predictive(
        self, new_data: Any, *, draws: int = 1_000, offset: float | None = None, seed: int = 0
    ) -> xr.DataArray:
        """Posterior predictive draws (chain, draw, row): outcomes that the model simulates for new rows.

        About this many `draws` are taken, evenly spaced, from all chains together. The result is held in memory; for
        means and intervals of many rows use `predict`. Groups that the fit has not seen get effects of their own, as in
        `predict`, and counts of successes need the number of trials of each row.

        >>> from tallbayes.results.example import example
        >>> found = example().predictive({"fico": [-1.0, 1.0]}, draws=400)
        >>> found.dims, found.shape, sorted(set(found.values.ravel()))
        (('chain', 'draw', 'row'), (4, 100, 2), [np.float64(0.0), np.float64(1.0)])
        """
        from tallbayes.results.predictive import predictive

        return predictive(self, new_data, offset, draws, seed)

    def avg_predictions(
        self,
        variables: Variables = None,
        *,
        by: str | Sequence[str] | None = None,
        data: Any = None,
        weights: str | None = None,
        offset: float | None = None,
        engine: Any = None,
        draws: int = 2_000,
        rows: int = 10_000,
        interval: float = 0.94,
        seed: int = 0,
    ) -> pd.DataFrame:
        """The expected outcome, averaged over rows, with its interval.

        Parameters
        ----------
        variables: values that all rows take in turn, `{"age": [30, 50]}`, or the name of a categorical variable for all
            of its levels; several variables are combined in all ways. Rows stay as they are if None.
        by: a column or several; there is an average for each combination of their values.
        data: the rows to average over; those that the fit was made from if None. A single row will do.
        weights: a column of weights for the averages; if None, that of the fit, if it had one.
        offset: for a model that was fitted with an array of offsets, a number for all rows.
        engine: who reads the data, as in `tb.fit`; that of the fit if None.
        draws: how many draws to use, evenly spaced.
        rows: how many rows to look at with every draw, for the intervals; the mean comes from all rows.
        interval: the share of draws inside the interval.
        seed: for drawing these rows.

        The expected outcome is a probability, an expected share (for counts of successes), an expected count, or a
        mean. `mcse_mean` is the Monte Carlo error of the mean, both from the draws and from looking at only some rows.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "g": ["a", "a", "b", "b"], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=500, seed=1, progress=False)
        >>> fit.avg_predictions({"x": [0, 3]})[["x", "mean"]].round(1)
             x  mean
        0  0.0   0.2
        1  3.0   0.8
        >>> fit.avg_predictions(by="g")[["g", "mean"]].round(1)
           g  mean
        0  a   0.3
        1  b   0.7
        """
        from tallbayes.results.effects import How, avg_predictions

        how = How(data, by, weights, offset, engine, draws, rows, interval, seed)
        return avg_predictions(self, variables, how)

    def avg_comparisons(
        self,
        variables: Variables = None,
        *,
        comparison: str = "difference",
        by: str | Sequence[str] | None = None,
        data: Any = None,
        weights: str | None = None,
        offset: float | None = None,
        engine: Any = None,
        draws: int = 2_000,
        rows: int = 10_000,
        interval: float = 0.94,
        seed: int = 0,
    ) -> pd.DataFrame:
        """How much the average expected outcome changes with a variable, all else in each row staying as it is.

        Parameters
        ----------
        variables: a name, a list of names, or a dict; all variables if None. By default numbers go up by 1, and each
            category is compared with the first. In a dict, give for a number what to add to it, two values (`{"age":
            (30, 50)}`), "sd", "2sd" or "minmax"; for a categorical variable two levels, "reference", "sequential" or
            "pairwise".
        comparison: "difference", "ratio", "lnratio", "lnor" (of log odds) or "lift" of the two averages.
        by, data, weights, offset, engine, draws, rows, interval, seed: see `avg_predictions`.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "g": ["a", "a", "b", "b"], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=500, seed=1, progress=False)
        >>> fit.avg_comparisons({"x": (0, 3)})[["term", "contrast", "mean"]].round(1)
          term contrast  mean
        0    x    3 - 0   0.5
        """
        from tallbayes.results.effects import How, avg_comparisons

        how = How(data, by, weights, offset, engine, draws, rows, interval, seed)
        return avg_comparisons(self, variables, comparison, how)

    def avg_slopes(
        self,
        variables: Variables = None,
        *,
        by: str | Sequence[str] | None = None,
        data: Any = None,
        weights: str | None = None,
        offset: float | None = None,
        engine: Any = None,
        draws: int = 2_000,
        rows: int = 10_000,
        interval: float = 0.94,
        seed: int = 0,
    ) -> pd.DataFrame:
        """The slope of the expected outcome in a variable, averaged over rows: its average marginal effect.

        For a categorical variable it is the difference from the first level. For the arguments see `avg_predictions`.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "g": ["a", "a", "b", "b"], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=500, seed=1, progress=False)
        >>> fit.avg_slopes()[["term", "contrast"]]
          term contrast
        0    x    dY/dX
        """
        from tallbayes.results.effects import How, avg_slopes

        how = How(data, by, weights, offset, engine, draws, rows, interval, seed)
        return avg_slopes(self, variables, how)

    def _centre(self, offset: float | None) -> Centre:
        """What is expected of rows at the posterior mean, for what is averaged over rows."""
        assert self.formula is not None
        beta = posterior_mean(self._values("beta", "coefficient"))
        written = self.formula.to_json()
        return LinearCentre(written, self.family, beta, offset, self.offset, self.has_offset)

    def _some(self, draws: int, seed: int) -> Draws:
        """About so many draws, equally many of each chain."""
        return self._linear(self._kept(draws))

    def _linear(self, kept: NDArray[np.intp]) -> LinearDraws:
        beta = self._values("beta", "coefficient")
        return LinearDraws(np.concatenate(beta[:, kept]), self.family, len(beta))

    def _kept(self, draws: int) -> NDArray[np.intp]:
        """Numbers of the draws of each chain that about so many of all are."""
        chains, every = self.posterior.sizes["chain"], self.posterior.sizes["draw"]
        return evenly_spaced(max(1, draws // chains), every)

    def _effects_of(self, chosen: NDArray[np.intp], seed: int) -> Callable[[Source], Effects] | None:
        """What new rows have in their linear predictor besides coefficients, for some of the draws."""
        return None

    def calibration(self) -> pd.DataFrame:
        """Predictions against outcomes: the rows that were fitted, sorted by their prediction into bins, one line each.

        `predicted` is at the posterior mean of the parameters. If the model holds, 94% of the bins have `observed`
        between `lower` and `upper`.

        >>> from tallbayes.results.example import example
        >>> list(example().calibration())
        ['rows', 'predicted', 'observed', 'lower', 'upper']
        """
        import pandas as pd

        if self._calibration is None:
            raise ValueError("this fit was saved by a version that did not look at outcomes; fit again to see them")
        return pd.DataFrame(self._calibration._asdict()).rename_axis("bin")

    def to_arviz(self) -> Any:
        """The draws for ArviZ: posterior, sample_stats and whatever else this kind of fit has.

        That is an xarray DataTree, which ArviZ reads from version 1 on, or an InferenceData if the ArviZ that is
        installed is older.

        >>> from tallbayes.results.example import example
        >>> "posterior" in example().to_arviz()
        True
        """
        from tallbayes.results.arviz import to_arviz

        return to_arviz(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one netCDF file, replacing an older one only when the new one is complete.

        >>> import tallbayes as tb
        >>> from tallbayes.results.example import example
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     example().save(f"{folder}/fit.nc")
        ...     tb.load(f"{folder}/fit.nc").coefficients
        ('Intercept', 'fico')
        """
        from tallbayes.results.file import save

        save(self, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one page of HTML that needs nothing else: what was fitted, whether to trust it, and what came out.

        >>> from tallbayes.results.example import example
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     example().report(f"{folder}/fit.html")
        ...     "Did it converge?" in Path(folder, "fit.html").read_text()
        True
        """
        from tallbayes.results.report import report

        report(self, path)

    def _check(self) -> None:
        """Raise ValueError if what a file has of it does not fit together."""

    def _effects(self) -> list[str]:
        """Sections of the report on what was fitted besides coefficients."""
        return []

    def _explained(self) -> dict[str, str]:
        """What parameters are, by name, where their names do not say it."""
        return {}

    def _told(self) -> dict[str, str]:
        """What rows say, for the report: the family and its options, and what counts as 1."""
        given = [f"{key} {value}" for key, value in self.family.described().items() if value is not None]
        family = self.family.title + (f" ({', '.join(given)})" if given else "")
        return {"outcome": "; ".join(filter(None, [family, self.stats.get("outcome", "")]))}

    @property
    def calibrated(self) -> bool:
        """Whether predictions were compared with outcomes."""
        return self._calibration is not None

    def _advice(self) -> list[str]:
        """What may help chains of this kind to converge."""
        if self.stats["method"] not in ("mh", "two-stage"):
            return []
        return ['Let the package choose: method="auto" proposes moves that fit the shape of the posterior.']

    def __repr__(self) -> str:
        return "\n".join([f"{self._story()}\n", self._rounded().to_string(), *self._left_out()])

    def _repr_html_(self) -> str:
        from tallbayes.results.notebook import block

        return block(self)

    @property
    def _shown(self) -> int:
        """Lines of the summary in a printed fit."""
        return len(self.parameters)

    def _rounded(self) -> pd.DataFrame:
        """The summary as text."""
        table = self.summary().iloc[: self._shown].map(rounded)
        if self.prior:
            table["prior"] = [self.prior.get(str(name), "") for name in table.index]
        return table

    def _left_out(self) -> list[str]:
        """A line about what `_rounded` does not show; none if it shows all."""
        return []

    def _story(self) -> str:
        """How the run went, in a few lines."""
        return story(self._facts())

    def _facts(self) -> dict[str, list[str]]:
        """How the run went: titles, and sentences to each."""
        return facts(self.stats, self.posterior.sizes["chain"], self.posterior.sizes["draw"], self._problems())


def check_fit(name: str, fit: object) -> None:
    """Refuse what is no fit."""
    check_kind(name, fit, Fit, "a fit, as tb.fit, tb.sample and tb.load return them")


Fit.kinds[Fit.kind] = Fit
