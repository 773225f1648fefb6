"""MARSClassifier, as scikit-learn sees it."""

from __future__ import annotations

import unittest

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator

import tallbayes as tb

QUICK = {"draws": 60, "warmup": 60, "chains": 2, "max_bases": 6, "random_state": 0}
QUICKER = QUICK | {"draws": 20, "warmup": 30, "max_bases": 4}  # fitted a hundred times


@pytest.mark.parametrize(
    ("estimator", "check"),
    list(estimator_checks_generator(tb.MARSClassifier(**QUICKER))),
    ids=lambda part: getattr(getattr(part, "func", None), "__name__", ""),
)
def test_scikit_learns_checks(estimator, check):
    try:
        check(estimator)
    except unittest.SkipTest as reason:
        pytest.skip(str(reason))


def test_classes_keep_their_names_and_probabilities_add_up():
    X = np.random.default_rng(0).random((400, 2))
    y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0.6, "yes", "no")
    model = tb.MARSClassifier(**QUICK).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.allclose(model.predict_proba(X).sum(1), 1)
    assert (model.predict(X) == y).mean() > 0.95
    assert model.feature_importances_.argmax() == 0
    assert isinstance(model.fit_, tb.MARSFit)
    assert cross_val_score(tb.MARSClassifier(**QUICK), X, y, cv=2).mean() > 0.9


def test_a_name_that_is_not_there_is_still_an_error():
    with pytest.raises(AttributeError, match="MARSKlassifier"):
        _ = tb.MARSKlassifier
