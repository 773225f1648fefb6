"""What scikit-learn's conventions ask of all estimators here: two classes, seeds, and weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from tallbayes.data.options import check_whole
from tallbayes.data.per_row import as_numbers
from tallbayes.sampling.seeds import fresh_seed

Array = NDArray[np.float64]

WEIGHTS = "numbers, one for each row, or one for all"


def two_classes(y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The two classes among the targets, in order, and the number of each row's.

    >>> two_classes(np.array(["yes", "no", "yes"]))
    (array(['no', 'yes'], dtype='<U3'), array([1, 0, 1]))
    """
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size != 2:
        raise ValueError(
            "Only binary classification is supported. "
            f"The target has {classes.size} class{'es' if classes.size > 1 else ''}."
        )
    return classes, codes


def seed_of(random_state: Any) -> int:
    """The seed that a `random_state` stands for: a whole number is one, None is a new one each time.

    >>> seed_of(7)
    7
    """
    if random_state is None:
        return fresh_seed()
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    check_whole("random_state", random_state, 0)
    return int(random_state)


def weights_of(sample_weight: Any, X: NDArray[Any]) -> Array | None:
    """How often each row counts, if that was given: a number for each row, or one for all.

    >>> weights_of([1, 2], np.zeros((2, 3)))
    array([1., 2.])
    """
    if sample_weight is None:
        return None
    weights = as_numbers("sample_weight", sample_weight, WEIGHTS)
    weights = np.full(len(X), float(weights)) if weights.ndim == 0 else weights
    if weights.shape != (len(X),):
        raise ValueError(f"sample_weight has shape {weights.shape}, but X has {len(X)} rows")
    if (wrong := ~(np.isfinite(weights) & (weights >= 0))).any():
        first = int(wrong.argmax())
        raise ValueError(f"sample_weight must not be negative or missing, but is {weights[first]:g} at row {first}")
    if not weights.any():
        raise ValueError("sample_weight is zero in every row; give some rows a weight")
    return weights
