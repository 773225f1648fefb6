"""Remainders against decimal arithmetic; their bounds over random points of the ball; counts and sums of bounds."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from entries import applied, bounds, differences, remainders, thirds
from precise import TAGS
from precise import remainder as precise_remainder

from tallbayes.families import Logit, logit
from tallbayes.rows import remainders as module
from tallbayes.rows.looking import FirstLook, Look
from tallbayes.rows.memory import NOTHING, MemoryRows
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.remainders import SLACK, TRIANGLE, RemainderBounds, expansion, expected, require_bounds
from tallbayes.rows.urn import Lots
from tallbayes.sampling.thinned_loop import distance_bound

OUTCOMES = [(link, y) for link in TAGS for y in ((0.0, 1.0) if link != "poisson" else (2.0,))]


# One remainder


def places(link, y, count=100):
    """Where to expand and how far to go: in both tails and in between."""
    rng = np.random.default_rng(1)
    eta = np.where(rng.random(count) < 0.5, rng.uniform(-30, 30, count), 2 * rng.normal(size=count))
    h = 10 ** rng.uniform(-6, 1, count) * rng.choice([-1, 1], count)
    eta[:4], h[:4] = 0.0, [1e-6, -1e-6, 1e-3, 10.0]
    eta[4:8], h[4:8] = [-25, 25, np.log(0.5), np.log(0.5)], [0.5, -0.5, 0.1, -0.1]  # across joins of two formulas
    if link == "probit":  # beyond, the third derivative is below the smallest normal number
        e = (2 * y - 1) * eta
        return eta, (2 * y - 1) * (np.minimum(e + (2 * y - 1) * h, 36) - e)
    if link == "cloglog":
        eta = np.minimum(eta, 5.5)
        return eta, np.minimum(h, 6.4 - eta)
    return eta, h


@pytest.mark.parametrize(("link", "y"), OUTCOMES)
def test_remainder(link, y):
    eta, h = places(link, y)
    found = applied(remainders, TAGS[link], y, eta, h)
    truth = np.array([precise_remainder(link, y, *at) for at in zip(eta, h, strict=True)])
    # Relative to the integral of |f'''|, which the remainder equals where f''' keeps its sign.
    u = (np.arange(2000) + 0.5) / 2000
    size = (np.abs(applied(thirds, TAGS[link], y, eta[:, None] + u * h[:, None])) * (1 - u) ** 2 / 2).mean(1)
    size *= np.abs(h) ** 3
    # f''' is known to 1e-16 at best where it is zero. Where it falls doubly exponentially (cloglog) or like e^-e^2
    # (probit), eight nodes a unit do not follow it; that is off by less than 3e-10 and 1e-20.
    absolute = 1e-16 * np.abs(h) ** 3 + {"cloglog": 3e-10 * y, "probit": 1e-20}.get(link, 0) * (np.abs(h) > 0.3)
    assert (np.abs(found - truth) <= 1e-8 * size + absolute).all()
    low, high = np.minimum(eta, eta + h), np.maximum(eta, eta + h)
    bound = applied(bounds, TAGS[link], y, low, high) * np.abs(h) ** 3 / 6
    assert (np.abs(found) <= SLACK * bound).all()


@pytest.mark.parametrize(("link", "y"), OUTCOMES)
def test_no_move_leaves_nothing(link, y):
    assert (applied(remainders, TAGS[link], y, np.linspace(-30, 6, 50), 0.0) == 0).all()


@pytest.mark.parametrize(("link", "y"), OUTCOMES)
def test_the_two_ways_around_one_agree(link, y):
    # One panel up to |h| = 1, two beyond it. The remainder itself moves by 3e-9 of its size there.
    eta, sign = np.repeat(np.linspace(-10, 2, 25), 2), np.tile([-1.0, 1.0], 25)
    one, two = (applied(remainders, TAGS[link], y, eta, sign * (1 + step)) for step in (-1e-9, 1e-9))
    size = applied(bounds, TAGS[link], y, eta - 1, eta + 1) / 6
    assert (np.abs(one - two) <= 1e-7 * size).all()


@pytest.mark.parametrize(("link", "y"), OUTCOMES)
def test_difference_of_two_remainders(link, y):
    eta, h = places(link, y)
    new = np.random.default_rng(8).permutation(h) * np.where(np.arange(h.size) % 2, 1, 0.01)
    new = np.minimum(new, {"cloglog": 6.4, "probit": 36}.get(link, 60) - eta)
    before, after = (applied(remainders, TAGS[link], y, eta, move) for move in (h, new))
    found = applied(differences, TAGS[link], y, eta, h, new)
    # The same sums of eight terms in another order, with other products fused.
    size = [applied(bounds, TAGS[link], y, eta - abs(move), eta + abs(move)) * abs(move) ** 3 for move in (h, new)]
    assert (np.abs(found - (after - before)) <= 1e-14 * (size[0] + size[1])).all()
    back = applied(differences, TAGS[link], y, eta, new, h)
    assert (np.abs(found + back) <= 1e-14 * (size[0] + size[1])).all()
    assert (np.abs(applied(differences, TAGS[link], y, eta, h, h)) <= 1e-14 * size[0]).all()


def steps(link, y, count=100_000, radius=6.0):
    """Rows and steps of 1e-12 to 1e-2 sds, most of them along the row and so that its bound is nearly attained.

    A tenth of them have their two points on either side of where a panel more is taken. Where f''' falls faster than
    any e^-t, panels do not follow it; there it is below 1e-4 of its peak, and such rows are left out.
    """
    rng = np.random.default_rng([9, int(y)])

    def mostly(this, share):
        other = rng.normal(size=this.shape)
        vector = np.where((rng.random(count) < share)[:, None], this, other)
        return vector / np.linalg.norm(vector, axis=1, keepdims=True)

    x, reach = rng.normal(size=(count, 3)), 10 ** rng.uniform(-4, 0, count)
    x *= (reach / np.linalg.norm(x, axis=1))[:, None]
    e = np.where(rng.random(count) < 0.5, rng.uniform(-30, 30, count), 2 * rng.normal(size=count))
    e = np.minimum(e, {"probit": 7.0, "cloglog": 3.0 if y else 30.0}.get(link, 30.0) - radius * reach)
    eta = -e if link == "probit" and not y else e
    z = mostly(x, 0.8) * (radius * rng.uniform(0.01, 0.99, count) * rng.choice([-1, 1], count))[:, None]
    z[::10] = x[::10] * (0.5 * rng.integers(1, 11, z[::10].shape[0]) / reach[::10] ** 2)[:, None]
    inside = np.linalg.norm(z, axis=1) < 0.99 * radius
    new = z + mostly(z, 0.8) * (10 ** rng.uniform(-12, -2, count) * rng.choice([-1, 1], count))[:, None]
    lengths = np.array([np.linalg.norm(move, axis=1) for move in (z, new, new - z)])
    h, new_h = (x * z).sum(1), (x * new).sum(1)
    largest = applied(bounds, TAGS[link], y, eta - radius * reach, eta + radius * reach)
    bound = SLACK / 6 * largest * reach**3 * distance_bound.py_func(*lengths)
    return tuple(part[inside] for part in (eta, h, new_h, bound, lengths[2]))


@pytest.mark.parametrize(("link", "y"), OUTCOMES)
def test_rounding_breaks_no_bound_however_close_two_points_are(link, y):
    eta, h, new_h, bound, jump = steps(link, y)
    apart = np.abs(applied(differences, TAGS[link], y, eta, h, new_h))
    assert (apart <= bound).all()
    assert ((apart > 0.9 * bound) & (jump < 1e-6)).any()
    # A bound that is too small is seen, and by short steps too.
    broken = apart > 0.2 * bound
    assert broken.mean() > 0.2
    assert broken[jump < 1e-6].mean() > 0.1


# Bounds


def problem(link, p=3, n=600, weighted=True, offset=True, seed=2, reach=0.15):
    """Rows, where they are expanded and a covariance's factor."""
    rng = np.random.default_rng([seed, p, n])
    x = np.concatenate([np.ones((1, n)), rng.standard_t(4, size=(p - 1, n))])
    y = rng.poisson(1.0, n) if link == "poisson" else rng.integers(2, size=n)
    given = {"x": x, "y": y.astype(float), "weights": None, "offset": None}
    given |= {"weights": rng.gamma(0.5, size=n)} if weighted else {}
    given |= {"offset": rng.normal(size=n)} if offset else {}
    return given, rng.normal(size=p) / p**0.5, np.tril(rng.normal(size=(p, p))) * reach / p


def by_hand(link, given, theta, factor, radius):
    """eta and c of every row with NumPy."""
    eta = theta @ given["x"] + (0 if given["offset"] is None else given["offset"])
    reach = np.linalg.norm(factor.T @ given["x"], axis=0)
    largest = applied(bounds, TAGS[link], given["y"], eta - radius * reach, eta + radius * reach)
    return eta, SLACK / 6 * largest * reach**3


FORMS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("link", TAGS)
@pytest.mark.parametrize("p", [1, 3, 5, TRIANGLE + 6])
def test_bounds_hold_in_the_whole_ball(link, p):
    given, theta, factor = problem(link, p)
    radius = 5.0
    found = RemainderBounds(TAGS[link], theta, factor, radius).of(MemoryRows(**given).arrays)
    eta, expected = by_hand(link, given, theta, factor, radius)
    # eta and reach are rounded a dozen times, and no family's f''' grows faster than e^eta, or e^e^eta in cloglog.
    assert found == pytest.approx(expected, rel=1e-10)
    rng, close = np.random.default_rng(3), 0.0
    for _ in range(40):
        z = rng.normal(size=p)
        rho = radius * rng.random() ** (1 / 4)
        h = (factor @ (z * rho / np.linalg.norm(z))) @ given["x"]
        left = np.abs(applied(remainders, TAGS[link], given["y"], eta, h))
        assert (left <= found * rho**3).all()
        close = max(close, (left / (found * rho**3 + 1e-300)).max())
    assert close > (0.1 if p < 10 else 1e-4)  # in many dimensions a random direction is nearly orthogonal to a row


@pytest.mark.parametrize(("weighted", "offset"), FORMS)
def test_bounds_are_for_unit_weight_and_at_the_offset(weighted, offset):
    given, theta, factor = problem("logit", weighted=weighted, offset=offset)
    bounds = RemainderBounds(Logit(), theta, factor, 4.0).of(MemoryRows(**given).arrays)
    assert bounds == pytest.approx(by_hand("logit", given, theta, factor, 4.0)[1], rel=1e-12)


def test_bounds_grow_with_the_radius_and_the_covariance():
    given, theta, factor = problem("poisson")
    arrays = MemoryRows(**given).arrays
    small, large = (RemainderBounds(TAGS["poisson"], theta, factor, radius).of(arrays) for radius in (1.0, 6.0))
    assert (large > small).all()
    double = RemainderBounds(TAGS["poisson"], theta, 2 * factor, 3.0).of(arrays)
    assert double == pytest.approx(8 * large, rel=1e-12)  # the same reach in eta, and a is twice as long


@pytest.mark.parametrize("link", TAGS)
@pytest.mark.parametrize("p", [TRIANGLE - 1, TRIANGLE, pytest.param(40, marks=pytest.mark.long)])
def test_the_two_code_paths_agree(link, p, monkeypatch):
    given, theta, factor = problem(link, p, n=3000)
    arrays, found = MemoryRows(**given).arrays, []
    for threshold in (1, 10**9):
        monkeypatch.setattr(module, "TRIANGLE", threshold)
        bounds = RemainderBounds(TAGS[link], theta, factor, 4.0).of(arrays)
        found.append((*expansion(arrays, TAGS[link].terms, theta, factor), bounds))
    for one, another in zip(*found, strict=True):
        assert one == pytest.approx(another, rel=1e-10, abs=1e-13)  # sums of 40 products in another order


def everyone(rows):
    """A look at every row."""
    return Look(rows.arrays, np.ones(rows.size))


@pytest.mark.parametrize(("weighted", "offset"), FORMS)
@pytest.mark.parametrize("link", ["logit", "poisson"])
def test_expected_is_what_numpy_makes_of_bounds(link, weighted, offset):
    given, theta, factor = problem(link, n=20_000, weighted=weighted, offset=offset)
    rows, own = MemoryRows(**given), given["weights"] if weighted else 1.0
    radii, spread = np.array([0.5, 3.0, 8.0]), 40.0
    values = [spread * own * RemainderBounds(TAGS[link], theta, factor, radius).of(rows.arrays) for radius in radii]
    threshold = float(np.quantile(values[1], 0.9))
    threshold *= 1 + 1e-9  # no row is where rounding would decide
    found = expected(everyone(rows), TAGS[link], theta, factor, radii, spread, threshold)
    assert found.shape == (3, 2)
    for value, (count, total) in zip(values, found, strict=True):
        assert np.abs(value - threshold).min() > 1e-12 * threshold
        assert count == (value > threshold).sum()
        assert total == pytest.approx(value[value <= threshold].sum(), rel=1e-11)
    assert 0 < found[1, 0] < found[2, 0]
    # From some of the rows it is an estimate without bias: the mean of many, each for rows in another order.
    looks, rng = [], np.random.default_rng(3)
    for _ in range(100):
        shuffled = MemoryRows.of(rows.arrays.take(rng.permutation(rows.size)))
        look = shuffled.reduce(FirstLook(2_000, rows.mean_outcome, rows.total_weight))
        assert 1_500 < look.scale.size < 2_500
        looks.append(expected(look, TAGS[link], theta, factor, radii, spread, threshold))
    error = np.std(looks, axis=0, ddof=1) / 10
    assert (np.abs(np.mean(looks, axis=0) - found) < 6.5 * error).all()  # a false alarm in 6 x 4e-9 of all seeds


def test_infinite_bounds_count_as_above_the_threshold():
    # e^eta overflows somewhere in the ball: these rows must not enter the sum.
    rows = MemoryRows([[1.0, 1000.0]], [1.0, 1.0])
    measure = RemainderBounds(TAGS["poisson"], np.zeros(1), np.eye(1), 3.0, 1e300)
    bounds = measure.of(rows.arrays)
    assert np.isinf(bounds).tolist() == [False, True]
    radii = np.array([3.0])
    count, total = expected(everyone(rows), TAGS["poisson"], np.zeros(1), np.eye(1), radii, 1.0, 1e300)[0]
    assert count == 1
    assert total == pytest.approx(bounds[0])
    urn = drawn_from(rows, measure)
    assert urn.total == pytest.approx(total)
    assert urn.certain.x.tolist() == [[1000.0]]


# Rows that are drawn, and rows that are always evaluated


def drawn_from(rows, measure, seen=0):
    return rows.draw(measure, measure.theta, 0.0, seen, 8)


def test_rows_that_directions_move_are_always_evaluated():
    given, theta, factor = problem("logit")
    x = given["x"].copy()
    x[1, 5:] = 0.0
    measure = RemainderBounds(Logit(), theta, factor, 4.0, np.inf, np.eye(len(x))[:, 1:2])
    urn = drawn_from(MemoryRows(**given | {"x": x}), measure)
    assert (urn.certain.x == x[:, :5]).all()
    assert urn.rows == x.shape[1] - 5
    assert measure.looks == RemainderBounds(Logit(), theta, factor, 4.0).looks + 1


def test_no_directions_move_no_row():
    given, theta, factor = problem("logit")
    none = RemainderBounds(Logit(), theta, factor, 4.0, np.inf, factor[:, :0])
    assert np.isfinite(none.of(MemoryRows(**given).arrays)).all()
    assert none.looks == 2


def test_urn_draws_by_weighted_bounds_and_gives_the_largest_apart():
    given, theta, factor = problem("logit")
    rows = MemoryRows(**given)
    bounds = RemainderBounds(Logit(), theta, factor, 4.0).of(rows.arrays)
    weighted = bounds * given["weights"]
    chosen = np.sort(np.argsort(-weighted)[:20])
    measure = RemainderBounds(Logit(), theta, factor, 4.0, np.sort(weighted)[-21])
    urn, whole = drawn_from(rows, measure), drawn_from(rows, replace(measure, most=np.inf))
    assert (urn.certain.x == given["x"][:, chosen]).all()
    assert (urn.certain.weights == given["weights"][chosen]).all()
    assert (urn.certain.offset == given["offset"][chosen]).all()
    assert whole.rows == weighted.size == urn.rows + 20
    assert whole.certain.size == 0
    assert whole.total == pytest.approx(weighted.sum(), rel=1e-12)
    assert urn.total == pytest.approx(np.delete(weighted, chosen).sum(), rel=1e-12)
    pool = urn.pool((5, 0), 0, 1, 50_000)
    assert not np.isin(pool.bound, bounds[chosen]).any()
    index = {value: row for row, value in enumerate(bounds)}
    drawn = np.array([index[value] for value in pool.bound])  # bounds are for unit weight
    assert (pool.x == given["x"][:, drawn].T).all()
    assert pool.eta == pytest.approx(by_hand("logit", given, theta, factor, 4.0)[0][drawn], abs=1e-12)
    share = np.delete(weighted, chosen) / np.delete(weighted, chosen).sum()
    heavy = np.argsort(-share)[:10]
    names = np.delete(np.arange(weighted.size), chosen)[heavy]
    counts = np.array([(drawn == name).sum() for name in names])
    z = (counts - drawn.size * share[heavy]) / np.sqrt(drawn.size * share[heavy] * (1 - share[heavy]))
    assert (np.abs(z) < 5.3).all()  # a false alarm in 10 x 1e-7 of all seeds


@pytest.mark.parametrize("p", [3, TRIANGLE + 6])
def test_bounds_and_pools_do_not_depend_on_where_blocks_lie(p):
    """Whole or cut into pieces of some blocks: bit for bit, also where matrix products are made."""
    given, theta, factor = problem("logit", p, n=4 * LENGTH - 77, reach=0.05)
    given["x"][-1, :-300] = 0.0
    rows = MemoryRows(**given)
    plain = RemainderBounds(Logit(), theta, factor, 4.0)
    most = float(np.quantile(plain.of(rows.arrays) * given["weights"], 0.999))
    measure = replace(plain, most=most, directions=np.eye(p)[:, -1:])
    lots = Lots(measure, theta, 3_000.0, drawn_from(rows, measure).total, 2_900, (1, 2))
    whole, bounds = rows.reduce(lots), measure.of(rows.arrays)
    assert whole.certain.size > 300
    for blocks in ([1, 1, 1, 1], [3, 1], [2, 2]):
        starts = np.append(0, np.cumsum(blocks))
        pieces = [
            replace(rows.arrays.take(np.arange(start * LENGTH, min(rows.size, stop * LENGTH))), block=int(start))
            for start, stop in pairwise(starts)
        ]
        assert (np.concatenate([measure.of(piece) for piece in pieces]) == bounds).all()
        parts = [lots.over(piece, NOTHING) for piece in pieces]
        found = lots.answer(tuple(map(np.concatenate, zip(*parts, strict=True))), NOTHING, rows)
        assert (found.total, found.rows) == (whole.total, whole.rows)
        for one, other in zip(found.pool, whole.pool, strict=True):
            assert (one == other).all()
        assert (found.certain.x == whole.certain.x).all()


# The check of bounds


def near_the_peak():
    """One column, expanded where |f'''| is largest and hardly changes: there the bound is nearly attained."""
    x = np.linspace(0.5, 1.5, 40)[None]
    return MemoryRows(x, np.arange(40) % 2, offset=logit.PEAK - x[0]), np.ones(1), np.array([[0.01]])


@pytest.mark.parametrize("link", TAGS)
@pytest.mark.parametrize("p", [1, 3])
def test_excess_is_at_most_one(link, p):
    given, theta, factor = problem(link, p)
    found = RemainderBounds(TAGS[link], theta, factor, 5.0).excess(
        MemoryRows(**given).arrays.take(np.arange(0, 600, 2)), np.random.default_rng(6), points=7
    )
    assert 0.05 < found <= 1


@dataclass(frozen=True, eq=False)
class Scaled(RemainderBounds):
    """Bounds that are not right for each row."""

    by: object = 1.0

    def of(self, arrays):
        return super().of(arrays) * (self.by if np.ndim(self.by) == 0 else self.by[: arrays.size])


def test_excess_sees_bounds_that_are_too_small():
    rows, theta, factor = near_the_peak()

    def excess(by, arrays=rows.arrays):
        return Scaled(Logit(), theta, factor, 4.0, by=by).excess(arrays, np.random.default_rng(7))

    whole = excess(1.0)
    assert 0.95 < whole <= 1
    broken = excess(0.2)
    assert broken == pytest.approx(5 * whole, rel=1e-12)
    assert broken > 1
    one = np.ones(40)
    one[17] = 0.0  # a row that would never be drawn
    assert excess(one) > 1e6
    assert excess(one, rows.arrays.take(np.array([3, 4]))) <= 1
    assert excess(one, rows.arrays.take(np.array([], dtype=np.intp))) == 0
    one[17] = np.inf  # a row that is always evaluated has no bound to hold
    assert excess(one) <= 1
    with pytest.raises(FloatingPointError, match="5 times its bound"):
        require_bounds(5.0)
    with pytest.raises(FloatingPointError):
        require_bounds(np.nan)
