"""MARSClassifier: Bayesian MARS with the interface of scikit-learn, which must be installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tallbayes.estimators.conventions import seed_of, two_classes
from tallbayes.results.sample import sample
from tallbayes.sampling.methods import Method
from tallbayes.splines.fit import MARSFit
from tallbayes.splines.model import MARS

Array = NDArray[np.float64]


class MARSClassifier(ClassifierMixin, BaseEstimator):
    """Two classes told apart by a Bayesian spline; probabilities are averaged over its posterior.

    `max_interaction`, `max_bases` and `reference` are those of `tb.MARS`; `method`, `draws`, `chains` and `warmup` are
    those of `tb.sample`. `random_state` seeds it: a whole number, a RandomState, or None for a new seed each time.
    After fitting, `fit_` is the whole posterior, a `tb.MARSFit`, and `feature_importances_` has each variable's share
    of the effects on the log-odds.

    >>> from tallbayes.estimators.mars import MARSClassifier
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> model = MARSClassifier(draws=50, warmup=100, chains=2, random_state=1).fit(X, X[:, 0] > 0.5)
    >>> model.predict([[0.1, 0.5], [0.9, 0.5]])
    array([False,  True])
    """

    def __init__(
        self,
        *,
        max_interaction: int = 2,
        max_bases: int = 100,
        reference: int = 2_000,
        method: str | Method = "auto",
        draws: int = 500,
        chains: int = 4,
        warmup: int | None = None,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.max_interaction = max_interaction
        self.max_bases = max_bases
        self.reference = reference
        self.method = method
        self.draws = draws
        self.chains = chains
        self.warmup = warmup
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        """For scikit-learn: there are two classes, and draws are random."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> MARSClassifier:
        """Sample the posterior."""
        X, y = validate_data(self, X, y, dtype=float, order="F")
        self.classes_, codes = two_classes(y)
        seed = seed_of(self.random_state)
        names = getattr(self, "feature_names_in_", None)
        model = MARS(
            X,
            codes,
            max_interaction=self.max_interaction,
            max_bases=self.max_bases,
            reference=self.reference,
            names=names,
            seed=seed,
        )
        self.fit_: MARSFit = sample(  # type: ignore[assignment]
            model, self.method, self.draws, self.chains, seed, warmup=self.warmup, progress=self.progress
        )
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """The posterior mean of the probability of each class."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        second = self.fit_.predict(np.asarray(X))["mean"].to_numpy()
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class."""
        probability = self.predict_proba(X)
        return np.asarray(self.classes_[probability.argmax(axis=1)])

    @property
    def feature_importances_(self) -> Array:
        """Shares of the variances that change with each variable alone."""
        check_is_fitted(self)
        variance = (self.fit_.table["effects"].values ** 2).mean(0)
        return np.asarray(variance / max(float(variance.sum()), np.finfo(float).tiny))
