"""The last bit of exponentials and logarithms is the same wherever an array lies."""

import numpy as np
import pytest

from tallbayes.families import steady


@pytest.mark.parametrize("name", ["exp", "log"])
def test_columns_have_the_bits_of_contiguous_arrays(name):
    rng = np.random.default_rng(1)
    for width in (1, 2, 3, 18, 500):
        for count in (1, 7, 64, 300):
            values = rng.exponential(size=count)
            matrix = np.zeros((count, width))
            matrix[:, -1] = values
            expected = getattr(np, name)(values)
            for _ in range(3):  # whatever is allocated behind the matrix
                np.testing.assert_array_equal(getattr(steady, name)(matrix[:, -1]), expected)


def test_no_ufunc_sees_a_strided_array(monkeypatch):
    seen = []
    monkeypatch.setattr(steady.np, "exp", lambda values: seen.append(values.flags.c_contiguous) or values)
    steady.exp(np.zeros((5, 3))[:, 2])
    steady.exp(np.zeros((5, 3, 2))[..., -1:])
    steady.exp(np.zeros(4))
    assert seen == [True] * 3


def test_shapes_stay():
    assert steady.exp(np.zeros((2, 3, 4))[..., -1:]).shape == (2, 3, 1)
    assert steady.log(np.ones(())).shape == ()
