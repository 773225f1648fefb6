"""Remainders of rows in groups: their bounds over random pairs of points, the tables rows are drawn from, the rest."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import entries
import numpy as np
import pytest
from entries import applied
from on_disk import FewBlocks, on_disk
from precise import TAGS
from precise import remainder as precise_remainder

from tallbayes.families import logit
from tallbayes.families.compiled import compiled
from tallbayes.groups.arrow import Expansion, gaussian
from tallbayes.groups.looking import LookAtCoefficients
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.remainders import BoundTotals, GroupBounds, GroupExpansion, GroupFacts, LookAtGroups
from tallbayes.groups.scale import HalfNormal
from tallbayes.groups.split import Always, Drawn, Splits, require_every_row, with_tables
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

    @property
    def rows(self) -> MemoryRows:
        return MemoryRows(**self.given)

    @property
    def expansion(self) -> GroupExpansion:
        return GroupExpansion(TAGS[self.link], self.theta, self.shares, self.sd, self.factor)

    def measure(self, wide: np.ndarray, radius: np.ndarray, most: Any = np.inf) -> GroupBounds:
        return GroupBounds(self.expansion, wide, radius, np.broadcast_to(most, wide.shape))

    def bounds(self, wide: np.ndarray, radius: np.ndarray) -> np.ndarray:
        return self.measure(wide, radius).of(self.rows.arrays)

    def facts(self) -> GroupFacts:
        return self.rows.reduce(LookAtGroups(self.expansion))

    def totals(self, wide: np.ndarray, radius: np.ndarray) -> np.ndarray:
        return self.rows.reduce(BoundTotals(self.expansion, wide, radius[None]))[0]

    def split(self, wide: np.ndarray, radius: np.ndarray, most: np.ndarray) -> tuple[Drawn, np.ndarray, Always]:
        measure, rows = self.measure(wide, radius, most), self.rows
        split = rows.reduce(Splits(measure))
        drawn = rows.keep(with_tables, measure, split)
        assert split.rows == np.count_nonzero(drawn.bound)
        return drawn, split.totals, Always.of(split.always, self.expansion)

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
    found = case.bounds(WIDE, RADIUS)
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
    bounds, g, y = case.bounds(WIDE, RADIUS), case.codes, case.given["y"]
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
    bounds, g = case.bounds(WIDE, RADIUS), case.codes
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
    bounds = case.bounds(one, radius)
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


def test_excess_is_at_most_one_and_sees_bounds_that_are_too_small(monkeypatch):
    """It looks at random directions: with one column and one effect some of them are close to the worst."""
    case, one, radius = near_the_peak(), np.ones(2), np.full(2, 3.0)
    measure, arrays = case.measure(one, radius), case.rows.arrays
    found = measure.excess(arrays, np.random.default_rng(1), 100)
    assert 0.9 < found <= 1
    right = GroupExpansion.bounds
    monkeypatch.setattr(GroupExpansion, "bounds", lambda *rest: 0.8 * right(*rest))
    assert measure.excess(arrays, np.random.default_rng(1), 100) == pytest.approx(found / 0.8)
    # A row that would never be drawn.
    monkeypatch.setattr(GroupExpansion, "bounds", lambda *rest: np.where(np.arange(20) == 7, 0.0, right(*rest)))
    assert measure.excess(arrays, np.random.default_rng(1), 100) > 1e6


@pytest.mark.parametrize("link", TAGS)
def test_no_family_exceeds_its_bounds(link):
    case = problem(link)
    assert 0.01 < case.measure(WIDE, RADIUS).excess(case.rows.arrays, np.random.default_rng(1)) <= 1


def test_weights_do_not_matter_to_bounds_but_to_what_is_drawn():
    case = problem("logit")
    bounds = case.bounds(WIDE, RADIUS)
    plain = case._replace(given=case.given | {"weights": None})
    assert (plain.bounds(WIDE, RADIUS) == bounds).all()
    for some, weights in ((case, case.given["weights"]), (plain, np.ones(bounds.size))):
        totals = [(weights * bounds)[case.codes == group].sum() for group in range(EFFECTS)]
        assert some.totals(WIDE, RADIUS) == pytest.approx(totals, rel=1e-12)


def test_what_coefficients_alone_can_do():
    """|f'''| a^3, with f''' the largest within three lengths, times the weight: rows are chosen in proportion to it."""
    case = problem("poisson")
    third = applied(
        entries.bounds, TAGS["poisson"], case.given["y"], case.eta - 3 * case.reach, case.eta + 3 * case.reach
    )
    expected = case.given["weights"] * SLACK / 6 * third * case.reach**3
    sums = case.rows.reduce(BoundTotals(case.expansion, WIDE, RADIUS[None]))[-1]
    assert sums == pytest.approx(np.bincount(case.codes, expected, EFFECTS), rel=1e-10)
    share, rows = 100 / expected.sum(), case.rows
    chance, times, counts = np.minimum(share * expected, 1.0), 2_000, np.zeros(expected.size)
    place = {value: row for row, value in enumerate(case.given["weights"])}
    for key in range(times):
        seen = rows.reduce(LookAtCoefficients(case.expansion, share, key))
        chosen = [place[value] for value in seen.arrays.weights]
        counts[chosen] += 1
        np.testing.assert_allclose(seen.scale, 1 / chance[chosen], rtol=1e-10)
    assert (counts[chance == 1] == times).all()
    assert 0 < (chance == 1).sum() < 100
    spread = np.sqrt(times * chance * (1 - chance)) + 1e-9
    assert (np.abs(counts - times * chance) < 6 * spread + 3).all()


@pytest.mark.parametrize("link", TAGS)
def test_sums_of_third_derivatives_by_group(link):
    case = problem(link)
    made, g = case.facts(), case.codes
    third = case.given["weights"] * applied(entries.thirds, TAGS[link], case.given["y"], case.eta)
    expected = [((case.given["x"].T - case.shares[j]) * third[:, None])[g == j].sum(0) for j in range(EFFECTS)]
    np.testing.assert_allclose(made.bends, expected, rtol=1e-10, atol=1e-12)
    typical = [np.sqrt((case.reach[g == j] ** 2).mean()) if (g == j).any() else 0.0 for j in range(EFFECTS)]
    assert made.typical == pytest.approx(typical, rel=1e-10)


def all_answers(case: Problem, rows: Any) -> list[np.ndarray]:
    """What tasks say of rows, wherever these are."""
    wide, radius = np.linspace(0.3, 3.0, 8), np.linspace(2.0, 8.0, 8)
    measure = case.measure(wide, radius, np.quantile(case.bounds(wide, radius), 0.99))
    totals = rows.reduce(BoundTotals(case.expansion, wide, np.array([radius, radius + 1])))
    look = LookAtCoefficients(case.expansion, 300 / totals[-1].sum(), 5)
    split, seen = rows.reduce_all((Splits(measure), None), (look, None))
    assert 0 < split.always.size < rows.size
    found = [*rows.reduce(LookAtGroups(case.expansion)), totals, split.by_block, split.totals, np.array(split.rows)]
    for arrays in (split.always, seen.weighted):
        found += [arrays.x, arrays.y, arrays.weights, arrays.offset, arrays.codes]
    return found


ACROSS = [1, 10_000, 8_000, 0, 1, 18_000, 18_000, 300]  # groups that reach over the borders of blocks of 16,384 rows


def test_same_bits_for_any_number_of_threads(monkeypatch):
    case = problem("logit", sizes=ACROSS)
    wide, radius = np.linspace(0.3, 3.0, 8), np.linspace(2.0, 8.0, 8)
    answers = []
    monkeypatch.setattr(threads, "ALONE", 0)  # so few rows would be left to one thread
    for count in (1, 2, 4):
        with threads.using(count):
            bounds = case.bounds(wide, radius)
            drawn, totals, _ = case.split(wide, radius, np.full(8, np.quantile(bounds, 0.99)))
            answers.append((*all_answers(case, case.rows), bounds, drawn.table, totals, drawn.eta))
    for other in answers[1:]:
        for one, another in zip(answers[0], other, strict=True):
            assert (one == another).all()


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_same_bits_from_a_disk(blocks):
    case = problem("logit", sizes=ACROSS)
    with FewBlocks(blocks):
        found = all_answers(case, on_disk(case.rows))
    for one, another in zip(all_answers(case, case.rows), found, strict=True):
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
    bounds = case.bounds(WIDE, RADIUS)
    weighted = bounds * case.given["weights"]
    most = np.where(np.arange(EFFECTS) == 3, 0.0, np.quantile(weighted, share))
    return *case.split(WIDE, RADIUS, most), bounds, weighted > most[case.codes]


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
    _, totals, always = case.split(WIDE, RADIUS, np.full(EFFECTS, 0.0 if chosen else np.inf))
    assert always.y.size == (case.codes.size if chosen else 0)
    assert (totals > 0).tolist() == [size > 0 and not chosen for size in SIZES]


def test_rows_with_infinite_bounds_are_always_evaluated():
    """e^eta overflows somewhere in the ball of a row: it cannot be drawn."""
    case = problem("poisson")
    case.given["x"][1, 3] = 1e4 * np.sign(case.theta[1])
    assert np.flatnonzero(np.isinf(case.bounds(WIDE, RADIUS))).tolist() == [3]
    for most in (np.inf, 1e300):
        drawn, totals, always = case.split(WIDE, RADIUS, np.full(EFFECTS, most))
        assert np.isfinite(totals).all()
        assert np.isfinite(drawn.bound).all()
        assert (always.x == case.given["x"][:, 3:4]).all()


def test_rows_that_are_missing_are_seen():
    case = problem("logit")
    measure, rows = case.measure(WIDE, RADIUS), case.rows
    split = rows.reduce(Splits(measure))
    fewer = rows.arrays.take(np.delete(np.arange(rows.size), 50))
    with pytest.raises(FloatingPointError, match="1 rows would be left out"):
        MemoryRows.of(fewer).keep(with_tables, measure, split)
    with pytest.raises(FloatingPointError, match="0 rows would be left out"):
        rows.keep(with_tables, measure, split._replace(totals=split.totals * (1 + 1e-8)))
    require_every_row(0, np.array([0.0, 3.0]), np.array([0.0, 3.0]))
    with pytest.raises(FloatingPointError, match="left out"):
        require_every_row(0, np.array([0.0, np.nan]), np.array([0.0, 3.0]))


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
    expansion = GroupExpansion(TAGS["logit"], theta, case.shares[keep], case.sd[keep], case.factor)
    always = Always.of(model.rows.arrays, expansion)
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
