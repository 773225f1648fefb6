"""Models of one's own: maths, chains against quadrature, wherever rows are, and what bad functions get."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import harness
import numba
import numpy as np
import pandas as pd
import pytest
from figures import sketched
from scipy import special, stats

import tallbayes as tb
from tallbayes.engines.engine import Local
from tallbayes.own import subsampling
from tallbayes.own.mode import find_mode, prior_expansion
from tallbayes.own.parameters import Parameters
from tallbayes.rows import threads
from tallbayes.rows.memory import MemoryRows
from tallbayes.sampling.kernel import Streams

FEW = {"seed": 1, "draws": 60, "chains": 2, "warmup": 60, "progress": False}
SHORT = FEW | {"draws": 15, "warmup": 20}


@cache
def frame(rows: int = 3_000) -> pd.DataFrame:
    """Few events, more of them with larger doses, up to a plateau; and sites that differ."""
    rng = np.random.default_rng(1)
    found = pd.DataFrame({"dose": rng.lognormal(0, 1.5, rows), "site": rng.choice(["b", "a", "c"], rows)})
    found["y"] = (rng.random(rows) < 0.05 + 0.4 / (1 + (2 / found["dose"]) ** 1.5)).astype(float)
    found["w"] = rng.integers(1, 4, rows)
    return found


def risk(theta, rows):
    p = theta.base + theta.top / (1 + (theta.half / rows.dose) ** theta.slope)
    return np.where(rows.y > 0, np.log(p), np.log1p(-p))


@numba.njit
def compiled_risk(theta, rows):
    found = np.empty(rows.y.size)
    for i in range(found.size):
        p = theta.base + theta.top / (1 + (theta.half / rows.dose[i]) ** theta.slope)
        found[i] = np.log(p) if rows.y[i] > 0 else np.log1p(-p)
    return found


def jax_risk(theta, rows):
    import jax.numpy as jnp

    p = theta.base + theta.top / (1 + (theta.half / rows.dose) ** theta.slope)
    return jnp.where(rows.y > 0, jnp.log(p), jnp.log1p(-p))


PRIOR = {"base": tb.Uniform(0, 0.5), "top": tb.Uniform(0, 0.5), "half": tb.LogNormal(0, 1), "slope": tb.LogNormal()}
START = {"base": 0.1, "top": 0.2, "half": 1.0, "slope": 1.0}
COLUMNS = ["dose", "y"]
CHANCE = np.random.default_rng(1)


def curve(function: Any = risk, data: Any = None, **options: Any) -> tb.Model:
    data = frame() if data is None else data
    return tb.Model(function, PRIOR, START, data, columns=COLUMNS, outcome="y", **options)


# --- maths ---


def spread(theta, rows):
    """Normal errors; the sd has a lower end, the share two."""
    return -0.5 * ((rows.y - theta.level) / theta.sd) ** 2 - np.log(theta.sd)


def normal_derivatives(theta, rows):
    """Of the level and the sd."""
    z = (rows.y - theta.level) / theta.sd
    first = [z / theta.sd, (z * z - 1) / theta.sd]
    second = [[-1 / theta.sd**2, -2 * z / theta.sd**2], [-2 * z / theta.sd**2, (1 - 3 * z * z) / theta.sd**2]]
    return first, second


def normal_model(derivatives: Any = None) -> tb.Model:
    """Twelve rows: the posterior of the sd is skewed."""
    y = np.random.default_rng(3).normal(1.0, 2.0, 12)
    prior = {"level": tb.Normal(0, 3), "sd": tb.HalfCauchy(1.5)}
    function = jax_spread if derivatives == "jax" else spread
    return tb.Model(function, prior, {"level": 0.0, "sd": 1.0}, {"y": y}, derivatives=derivatives)


def jax_spread(theta, rows):
    import jax.numpy as jnp

    return -0.5 * ((rows.y - theta.level) / theta.sd) ** 2 - jnp.log(theta.sd)


def test_parameters_go_there_and_back():
    prior = {"a": tb.Normal(0, 2), "b": tb.HalfNormal(3), "c": tb.Uniform(-1, 4), "d": tb.InverseSquare(0.5)}
    known = Parameters.of({"a": 0.3, "b": [1.0, 2.0], "c": 3.0, "d": 2.0}, prior)
    u = np.random.default_rng(1).normal(size=(20, 5))
    np.testing.assert_allclose(known.free(known.natural(u)), u, atol=1e-12)
    step = 1e-5
    for point in u[:5]:
        first, second = known.slopes(point)
        up, here, down = (known.natural(point + away) for away in (step, 0.0, -step))
        np.testing.assert_allclose((up - down) / (2 * step), first, rtol=1e-6)
        np.testing.assert_allclose((up - 2 * here + down) / step**2, second, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (tb.Normal(1, 2), stats.norm(1, 2)),
        (tb.StudentT(3, 1, 2), stats.t(3, 1, 2)),
        (tb.HalfNormal(2), stats.halfnorm(scale=2)),
        (tb.HalfCauchy(2), stats.halfcauchy(scale=2)),
        (tb.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
        (tb.Uniform(-1, 3), stats.uniform(-1, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_density_of_u_is_that_of_x_times_the_derivative(prior, law):
    known = Parameters.of({"x": 0.7}, {"x": prior})
    u = np.linspace(-400, 400, 3_200_001)[:, None]
    log_density = known.log_prior(u)
    assert np.exp(log_density).sum() * (u[1, 0] - u[0, 0]) == pytest.approx(1, abs=3e-3)  # tails of a Cauchy are long
    at = np.array([[-0.5], [0.2]])
    truth = law.logpdf(known.natural(at)[:, 0]) + np.log([known.slopes(one)[0][0] for one in at])
    np.testing.assert_allclose(known.log_prior(at), truth, rtol=1e-10)
    assert known.to_the_power(0.25).log_prior(at) == pytest.approx(0.25 * truth)


def test_a_prior_of_all_parameters_together():
    def joint(theta):
        return -0.5 * (theta.effect**2).sum() / theta.spread**2 - 3 * np.log(theta.spread) - theta.spread

    known = Parameters.of({"effect": np.zeros(3), "spread": 1.0}, joint, ["spread"])
    u = np.array([0.1, -0.2, 0.3, 0.4])
    x = np.exp(0.4)
    assert known.log_prior(u) == pytest.approx(-0.5 * 0.14 / x**2 - 3 * 0.4 - x + 0.4)
    model = tb.Model(
        level_of_site, joint, {"effect": np.zeros(3), "spread": 1.0}, frame(), positive=["spread"], **SITES
    )
    slope, bend = prior_expansion(model, u)
    assert bend[0, 3] == pytest.approx(-2 * 0.1 / x**2, rel=1e-4)
    assert slope[1] == pytest.approx(0.2 / x**2, rel=1e-6)


def level_of_site(theta, rows):
    eta = theta.effect[rows.site] - 1
    return rows.y * eta - np.logaddexp(0, eta)


SITES: dict[str, Any] = {"columns": ["y"], "levels": ["site"]}


@pytest.mark.parametrize("derivatives", ["jax", normal_derivatives, None])
def test_the_mode_and_its_curvature(derivatives):
    """Against a search and differences in plain NumPy."""
    from scipy.optimize import minimize

    model = normal_model(derivatives=derivatives)
    if derivatives == "jax":
        model = tb.Model(
            jax_spread, model.parameters.prior, {"level": 0.0, "sd": 1.0}, model_data(model), derivatives="jax"
        )
    y = model_data(model)["y"]

    def minus(u):
        sd = np.exp(u[1])
        prior = stats.norm.logpdf(u[0], 0, 3) + stats.halfcauchy.logpdf(sd, scale=1.5) + u[1]
        return -(stats.norm.logpdf(y, u[0], sd).sum() + prior)

    found = minimize(
        minus, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4_000}
    )
    mode = find_mode(model, np.random.default_rng(1))
    np.testing.assert_allclose(mode.center, found.x, atol=0.01)
    step, eye = 1e-3, np.eye(2)
    bend = [
        [
            sum(s * t * minus(found.x + step * (s * eye[j] + t * eye[k])) for s in (1, -1) for t in (1, -1))
            / (4 * step**2)
            for k in range(2)
        ]
        for j in range(2)
    ]
    np.testing.assert_allclose(mode.precision, bend, rtol=0.05, atol=0.05 * np.abs(bend).max())


def model_data(model: tb.Model) -> dict[str, np.ndarray]:
    return {"y": model.rows.arrays.y}


def test_derivatives_of_jax_are_those_that_were_given():
    one, other = normal_model(normal_derivatives), normal_model("jax")
    u = np.array([0.4, 0.6])
    for a, b in zip(one.derivatives(u), other.derivatives(u), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    x, arrays = one.parameters.natural(u), one.rows.arrays
    for a, b in zip(one.function.each(x, arrays, 0, 12), other.function.each(x, arrays, 0, 12), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_many_parameters_without_derivatives_find_their_mode():
    """More than differences of second order would pay for on all rows."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(70_000, 22))
    truth = rng.normal(size=22)
    data = {f"x{j}": column for j, column in enumerate(x.T)} | {"y": x @ truth + rng.normal(size=70_000)}

    def least_squares(theta, rows):
        return -0.5 * (rows.y - sum(b * rows[1 + j] for j, b in enumerate(theta.b))) ** 2

    columns = ["y", *(f"x{j}" for j in range(22))]
    model = tb.Model(least_squares, {"b": tb.Normal(0, 10)}, {"b": np.zeros(22)}, data, columns=columns)
    mode = find_mode(model, np.random.default_rng(1))
    least = np.linalg.lstsq(x, data["y"])[0]
    np.testing.assert_allclose(mode.theta, least, atol=0.1 / 70_000**0.5)
    assert mode.passes <= 6


# --- chains ---


@cache
def quadrature() -> tuple[Any, Any]:
    """Laws of level and log sd of the twelve rows, on a grid."""
    model = normal_model()
    level, log_sd = np.linspace(-4, 6, 401), np.linspace(-1.5, 3.5, 401)
    a, b = np.meshgrid(level, log_sd, indexing="ij")
    y, sd = model_data(model)["y"], np.exp(b)[..., None]
    heights = stats.norm.logpdf(y, a[..., None], sd).sum(-1) + stats.norm.logpdf(a, 0, 3)
    heights += stats.halfcauchy.logpdf(sd[..., 0], scale=1.5) + b
    mass = np.exp(heights - heights.max())

    def law(grid, own):
        return lambda at: np.interp(at, grid, (np.cumsum(own) - 0.5 * own) / own.sum())

    return law(level, mass.sum(1)), law(log_sd, mass.sum(0))


def ends(kernel: Any, chains: int, steps: int) -> np.ndarray:
    streams = Streams.spawn(5, chains)
    return kernel.advance(kernel.start(streams), steps, streams)[1].theta[-1]


def worst(u: np.ndarray) -> float:
    return min(stats.kstest(column, law).pvalue for column, law in zip(u.T, quadrature(), strict=True))


def near(u):
    """About the log-likelihood of the twelve rows."""
    return -6 * ((u[0] - 1) ** 2 / 4 + (u[1] - 0.7) ** 2)


METHODS = {
    "mh": tb.MH("mixture"),
    "taylor": tb.TwoStage(subchain=5),
    "function": tb.TwoStage(near, proposal="mixture", subchain=3),
    "subsample": tb.TwoStage(tb.Subsample(9), proposal="mixture", subchain=2),
}


@pytest.mark.parametrize("chains", [300, pytest.param(1_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", METHODS)
def test_chains_have_the_posterior(name, chains):
    kernel = METHODS[name].kernel(normal_model(derivatives=normal_derivatives), 1)
    assert worst(ends(kernel, chains, 60)) > harness.FALSE_ALARM


@pytest.mark.parametrize(
    ("wrong", "chains"),
    [
        ("no derivative of the logarithm", 300),
        ("no second stage", 300),
        pytest.param("no prior", 1_000, marks=pytest.mark.long),  # twelve rows tell much more
    ],
)
def test_a_chain_that_is_wrong_is_noticed(monkeypatch, wrong, chains):
    model = normal_model()
    kernel: Any = METHODS["mh"].kernel(model, 1)
    if wrong == "no derivative of the logarithm":
        whole = Parameters.log_prior
        monkeypatch.setattr(Parameters, "log_prior", lambda self, u: whole(self, u) - 3 * np.atleast_2d(u)[:, 1])
    elif wrong == "no prior":
        monkeypatch.setattr(Parameters, "log_prior", lambda self, u: np.zeros(len(np.atleast_2d(u))))
    else:
        kernel = METHODS["function"].kernel(model, 1)
        monkeypatch.setattr(tb.Model, "follow", lambda self, by_column: kernel.surrogate.follow(by_column))
    assert worst(ends(kernel, chains, 60)) < harness.FALSE_ALARM


def test_draws_do_not_depend_on_how_steps_are_split():
    model = curve(jax_risk, derivatives="jax")
    for method in (tb.MH(), tb.TwoStage(tb.CaseControl(200)), tb.Subsampling(tb.TaylorProxy(100))):
        kernel = method.kernel(model, 1)
        assert harness.same(harness.some_draws(kernel, [7]), harness.some_draws(kernel, [2, 1, 4])), method


def test_shards_have_shares_of_the_prior():
    """So that their posteriors multiply to that of all rows."""
    model, half = curve(), curve(data=frame()[:1_000]).rows
    rest = curve(data=frame()[1_000:]).rows
    u = np.random.default_rng(1).normal(size=(5, 4))
    parts = model.part(half, 0.4).log_posterior(u) + model.part(rest, 0.6).log_posterior(u)
    np.testing.assert_allclose(parts, model.log_posterior(u), rtol=1e-12)
    fit = tb.sample(model, tb.Consensus(2, inner=tb.TwoStage()), **FEW)
    assert fit.stats["approximation"]["shards"] == 2


@pytest.mark.long
def test_methods_agree():
    model = curve()
    exact = tb.sample(model, seed=1, draws=600, progress=False)
    assert exact.stats["exact"]
    assert exact.stats["method"] == "two-stage"
    means = exact.summary()
    for method in (
        tb.MH(),
        tb.TwoStage(tb.CaseControl(1_000)),
        tb.TwoStage(tb.Subsample(2_500), subchain=4),
        tb.Consensus(2, combine="gaussian"),
    ):
        other = tb.sample(model, method, seed=2, draws=1_500, progress=False).summary()
        error = np.hypot(means["mcse_mean"], other["mcse_mean"])
        limit = stats.norm.isf(harness.FALSE_ALARM / 8)
        slack = 0.15 * means["sd"] if isinstance(method, tb.Consensus) else 0.0
        assert (np.abs(means["mean"] - other["mean"]) < limit * error + slack).all(), method


def test_levels_have_parameters_of_their_own():
    prior = {"effect": tb.Normal(0, 2)}
    model = tb.Model(level_of_site, prior, {"effect": np.zeros(3)}, frame(), **SITES)
    fit = tb.sample(model, seed=1, draws=500, progress=False)
    shares = frame().groupby("site")["y"].mean()
    found = special.expit(fit.summary()["mean"] - 1)
    np.testing.assert_allclose(found, shares, atol=0.02)
    assert fit.posterior["effect"].dims == ("chain", "draw", "effect_dim_0")
    assert fit.parameters == ("effect[0]", "effect[1]", "effect[2]")
    by_site = tb.sample(model, tb.TwoStage(tb.Stratified(300, "site", cases=False)), **FEW)
    assert by_site.stats["surrogate"].startswith("Stratified")


def test_weights_count_rows():
    data = frame()[:500]
    weighted = curve(data=data, weights="w")
    twice = curve(data=data.loc[data.index.repeat(data["w"])])
    u = np.random.default_rng(1).normal(size=(3, 4))
    np.testing.assert_allclose(weighted.log_likelihood(u), twice.log_likelihood(u), rtol=1e-12)


# --- subsampling ---


@cache
def difference_kernel(size: int = 60) -> Any:
    return tb.Subsampling(tb.TaylorProxy(size)).kernel(curve(jax_risk, derivatives="jax", weights="w"), 1)


def estimates(kernel: Any, u: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    state, found = kernel.start(Streams.spawn(1, 1)), []
    for _ in range(count):
        sample, state = kernel._taken(state, kernel.size)
        at = kernel._at(sample, u)
        found.append((at[0] + 0.5 * at[2], at[2]))
    return tuple(np.array(found).T)


def bias(kernel: Any) -> float:
    """Of the estimate, in standard errors."""
    u = kernel.mode.theta + kernel.mode.factor @ [1.5, -1, 1, 0.5]
    values, variances = estimates(kernel, u, 1_500)
    assert variances.mean() == pytest.approx(values.var(), rel=0.5)
    return (values.mean() - kernel.model.log_likelihood(u)[0]) / (values.std() / 1_500**0.5)


def test_estimates_are_unbiased(monkeypatch):
    kernel = difference_kernel()
    limit = stats.norm.isf(harness.FALSE_ALARM / 2)
    assert abs(bias(kernel)) < limit
    placed = subsampling.Drawn.take  # rows that do not fit their expansions
    monkeypatch.setattr(
        subsampling.Drawn, "take", lambda self, chosen: placed(self, chosen)._replace(value=self.value[chosen] - 1e-3)
    )
    assert abs(bias(kernel)) > limit


def test_the_ratio_is_that_of_the_two_estimates():
    kernel = difference_kernel()
    rng = Streams.spawn(3, 1)
    state = kernel.start(rng)
    for _ in range(30):
        new, draws = kernel.advance(state, 1, rng)
        (before,), (after,) = state.chains, new.chains
        if draws.accepted[0, 0, 0]:
            there = kernel._at(after.sample, new.theta[0])
            np.testing.assert_array_equal(there, after.at)
            assert draws.log_first[0, 0, 0] == there[0] + there[1] - before.at[0] - before.at[1]
            kept = (after.sample.value == before.sample.value).mean()
            assert 0.9 < kept < 1
        else:
            np.testing.assert_array_equal(before.at, after.at)
            np.testing.assert_array_equal(before.sample.value, after.sample.value)
        state = new


@pytest.mark.long
def test_subsampling_is_close_where_its_variance_is_small():
    model = curve(jax_risk, derivatives="jax")
    fit = tb.sample(model, tb.Subsampling(tb.TaylorProxy(1_500)), seed=1, draws=1_500, progress=False)
    exact = tb.sample(model, seed=1, draws=500, progress=False).summary()
    found = fit.summary()
    assert not fit.stats["exact"]
    limit = stats.norm.isf(harness.FALSE_ALARM / 8)
    off = np.abs(found["mean"] - exact["mean"])
    assert (off < limit * np.hypot(found["mcse_mean"], exact["mcse_mean"]) + 0.1 * exact["sd"]).all()


# --- wherever rows are, and whatever the function is ---


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_same_bits_for_any_number_of_threads(count):
    model = curve(data=frame(70_000))
    u = np.random.default_rng(1).normal(size=(3, 4))
    with threads.using(1):
        alone = model.log_likelihood(u)
    with threads.using(count):
        np.testing.assert_array_equal(model.log_likelihood(u), alone)


@pytest.mark.parametrize("kind", ["numpy", "numba", "jax"])
def test_the_same_draws_wherever_rows_are(tmp_path, kind):
    function = {"numpy": risk, "numba": compiled_risk, "jax": jax_risk}[kind]
    how = {"derivatives": "jax"} if kind == "jax" else {}
    data = frame(40_000)
    data.to_parquet(tmp_path / "data.parquet")
    alone = tb.sample(curve(function, data, **how), **SHORT)
    workers = tb.sample(curve(function, str(tmp_path / "data.parquet"), engine=Local(2), **how), **SHORT)
    np.testing.assert_array_equal(workers.draws, alone.draws)
    if kind == "numpy":
        disk = curve(function, tmp_path / "data.parquet", cache=tmp_path / "cache")
        np.testing.assert_array_equal(tb.sample(disk, **SHORT).draws, alone.draws)
        again = curve(function, tmp_path / "data.parquet", cache=tmp_path / "cache")
        np.testing.assert_array_equal(tb.sample(again, **SHORT).draws, alone.draws)


def test_rows_are_counted():
    calls = []

    def counted(theta, rows):
        calls.append(rows.y.size)
        return risk(theta, rows)

    model = curve(counted)
    kernel = tb.TwoStage(tb.Subsample(500), subchain=2).kernel(model, 1)
    rng = Streams.spawn(1, 2)
    state = kernel.start(rng)
    calls.clear()
    before = kernel.touched
    kernel.advance(state, 10, rng)
    full, surrogate = (now - then for now, then in zip(kernel.touched, before, strict=True))
    assert full == sum(size for size in calls if size == 3_000)
    assert surrogate == sum(size for size in calls if size != 3_000)


def test_summary_report_file_and_comparison(tmp_path, monkeypatch):
    sketched(monkeypatch)
    fit = tb.sample(curve(), **FEW)
    other = tb.sample(curve(), tb.MH(), **FEW)
    assert list(fit.summary().index) == ["base", "top", "half", "slope"]
    assert fit.prior["half"] == "LogNormal(0, 1)"
    assert fit.stats["model"]["derivatives"] == "by differences"
    assert "two_stage" in tb.compare(mh=other, two_stage=fit).to_string()
    fit.save(tmp_path / "fit.nc")
    again = tb.load(tmp_path / "fit.nc")
    assert isinstance(again, tb.ModelFit)
    np.testing.assert_array_equal(again.draws, fit.draws)
    again.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "risk(dose, y)" in page
    assert "Parameters" in page
    assert "risk" not in repr(fit.family)
    with pytest.raises(ValueError, match=r"not what to expect of new ones"):
        fit.predict(frame()[:3])
    with pytest.raises(ValueError, match="has no predictions to hold against outcomes"):
        fit.calibration()
    assert list(fit.to_arviz().children) == ["posterior", "sample_stats"]


def test_a_column_may_be_the_same_in_all_rows(tmp_path):
    data = {"y": np.ones(50), "x": np.linspace(0, 1, 50)}

    def line(theta, rows):
        return -0.5 * (rows.y - theta.slope * rows.x) ** 2

    for options in ({}, {"engine": Local(2)}):
        model = tb.Model(line, {"slope": tb.Normal(0, 1)}, {"slope": 0.0}, data, **options)
        assert model.log_likelihood([[0.0]]) == -25


def test_columns_may_be_renamed():
    data = frame().rename(columns={"dose": "Dose (mg)"})
    renamed = tb.Model(risk, PRIOR, START, data, columns={"dose": "Dose (mg)", "y": "y"})
    u = np.random.default_rng(1).normal(size=(2, 4))
    np.testing.assert_array_equal(renamed.log_likelihood(u), curve().log_likelihood(u))


# --- what bad functions get ---


def broken(kind: str) -> Any:
    first = []

    def function(theta, rows):
        found = risk(theta, rows)
        if kind == "nan":
            found = np.where(rows.dose > 30, np.nan, found)
        elif kind == "infinite":
            found = np.where(rows.dose > 30, np.inf, found)
        elif kind == "one number":
            return found.sum()
        elif kind == "another shape":
            return found[:, None]
        elif kind == "an exception":
            raise KeyError("dosis")
        elif kind == "depends on the block":
            return found - found.mean()
        elif kind == "depends on the order":
            return found + np.arange(found.size)
        elif kind == "random":
            return found + np.random.default_rng().normal(size=found.size)
        elif kind == "changes rows":
            rows.dose[0] = 1.0
        elif kind == "complex":
            return found + 0j
        elif kind == "single precision":
            return found.astype(np.float32)
        elif kind == "text":
            return found.astype(str)
        elif kind == "nothing":
            return None
        elif kind == "unknown name":
            return theta.bottom
        first.append(threading.get_ident())
        return found

    return function


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nan", r"function is nan for row \d+ \(dose = [3-9]\d.*, y = \d\) where base = 0.1, .*give -inf"),
        ("infinite", r"function is inf for row \d+"),
        ("one number", r"one number for each row, but for rows 0 to 999 it gives one number"),
        ("another shape", r"rows 0 to 999 it gives an array of shape \(1000, 1\)"),
        ("an exception", r"function failed on rows 0 to 999: KeyError: 'dosis'"),
        ("depends on the block", r"function gives .* for row 0 .*, but .* when 500 and 500 rows are given apart"),
        ("depends on the order", r"but .* when rows come in another order"),
        ("random", r"the value of a row may depend only on theta and that row"),
        ("changes rows", r"rows 0 to 999: ValueError: assignment destination is read-only"),
        ("complex", r"must give real numbers, not complex128"),
        ("single precision", r"single precision \(float32\)"),
        ("text", r"must give real numbers, not <U"),
        ("nothing", r"it gives one number"),
        ("unknown name", r"AttributeError: 'theta' object has no attribute 'bottom'"),
    ],
)
def test_bad_functions_are_told_what_is_wrong(kind, message):
    with pytest.raises(ValueError, match=message):
        curve(broken(kind))


def test_what_goes_wrong_later_is_told_too(tmp_path):
    """In the last block, and on a worker."""
    data = frame(40_000).copy()
    data.loc[39_000, "dose"] = -1.0
    for options in ({}, {"engine": Local(2)}):
        with pytest.raises(ValueError, match=r"risk is nan for row 39,000 \(dose = -1, y = "):
            curve(data=data, **options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda first, second: ([first[0], 1.1 * first[1]], second), r"as the slope along sd at the start"),
        (
            lambda first, second: (first, [[0.9 * second[0][0], second[0][1]], second[1]]),
            r"second derivative along level",
        ),
        (lambda first, second: (first[:1], second), r"must give first \(2, rows\)"),
        (lambda first, second: first[0], r"must give first \(2, rows\)"),
        (lambda first, second: 1 / 0, r"derivatives failed on rows 0 to 11: ZeroDivisionError"),
    ],
)
def test_bad_derivatives_are_noticed(wrong, message):
    with pytest.raises(ValueError, match=message):
        normal_model(derivatives=lambda theta, rows: wrong(*normal_derivatives(theta, rows)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"start": {"base": 0.1}}, ValueError, r"prior= names 'top', which is not a parameter"),
        ({"start": START | {"bottom": 1.0}}, ValueError, r"'bottom' has no prior"),
        ({"start": START | {"half": -1.0}}, ValueError, r"start of 'half' must be above 0, not -1"),
        ({"start": START | {"base": 0.7}}, ValueError, r"must be between 0 and 0.5"),
        ({"start": START | {"base": np.nan}}, ValueError, r"must be a finite number or an array of them, not nan"),
        ({"start": START | {"base": "x"}}, ValueError, r"must be a finite number or an array"),
        ({"start": [1.0]}, ValueError, r"start must be a dict"),
        ({"start": {"my name": 1.0}, "prior": {"my name": tb.Normal()}}, ValueError, r"must be a plain name"),
        ({"prior": tb.Normal()}, ValueError, r"prior must be a dict"),
        ({"prior": PRIOR | {"half": "normal"}}, ValueError, r"prior of 'half' must be tb.Normal"),
        ({"positive": ["halve"]}, ValueError, r"did you mean 'half'"),
        ({"positive": "half"}, ValueError, r"positive must be a list of names, not 'half'"),
        ({"columns": ["dose", "z"]}, ValueError, r"no column 'z'"),
        ({"columns": ["dose", "y", "site"]}, ValueError, r"'site' holds text; name it in levels="),
        ({"outcome": "w"}, ValueError, r"no column 'w' in the model's columns"),
        ({"derivatives": "numeric"}, ValueError, r"derivatives must be a function"),
        ({"log_likelihood": "x"}, ValueError, r"log_likelihood must be a function"),
        ({"engine": "tcp://127.0.0.1:1"}, ValueError, r"takes a client here"),
        ({"missing": "keep"}, ValueError, r"missing 'keep' is not known"),
        ({"data": {"dose": [1.0, np.nan], "y": [0.0, 1.0]}}, ValueError, r"'dose' has 1 missing"),
        ({"data": {"Dose (mg)": [1.0], "y": [0.0]}, "columns": None}, ValueError, r"rename it by columns="),
        ({"log_likelihood": lambda theta, rows: np.ma.masked_array(rows.y, rows.y > 0)}, ValueError, "a masked array"),
        ({"prior": lambda theta: "0.0"}, ValueError, "must give one number or -inf, but gives '0.0'"),
        ({"prior": lambda theta: CHANCE.normal()}, ValueError, "when it is called again"),
        ({"start": {"draw": 1.0}, "prior": {"draw": tb.Normal()}}, ValueError, "as chain and draw do"),
        ({"start": {"\u00b5": 1.0}, "prior": {"\u00b5": tb.Normal()}}, ValueError, "is not what Python reads"),
        ({"prior": PRIOR | {"half": tb.Uniform(-5, 0)}, "positive": ["half"]}, ValueError, "but its prior ends at 0"),
        ({"start": START | {"half": np.ones(10**6)}}, ValueError, r"has 1,000,003 parameters in all; .* at most 500"),
    ],
    ids=lambda value: None,
)
def test_what_is_refused(options, error, message):
    given = {"log_likelihood": risk, "prior": PRIOR, "start": START, "data": frame(), "columns": COLUMNS} | options
    with pytest.raises(error, match=message):
        tb.Model(**given)


def test_methods_that_are_refused():
    model = tb.Model(risk, PRIOR, START, frame(), columns=COLUMNS)
    for method, message in (
        ("thinned", "needs bounds on third derivatives"),
        (tb.TwoStage(tb.Taylor(100)), "needs bounds on third derivatives"),
        ("subsampling", "needs derivatives of each row"),
        (tb.Subsampling(tb.SplineProxy(100)), "is for regressions"),
        (tb.TwoStage(tb.CaseControl(100)), "say which column that is"),
        (tb.TwoStage(tb.Stratified(100, "site")), "say which column that is"),
        (tb.TwoStage(tb.Stratified(100, "site", cases=False)), "no stratum 'site'"),
        (tb.Consensus(2, sharding="groups"), "is for formulas with a group term"),
    ):
        with pytest.raises(ValueError, match=message):
            tb.sample(model, method, **FEW)


def test_a_start_where_nothing_is_possible_and_a_mode_that_is_none():
    with pytest.raises(ValueError, match="the posterior is zero at the start"):
        curve(lambda theta, rows: np.full(rows.y.size, -np.inf))
    upside_down = curve(lambda theta, rows: -risk(theta, rows))
    with pytest.raises(ValueError, match=r"mode was not found|not finite at theta"):
        tb.sample(upside_down, **FEW)


def test_rows_in_memory_are_not_changed():
    model = curve()
    assert isinstance(model.rows, MemoryRows)
    before = model.rows.arrays.x.copy()
    tb.sample(model, **FEW)
    np.testing.assert_array_equal(model.rows.arrays.x, before)
