"""BayesPoisson: Poisson regression with the interface of scikit-learn, which must be installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from tallbayes.data.tally import Where
from tallbayes.estimators.conventions import weights_of
from tallbayes.estimators.regression import DRAWS, Regression
from tallbayes.families import Poisson
from tallbayes.families.checks import Check, Counts
from tallbayes.models.glm import GLM

Array = NDArray[np.float64]


class BayesPoisson(RegressorMixin, Regression):
    """Bayesian Poisson regression for counts or rates, with the log link; predictions are averaged over the posterior.

    The target may be counts, or rates with the exposures as `sample_weight`, as for scikit-learn's `PoissonRegressor`:
    claims a year, with the years that each row was insured. The posterior is that of the counts with these exposures.

    Parameters
    ----------
    prior: of the coefficients as the columns have them, intercept included, or a dict by name ("Intercept", and the
        names of the columns, or x0, x1, ...), as `tb.fit` takes it. Those not given follow the columns' scales.
    fit_intercept: whether there is an intercept.
    collinear: "drop" columns that are linear combinations of those before them, whose coefficients are then zero, or
        "refuse" them.
    method: as `tb.fit` takes it.
    draws: draws to keep per chain; as many as it takes to converge, if None.
    chains: how many chains.
    random_state: the seed: a whole number, a RandomState, or None for a new seed each time.
    progress: whether to show progress.

    After fitting, `coef_` (column,) and `intercept_` are posterior means, `coef_sd_` (column,) the sds of the former.
    `fit_` is the whole posterior, a `tb.Fit`, with its summary, diagnostics and report. It holds no rows.

    >>> from tallbayes.estimators.poisson import BayesPoisson
    >>> rng = np.random.default_rng(0)
    >>> X, years = rng.standard_normal((2_000, 2)), rng.uniform(1, 5, 2_000)
    >>> claims = rng.poisson(years * np.exp(X[:, 0] - 0.5 * X[:, 1]))
    >>> BayesPoisson(random_state=1).fit(X, claims / years, sample_weight=years).coef_.round(1)
    array([ 1. , -0.5])
    """

    coef_: Array
    intercept_: float
    coef_sd_: Array

    def __sklearn_tags__(self) -> Any:
        """For scikit-learn: targets are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BayesPoisson:
        """Sample the posterior; `sample_weight` says how often each row counts, or the exposure of its rate."""
        table, target = self._table(X, y, y_numeric=True, ensure_min_samples=2)
        if (wrong := target < 0).any():
            first = int(wrong.argmax())
            raise ValueError(
                f"y must be counts or rates of at least 0, but {int(wrong.sum())} rows are not (first at row {first}: "
                f"{target[first]:g})"
            )
        weights = weights_of(sample_weight, table)
        (self.coef_, self.coef_sd_), self.intercept_ = self._sample(table, target, weights)
        return self

    def _model(self, design: Array, y: NDArray[Any], **given: Any) -> GLM:
        return GLM.from_arrays(design, y, Rates(), **given)

    def predict(self, X: ArrayLike, *, interval: float | None = None, draws: int = DRAWS) -> Any:
        """The posterior mean of each row's expected count or rate (row,), from evenly spaced draws.

        With `interval=0.94`, for example, these and the lower and upper ends of their 94% intervals: three arrays.
        """
        mean, lower, upper = self._expected(self._new(X), interval, draws)
        return mean if interval is None else (mean, lower, upper)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of the Poisson deviance that is explained, as `PoissonRegressor` has it."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))


@dataclass(frozen=True)
class Rates(Poisson):
    """Poisson counts, or rates whose weights are exposures: then w (y eta - e^eta) is the log-likelihood of count w y.

    >>> Rates()
    Rates(exposure=None)
    """

    def checking(self, name: str) -> Check:
        """What looks at outcomes: they need not be whole."""
        return NotWhole(name)


class NotWhole(Counts):
    """Outcomes like counts, but for that they need not be whole."""

    def add(self, y: Array, where: Where, trials: Array | None = None) -> None:
        """See `Check`."""
        super().add(np.ceil(y), where)
