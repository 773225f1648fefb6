"""Exponentials and logarithms whose last bit does not depend on where an array lies.

With AVX-512, NumPy computes these of many numbers at once, but one by one by the C library, whose last bit may differ,
if input and output might overlap. It takes a column of a matrix to reach a whole row past its last number: what is
allocated behind the matrix then counts as overlapping. So the bits of `np.exp(theta[:, -1])` depend on the allocator,
and may differ from one process to the next. Those of a contiguous copy do not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def exp(values: Array) -> Array:
    """The exponential of each number.

    >>> exp(np.zeros((2, 3))[:, 1])
    array([1., 1.])
    """
    return np.asarray(np.exp(np.asarray(values, order="C")))


def log(values: Array) -> Array:
    """The natural logarithm of each number.

    >>> log(np.ones((2, 3))[:, 1])
    array([0., 0.])
    """
    return np.asarray(np.log(np.asarray(values, order="C")))
