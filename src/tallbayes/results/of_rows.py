"""What is asked of a fit about rows: predictions, new outcomes, marginal effects, leave-one-out.

New rows are read piece by piece, and those that the fit was made from once more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.options import check_flag, check_texts
from tallbayes.data.pieces import Source
from tallbayes.data.progress import showing
from tallbayes.data.sources import open_source
from tallbayes.results.expected import Centre, Draws, LinearCentre, LinearDraws, posterior_mean
from tallbayes.results.posterior import Posterior
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

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from tallbayes.results.changes import Variables
    from tallbayes.results.elpd import Elpd


class OfRows(Posterior):
    """The part of a fit that tells of rows."""

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

        return predictive(self._whole, new_data, offset, draws, seed)

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
        weights: a column of weights for the averages. If None, rows of the fit have the weights that they had, and
            rows of `data` count once each.
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
        return avg_predictions(self._whole, variables, how)

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
        return avg_comparisons(self._whole, variables, comparison, how)

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
        return avg_slopes(self._whole, variables, how)

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

        return elpd("loo", self._whole, rows, seed, progress, again)

    def waic(self, rows: int = 10_000, *, seed: int = 0, progress: bool = True, **again: Any) -> Elpd:
        """The widely applicable information criterion, with the arguments of `loo`, which is the better choice."""
        from tallbayes.results.cross_validation import elpd

        return elpd("waic", self._whole, rows, seed, progress, again)

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

        return log_likelihood(self._whole, rows, seed, progress, again)

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

    def _effects_of(self, chosen: NDArray[np.intp], seed: int) -> Callable[[Source], Effects] | None:
        """What new rows have in their linear predictor besides coefficients, for some of the draws."""
        return None

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

    def _chosen_draws(self, chosen: NDArray[np.intp]) -> dict[str, Any]:
        """Some draws (draw, ...) of each posterior variable, by the numbers that they have in all chains together."""
        found = {}
        for name, values in self.posterior.data_vars.items():
            every = values.transpose("chain", "draw", ...).values
            found[str(name)] = every[divmod(chosen, every.shape[1])]
        return found
