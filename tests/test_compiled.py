"""The vectorisable exp and log1p against long double, and compiling without a cache folder."""

import math

import numba.core.caching
import numpy as np
import pytest

from tallbayes.compiled import compiled, exp_negative, log1p_unit

EPS = np.finfo(float).eps
exact = pytest.mark.skipif(np.finfo(np.longdouble).eps > EPS / 100, reason="long double is no better than double here")


@compiled()
def exp_all(t, out):
    for i in range(t.size):
        out[i] = exp_negative(t[i])


@compiled()
def log1p_all(e, out):
    for i in range(e.size):
        out[i] = log1p_unit(e[i])


def applied(loop, values):
    out = np.empty_like(values)
    loop(values, out)
    return out


def relative_error(found, truth):
    return np.abs((found - truth) / truth).astype(float)


@pytest.fixture(scope="module")
def arguments():
    """Even over the whole range, dense near 0, and beside the points where the power of two changes."""
    rng = np.random.default_rng(1)
    borders = (np.arange(1020) + 0.5) * math.log(2)
    near = (borders[:, None] * (1 + EPS * np.arange(-4, 5))).ravel()
    found = np.concatenate([rng.uniform(0, 708, 200_000), 10 ** rng.uniform(-20, 2.85, 200_000), near])
    return -found[found <= 708]


@exact
def test_exp_negative(arguments):
    # t log2(e) is rounded once and so is log2(e): |t| 1.25e-16 together. The polynomial takes three
    # additions of numbers up to sqrt 2 and its coefficients are rounded: 3 eps of the result, which is at
    # least 1/sqrt 2.
    error = relative_error(applied(exp_all, arguments), np.exp(arguments.astype(np.longdouble)))
    assert (error <= 3 * EPS + 1.25e-16 * -arguments).all()


@exact
def test_exp_negative_as_documented(arguments):
    found, truth = applied(exp_all, arguments), np.exp(arguments.astype(np.longdouble))
    assert (np.abs(found - truth) <= 4e-16).all()
    assert (relative_error(found, truth) <= 5.5e-16 + 2.3e-16 * -arguments).all()


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (0.0, 1.0),
        (-0.0, 1.0),
        (-5e-324, 1.0),
        (-700.0, math.exp(-700)),
        (-708.0, math.exp(-708)),
        (-709.0, math.exp(-708)),
        (-1e308, math.exp(-708)),
        (-math.inf, math.exp(-708)),
        (math.nan, math.nan),
    ],
)
def test_exp_negative_at_the_ends(t, expected):
    tolerance = 3 * EPS + 1.25e-16 * min(abs(t), 708)  # as in test_exp_negative
    assert exp_negative(t) == pytest.approx(expected, rel=tolerance, abs=0, nan_ok=True)
    assert applied(exp_all, np.full(9, t)) == pytest.approx(expected, rel=tolerance, abs=0, nan_ok=True)


@exact
def test_log1p_unit():
    # Divisions and products: s, z, the last product (a rounding, eps/2, each); the sum of the polynomial: two
    # more; and z enters with at most a third of its error. Below 3 eps = "a few units in the last place".
    rng = np.random.default_rng(2)
    e = np.concatenate([rng.uniform(0, 1, 200_000), 10 ** rng.uniform(-307, 0, 200_000), [1.0]])
    assert (relative_error(applied(log1p_all, e), np.log1p(e.astype(np.longdouble))) <= 3 * EPS).all()


@pytest.mark.parametrize(("e", "expected"), [(0.0, 0.0), (-0.0, 0.0), (1.0, math.log(2)), (math.nan, math.nan)])
def test_log1p_unit_at_the_ends(e, expected):
    assert log1p_unit(e) == pytest.approx(expected, rel=3 * EPS, abs=0, nan_ok=True)


def test_compiles_without_a_cache_folder(monkeypatch):
    def refuse(*_):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(numba.core.caching.FunctionCache, "__init__", refuse)
    monkeypatch.setattr(numba.core.caching, "FunctionCache", numba.core.caching.FunctionCache)

    @compiled()
    def twice(a):
        return 2 * a

    assert twice(21) == 42
    assert twice.stats.cache_path is None
    assert twice.targetoptions["nogil"]


def test_uses_the_cache_where_there_is_one():
    assert exp_all.stats.cache_path is not None
