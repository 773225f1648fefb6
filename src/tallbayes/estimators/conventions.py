"""What scikit-learn's conventions ask of all estimators here: two classes, seeds, and weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from tallbayes.data.options import check_whole
from tallbayes.sampling.seeds import fresh_seed

Array = NDArray[np.float64]


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
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    if (wrong := weights < 0).any():
        first = int(wrong.argmax())
        raise ValueError(f"sample_weight must not be negative, but is {weights[first]:g} at row {first}")
    return weights
