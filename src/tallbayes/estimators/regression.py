"""What the estimators of regressions have in common: from a matrix to a posterior, and from draws to predictions."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from tallbayes.data.options import check_choice, check_flag
from tallbayes.estimators.conventions import seed_of
from tallbayes.models.collinear import CHOICES
from tallbayes.models.glm import GLM
from tallbayes.models.priors import GivenPrior
from tallbayes.results.fit import Fit
from tallbayes.results.predict import check_interval, evenly_spaced, summarise
from tallbayes.results.sample import sample
from tallbayes.sampling.methods import Method

Array = NDArray[np.float64]

INTERCEPT = "Intercept"
DRAWS = 300  # that predictions are made of, unless told otherwise
INTERVAL = 0.94  # whose ends nobody looks at


class Regression(BaseEstimator):
    """Options of a regression, the posterior, and what its draws say about new rows."""

    def __init__(
        self,
        *,
        prior: GivenPrior | None = None,
        fit_intercept: bool = True,
        collinear: str = "drop",
        method: str | Method = "auto",
        draws: int | None = None,
        chains: int = 4,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.collinear = collinear
        self.method = method
        self.draws = draws
        self.chains = chains
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        """For scikit-learn: draws are random."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def _model(self, design: Array, y: NDArray[Any], **given: Any) -> GLM:
        """The model of a design, intercept included."""
        raise NotImplementedError

    def _table(self, X: ArrayLike, y: ArrayLike, **how: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows and targets to fit, looked at by scikit-learn."""
        table, target = validate_data(self, X, y, **how)
        return table, target

    def _new(self, X: ArrayLike) -> NDArray[Any]:
        """New rows, with the columns that there were."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False))

    def _sample(self, X: NDArray[Any], y: NDArray[Any], weights: Array | None) -> tuple[Array, float]:
        """Sample the posterior; returns means and sds of the coefficients (2, column), and the intercept's mean."""
        check_flag("fit_intercept", self.fit_intercept)
        check_choice("collinear", self.collinear, CHOICES)
        columns = [str(name) for name in getattr(self, "feature_names_in_", map("x{}".format, range(X.shape[1])))]
        if self.fit_intercept and INTERCEPT in columns:
            raise ValueError(f"X has a column {INTERCEPT!r}; rename it, or let fit_intercept=False leave out ours")
        names = self._names = [*([INTERCEPT] if self.fit_intercept else []), *columns]
        first = self._first
        design = np.ones((len(X), len(names)), order="F")
        design[:, first:] = X
        given = {"prior": self.prior, "coefficients": names, "weights": weights, "collinear": self.collinear}
        model = self._model(design, y, **given)
        seed = seed_of(self.random_state)
        fit = sample(model, self.method, self.draws, self.chains, seed, progress=self.progress)
        assert fit.origin is not None
        fit.origin = replace(fit.origin, given={})  # the rows are no longer needed
        self.fit_: Fit = fit
        if not fit.converged:
            found = [problem for problem in fit.problems() if problem not in fit.stats["pulled"]]
            warnings.warn("; ".join(found), ConvergenceWarning, stacklevel=3)
        beta = self._beta(fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"])
        described = np.stack([beta.mean(0), beta.std(0)])
        return described[:, first:], float(described[0, 0]) if first else 0.0

    @property
    def _first(self) -> int:
        """The first column of the design that is one of X: there may be an intercept before."""
        return len(self._names) - int(self.n_features_in_)

    def _chosen(self, draws: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Chains and places of evenly spaced draws."""
        made = self.fit_.posterior.sizes["draw"]
        return divmod(evenly_spaced(draws, self.fit_.posterior.sizes["chain"] * made), made)

    def _beta(self, draws: int) -> Array:
        """Evenly spaced draws (draw, column) of the design's coefficients; those of columns left out are zero."""
        names, drawn = self._names, self.fit_.posterior["beta"].values[self._chosen(draws)]
        beta = np.zeros((len(drawn), len(names)))
        beta[:, [names.index(name) for name in self.fit_.coefficients]] = drawn
        return beta

    def _expected(self, X: NDArray[Any], interval: float | None, draws: int, noise: Array | float = 0.0) -> Array:
        """Posterior mean of each row's expected outcome, and the ends of its interval (3, row).

        `noise` is added to the linear predictor: a number for each draw.
        """
        if interval is not None:
            check_interval(interval)
        beta, first = self._beta(draws), self._first
        slopes, added = np.ascontiguousarray(beta[:, first:].T), noise + (beta[:, 0] if first else 0.0)
        mean, width = self.fit_.family.mean, INTERVAL if interval is None else interval
        return summarise(np.arange(len(X)), len(beta), lambda rows: X[rows] @ slopes + added, mean, width)
