"""Linear predictors of rows, and how far they spread over the draws of a posterior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.families.terms import linear_predictors, no_family
from tallbayes.rows.arrays import NONE, Arrays
from tallbayes.rows.passes import CHUNK, add_effects

Array = NDArray[np.float64]


def predictors_and_variances(arrays: Arrays, params: Array, own: Array, start: int, stop: int) -> tuple[Array, Array]:
    """Those of the rows start..stop: at the first parameter vector, and the sum of squares at the others.

    A vector (columns + groups,) is of coefficients and effects. The variance of a row of group g has `own[g]` besides.

    >>> arrays = Arrays.of([[1.0, 2.0]], [0.0, 1.0], None, [0.5, 0.5], {}, None, 0)
    >>> predictors_and_variances(arrays, np.array([[3.0], [2.0]]), np.empty(0), 0, 2)
    (array([3.5, 6.5]), array([ 4., 16.]))
    """
    eta, variance = np.empty(stop - start), np.empty(stop - start)
    _spread(no_family(), arrays.x, arrays.offset, NONE, arrays.codes, params, own, start, stop, eta, variance)
    return eta, variance


@compiled()
def _spread(terms, x, offset, nothing, codes, params, own, start, stop, eta, variance):
    p, buffer = x.shape[0], np.empty(CHUNK)
    for low in range(start, stop, CHUNK):
        high = min(stop, low + CHUNK)
        here, sums, part = eta[low - start : high - start], variance[low - start : high - start], buffer[: high - low]
        linear_predictors(terms, x, offset, params[0], low, high, here)
        add_effects(codes, params[0, p:], low, high, here)
        for i in range(sums.size):
            sums[i] = 0.0
        add_effects(codes, own, low, high, sums)
        for k in range(1, params.shape[0]):
            linear_predictors(terms, x, nothing, params[k], low, high, part)
            add_effects(codes, params[k, p:], low, high, part)
            for i in range(part.size):
                sums[i] += part[i] * part[i]
