"""The vectorisable exp, log1p, log and normal tail against more digits, and compiling without a cache folder."""

import gc
import importlib.util
import math
import subprocess
import sys
from decimal import Decimal, localcontext

import numba
import numba.core.caching
import numpy as np
import pytest
from numba.core.types.functions import BaseFunction
from precise import expansion

from tallbayes.families.compiled import (
    LEAN,
    compiled,
    exp,
    exp_negative,
    inside,
    log,
    log1p_unit,
    normal_excess,
    normal_fraction,
    quickly,
)
from tallbayes.families.kept import Linked, _Stored

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


@compiled()
def exp_any_all(t, out):
    for i in range(t.size):
        out[i] = exp(t[i])


@compiled()
def log_all(x, out):
    for i in range(x.size):
        out[i] = log(x[i])


@compiled()
def tail_all(x, out):
    for i in range(x.size):
        out[0, i] = normal_excess(x[i])
        out[1, i], out[2, i], out[3, i] = normal_fraction(x[i])


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
    assert applied(exp_all, np.array([t]))[0] == pytest.approx(expected, rel=tolerance, abs=0, nan_ok=True)
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
    assert applied(log1p_all, np.array([e]))[0] == pytest.approx(expected, rel=3 * EPS, abs=0, nan_ok=True)


@exact
def test_exp(arguments):
    for t in (arguments, -arguments, np.random.default_rng(3).uniform(700, 709.4, 10_000)):
        t = t[t <= 709.4]
        error = relative_error(applied(exp_any_all, t), np.exp(t.astype(np.longdouble)))
        assert (error <= 5.5e-16 + 2.3e-16 * np.abs(t)).all()


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (0.0, 1.0),
        (-708.0, math.exp(-708)),
        (-709.0, math.exp(-708)),
        (-math.inf, math.exp(-708)),
        (709.4, math.exp(709.4)),
        (709.9, math.inf),
        (1e308, math.inf),
        (math.inf, math.inf),
        (math.nan, math.nan),
    ],
)
def test_exp_at_the_ends(t, expected):
    tolerance = 5.5e-16 + 2.3e-16 * 710
    assert applied(exp_any_all, np.array([t]))[0] == pytest.approx(expected, rel=tolerance, abs=0, nan_ok=True)
    assert applied(exp_any_all, np.full(9, t)) == pytest.approx(expected, rel=tolerance, abs=0, nan_ok=True)


@exact
def test_log():
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [10 ** rng.uniform(-307.6, 308.2, 200_000), rng.uniform(0.4, 2.1, 200_000), 2.0 ** np.arange(-9, 9)]
    )
    beside = (2.0 ** np.arange(-1022, 1023))[:, None] * (1 + EPS * np.arange(-3, 4))
    x = np.concatenate([x, beside.ravel()[beside.ravel() >= np.finfo(float).tiny]])
    truth = np.log(x.astype(np.longdouble))
    assert (np.abs(applied(log_all, x) - truth) <= 5e-16 * (1 + np.abs(truth))).all()


@pytest.mark.parametrize("x", [math.nan, math.inf])
def test_log_of_what_is_no_number(x):
    assert applied(log_all, np.array([x]))[0] == pytest.approx(x, nan_ok=True)
    assert applied(log_all, np.full(9, x)) == pytest.approx(x, nan_ok=True)


@exact
def test_normal_tail():
    # From x = 1 on, the continued fraction itself, from its 4,000th step back. Below, phi / Phi with as many digits as
    # it takes. A polynomial whose coefficients add up to four times its value, and some five roundings.
    rng = np.random.default_rng(5)
    far = np.concatenate([np.linspace(1, 40, 5_001), 10 ** rng.uniform(0, 300, 5_000)])
    near = np.concatenate([np.linspace(0, 1, 300), 10 ** rng.uniform(-300, 0, 50)])
    steps, d = [], np.zeros(far.size, np.longdouble)
    for k in range(4_000, 0, -1):
        d = k / (far + d)
        steps = [d, *steps[:2]]
    found, truth = np.empty((4, far.size)), np.array([steps[0], *steps])
    tail_all(far, found)
    assert (relative_error(found, truth) <= 16 * EPS).all()
    found, truth = np.empty((4, near.size)), np.empty((4, near.size))
    tail_all(near, found)
    for i, x in enumerate(near):
        with localcontext() as context:
            context.prec = 60
            x = Decimal(x)
            d1 = expansion("probit", 1.0, -x)[1] - x
            d2 = 1 / d1 - x
            truth[:, i] = d1, d1, d2, 2 / d2 - x
    assert (relative_error(found, truth) <= 16 * EPS).all()
    found = np.empty((4, 2))
    tail_all(np.array([math.inf, math.nan]), found)
    assert found[0, 0] == 0
    assert np.isnan(found[:, 1]).all()


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


FIRST_FIT = """
import sys
import numpy as np
import tallbayes as tb
X, y = np.ones((500, 1)), np.arange(500) % 3 == 0
tb.sample(tb.GLM.from_arrays(X, y), draws=20, chains=1, seed=1, progress=False)
unwanted = ("numba.np.linalg", "numba.typed.typedlist", "pandas", "xarray", "sklearn")
print(*(name for name in unwanted if name in sys.modules))
"""


def test_what_was_compiled_is_read_without_the_compiler():
    """Nor do draws need pandas or xarray: a process that only fits starts quickly."""
    for _ in range(2):  # the first may still have to compile
        done = subprocess.run([sys.executable, "-c", FIRST_FIT], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        if not done.stdout.strip():
            break
    assert done.stdout.strip() == ""


KEPT = """
from tallbayes.families.compiled import compiled

@compiled()
def root(a):
    if a < 0.0:
        raise ValueError("no root")
    return a**0.5

@compiled()
def fourth(a):
    return root(root(a))
"""


def test_code_from_the_disk_is_linked_with_other_code(tmp_path):
    """It raises what it raised, too, and is called by what is compiled later."""
    (tmp_path / "kept.py").write_text(KEPT)

    def loaded():
        spec = importlib.util.spec_from_file_location("kept", tmp_path / "kept.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    assert loaded().root(16.0) == 4
    again = loaded()
    assert again.root(16.0) == 4
    (found,) = again.root.overloads.values()
    assert isinstance(found.library, _Stored) == (numba.version_info[:2] == (0, 68))
    assert again.fourth(16.0) == 2
    for function in (again.root, again.fourth):
        with pytest.raises(ValueError, match="no root"):
            function(-1.0)
    assert again.root.stats.cache_hits
    assert not again.fourth.stats.cache_hits


@pytest.mark.parametrize("known", [True, False])
def test_what_only_compiled_code_calls_has_no_machine_code(monkeypatch, known):
    """And has it with a numba that may be otherwise; callers find the same."""
    if not known:
        monkeypatch.setattr(numba, "version_info", (0, 999, 0))

    @inside()
    def total(a):
        found = 0.0
        for i in range(a.size):
            found += a[i]
        return found

    @compiled()
    def twice(a):
        return 2 * total(a) + total(a[1:])

    for function in (total, twice):  # from the disk it would come with machine code
        function._cache = numba.core.caching.NullCache()
    assert twice(np.arange(4.0)) == 18
    (found,) = total.overloads.values()
    assert isinstance(found.library, Linked) == (known and numba.version_info[:2] == (0, 68))


@compiled(**LEAN)
def lean_draw(rng, a):
    a[0] = rng.random()


def test_lean_functions_leave_no_references_behind():
    rng, a = np.random.default_rng(1), np.zeros(1)
    lean_draw(rng, a)
    before = sys.getrefcount(rng), sys.getrefcount(a)
    for _ in range(10):
        lean_draw(rng, a)
    assert (sys.getrefcount(rng), sys.getrefcount(a)) == before
    assert a[0] == np.random.default_rng(1).random(11)[-1]


@pytest.mark.parametrize("on", [True, False])
def test_garbage_is_collected_after_compiling_if_it_was_before(on):
    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        with quickly(), quickly():
            assert not gc.isenabled()
        assert gc.isenabled() == on
    finally:
        (gc.enable if before else gc.disable)()


def test_types_are_looked_up_while_compiling_only():
    before = BaseFunction.get_call_type
    with quickly(), quickly():
        assert BaseFunction.get_call_type is not before
    assert BaseFunction.get_call_type is before

    @compiled()
    def kinds(a, b):
        return a * b, a // b, a**2

    # The same operators for other types, after these are known.
    for a, b in ((2, 3), (2.0, 3), (2, 3.0), (2.0, 3.0)):
        expected = a * b, a // b, a**2
        assert [type(one) for one in kinds(a, b)] == [type(one) for one in expected]
        assert kinds(a, b) == expected
