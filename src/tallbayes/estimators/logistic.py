"""BayesLogistic: logistic regression with the interface of scikit-learn, which must be installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit
from sklearn.base import ClassifierMixin

from tallbayes.estimators.conventions import two_classes, weights_of
from tallbayes.estimators.regression import DRAWS, Regression
from tallbayes.models.glm import GLM

Array = NDArray[np.float64]


class BayesLogistic(ClassifierMixin, Regression):
    """Bayesian logistic regression for two classes; probabilities are averaged over the posterior.

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

    After fitting, `coef_` (1, column) and `intercept_` (1,) are posterior means, `coef_sd_` (1, column) their sds, and
    `classes_` the two classes. `fit_` is the whole posterior, a `tb.Fit`, with its summary, diagnostics and report. It
    holds no rows.

    >>> from tallbayes.estimators.logistic import BayesLogistic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2_000, 2))
    >>> y = rng.random(2_000) < 1 / (1 + np.exp(1 - X[:, 0]))
    >>> model = BayesLogistic(random_state=1).fit(X, y)
    >>> model.coef_.round(1), model.coef_sd_.round(2), model.intercept_.round(1)
    (array([[0.9, 0. ]]), array([[0.06, 0.05]]), array([-1.]))
    """

    coef_: Array
    intercept_: Array
    coef_sd_: Array
    classes_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        """For scikit-learn: there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BayesLogistic:
        """Sample the posterior; `sample_weight` says how often each row counts."""
        table, target = self._table(X, y)
        self.classes_, codes = two_classes(target)
        weights = weights_of(sample_weight, table)
        if weights is not None and np.unique(left := codes[weights > 0]).size == 1:
            raise ValueError(
                f"sample_weight leaves only one class, {self.classes_[left[0]]}; give some rows of the other class a "
                "positive weight"
            )
        described, intercept = self._sample(table, codes, weights)
        (self.coef_, self.coef_sd_), self.intercept_ = described[:, None], np.array([intercept])
        return self

    def _model(self, design: Array, y: NDArray[Any], **given: Any) -> GLM:
        return GLM.from_arrays(design, y, "bernoulli", **given)

    def predict_proba(self, X: ArrayLike, *, interval: float | None = None, draws: int = DRAWS) -> Any:
        """The posterior mean of the probability of each class (row, class), from evenly spaced draws.

        With `interval=0.94`, for example, these and the lower and upper ends of their 94% intervals: three arrays.

        >>> from tallbayes.estimators.logistic import BayesLogistic
        >>> X, y = np.arange(100)[:, None] % 10, np.arange(100) % 3 == 0
        >>> model = BayesLogistic(random_state=1).fit(X, y)
        >>> mean, lower, upper = model.predict_proba([[0], [9]], interval=0.9)
        >>> mean.shape, bool(((lower < mean) & (mean < upper)).all())
        ((2, 2), True)
        """
        mean, lower, upper = self._expected(self._new(X), interval, draws)
        proba = np.column_stack([1 - mean, mean])
        if interval is None:
            return proba
        return proba, np.column_stack([1 - upper, lower]), np.column_stack([1 - lower, upper])

    def decision_function(self, X: ArrayLike) -> Array:
        """The log-odds of the second class, from `predict_proba`."""
        tiny = np.finfo(float).eps / 2
        return np.asarray(logit(self.predict_proba(X)[:, 1].clip(tiny, 1 - tiny)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class."""
        probability = self.predict_proba(X)
        return np.asarray(self.classes_[probability.argmax(axis=1)])
