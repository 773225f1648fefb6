"""Remainders of rows in groups: their bounds over random pairs of points, the tables rows are drawn from, the rest."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import entries
import numpy as np
import pytest
from entries import applied
from precise import TAGS
from precise import remainder as precise_remainder

from tallbayes.families import logit
from tallbayes.families.compiled import compiled
from tallbayes.groups.arrow import Expansion, gaussian
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.remainders import Always, Drawn, GroupRemainders
from tallbayes.groups.scale import HalfNormal
from tallbayes.groups.thinned_loop import always_remainder
from tallbayes.rows import threads
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import CHUNK
from tallbayes.rows.remainders import SLACK
from tallbayes.sampling.thinned_loop import distance_bound

SIZES = [40, 1, 0, 7, 250, 1]
EFFECTS = len(SIZES)


class Problem(NamedTuple):
    """Rows, where they are expanded, and an arrow."""

    link: str
    given: dict[str, Any]
    theta: np.ndarray  # (p + k + 1,)
    shares: np.ndarray  # (k, p)
    sd: np.ndarray  # (k,)
    factor: np.ndarray  # (p, p)

    @property
    def codes(self) -> np.ndarray:
        return self.given["strata"]["g"]

    @property
    def eta(self) -> np.ndarray:
        p = len(self.given["x"])
        return self.theta[:p] @ self.given["x"] + self.theta[p:-1][self.codes] + self.given["offset"]

    @property
    def reach(self) -> np.ndarray:
        """a of every row."""
        return np.linalg.norm((self.given["x"].T - self.shares[self.codes]) @ self.factor, axis=1)

    def made(self) -> GroupRemainders:
        rows = MemoryRows(**self.given)
        return rows.keep(GroupRemainders, TAGS[self.link], self.theta, self.shares, self.sd, self.factor)

    def moves(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """By how much the linear predictors move when beta = L z and theta_g = sd_g t_g - share_g' beta are added."""
        beta = self.factor @ z
        effects = self.sd * t - self.shares @ beta
        return beta @ self.given["x"] + effects[self.codes]


def problem(link: str, p: int = 3, sizes: list[int] = SIZES, seed: int = 1) -> Problem:
    """Skewed columns, weights of all sizes, an arrow with shares and lengths that differ between groups."""
    rng = np.random.default_rng([seed, p, len(sizes)])
    codes, k = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
    n = codes.size
    x = np.concatenate([np.ones((1, n)), rng.standard_t(4, size=(p - 1, n))])
    y = rng.poisson(1.0, n) if link == "poisson" else rng.integers(2, size=n)
    given = {
        "x": x,
        "y": y.astype(float),
        "weights": rng.gamma(0.5, size=n),
        "offset": rng.normal(size=n),
        "strata": {"g": codes},
        "group": "g",
        "groups": k,
    }
    theta = np.concatenate([rng.normal(size=p) / p**0.5, 0.5 * rng.normal(size=k), [0.0]])
    factor = np.tril(rng.normal(size=(p, p))) * 0.3 / p
    return Problem(link, given, theta, rng.normal(size=(k, p)), 0.2 * rng.gamma(1.0, size=k), factor)


WIDE, RADIUS = np.array([0.5, 1.0, 2.0, 0.1, 5.0, 1.0]), np.array([6.0, 3.0, 1.0, 4.0, 5.0, 8.0])


# Bounds


@pytest.mark.parametrize("link", TAGS)
@pytest.mark.parametrize("p", [1, 3, 6])
def test_bounds_are_what_numpy_makes_of_them(link, p):
    case = problem(link, p)
    found = case.made().bounds(WIDE, RADIUS)
    g = case.codes
    s = np.sqrt(WIDE[g] ** 2 * case.reach**2 + case.sd[g] ** 2)
    third = applied(entries.bounds, TAGS[link], case.given["y"], case.eta - RADIUS[g] * s, case.eta + RADIUS[g] * s)
    # eta and a are rounded a dozen times, and no family's f''' grows faster than e^eta, or e^e^eta in cloglog.
    np.testing.assert_allclose(found, SLACK / 6 * third * s**3, rtol=1e-10)


def pair(rng: np.random.Generator, case: Problem, kind: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two points (z, t), anywhere inside the balls of all groups; far apart, near, or with only z or only t changed."""
    p, k = case.factor.shape[0], case.sd.size
    z, t = rng.normal(size=(2, p)), rng.normal(size=(2, k))
    if kind == "near":
        z[1], t[1] = z[0] + 1e-3 * z[1], t[0] + 1e-3 * t[1]
    if kind == "effects":
        z[1] = z[0]
    if kind == "coefficients":
        t[1] = t[0]
    if kind == "opposite":
        z[1], t[1] = -z[0] * rng.random(), -t[0] * rng.random()
    lengths = np.sqrt((z**2).sum(1)[:, None] / WIDE**2 + t**2).max(0)
    z *= rng.random() ** (1 / 4) * (RADIUS / lengths).min()
    # Each group's effect goes as far as its own ball lets it.
    room = np.sqrt(np.maximum(0.0, RADIUS**2 - (z**2).sum(1).max() / WIDE**2)) / np.abs(t).max(0)
    return list(z), list(t * room * rng.random(k) ** (1 / 4))


KINDS = ["far", "near", "effects", "coefficients", "opposite"]


@pytest.mark.parametrize("link", TAGS)
@pytest.mark.parametrize("p", [1, 3])
def test_bounds_hold_for_every_pair_of_points_in_the_ball(link, p):
    """|R(h') - R(h)| <= c B, with B from the lengths of (z / v, t_g) of the two points and of their difference."""
    case = problem(link, p)
    bounds, g, y = case.made().bounds(WIDE, RADIUS), case.codes, case.given["y"]
    rng, closest = np.random.default_rng(3), 0.0
    for kind in KINDS * 12:
        z, t = pair(rng, case, kind)
        h = [case.moves(*point) for point in zip(z, t, strict=True)]
        u = [np.hypot(np.linalg.norm(a) / WIDE, b) for a, b in ((z[0], t[0]), (z[1], t[1]), (z[1] - z[0], t[1] - t[0]))]
        assert (np.maximum(u[0], u[1]) <= RADIUS * (1 + 1e-12)).all()
        spread = distance_bound.py_func(*u)
        apart = np.abs(applied(entries.differences, TAGS[link], y, case.eta, *h))
        assert (apart <= bounds * spread[g] + 1e-300).all()
        closest = max(closest, (apart / (bounds * spread[g] + 1e-300)).max())
    assert closest > 0.1  # the bounds are not just large


@pytest.mark.parametrize("link", TAGS)
def test_bounds_hold_in_decimal_arithmetic(link):
    case = problem(link, sizes=[12, 1, 0, 3, 8, 1])
    bounds, g = case.made().bounds(WIDE, RADIUS), case.codes
    rng = np.random.default_rng(4)
    for kind in KINDS:
        z, t = pair(rng, case, kind)
        h = [case.moves(*point) for point in zip(z, t, strict=True)]
        u = [np.hypot(np.linalg.norm(a) / WIDE, b) for a, b in ((z[0], t[0]), (z[1], t[1]), (z[1] - z[0], t[1] - t[0]))]
        spread = distance_bound.py_func(*u)[g]
        for i in range(g.size):
            remainders = [precise_remainder(link, case.given["y"][i], case.eta[i], one[i]) for one in h]
            assert abs(remainders[1] - remainders[0]) <= bounds[i] * spread[i]


def near_the_peak() -> Problem:
    """Expanded where |f'''| is largest and hardly changes, in short steps: there the bound is nearly attained."""
    case = problem("logit", p=1, sizes=[10, 10])
    case.given["offset"][:] = logit.PEAK - case.given["x"][0] * case.theta[0] - case.theta[1:-1][case.codes]
    return case._replace(factor=np.array([[0.01]]), sd=np.array([0.01, 0.02]))


def test_bounds_that_are_a_tenth_too_small_do_not_hold():
    case, one, radius = near_the_peak(), np.ones(2), np.full(2, 3.0)
    bounds = case.made().bounds(one, radius)
    ratios = []
    for sign in itertools.product((-1.0, 1.0), repeat=2):
        for share in np.linspace(0.05, 1.0, 20):  # of the length that is the effect's
            z, t = np.array([sign[0] * 3 * math.sqrt(1 - share**2)]), np.full(2, sign[1] * 3 * share)
            h = case.moves(z, t)
            ratios.append(
                np.abs(applied(entries.remainders, TAGS["logit"], case.given["y"], case.eta, h)) / (bounds * 27)
            )
    assert 0.95 < np.max(ratios) <= 1
    assert np.max(ratios) > 0.9  # so that bounds times 0.9 would be broken


def test_excess_is_at_most_one_and_sees_bounds_that_are_too_small():
    """It looks at random directions: with one column and one effect some of them are close to the worst."""
    case, one, radius = near_the_peak(), np.ones(2), np.full(2, 3.0)
    made = case.made()
    bounds = made.bounds(one, radius)
    found = made.excess(bounds, one, radius, np.arange(bounds.size), np.random.default_rng(1), 100)
    assert 0.9 < found <= 1
    broken = made.excess(0.8 * bounds, one, radius, np.arange(bounds.size), np.random.default_rng(1), 100)
    assert broken == pytest.approx(found / 0.8)
    bounds[7] = 0.0  # a row that would never be drawn
    assert made.excess(bounds, one, radius, np.arange(bounds.size), np.random.default_rng(1), 100) > 1e6


@pytest.mark.parametrize("link", TAGS)
def test_no_family_exceeds_its_bounds(link):
    made = problem(link).made()
    bounds = made.bounds(WIDE, RADIUS)
    assert 0.01 < made.excess(bounds, WIDE, RADIUS, np.arange(bounds.size), np.random.default_rng(1)) <= 1


def test_weights_do_not_matter_to_bounds_but_to_what_is_drawn():
    case = problem("logit")
    made = case.made()
    bounds = made.bounds(WIDE, RADIUS)
    plain = case._replace(given=case.given | {"weights": None}).made()
    assert (plain.bounds(WIDE, RADIUS) == bounds).all()
    for some, weights in ((made, case.given["weights"]), (plain, np.ones(bounds.size))):
        totals = [(weights * bounds)[case.codes == group].sum() for group in range(EFFECTS)]
        assert some.totals(WIDE, RADIUS) == pytest.approx(totals, rel=1e-12)


def test_what_coefficients_alone_can_do():
    """|f'''| a^3, with f''' the largest within three lengths, times the weight."""
    case = problem("poisson")
    third = applied(
        entries.bounds, TAGS["poisson"], case.given["y"], case.eta - 3 * case.reach, case.eta + 3 * case.reach
    )
    expected = case.given["weights"] * SLACK / 6 * third * case.reach**3
    size, seen = expected.size // 3, case.made().look(expected.size // 3, np.random.default_rng(1))
    assert seen.y.size == size
    place = {value: row for row, value in enumerate(case.eta)}
    rows = np.array([min(place, key=lambda eta, own=own: abs(eta - own)) for own in seen.eta])
    rows = np.array([place[eta] for eta in rows])
    # Inclusion probabilities are in proportion to it, unless they are one.
    scale = seen.weights / case.given["weights"][rows]
    drawn = scale > 1 + 1e-12
    assert drawn.any()
    np.testing.assert_allclose(scale[drawn] * expected[rows][drawn], (scale * expected[rows])[drawn][0], rtol=1e-9)


@pytest.mark.parametrize("link", TAGS)
def test_sums_of_third_derivatives_by_group(link):
    case = problem(link)
    made, g = case.made(), case.codes
    third = case.given["weights"] * applied(entries.thirds, TAGS[link], case.given["y"], case.eta)
    expected = [((case.given["x"].T - case.shares[j]) * third[:, None])[g == j].sum(0) for j in range(EFFECTS)]
    np.testing.assert_allclose(made.bends, expected, rtol=1e-10, atol=1e-12)
    typical = [np.sqrt((case.reach[g == j] ** 2).mean()) if (g == j).any() else 0.0 for j in range(EFFECTS)]
    assert made.typical == pytest.approx(typical, rel=1e-10)


def test_a_few_rows_can_be_looked_at():
    case = problem("logit")
    rows = np.arange(case.codes.size)
    x, y, eta, weights, groups = case.made().look(rows.size, np.random.default_rng(1))
    assert (x == case.given["x"][:, rows].T).all()
    assert (y == case.given["y"][rows]).all()
    assert eta == pytest.approx(case.eta[rows], rel=1e-12)
    assert (weights == case.given["weights"][rows]).all()
    assert (groups == case.codes[rows]).all()
    plain = case._replace(given=case.given | {"weights": None}).made()
    assert (plain.look(rows.size, np.random.default_rng(1)).weights == 1).all()


def test_same_bits_for_any_number_of_threads(monkeypatch):
    """Groups that reach over the borders of blocks, which have 16,384 rows."""
    sizes = [1, 10_000, 8_000, 0, 1, 18_000, 18_000, 300]
    case = problem("logit", sizes=sizes)
    wide, radius = np.linspace(0.3, 3.0, 8), np.linspace(2.0, 8.0, 8)
    answers = []
    monkeypatch.setattr(threads, "ALONE", 0)  # so few rows would be left to one thread
    for count in (1, 2, 4):
        with threads.using(count):
            made = case.made()
            bounds = made.bounds(wide, radius)
            most = np.full(8, np.quantile(bounds, 0.99))
            drawn, totals = made.split(wide, radius, most, np.random.default_rng(1))[:2]
        answers.append((made.bends, made.typical, bounds, drawn.table, totals, drawn.eta))
    for other in answers[1:]:
        for one, another in zip(answers[0], other, strict=True):
            assert (one == another).all()


# What is drawn, and what is always evaluated


def chances(drawn: Drawn, group: int) -> np.ndarray:
    """The probability of each row of a group, summed over all entries of its table and both ends of each."""
    first, last = drawn.starts[group], drawn.starts[group + 1]
    table = drawn.table[first:last]
    found = np.zeros(last - first)
    for i, (keep, partner) in enumerate(table):
        assert 0 <= keep <= 1 + 1e-12
        found[i] += min(1.0, keep) / table.shape[0]
        found[int(partner)] += (1 - min(1.0, keep)) / table.shape[0]
    return found


def split(case: Problem, share: float = 0.9) -> tuple[Drawn, np.ndarray, Always, np.ndarray, np.ndarray]:
    """The rows with the largest bounds are always evaluated, and all rows of the group of seven."""
    made = case.made()
    bounds = made.bounds(WIDE, RADIUS)
    weighted = bounds * case.given["weights"]
    most = np.where(np.arange(EFFECTS) == 3, 0.0, np.quantile(weighted, share))
    found = made.split(WIDE, RADIUS, most, np.random.default_rng(1))
    chosen = weighted > most[case.codes]
    assert found.rows == bounds.size
    assert found.total == pytest.approx(weighted[~chosen].sum(), rel=1e-12)
    return *found[:3], bounds, chosen


def test_rows_are_drawn_in_proportion_to_their_weighted_bounds():
    case = problem("logit")
    drawn, totals, _, bounds, chosen = split(case)
    measure = np.where(chosen, 0.0, bounds * case.given["weights"])
    for group in range(EFFECTS):
        own = measure[case.codes == group]
        assert totals[group] == pytest.approx(own.sum(), rel=1e-12)
        if own.sum() > 0:
            np.testing.assert_allclose(chances(drawn, group), own / own.sum(), rtol=1e-10, atol=1e-15)
    assert totals[2] == totals[3] == 0.0


def test_every_row_is_either_drawn_or_always_evaluated():
    case = problem("logit")
    drawn, _, always, bounds, chosen = split(case)
    assert (drawn.bound == np.where(chosen, 0.0, bounds)).all()
    assert ((drawn.bound == 0) == chosen).all()
    assert (drawn.x == case.given["x"]).all()
    assert drawn.eta == pytest.approx(case.eta, rel=1e-12)
    rows = np.flatnonzero(chosen)
    assert (always.x == case.given["x"][:, rows]).all()
    assert (always.y == case.given["y"][rows]).all()
    assert (always.weights == case.given["weights"][rows]).all()
    assert always.eta == pytest.approx(case.eta[rows], rel=1e-12)
    assert (np.diff(always.starts) == np.bincount(case.codes[rows], minlength=EFFECTS)).all()
    assert (np.diff(drawn.starts) == SIZES).all()


@pytest.mark.parametrize("chosen", [False, True])
def test_all_rows_may_be_on_one_side(chosen):
    case = problem("logit")
    made = case.made()
    most = np.full(EFFECTS, 0.0 if chosen else np.inf)
    _, totals, always = made.split(WIDE, RADIUS, most, np.random.default_rng(1))[:3]
    assert always.y.size == (case.codes.size if chosen else 0)
    assert (totals > 0).tolist() == [size > 0 and not chosen for size in SIZES]


def test_bounds_that_are_infinite_must_be_chosen():
    """e^eta overflows somewhere in the ball of a row: it cannot be drawn."""
    case = problem("poisson")
    case.given["x"][1, 3] = 1e4 * np.sign(case.theta[1])
    made = case.made()
    bounds = made.bounds(WIDE, RADIUS)
    assert np.flatnonzero(np.isinf(bounds)).tolist() == [3]
    with pytest.raises(ValueError, match="must be finite"):
        made.split(WIDE, RADIUS, np.full(EFFECTS, np.inf), np.random.default_rng(1))
    _, totals, always = made.split(WIDE, RADIUS, np.full(EFFECTS, 1e300), np.random.default_rng(1))[:3]
    assert np.isfinite(totals).all()
    assert always.y.size == 1


@compiled()
def always_remainders(terms, rows, delta, d):
    """Of all groups."""
    out, buffer = np.empty(d.size), np.empty(CHUNK)
    for g in range(d.size):
        out[g] = always_remainder(terms, rows, g, delta, d[g], buffer)
    return out


@pytest.mark.parametrize("link", ["logit", "cloglog"])  # with a part that is linear, and without
@pytest.mark.parametrize("length", [1e-3, 0.3, 4.0])
def test_rows_always_evaluated_have_the_remainder_of_their_log_likelihood(link, length):
    case = problem(link)
    _, _, always, _, chosen = split(case, 0.5)
    rng = np.random.default_rng(5)
    delta, d = length * rng.normal(size=3) / 3, length * rng.normal(size=EFFECTS) / 3
    h = delta @ case.given["x"] + d[case.codes]
    own = case.given["weights"] * applied(entries.remainders, TAGS[link], case.given["y"], case.eta, h)
    expected = np.bincount(case.codes, np.where(chosen, own, 0.0), EFFECTS)
    found = always_remainders(TAGS[link].terms, always, delta, d)
    # The difference of log-likelihoods loses what these have before the point.
    size = np.abs(TAGS[link].log_likelihood(case.given["y"], case.eta + h)) + np.abs(case.eta) + h**2 + 1
    rounding = 1e-14 * np.bincount(case.codes, case.given["weights"] * size, EFFECTS)
    # Remainders have eight digits, and in the tail of the cloglog an error of 3e-10 (see test_remainders).
    lost = 1e-8 * np.bincount(case.codes, np.abs(own), EFFECTS)
    assert (np.abs(found - expected) <= rounding + lost + 3e-10 * case.given["weights"].sum() * (length > 0.1)).all()
    assert not found[2]


def test_all_remainders_make_up_the_log_likelihood_less_its_expansion():
    """For a model, from derivatives that are summed elsewhere: value, slopes and curvatures at its expansion."""
    case = problem("logit")
    model = Hierarchical.from_arrays(
        case.given["x"].T, case.given["y"], case.codes, group_prior=HalfNormal(1.0), weights=case.given["weights"],
        offset=case.given["offset"],
    )  # fmt: skip
    assert model.rows.groups == EFFECTS - 1  # arrays know nothing of a group that has no row
    theta, p = np.delete(case.theta, 3 + 2), 3
    here = model.derivatives(theta)
    keep = [0, 1, 3, 4, 5]
    made = model.rows.keep(GroupRemainders, TAGS["logit"], theta, case.shares[keep], case.sd[keep], case.factor)
    always = made.split(WIDE[keep], RADIUS[keep], np.zeros(5), np.random.default_rng(1)).always
    rng = np.random.default_rng(6)
    delta, d = rng.normal(size=p), rng.normal(size=5)
    groups = here.by_group[0]
    expansion = here.value[0] + delta @ here.gradient[0] + d @ groups[:, p]
    expansion -= 0.5 * delta @ here.curvature[0] @ delta + d @ groups[:, :p] @ delta + 0.5 * groups[:, p + 1] @ d**2
    there = model.log_likelihood(theta + np.concatenate([delta, d, [0.0]]))[0]
    found = always_remainders(TAGS["logit"].terms, always, delta, d)
    assert found.sum() == pytest.approx(there - expansion, rel=1e-9)


def test_lengths_of_an_arrow_are_those_of_its_gaussian():
    """With those of an arrow |(z, t)|^2 is the exponent of its density: a length of one is a standard deviation."""
    case = problem("logit")
    model = Hierarchical.from_arrays(
        case.given["x"].T, case.given["y"], case.codes, weights=case.given["weights"], offset=case.given["offset"]
    )
    theta, p = np.zeros(3 + 5 + 1), 3
    here, tau = model.derivatives(theta), 0.8
    groups = here.by_group[0]
    at = Expansion(
        theta[:p], theta[p:-1], 0.0, here.gradient[0], here.curvature[0], groups[:, :p], groups[:, p], groups[:, -1]
    )
    arrow = gaussian(at, np.zeros(p), 0.01 * np.eye(p), tau)
    rng = np.random.default_rng(7)
    z, t = rng.normal(size=p), rng.normal(size=5)
    beta = arrow.factor @ z
    effects = arrow.sd * t - arrow.shares @ beta
    exponent = beta @ (at.curvature + 0.01 * np.eye(p)) @ beta + 2 * effects @ at.mixed @ beta
    exponent += ((at.effect_curvature + tau**-2) * effects**2).sum()
    assert exponent == pytest.approx(z @ z + t @ t, rel=1e-10)
    assert beta @ arrow.precision @ beta == pytest.approx(z @ z, rel=1e-10)
