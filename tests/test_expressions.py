"""Expressions of y and eta: what may be read, derivatives against differences, intervals that hold what they should."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pytest
from entries import applied, bounds, differences, thirds, values
from numba import njit
from precise import TAGS, remainder
from scipy import special

from tallbayes.families import elementary, source
from tallbayes.families.expressed import Expressed
from tallbayes.families.expressions import ETA, derivative, has_eta, read, written
from tallbayes.families.own import evaluate
from tallbayes.families.quadrature import FEWER, NODES
from tallbayes.families.terms import PLACES, no_family

PROBIT = "where(y > 0.5, log((1 + erf(eta / sqrt(2))) / 2), log((1 - erf(eta / sqrt(2))) / 2))"
BUILT_IN = {"logit": "y * eta - log1p(exp(eta))", "poisson": "y * eta - exp(eta)", "probit": PROBIT}
# By name: expression, outcomes, and the log-likelihood with NumPy, up to a constant.
OTHERS = {
    "student t": ("-2.5 * log1p((y - eta)**2 / 4)", [-1.0, 0.3, 4.0], lambda y, e: -2.5 * np.log1p((y - e) ** 2 / 4)),
    "tobit": (
        "where(y > 0, -(y - eta)**2 / 2, log_ndtr(-eta))",
        [0.0, 1.5],
        lambda y, e: -((y - e) ** 2) / 2 if y > 0 else special.log_ndtr(-e),
    ),
    "negative binomial": (
        "y * eta - (y + 2.5) * log(2.5 + exp(eta))",
        [0.0, 3.0],
        lambda y, e: y * e - (y + 2.5) * np.log(2.5 + np.exp(e)),
    ),
    "cloglog": (
        "y * log(-expm1(-exp(eta))) - (1 - y) * exp(eta)",
        [0.0, 1.0],
        lambda y, e: np.log(-np.expm1(-np.exp(e))) if y else -np.exp(e),
    ),
    "beta": (
        "6 * logistic(eta) * log(y / (1 - y)) - lgamma(6 * logistic(eta)) - lgamma(6 * (1 - logistic(eta)))",
        [0.1, 0.7],
        lambda y, e: (
            6 * special.expit(e) * np.log(y / (1 - y))
            - special.gammaln(6 * special.expit(e))
            - special.gammaln(6 * special.expit(-e))
        ),
    ),
    "powers": (
        "-abs(y) * (1 + eta**2)**0.5 + tanh(eta) / (2 + y) - (eta**2 + 1)**(-1.5)",
        [0.5, 2.0],
        lambda y, e: -y * np.sqrt(1 + e**2) + np.tanh(e) / (2 + y) - (e**2 + 1) ** -1.5,
    ),
}
ALL = {name: (text, [0.0, 1.0]) for name, text in BUILT_IN.items()} | {name: one[:2] for name, one in OTHERS.items()}
COSTLY = ("beta", "cloglog", "negative binomial")  # to compile
each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in COSTLY else []) for name in ALL]
)


class Some:
    """A family with only those entries that a test calls: each is compiled."""

    def __init__(self, module, *names):
        self.terms = no_family()
        for name in names:
            self.terms[PLACES[name]] = getattr(module, name).address

    @classmethod
    def of(cls, text, *names, **constants):
        return cls(source.load(source.write(read(text, constants), text)), *names)


def grid() -> np.ndarray:
    return np.concatenate([np.linspace(-6, 3, 37), np.random.default_rng(1).normal(size=20)])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in COSTLY else []) for name in OTHERS]
)
def test_values_are_those_of_the_expression(name):
    text, outcomes, truth = OTHERS[name]
    for y in outcomes:
        found, expected = Expressed(text).log_likelihood(y, grid()), truth(y, grid())
        np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-10)


@each
def test_derivatives_are_those_of_the_value(name):
    """Central differences over h err by h^2 / 6 times a derivative of third order, and by rounding over h."""
    text, outcomes = ALL[name]
    tag, eta, h = Expressed(text), grid(), 1e-4
    for y in outcomes:
        lines = [np.array([tag.log_likelihood(y, at), *tag.derivatives(y, at)]) for at in (eta - h, eta, eta + h)]
        for order in (1, 2, 3):
            slope = (lines[2][order - 1] - lines[0][order - 1]) / (2 * h)
            np.testing.assert_allclose(lines[1][order], slope, rtol=1e-5, atol=1e-6 * (1 + np.abs(slope).max()))


@pytest.mark.parametrize("name", BUILT_IN)
def test_they_are_as_exact_as_what_is_built_in(name):
    tag, own, eta = Expressed(BUILT_IN[name]), TAGS[name], np.linspace(-30, 30, 241)
    assert tag.canonical == own.canonical
    for y in (0.0, 1.0):
        for loop in (values, thirds):
            a, b = (applied(loop, one, y, eta) for one in (tag, own))
            # In the far tail of a Normal distribution, powers of eta cancel.
            np.testing.assert_allclose(a, b, rtol=1e-11 if name != "probit" else 1e-9, atol=1e-14)


@pytest.mark.parametrize("name", BUILT_IN)
def test_remainders_are_as_exact_as_what_is_built_in(name):
    tag, rng = Expressed(BUILT_IN[name]), np.random.default_rng(5)
    for eta, h in zip(rng.uniform(-5, 3, 60), 10 ** rng.uniform(-6, 1, 60) * rng.choice([-1, 1], 60), strict=True):
        found = applied(differences, tag, 1.0, np.array([eta]), np.array([0.0]), np.array([h]))[0]
        assert found == pytest.approx(remainder(name, 1.0, eta, h), rel=1e-7, abs=1e-300)


def test_remainders_of_sharp_peaks_are_exact():
    """Third derivatives of a Student-t with a scale of 0.01 have singularities 0.02 off the real line."""
    width, rng = 0.01, np.random.default_rng(6)
    tag = Some.of("-2.5 * log1p((y - eta)**2 / (4 * s**2))", "remainder", s=width)
    eta, h = rng.normal(size=200) * 0.03, 10 ** rng.uniform(-4, 0.5, 200) * rng.choice([-1, 1], 200)
    found = applied(differences, tag, 0.0, eta, np.zeros(200), h)
    long = [part.astype(np.longdouble) for part in (eta, h)]

    def value(at):
        return -2.5 * np.log1p(at**2 / (4 * np.longdouble(width) ** 2))

    u = long[0] ** 2 + 4 * np.longdouble(width) ** 2
    first, second = -5 * long[0] / u, -5 / u + 10 * long[0] ** 2 / u**2
    truth = value(sum(long)) - value(long[0]) - first * long[1] - second * long[1] ** 2 / 2
    np.testing.assert_allclose(found, truth.astype(float), rtol=1e-6, atol=1e-12)


def test_the_coarser_rule_of_a_panel_is_exact_for_polynomials_of_fifth_order():
    for order in range(6):
        assert FEWER @ NODES**order == pytest.approx(1 / (order + 1), rel=1e-12)
    assert abs(FEWER @ NODES**6 - 1 / 7) > 1e-6


def elementary_at(name, at):
    """An elementary function of each number."""
    function = getattr(elementary, name)

    @njit
    def loop(at, out):
        for i in range(at.size):
            out[i] = function(at[i])

    out = np.empty_like(at)
    loop(at, out)
    return out


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("log1p", np.log1p),
        ("logistic", special.expit),
        ("softplus", lambda u: np.logaddexp(0.0, u)),
        ("mills", lambda u: np.sqrt(2 / np.pi) / special.erfcx(-u / np.sqrt(2))),
    ],
)
def test_elementary_functions_are_as_exact_as_intervals_take_them_for(name, truth):
    """Relatively, however small they are; e^u is off by more where u is large, which intervals know."""
    at = np.concatenate([sign * np.geomspace(1e-18, 30.0, 2_000) for sign in (-1.0, 1.0)])
    if name == "log1p":
        at = np.concatenate([at[at > 0], -np.geomspace(1e-18, 0.999, 2_000), np.geomspace(30.0, 1e300, 100)])
    if name == "mills":
        at = at[at < 20]
    error = 2.0**-48 if name == "log1p" else 1e-14 + 4e-16 * (np.abs(at) if name != "mills" else at**2)
    expected = truth(at)
    assert (np.abs(elementary_at(name, at) - expected) <= error * np.abs(expected)).all()


def test_log1p_where_there_is_none():
    assert elementary_at("log1p", np.array([-1.0]))[0] == -np.inf
    assert np.isnan(elementary_at("log1p", np.array([-1.5, np.nan]))).all()


# Bounds


def random_intervals(outcomes, count=4_000):
    rng = np.random.default_rng(7)
    middle, width = rng.uniform(-6, 3, count), 10 ** rng.uniform(-8, 0.7, count)
    return rng.choice(outcomes, count), middle - width / 2, middle + width / 2


@each
def test_bounds_hold(name):
    text, outcomes = ALL[name]
    tag, (y, low, high) = Expressed(text), random_intervals(outcomes)
    found = applied(bounds, tag, y, low, high)
    assert np.isfinite(found).mean() > 0.8
    for share in np.linspace(0, 1, 21):
        assert (np.abs(applied(thirds, tag, y, low + share * (high - low))) <= found).all()


@each
def test_bounds_of_narrow_intervals_are_close(name):
    text, outcomes = ALL[name]
    tag, (y, low, high) = Expressed(text), random_intervals(outcomes)
    narrow = high - low < 1e-3
    y, low, high = y[narrow], low[narrow], high[narrow]
    found = applied(bounds, tag, y, low, high)
    largest = np.max([np.abs(applied(thirds, tag, y, at)) for at in (low, (low + high) / 2, high)], axis=0)
    assert np.median(found / np.maximum(largest, 1e-300)) < 1.01


def test_a_bound_without_its_fourth_derivative_would_not_hold(monkeypatch):
    """The middle alone is no bound, and the test above would notice."""
    text = BUILT_IN["logit"]
    module = source.write(read(text), text).replace("intervals.largest(i", "0.0 * intervals.largest(i", 3)
    assert module != source.write(read(text), text)
    broken = Some(source.load(module), "chunk_bounds", "third")
    y, low, high = random_intervals([0.0, 1.0])
    assert (np.abs(applied(thirds, broken, y, low)) > applied(bounds, broken, y, low, high)).any()


def test_intervals_hold_every_function_whatever_its_argument_is():
    """Each function by itself: its third derivative over intervals of its argument."""
    for text in ("expm1(-eta**2) + log1p(eta**2)", "erf(eta) * logistic(eta)"):
        tag, (y, low, high) = Some.of(text, "chunk_bounds", "third"), random_intervals([1.0])
        found = applied(bounds, tag, y, low, high)
        for share in (0.0, 0.3, 1.0):
            assert (np.abs(applied(thirds, tag, y, low + share * (high - low))) <= found).all(), text


def test_where_nothing_is_known_a_bound_is_infinite():
    """One over something that may be zero, a logarithm of what may be negative."""
    for text in ("1 / eta + eta**0.5", "log(eta) - lgamma(eta)"):
        found = applied(bounds, Some.of(text, "chunk_bounds"), 1.0, np.array([-0.5, 1.0]), np.array([0.5, 2.0]))
        assert found[0] == np.inf, text
        assert 0 < found[1] < np.inf, text


# Reading


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("log1p(exp(eta))", "softplus(eta)"),
        ("log(1 + exp(eta))", "softplus(eta)"),
        ("exp(eta) / (1 + exp(eta))", "logistic(eta)"),
        ("1 / (1 + exp(-eta))", "logistic(eta)"),
        ("log(1 - logistic(eta))", "-softplus(eta)"),
        ("(eta + 1)**2 / (eta + 1)", "1 + eta"),
        ("eta * y + y * eta", "2 * y * eta"),
        ("2**3 - sqrt(4)", "6"),
        ("log(exp(eta))", "eta"),
        ("where(2 > 1, eta, 0)", "eta"),
    ],
)
def test_the_same_is_written_the_same(one, other):
    assert read(one) is read(other)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a text"),
        ("y *", "cannot be read"),
        ("y * etta", "did you mean 'eta'"),
        ("__import__('os')", "no function '__import__'"),
        ("eta.real", "'eta.real' is not allowed"),
        ("[y for y in eta]", "not allowed"),
        ("lambda: eta", "not allowed"),
        ("(lambda: eta)()", "not allowed"),
        ("exp(eta, 2)", "takes one expression"),
        ("exp(x=eta)", "not allowed"),
        ("eta if y > 0 else 1", "not allowed"),
        ("where(eta > 0, eta, 0)", "not eta"),
        ("where(y, eta, 0)", "where takes a comparison"),
        ("where(0 < y < 1, eta, 0)", "one comparison"),
        ("y // eta", "operator FloorDiv"),
        ("'a' * eta", "not a number"),
        ("True * eta", "not a number"),
        ("eta / 0", "divides by zero"),
        ("log(-1) * eta", "no logarithm"),
        ("eta ** 1000", "powers may be up to"),
        ("10.0 ** 60 ** 60 * eta", "."),
        ("+".join(["eta"] * 1_000), "characters"),
        ("y * eta * k", "no name 'k'"),
    ],
)
def test_what_may_not_be_read(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read(text)


def test_constants_have_names_of_their_own():
    assert read("k * eta", {"k": 2}) is read("2 * eta")
    for name in ("eta", "exp", "where", "pi"):
        with pytest.raises(ValueError, match="means something else"):
            read("eta", {name: 1.0})


def test_code_does_not_depend_on_what_was_read_before():
    """Or else processes would compile other code for the same family, and draws would differ in the last bit."""
    text = "log(logistic(eta)) * y + (1 - y) * log(1 - logistic(eta))"
    program = (
        "import hashlib, sys; from tallbayes.families import source, expressions\n"
        "[expressions.read(other) for other in sys.argv[2:]]\n"
        "print(hashlib.sha256(source.write(expressions.read(sys.argv[1]), 'x').encode()).hexdigest())"
    )
    others = ["(1 - y) * logistic(-eta)", "logistic(-eta) * logistic(eta)**2 - logistic(eta)"]
    found = {
        subprocess.run([sys.executable, "-c", program, text, *some], capture_output=True, check=True, text=True).stdout
        for some in ([], others)
    }
    assert len(found) == 1


def test_an_expression_of_eta_can_be_evaluated():
    eta = np.linspace(-2, 2, 9)
    for text, truth in (("exp(eta) / 2", np.exp(eta) / 2), ("3", np.full(9, 3.0)), ("tanh(eta)", np.tanh(eta))):
        np.testing.assert_allclose(evaluate(read(text), eta), truth, rtol=1e-12)
    assert not has_eta(read("y + 1"))
    assert written(derivative(read("eta**3"))) == "3 * (eta**2)"
    assert derivative(ETA) is read("1")
    assert math.isclose(evaluate(derivative(read("log_ndtr(eta)")), np.array([0.0]))[0], math.sqrt(2 / math.pi))
