"""BayesLinear: linear regression with the interface of scikit-learn, which must be installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from tallbayes.data.options import check_flag
from tallbayes.estimators.conventions import weights_of
from tallbayes.estimators.regression import DRAWS, Regression
from tallbayes.gaussian.fit import errors_of
from tallbayes.gaussian.model import GaussianModel
from tallbayes.models.glm import GLM
from tallbayes.models.priors import GivenPrior

Array = NDArray[np.float64]


class BayesLinear(RegressorMixin, Regression):
    """Bayesian linear regression with Normal errors, whose sd is estimated too.

    Parameters
    ----------
    prior: of the coefficients as the columns have them, intercept included, or a dict by name ("Intercept", and the
        names of the columns, or x0, x1, ...), as `tb.fit` takes it. Those not given follow the scales of the columns
        and of the target.
    fit_intercept: whether there is an intercept.
    collinear: "drop" columns that are linear combinations of those before them, whose coefficients are then zero, or
        "refuse" them.
    draws: draws to keep per chain; as many as it takes to converge, if None.
    chains: how many chains.
    random_state: the seed: a whole number, a RandomState, or None for a new seed each time.
    progress: whether to show progress.

    After fitting, `coef_` (column,) and `intercept_` are posterior means, `coef_sd_` (column,) the sds of the former.
    `fit_` is the whole posterior, a `tb.GaussianFit`, with its summary, diagnostics and report; its parameter `sd` is
    that of the errors. It holds no rows. If the columns determine the target exactly, what is left are rounding errors.

    >>> from tallbayes.estimators.linear import BayesLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2_000, 2))
    >>> model = BayesLinear(random_state=1).fit(X, 3 + X[:, 0] + 2 * X[:, 1] + rng.standard_normal(2_000))
    >>> model.coef_.round(1), model.coef_sd_.round(2), round(model.intercept_, 1)
    (array([1., 2.]), array([0.02, 0.02]), 3.0)
    """

    coef_: Array
    intercept_: float
    coef_sd_: Array

    def __init__(
        self,
        *,
        prior: GivenPrior | None = None,
        fit_intercept: bool = True,
        collinear: str = "drop",
        draws: int | None = None,
        chains: int = 4,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        super().__init__(
            prior=prior,
            fit_intercept=fit_intercept,
            collinear=collinear,
            draws=draws,
            chains=chains,
            random_state=random_state,
            progress=progress,
        )

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BayesLinear:
        """Sample the posterior; `sample_weight` says how often each row counts."""
        table, target = self._table(X, y, y_numeric=True, ensure_min_samples=2)
        weights = weights_of(sample_weight, table)
        (self.coef_, self.coef_sd_), self.intercept_ = self._sample(table, target, weights)
        return self

    def _model(self, design: Array, y: NDArray[Any], **given: Any) -> GLM:
        model = GaussianModel.from_arrays(design, y, **given)
        model.sums = model.sums.with_rounding(-2 * float(model.first.at_zero.value[0]))
        return model

    def predict(self, X: ArrayLike, *, interval: float | None = None, noise: bool = False, draws: int = DRAWS) -> Any:
        """The posterior mean of each row's expected outcome (row,).

        With `interval=0.94`, for example, these and the lower and upper ends of their 94% intervals: three arrays. With
        `noise` the intervals are those of new outcomes. The ends are found from evenly spaced draws.
        """
        check_flag("noise", noise)
        rows = self._new(X)
        mean = rows @ self.coef_ + self.intercept_
        if interval is None:
            return mean
        errors = errors_of(self.fit_.posterior["sd"].values[self._chosen(draws)], 0) if noise else 0.0
        _, lower, upper = self._expected(rows, interval, draws, errors)
        return mean, lower, upper
