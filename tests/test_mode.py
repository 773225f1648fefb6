"""The mode against scipy.optimize; separation and collinearity named; units and rare levels."""

import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog, minimize
from scipy.special import expit

from tallbayes.families import Bernoulli, Binomial, Poisson
from tallbayes.models import mode as modes
from tallbayes.models.cautions import PriorWarning, SeparationWarning
from tallbayes.models.first import LOOKED_AT
from tallbayes.models.glm import GLM
from tallbayes.models.mode import CONVERGED, NEARBY, find_mode
from tallbayes.models.priors import Normal, StudentT
from tallbayes.rows.generators import of_block
from tallbayes.rows.looking import KEY
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.tasks import LogLikelihoodDerivatives


def rng(seed=1):
    return np.random.default_rng(seed)


def outcome(generator, eta):
    return (generator.random(eta.size) < expit(eta)).astype(float)


def normals(n, p, seed=1, theta=None, intercept=-1.0):
    """Data with columns x0, x1, ... and an outcome of them."""
    generator = rng(seed)
    x = generator.normal(size=(p, n))
    theta = generator.normal(size=p) if theta is None else np.asarray(theta)
    return {f"x{j}": column for j, column in enumerate(x)} | {"y": outcome(generator, intercept + theta @ x)}


def formula(data):
    return "y ~ " + " + ".join(name for name in data if name != "y")


def densities_of(prior):
    """The matrix that makes of coefficients what the priors are densities of: the intercept may be at the means."""
    found = np.eye(prior.mean.size)
    found[prior.intercept] += prior.means
    return found


def optimum(x, y, prior, weights=1.0, offset=0.0):
    """The maximum of the log posterior by scipy, with the posterior precision there."""
    of = densities_of(prior) / prior.scale[:, None]

    def objective(theta):
        eta, z = x @ theta + offset, of @ theta - prior.mean / prior.scale
        p = expit(eta)
        value = (weights * (np.logaddexp(0, eta) - y * eta)).sum() + 0.5 * (z * z).sum()
        return value, x.T @ (weights * (p - y)) + of.T @ z, (x.T * (weights * p * (1 - p))) @ x + of.T @ of

    found = minimize(
        lambda theta: objective(theta)[0],
        np.zeros(x.shape[1]),
        jac=lambda theta: objective(theta)[1],
        hess=lambda theta: objective(theta)[2],
        method="trust-exact",
        options={"gtol": 1e-9, "maxiter": 500},
    )
    theta = found.x
    for _ in range(3):  # Newton's method squares the distance to the maximum at each step
        _, gradient, precision = objective(theta)
        theta = theta - np.linalg.solve(precision, gradient)
    return theta, objective(theta)[2]


def assert_is_the_mode(mode, theta, precision):
    """Distances in posterior standard deviations."""

    def distance(other):
        return np.sqrt((other - theta) @ precision @ (other - theta))

    assert (
        distance(mode.theta) < 1.1 * CONVERGED
    )  # the last Newton step is shorter than CONVERGED; 10% for its own error
    # One more step leaves the square of that times the skewness of the posterior, which is of order one.
    assert distance(mode.center) < 10 * CONVERGED**2
    # The expansion is made at mode.theta, CONVERGED away: relative differences of that order.
    scale = np.sqrt(np.outer(np.diag(precision), np.diag(precision)))
    assert (np.abs(mode.precision - precision) <= 10 * CONVERGED * scale).all()
    identity = mode.factor.T @ mode.precision @ mode.factor
    assert np.abs(identity - np.eye(theta.size)).max() < 1e-10
    covariance = np.linalg.inv(mode.precision)
    assert mode.sd == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-8)
    assert mode.conditional_sd == pytest.approx(np.diag(mode.precision) ** -0.5, rel=1e-12)


PROBLEMS = {
    "small": (normals(40, 2), {}),
    "many columns": (normals(600, 8), {}),
    "one column": (normals(300, 1, theta=[3.0]), {}),
    "tight prior": (normals(100, 2), {"prior": Normal(2, 0.1)}),
    "priors by name": (normals(100, 2), {"prior": {"x1": Normal(-1, 0.5)}}),
    "rare outcome": (normals(5000, 2, intercept=-6.0), {}),
    "weights and offset": (
        normals(200, 2),
        {"weights": rng(2).uniform(0.1, 5, 200), "offset": rng(3).normal(size=200)},
    ),
    "a large offset": (normals(200, 1), {"offset": np.full(200, 30.0)}),
    "100,000 rows": (normals(100_000, 4), {}),
    "100,000 rows, rare outcome": (normals(100_000, 2, intercept=-7.0), {}),
    "100,000 rows, weights": (normals(100_000, 2), {"weights": rng(4).gamma(0.3, size=100_000)}),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_agrees_with_scipy(name):
    data, options = PROBLEMS[name]
    model = GLM(formula(data), data, **options)
    x = np.column_stack([np.ones(data["y"].size), *(data[name] for name in model.coefficients[1:])])
    theta, precision = optimum(
        x,
        data["y"],
        model.prior,
        options.get("weights", 1.0),
        options.get("offset", 0.0),
    )
    mode = find_mode(model)
    assert_is_the_mode(mode, theta, precision)
    # mode.log_likelihood and its derivatives are those of all rows at mode.theta.
    here = model.derivatives(mode.theta)
    assert mode.log_likelihood == here.value[0]
    assert (mode.gradient == here.gradient[0]).all()
    assert (mode.curvature == here.curvature[0]).all()


# Other families and priors


def log_posterior(model, x, y, weights, offset):
    """Minus the log posterior and its gradient, with scipy's functions."""
    link, prior = getattr(model.family, "link", "log"), model.prior

    def rows(eta):
        if link == "log":
            return y * eta - np.exp(eta), y - np.exp(eta)
        if link == "cloglog":
            t = np.exp(eta)
            least = np.minimum(t, 700)  # where e^t is not a number any more, t / (e^t - 1) is nothing
            return np.where(y > 0, np.log(-np.expm1(-t)), -t), np.where(y > 0, least / np.expm1(least), -t)
        if link == "probit":
            sign = 2 * y - 1
            log_phi = stats.norm.logcdf(sign * eta)
            return log_phi, sign * np.exp(stats.norm.logpdf(eta) - log_phi)
        return y * eta - np.logaddexp(0, eta), y - expit(eta)

    def objective(theta):
        value, slope = rows(x @ theta + offset)
        of = densities_of(prior)
        z = (of @ theta - prior.mean) / prior.scale
        normal = np.isinf(prior.df)
        df = np.where(normal, 1, prior.df)
        log_prior = np.where(normal, -z * z / 2, -(df + 1) / 2 * np.log1p(z * z / df)).sum()
        prior_slope = of.T @ (np.where(normal, -z, -(df + 1) * z / (df + z * z)) / prior.scale)
        return -(weights @ value + log_prior), -(x.T @ (weights * slope) + prior_slope)

    return objective


def outcomes(link, eta, generator):
    if link == "log":
        return generator.poisson(np.exp(eta)).astype(float)
    p = {"logit": expit(eta), "probit": stats.norm.cdf(eta), "cloglog": -np.expm1(-np.exp(eta))}[link]
    return (generator.random(eta.size) < p).astype(float)


MORE = {
    "probit": ("probit", {}),
    "cloglog": ("cloglog", {}),
    "probit, weights": ("probit", {"weights": rng(2).uniform(0.1, 5, 500)}),
    "cloglog, offset": ("cloglog", {"offset": rng(3).normal(size=500)}),
    "poisson": ("log", {}),
    "poisson with exposure": ("log", {"family": Poisson("days")}),
    "poisson with exposure and offset": ("log", {"family": Poisson("days"), "offset": rng(3).normal(size=500)}),
    "binomial": ("probit", {"family": Binomial("days", "probit")}),
    "large offset, logit": ("logit", {"offset": np.full(500, 30.0)}),
    "large offset, probit": ("probit", {"offset": np.full(500, -12.0)}),
    "large offset, cloglog": ("cloglog", {"offset": np.full(500, -15.0)}),
    "large offset, poisson": ("log", {"offset": np.full(500, 15.0)}),
    "far offset, poisson": ("log", {"offset": np.full(500, -25.0)}),
    "student-t": ("logit", {"prior": StudentT(3, 0, 0.5)}),
    "student-t far away": ("logit", {"prior": StudentT(1, 20, 0.05)}),
    "mixed priors": ("log", {"prior": {"x0": StudentT(2, -1, 0.1), "Intercept": Normal(0, 0.3)}}),
    "student-t and probit": ("probit", {"prior": StudentT(5, 0, 2.5)}),
}


@pytest.mark.parametrize("name", MORE)
def test_other_families_agree_with_scipy(name):
    link, options = MORE[name]
    generator, n = rng(7), 500
    x = np.column_stack([np.ones(n), generator.normal(size=n), generator.normal(size=n)])
    days, truth = generator.integers(1, 9, n).astype(float), np.array([-0.5, 0.6, -0.4])
    family = options.get("family", Poisson() if link == "log" else Bernoulli(link))
    y = outcomes(link, x @ truth, generator)
    data = {"x0": x[:, 1], "x1": x[:, 2], "days": days, "y": y}
    weights, offset = options.get("weights", np.ones(n)), options.get("offset", np.zeros(n))
    model = GLM("y ~ x0 + x1", data, **options | {"family": family})
    rows = x, y, weights, offset
    if isinstance(family, Binomial):
        rows = np.vstack([x, x]), np.repeat([1.0, 0.0], n), np.append(y, days - y), np.zeros(2 * n)
    elif getattr(family, "exposure", None):
        rows = x, y, weights, offset + np.log(days)
    objective, mode = log_posterior(model, *rows), find_mode(model)
    # From several starts, of which one is where the offset is undone: a Student-t posterior may have several maxima.
    starts = [np.zeros(3), -np.array([rows[3].mean(), 0, 0]), mode.theta, mode.theta + mode.sd * [2, -2, 2]]
    found = [minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-7}) for start in starts]
    best = min(found, key=lambda one: one.fun)
    distance = best.x - mode.theta
    # scipy stops at a slope of 1e-7 (or as near as rounding lets it): 1e-5 sd away at worst; see assert_is_the_mode.
    assert np.sqrt(distance @ mode.precision @ distance) < 1.1 * CONVERGED + 1e-4
    value, slope = objective(mode.theta)
    assert value <= best.fun + CONVERGED**2 + 1e-12 * abs(best.fun)
    assert mode.gradient + model.prior.gradient(mode.theta) == pytest.approx(-slope, abs=1e-9 * (1 + np.abs(y).sum()))
    for j, h in enumerate(np.diag(1e-4 * mode.sd)):  # and its curvature is that of the log-likelihood
        bend = (objective(mode.theta + h)[1] - objective(mode.theta - h)[1]) / (2e-4 * mode.sd[j])
        prior_bend = (model.prior.gradient(mode.theta - h) - model.prior.gradient(mode.theta + h)) / (2e-4 * mode.sd[j])
        expected = np.sqrt(np.diag(mode.curvature) * mode.curvature[j, j])
        assert (np.abs(bend - prior_bend - mode.curvature[:, j]) <= 1e-5 * expected).all()


def test_counts_passes_over_all_rows():
    model = GLM("y ~ x0 + x1", normals(100_000, 2))
    assert (model.rows.touched, model.rows.passes) == (3 * 100_000, 1)  # moments, derivatives at zero, a first look
    model.rows.touched = 0
    mode = find_mode(model)
    assert model.rows.touched == mode.passes * model.rows.size
    assert mode.passes <= 4  # as few as possible: the first look leaves some tenths of a posterior sd


def test_nearby_takes_fewer_passes_and_one_more_step_is_the_mode():
    data = normals(100_000, 2)
    model = GLM("y ~ x0 + x1", data)
    exact, near = find_mode(model), find_mode(model, NEARBY)
    assert near.passes < exact.passes
    away = [where - exact.theta for where in (near.theta, near.center)]
    distances = [np.sqrt(step @ exact.precision @ step) for step in away]
    assert distances[0] < 1.1 * NEARBY
    assert distances[1] < NEARBY**2
    here = model.derivatives(near.theta)  # what is expanded is exact wherever it is
    assert (near.log_likelihood, near.gradient.tolist()) == (here.value[0], here.gradient[0].tolist())


def upwards(guess, at, here):
    """Instead of `modes.agreeing`: a guess without a top, which nobody follows."""
    return lambda theta: here._replace(curvature=-here.curvature)


@pytest.mark.parametrize(("n", "p"), [(100_000, 2), (400_000, 6)])
def test_the_first_look_tells_how_the_curvature_changes(n, p, monkeypatch):
    """A step that knows it ends much nearer to the mode than Newton's, which is taken where there is no guess."""
    data = normals(n, p, theta=np.linspace(1, 2, p), intercept=-8.0)
    exact, near = find_mode(GLM(formula(data), data)), find_mode(GLM(formula(data), data), NEARBY)
    assert near.passes == 2
    monkeypatch.setattr(modes, "agreeing", upwards)
    newton = find_mode(GLM(formula(data), data), NEARBY)

    def distance(mode):
        step = mode.theta - exact.theta
        return np.sqrt(step @ exact.precision @ step)

    assert newton.passes > 2 or distance(newton) > 3 * distance(near)
    assert distance(newton) < 1.1 * NEARBY


def test_same_data_same_mode():
    data = normals(100_000, 2)
    assert (find_mode(GLM("y ~ x0 + x1", data)).theta == find_mode(GLM("y ~ x0 + x1", data)).theta).all()


# Units


@pytest.mark.parametrize("units", [(1e9, 1e-9), (1e9, 1e9), (1e-3, 1e6), (1e-9, 1e-9)])
@pytest.mark.parametrize("n", [300, 2 * LOOKED_AT + 1])
def test_wild_units(n, units):
    # The default prior of a column in other units is that of the plain column in these units.
    data = normals(n, 2, theta=[0.5, -0.5])
    wild = data | {"x0": data["x0"] * units[0], "x1": data["x1"] * units[1]}
    by = np.array([1.0, *units])
    x = np.column_stack([np.ones(n), data["x0"], data["x1"]])
    plain, model = GLM("y ~ x0 + x1", data), GLM("y ~ x0 + x1", wild)
    theta, precision = optimum(x, data["y"], plain.prior)
    mode = find_mode(model)
    distance = mode.theta * by - theta
    assert np.sqrt(distance @ precision @ distance) < 1.1 * CONVERGED


# Separation


def warned_of(model):
    """The coefficients that find_mode warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mode = find_mode(model)
    assert all(one.category in (SeparationWarning, PriorWarning) for one in caught)
    texts = [str(one.message) for one in caught if one.category is SeparationWarning]
    names = [name for name in model.coefficients if any(f"coefficient of {name!r} (" in text for text in texts)]
    assert len(names) == len(texts)
    assert np.isfinite(mode.theta).all()
    return names


def levels(n=300, events=None, seed=2):
    """A level column g with a, b, c; `events` sets the outcome of a level."""
    generator = rng(seed)
    g, y = (
        np.array(["a", "b", "c"], dtype="<U4")[generator.integers(3, size=n)],
        (generator.random(n) < 0.4).astype(float),
    )
    for level, value in (events or {}).items():
        y[g == level] = value
    return {"x": generator.normal(size=n), "g": g, "y": y}


WITHOUT = [
    ({}, []),
    ({"b": 0}, ["g[T.b]"]),
    ({"c": 1}, ["g[T.c]"]),
    ({"b": 0, "c": 1}, ["g[T.b]", "g[T.c]"]),
    # Without events in the reference level the intercept goes to minus infinity and the other levels the other way.
    ({"a": 0}, ["Intercept", "g[T.b]", "g[T.c]"]),
]


@pytest.mark.parametrize("n", [300, 2 * LOOKED_AT + 1])
@pytest.mark.parametrize(("events", "names"), WITHOUT)
def test_levels_without_finite_maximum(n, events, names):
    assert warned_of(GLM("y ~ x + g", levels(n, events))) == names


@pytest.mark.parametrize("n", [1_000, 15_001, pytest.param(70_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("events", "names"), [*WITHOUT, ({"b": 1, "c": 1}, ["g[T.b]", "g[T.c]"]), ({"a": 1}, WITHOUT[-1][1])]
)
def test_levels_without_finite_maximum_of_other_data(n, events, names):
    for seed in range(3):
        assert warned_of(GLM("y ~ x + g", levels(n, events, seed))) == names


@pytest.mark.parametrize("n", [300, pytest.param(20_001, marks=pytest.mark.long)])
@pytest.mark.parametrize(("events", "names"), WITHOUT)
def test_rounding_does_not_decide_on_separation(n, events, names, monkeypatch):
    """Another processor adds up in another order: sums differ by some eps times the number of their terms."""
    generator, plain = rng(3), LogLikelihoodDerivatives.answer

    def rounded(task, parts, params, rows):
        found, size = plain(task, parts, params, rows), 20 * np.finfo(float).eps * rows.size
        near = [part + size * generator.uniform(-1, 1, part.shape) for part in found[:2]]
        return found._replace(value=near[0], gradient=near[1])

    monkeypatch.setattr(LogLikelihoodDerivatives, "answer", rounded)
    for seed in range(10):
        assert warned_of(GLM("y ~ x + g", levels(n, events, seed))) == names


def test_two_factors_with_levels_without_finite_maximum():
    data = levels(20_001, {"a": 0})
    data["h"] = np.array(["d", "e", "f"])[rng(5).integers(3, size=20_001)]
    data["y"][data["h"] == "f"] = 0
    assert warned_of(GLM("y ~ x + g + h", data)) == ["Intercept", "g[T.b]", "g[T.c]", "h[T.f]"]


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9])
def test_one_event_in_the_reference_level_is_enough(n):
    """Its rows weigh next to nothing beside those of the other levels, and yet its maximum is finite."""
    data = {"g": ["a", "a", "b", "b"], "y": [1, 0, 1, 0], "w": [1.0, n, 0.4 * n, 0.6 * n]}
    assert warned_of(GLM("y ~ g", data, weights="w")) == []
    data["w"][0] = 0.0
    assert warned_of(GLM("y ~ g", data, weights="w")) == ["Intercept", "g[T.b]"]


@pytest.mark.parametrize("n", [30, 300, 2 * LOOKED_AT + 1])
def test_perfect_separation(n):
    data = normals(n, 2)
    data["y"] = (data["x1"] > 0).astype(float)
    assert "x1" in warned_of(GLM("y ~ x0 + x1", data))  # the others may go with it: the margin leaves room


def test_perfect_separation_of_four_rows():
    assert "x" in warned_of(GLM("y ~ x", {"x": [1.0, 2.0, 3.0, 4.0], "y": [0, 0, 1, 1]}))


@pytest.mark.parametrize(("shift", "unit"), [(0, 1e4), (0, 1e6), (30_000, 20_000), (0, 1e-6)])
def test_perfect_separation_in_other_units(shift, unit):
    x = rng(3).normal(size=200)
    names = warned_of(GLM("y ~ x", {"x": shift + unit * x, "y": (x > 0.5).astype(float)}))
    assert "x" in names


@pytest.mark.parametrize("sd", [0.01, 1.0, 100.0, 1000.0, 1e5])
def test_a_level_without_events_whatever_the_prior(sd):
    names = warned_of(GLM("y ~ x + g", levels(events={"b": 0}), prior=Normal(0, sd)))
    assert "g[T.b]" in names


def separated(x, y, column=None):
    """Whether some direction never lowers the likelihood (and moves the column, if given): a linear program."""
    signed = (2 * y - 1)[:, None] * x
    goals = [-signed.sum(0)] if column is None else [sign * np.eye(x.shape[1])[column] for sign in (-1, 1)]
    return any(linprog(goal, -signed, np.zeros(y.size), bounds=(-1, 1)).fun < -1e-7 for goal in goals)


@pytest.mark.parametrize("sets", [60, pytest.param(400, marks=pytest.mark.long)])
def test_warnings_on_random_small_data(sets):
    """Warned of if and only if separated. 0 false alarms in three quarters of 60 sets, which are not separated, means
    a rate below 7% (with 5% doubt); in a longer run it was 0 of 460, and none of 125 separated sets was missed."""
    generator, seen = rng(4), {False: 0, True: 0}
    while sum(seen.values()) < sets:
        n, p = generator.integers(8, 60), generator.integers(1, 4)
        columns = [generator.normal(size=n) if j % 2 == 0 else generator.random(n) < 0.3 for j in range(p)]
        x = np.column_stack([np.ones(n), *columns])
        y = outcome(generator, 1.5 * x @ generator.normal(size=p + 1))
        if np.linalg.matrix_rank(x) <= p or y.min() == y.max():
            continue
        model = GLM("y ~ " + " + ".join(f"x{j}" for j in range(p)), {f"x{j}": x[:, j + 1] for j in range(p)} | {"y": y})
        names, truth = warned_of(model), separated(x, y)
        seen[truth] += 1
        assert bool(names) == truth, (n, p)
        assert all(separated(x, y, model.coefficients.index(name)) for name in names), (n, p)
    assert min(seen.values()) > sets / 6


def test_no_warning_where_the_prior_decides_but_the_maximum_is_finite():
    # A coefficient of about 2,000 (a column in thousandths) that the prior pulls to 0.
    data = normals(300, 1, theta=[2.0])
    assert warned_of(GLM("y ~ x0", data | {"x0": data["x0"] / 1000})) == []


@pytest.mark.parametrize("seed", range(3))
def test_rare_level_absent_from_the_first_look(seed):
    n = 2 * LOOKED_AT + 20_000
    numbers = of_block(KEY, 0).random(LENGTH, dtype=np.float32)
    data, rare = levels(n, seed=seed), np.argsort(numbers)[-3:]  # with large random numbers
    data["g"][rare], data["y"][rare] = "rare", [1, 0, 0]
    x = np.column_stack([np.ones(n), data["x"], *(data["g"] == level for level in ("b", "c", "rare"))])
    model = GLM("y ~ x + g", data)
    assert (model.first.look.arrays.x[-1] == 0).all()
    assert_is_the_mode(find_mode(model), *optimum(x, data["y"], model.prior))
    data["y"][rare] = 0
    assert warned_of(GLM("y ~ x + g", data)) == ["g[T.rare]"]


# Columns that cannot be told apart


def collinear(n):
    data = normals(n, 2)
    zero, constant = np.zeros(n), np.full(n, 3.0)
    return {
        "twice": (data | {"z": 2 * data["x0"]}, r"column 'z' is a linear combination of 'x0', .*drop one of them"),
        "sum": (data | {"z": data["x0"] - data["x1"] + 1}, "'z' is a linear combination of 'Intercept', 'x0', 'x1'"),
        "constant": (data | {"z": constant}, "column 'z' is a linear combination of 'Intercept'"),
        "zero": (data | {"z": zero}, "column 'z' is zero in every row; drop it"),
        "tiny units": (data | {"z": 1e-9 * data["x1"]}, "'z' is a linear combination of 'x1'"),
    }


@pytest.mark.parametrize("n", [50, 2 * LOOKED_AT + 1])
@pytest.mark.parametrize("case", collinear(50))
def test_collinear_columns_are_named(n, case):
    data, message = collinear(n)[case]
    with pytest.raises(ValueError, match=message):
        find_mode(GLM("y ~ x0 + x1 + z", data))


@pytest.mark.parametrize("n", [300, 2 * LOOKED_AT + 1])
def test_collinear_columns_in_large_units_are_named(n):
    data = normals(n, 1)
    x = 1e5 * data["x0"]
    with pytest.raises(ValueError, match="column 'z' is a linear combination of 'x0'"):
        find_mode(GLM("y ~ x0 + z", data | {"x0": x, "z": 2 * x}))


def test_separated_levels_are_not_called_collinear():
    model = GLM("y ~ x + g", levels(2 * LOOKED_AT + 1, {"a": 0}), prior=Normal(0, 1e5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)
        assert np.isfinite(find_mode(model).theta).all()


@pytest.mark.parametrize("unit", [1e160, 1e-200])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_impossible_units_are_named(unit):
    data = normals(50, 1)
    with pytest.raises((ValueError, RuntimeError), match=r"x0.*(unit|scale)"):
        find_mode(GLM("y ~ x0", data | {"x0": unit * data["x0"]}))


@pytest.mark.parametrize("shift", [0.0, 2e3, -3e4, 1e5])
@pytest.mark.parametrize("separated", [False, True])
def test_separation_does_not_hang_on_where_a_column_lies(shift, separated):
    """A year moves with the intercept, and what the two do to the rows cancels."""
    for seed in range(8):
        generator = np.random.default_rng(seed)
        x = generator.normal(size=60).round(3)
        y = (
            (x > 0.2) * 1
            if separated
            else np.append([0, 1, 1, 0], generator.random(56) < 1 / (1 + np.exp(0.3 - x[4:]))) * 1
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            find_mode(GLM("y ~ x", {"x": x + shift, "y": y}))
        named = [str(one.message) for one in caught if one.category is SeparationWarning]
        assert any("'x'" in one for one in named) is separated, (seed, named)
