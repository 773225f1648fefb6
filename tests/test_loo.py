"""LOO and WAIC of tall data: against arviz, against refits, within the stated error, wherever rows are."""

import copy
import tracemalloc
from dataclasses import replace

import arviz_base
import arviz_stats
import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.engines.engine import Local
from tallbayes.models.per_row import Regression, log_density
from tallbayes.results import cross_validation, elpd
from tallbayes.results.criteria import CRITERIA
from tallbayes.results.psis import good_shape, left_out
from tallbayes.rows import building
from tallbayes.rows.chosen import NUMBER, AtRandom, ByEvent, Events, Listed
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.passes import LENGTH

QUICK = {"draws": 250, "seed": 1, "progress": False}
LOO = CRITERIA["loo"]


def simulated(rows, seed=0):
    rng = np.random.default_rng(seed)
    bank, size = rng.integers(0, 60, rows), rng.choice(["small", "medium", "large"], rows)
    x, z = rng.standard_normal((2, rows))
    effects = rng.normal(0, 0.6, 60)
    eta = x - 1 + 0.2 * z + effects[bank] + 0.4 * (size == "large")
    return pd.DataFrame(
        {
            "y": (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int),
            "v": eta + rng.normal(0, 1.5, rows),
            "claims": rng.poisson(np.exp(0.3 * x - 0.5 + rng.normal(0, 0.6, rows))),
            "x": x,
            "z": z,
            "bank": bank,
            "size": size,
        }
    )


@pytest.fixture(scope="module")
def frame():
    return simulated(3 * LENGTH)


@pytest.fixture(scope="module")
def fit(frame):
    return tb.fit("y ~ x + z + (1 | bank)", frame, **QUICK)


def normal(theta, rows):
    return -0.5 * ((rows.v - theta.a - theta.b * rows.x) / theta.sd) ** 2 - np.log(theta.sd * np.sqrt(2 * np.pi))


def own(data, outcome="v"):
    prior = {"a": tb.Normal(0, 10), "b": tb.Normal(0, 10), "sd": tb.HalfNormal(10)}
    return tb.Model(normal, prior, {"a": 0.0, "b": 0.0, "sd": 1.0}, data, columns=["v", "x"], outcome=outcome)


FITS = {
    "regression": lambda data: tb.fit("y ~ x + size", data, **QUICK),
    "groups": lambda data: tb.fit("y ~ x + (1 | bank)", data, **QUICK),
    "gaussian": lambda data: tb.fit("v ~ x", data, "gaussian", **QUICK),
    "gaussian groups": lambda data: tb.fit("v ~ x + (1 | bank)", data, "gaussian", **QUICK),
    "negative binomial": lambda data: tb.fit("claims ~ x", data, tb.NegativeBinomial(3.0), **QUICK),
    "own family": lambda data: tb.fit("v ~ x", data, tb.family("-log1p((y - eta)**2 / 4) - log(2 * pi)"), **QUICK),
    "own model": lambda data: tb.sample(own(data), **QUICK),
    "splines": lambda data: tb.fit("y ~ s(x)", data, warmup=300, **QUICK),
}


# --- Pareto smoothing ---


@pytest.mark.parametrize("draws", [50, 100, 1_000, 4_000])
@pytest.mark.parametrize("spread", [1e-6, 0.1, 1.0, 4.0])
def test_smoothing_is_that_of_arviz(draws, spread):
    values = spread * np.random.default_rng(draws).standard_t(5, (6, draws)) - 1
    for efficiency in (1.0, 0.4):
        found, k = left_out(values, efficiency)
        for row, elpd_i, k_i in zip(values, found, k, strict=True):
            data = arviz_base.convert_to_dataset({"y": row[None]})["y"]
            weights, wanted = data.azstats.psislw(r_eff=efficiency)
            np.testing.assert_allclose(elpd_i, logsumexp(weights.values + row), rtol=1e-12)
            np.testing.assert_allclose(k_i, float(wanted), rtol=1e-5)


def test_rows_that_do_not_depend_on_the_draws():
    found, k = left_out(np.full((2, 400), -1.5), 1.0)
    assert found.tolist() == [-1.5, -1.5]
    assert k.tolist() == [0.0, 0.0]


def test_too_few_draws_for_a_tail_are_not_trusted():
    values = np.random.default_rng(0).normal(-1, 0.1, (2, 12))
    found, k = left_out(values, 1.0)
    np.testing.assert_allclose(found, -np.log(np.exp(-values).mean(1)))
    assert np.isinf(k).all()
    assert good_shape(12) < 0.1


# --- the points that stand for the draws ---


def test_points_have_the_mean_and_variance_of_the_draws():
    rng = np.random.default_rng(2)
    beta = rng.normal(0, 0.3, (40, 3))
    effects = 0.5 * beta[:, :1] + rng.normal(0, 0.2, (40, 5))
    codes = np.repeat(np.arange(5), 20)
    rows = MemoryRows(rng.normal(size=(3, 100)), np.zeros(100), None, rng.normal(size=100), {"g": codes}, "g", 5)
    arrays, per_row = rows.arrays, Regression(tb.Gaussian(), beta, effects)
    eta = arrays.x.T @ beta.T + effects[:, codes].T + arrays.offset[:, None]
    points, found = per_row.points, []
    for start, stop in ((0, 30), (30, 100)):
        values = points.of(arrays, start, stop)  # of least squares: -eta^2 / 2
        found.append(values)
    values = np.concatenate(found)
    np.testing.assert_allclose(values @ points.weights, -0.5 * (eta**2).mean(1), rtol=1e-12)
    np.testing.assert_allclose(values[:, 0], -0.5 * eta.mean(1) ** 2, rtol=1e-12)
    np.testing.assert_allclose(per_row.of(arrays), -0.5 * eta**2, rtol=1e-9, atol=1e-12)


# --- densities are whole ---


@pytest.mark.parametrize(
    "family",
    [tb.Poisson(), tb.NegativeBinomial(1.7), tb.family("y*eta - exp(eta) - lgamma(y + 1)", outcomes="counts")],
    ids=str,
)
def test_densities_of_counts_add_up_to_one(family):
    counts = np.arange(400.0)
    assert np.exp(log_density(family, counts, np.full((400, 1), 1.3), None)).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("family", "sd"),
    [
        (tb.Gamma(2.5), None),
        (tb.Gaussian(), np.array([1.7])),
        (tb.family("-(y - eta)**2 / (2 * s**2) - log(2 * pi * s**2) / 2", s=0.8), None),
    ],
    ids=str,
)
def test_densities_of_numbers_integrate_to_one(family, sd):
    y, step = np.linspace(1e-9 if isinstance(family, tb.Gamma) else -60, 60, 400_001, retstep=True)
    density = np.exp(log_density(family, y, np.full((y.size, 1), 0.4), sd))[:, 0]
    assert density.sum() * step == pytest.approx(1, abs=1e-6)


# --- rows chosen at random ---


def test_every_row_is_chosen_as_often_as_any_other():
    """Counts of 3,000 draws of 5 out of 50: chi-square with 49 degrees, 1e-6 and 1 - 1e-6 being 14.6 and 113."""
    rows, counts, both = MemoryRows(np.ones((1, 50)), np.zeros(50)), np.zeros(50), 0
    for key in range(3_000):
        chosen = rows.reduce(AtRandom(5, 50, key)).numbers
        assert chosen.size == 5
        counts[chosen] += 1
        both += {7, 8} <= set(chosen.tolist())
    expected = 300
    assert 14.6 < ((counts - expected) ** 2 / (expected * (1 - 5 / 50))).sum() * 49 / 50 < 113
    assert abs(both - 3_000 * 20 / 2_450) < 5 * (3_000 * 20 / 2_450) ** 0.5


def test_the_same_rows_in_another_order():
    rng = np.random.default_rng(0)
    order, y = rng.permutation(40_000), rng.random(40_000) * (np.arange(40_000) % 4 == 0)
    straight = MemoryRows(y[None], y)
    mixed = MemoryRows(y[None, order], y[order], strata={NUMBER: order})
    for task in (AtRandom(500, 40_000, 3), Listed(np.array([0, 17, 39_999])), ByEvent((300, 200), (30_000, 10_000), 3)):
        one, two = straight.reduce(task), mixed.reduce(task)
        np.testing.assert_array_equal(one.numbers, two.numbers)
        np.testing.assert_array_equal(one.arrays.y, two.arrays.y)


# --- against what is exact ---


def test_loo_is_what_refits_give():
    """Posteriors of twelve rows, and of eleven, by quadrature; the tolerance is 7 standard errors by 20 batches."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(12)
    y = (rng.random(12) < 0.5).astype(float)
    design = np.column_stack([np.ones(12), x])
    fit = tb.sample(tb.GLM.from_arrays(design, y, prior=tb.Normal(0, 1)), draws=5_000, seed=3, progress=False)
    grid = np.stack(np.meshgrid(*[np.linspace(-6, 6, 301)] * 2), axis=-1).reshape(-1, 2)
    eta = grid @ design.T
    each = y * eta - np.logaddexp(0, eta)
    prior = -0.5 * (grid**2).sum(1)
    whole = prior + each.sum(1)
    exact = sum(logsumexp(whole) - logsumexp(whole - each[:, row]) for row in range(12))
    within = sum(logsumexp(whole + each[:, row]) - logsumexp(whole) for row in range(12))
    found = fit.loo(rows=12, progress=False)
    draws = fit.draws.reshape(-1, 2) @ design.T
    values = (y * draws - np.logaddexp(0, draws)).T
    batches = [left_out(values[:, part::20], 1.0)[0].sum() for part in range(20)]
    error = 7 * np.std(batches) / 2  # of batches of 1,000 draws; 4,000 are looked at
    assert abs(found.elpd - exact) < error < 0.5
    assert abs(found.p - (within - exact)) < 2 * error
    assert abs(found.elpd - values.mean(1).sum()) > error  # the fit to the rows themselves is another number
    assert found.subsampling_se == found.p_subsampling_se == 0
    assert found.n_data_points == found.subsample_size == 12


@pytest.mark.parametrize("kind", ["loo", "waic"])
def test_all_rows_give_what_arviz_gives(kind, fit, frame):
    few = frame.iloc[:3_000]
    fit = tb.fit("y ~ x + z + (1 | bank)", few, **QUICK)
    found = getattr(fit, kind)(rows=3_000, progress=False)
    tree = fit.to_arviz()
    tree["log_likelihood"] = fit.log_likelihood(rows=None, progress=False).to_dataset()
    if kind == "loo":
        wanted = arviz_stats.loo(tree, pointwise=True, reff=min(1.0, cross_validation.efficiency(fit) / 1_000))
        assert found.elpd == pytest.approx(wanted.elpd, rel=1e-9)
        assert found.se == pytest.approx(wanted.se, rel=1e-9)
        assert found.p == pytest.approx(wanted.p, rel=1e-7)
        assert (found.n_samples, found.n_data_points) == (wanted.n_samples, wanted.n_data_points)
        assert found.good_k == wanted.good_k
        assert found.warning == wanted.warning
        np.testing.assert_allclose(np.sort(found.pareto_k), np.sort(wanted.pareto_k.values), rtol=1e-4, atol=1e-6)
    else:
        values = tree["log_likelihood"]["y"].values.reshape(1_000, -1)
        penalty = values.var(0)
        assert found.p == pytest.approx(penalty.sum(), rel=1e-9)
        assert found.elpd == pytest.approx((logsumexp(values, axis=0) - np.log(1_000) - penalty).sum(), rel=1e-9)
        assert found.pareto_k is None
        assert not found.warning


SEEDS, TAKEN = 400, 3_000


@pytest.fixture(scope="module")
def every_row():
    """All of 50,000 rows looked at closely, so that subsamples of them cost nothing."""
    data = simulated(50_000, seed=5)
    fit = tb.fit("y ~ x + z + (1 | bank)", data, **QUICK)
    return fit.loo(rows=50_000, progress=False).looked


def some_of(looked, seed):
    """What would have been looked at with another seed."""
    places = looked.numbers
    rows = MemoryRows(np.ones((1, places.size)), looked.y)
    at = rows.reduce(ByEvent.of(TAKEN, rows.reduce(Events()), seed)).numbers
    exact = type(looked.exact)(*(part[at] for part in looked.exact))
    parts = {"numbers": places[at], "y": looked.y[at], "weights": looked.weights[at], "exact": exact}
    return looked._replace(**parts, near=tuple(part[at] for part in looked.near))


def plain(looked):
    """The log-likelihood at one place as the approximation: a poor one, so that much is left to the subsample."""
    poor = looked.exact.elpd + 0.05 * np.cos(np.arange(looked.every)) - 0.02 * looked.y
    sums = looked.sums._replace(elpd=poor.sum(), squares=(poor**2).sum())
    return looked._replace(near=(poor, looked.near[1]), sums=sums)


@pytest.mark.parametrize("approximation", [lambda looked: looked, plain], ids=["points", "a poor one"])
def test_subsamples_are_within_their_stated_error(approximation, every_row):
    """Of 400 seeds, those off by 1.96 standard errors are Binomial(400, .05): more than 45, or less than 2, once in a
    million. Squares of errors over variances have a mean that lies in .68 .. 1.4 but for one in a million."""
    looked = approximation(every_row)
    exact = looked.exact.elpd.sum()
    found = [elpd.result(some_of(looked, seed)) for seed in range(SEEDS)]
    off = np.array([(one.elpd - exact) / one.subsampling_se for one in found])
    assert 2 <= (np.abs(off) > 1.96).sum() <= 45
    assert 0.68 < (off**2).mean() < 1.4
    p = np.array([(one.p - looked.exact.p.sum()) / one.p_subsampling_se for one in found])
    assert 0.68 < (p**2).mean() < 1.4
    assert np.mean([one.se for one in found]) == pytest.approx((50_000 * looked.exact.elpd.var()) ** 0.5, rel=1e-3)
    # What was approximated for all rows is far outside, and so is an estimator that corrects by four fifths.
    error = np.median([one.subsampling_se for one in found])
    assert abs(looked.sums.elpd - exact) > (10 if approximation is plain else 1) * error
    few = looked._replace(rows=tuple(int(0.8 * one) for one in looked.rows))
    wrong = np.array(
        [(one.elpd - exact) / one.subsampling_se for one in map(elpd.result, map(some_of, [few] * 50, range(50)))]
    )
    assert approximation is not plain or (wrong**2).mean() > 1.4


def test_where_events_are_rare_some_are_looked_at_all_the_same():
    """Of 60,000 rows 96 have an event; among a thousand at random there would be one or two. The largest of 30 squared
    errors over their variances is below 30 but for one in a million, were errors Normal."""
    fit = tb.fit("foreclosed ~ fico + dti", tb.datasets.simulate_loans(60_000, seed=3), **QUICK)
    exact = fit.loo(rows=60_000, progress=False)
    off = []
    for seed in range(30):
        found = fit.loo(rows=1_000, seed=seed, progress=False)
        assert found.looked.y.sum() == exact.looked.y.sum()
        off.append((found.elpd - exact.elpd) / found.subsampling_se)
    assert max(np.square(off)) < 32


def test_events_and_others_are_chosen_apart():
    rng = np.random.default_rng(0)
    y = (rng.random(40_000) < 0.01).astype(float)
    rows = MemoryRows(np.arange(40_000.0)[None], y)
    quiet, events = rows.reduce(Events())
    assert (quiet, events) == (40_000 - y.sum(), y.sum())
    for size, expected in ((100, (50, 50)), (10_000, (10_000 - events, events)), (10**6, (quiet, events))):
        task = ByEvent.of(size, (quiet, events), 1)
        chosen = rows.reduce(task)
        assert task.sizes == expected
        assert (chosen.numbers.size, chosen.arrays.y.sum()) == (sum(expected), expected[1])
        np.testing.assert_array_equal(chosen.arrays.x[0], chosen.numbers)
        assert (np.diff(chosen.numbers) > 0).all()
    assert ByEvent.of(100, (20, 980), 1).sizes == (20, 80)


@pytest.mark.parametrize("name", FITS)
def test_all_kinds_of_models_are_within_their_stated_error(name, frame):
    """Twenty times within 5 standard errors each, once in 10^5 by chance were they Normal with known variance."""
    few = frame.iloc[:6_000]
    fit = FITS[name](few)
    exact = fit.loo(rows=6_000, progress=False)
    assert exact.subsampling_se == 0
    assert exact.n_data_points == 6_000
    for seed in range(3):
        found = fit.loo(rows=1_500, seed=seed, progress=False)
        assert found.subsample_size == 1_500
        assert abs(found.elpd - exact.elpd) < 6 * found.subsampling_se < 0.2 * found.se
        assert abs(found.p - exact.p) < 6 * found.p_subsampling_se
        assert found.se == pytest.approx(exact.se, rel=0.01)
        assert "1,500 of them looked at closely" in repr(found)


# --- weights ---


def test_merged_rows_and_weights_are_as_many_observations(frame):
    few = frame.iloc[:6_000].assign(w=np.random.default_rng(0).integers(0, 4, 6_000))
    heavy = few.loc[few.index.repeat(few["w"])]
    fit = tb.fit("y ~ size", few, weights="w", **QUICK)
    assert fit.stats["distinct_rows"] == 6
    other = tb.fit("y ~ size", heavy, **QUICK)
    other.posterior = fit.posterior
    found, wanted = fit.loo(progress=False), other.loo(progress=False)
    with tb.results.more.model_of(fit, {}, "fit.loo({}=...)", False, (NUMBER,)) as model:
        assert model.rows.size == (few["w"] > 0).sum()
        apart = elpd.result(cross_validation.look(fit, model, LOO, 10_000, 0))
        some = [elpd.result(cross_validation.look(fit, model, LOO, 2_000, seed)) for seed in range(5)]
    assert found.n_data_points == len(heavy)
    for one in (wanted, apart):
        for part in ("elpd", "se", "p", "n_data_points"):
            assert getattr(one, part) == pytest.approx(getattr(found, part), rel=1e-9)
    for one in some:
        assert abs(one.elpd - found.elpd) < 6 * one.subsampling_se
        assert abs(one.p - found.p) < 6 * one.p_subsampling_se


def test_trials_are_left_out_one_at_a_time():
    rng = np.random.default_rng(1)
    x, trials = np.round(rng.standard_normal(200), 1), rng.integers(1, 6, 200)
    successes = rng.binomial(trials, 1 / (1 + np.exp(-x)))
    many = {
        "x": np.repeat(x, trials),
        "y": np.concatenate([np.arange(m) < k for k, m in zip(successes, trials, strict=True)]),
    }
    fit = tb.fit("p(k, m) ~ x", {"x": x, "k": successes, "m": trials}, **QUICK)
    each = tb.fit("y ~ x", many, **QUICK)
    each.posterior = fit.posterior
    found, wanted = fit.loo(progress=False), each.loo(progress=False)
    assert found.n_data_points == wanted.n_data_points == trials.sum()
    assert found.elpd == pytest.approx(wanted.elpd, rel=1e-9)
    assert found.se == pytest.approx(wanted.se, rel=1e-9)


def test_weights_that_are_not_whole_are_refused(frame):
    few = frame.iloc[:500].assign(w=0.5)
    with pytest.raises(ValueError, match="weights must be whole numbers"):
        tb.fit("y ~ x", few, weights="w", **QUICK).loo(progress=False)


# --- wherever rows are ---


def numbers(found):
    return found.elpd, found.se, found.p, found.subsampling_se, found.p_subsampling_se


def test_the_same_numbers_from_memory_disk_and_workers(fit, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", LENGTH)
    wanted = fit.loo(rows=2_000, progress=False)
    assert numbers(fit.loo(rows=2_000, engine=Local(3), progress=False)) == numbers(wanted)
    frame.to_parquet(tmp_path / "loans.parquet")
    assert numbers(fit.loo(rows=2_000, data=tmp_path / "loans.parquet", progress=False)) == numbers(wanted)
    monkeypatch.setattr(building, "fits", lambda columns, rows, room: False)
    assert numbers(fit.loo(rows=2_000, progress=False)) == numbers(wanted)


def test_memory_does_not_grow_with_rows_times_draws():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400_000)
    data = {"x": x, "y": (rng.random(x.size) < 1 / (1 + np.exp(2 - x))).astype(int)}
    fit = tb.fit("y ~ x", data, draws=1_000, seed=1, progress=False)
    fit.loo(rows=1_000, progress=False)
    tracemalloc.start()
    try:
        fit.loo(progress=False)
        assert tracemalloc.get_traced_memory()[1] < 500e6  # 400,000 rows at 4,000 draws would be 12,800
    finally:
        tracemalloc.stop()


# --- a fit and its data ---


def test_a_loaded_fit_reads_its_file_again(frame, tmp_path):
    frame.iloc[:4_000].to_csv(tmp_path / "loans.csv", index=False)
    fit = tb.fit("y ~ x + size", tmp_path / "loans.csv", **QUICK)
    fit.save(tmp_path / "fit.nc")
    wanted = fit.loo(rows=1_000, progress=False)
    assert numbers(tb.load(tmp_path / "fit.nc").loo(rows=1_000, progress=False)) == numbers(wanted)
    with pytest.raises(
        ValueError, match=r"data was .*DataFrame, which files do not keep: give it again, as in fit.loo"
    ):
        copy.copy(tb.fit("y ~ x", frame.iloc[:400], **QUICK)).loo(progress=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.iloc[1:], "made from 4,000 rows, but these data have 3,999"),
        (
            lambda data: data.assign(y=np.where(data.index == 7, 1 - data["y"], data["y"])),
            "outcomes of the fit had a mean",
        ),
        (
            lambda data: data.assign(size=data["size"].str.upper()),
            "a model other than .* 'coefficient' has other values",
        ),
    ],
)
def test_other_data_are_refused(change, message, frame):
    fit = tb.fit("y ~ x + size", frame.iloc[:4_000], **QUICK)
    with pytest.raises(ValueError, match=message):
        fit.loo(data=change(frame.iloc[:4_000]), progress=False)


def test_what_cannot_be_otherwise_is_refused(frame):
    fit = tb.fit("y ~ x", frame.iloc[:400], **QUICK)
    with pytest.raises(ValueError, match=r"fit\.loo takes no argument 'weigths'"):
        fit.loo(weigths="w", progress=False)
    with pytest.raises(ValueError, match=r"fit\.waic needs what the fit was made from, but missing was 'refuse'"):
        fit.waic(missing="drop", progress=False)
    made = tb.sample(tb.GLM("y ~ x", frame.iloc[:400]), **QUICK)
    with pytest.raises(
        ValueError, match=r"model was GLM, which files do not keep: give it again, as in fit.loo\(model"
    ):
        copy.deepcopy(made).loo(progress=False)
    again = copy.deepcopy(made).loo(model=tb.GLM("y ~ x", frame.iloc[:400]), progress=False)
    assert numbers(again) == numbers(made.loo(progress=False))


def test_rows_and_columns_that_are_left_out(frame):
    few = frame.iloc[:2_000].assign(twice=lambda data: 2 * data["x"])
    few.loc[few.index[::7], "z"] = np.nan
    fit = tb.fit("y ~ x + twice + z", few, missing="drop", collinear="drop", **QUICK)
    found = fit.loo(progress=False)
    plain = tb.fit("y ~ x + z", few.dropna(), **QUICK)
    plain.posterior = fit.posterior
    assert numbers(found) == numbers(plain.loo(progress=False))


# --- log-likelihoods ---


def test_log_likelihood_of_some_rows(fit, frame):
    found = fit.log_likelihood(rows=[5, 40_000, 3], progress=False)
    assert found.dims == ("chain", "draw", "row")
    assert found["row"].values.tolist() == [3, 5, 40_000]
    assert found.name == "y"
    beta, effects = fit.posterior["beta"].values, fit.posterior["1|bank"]
    for row in (3, 5, 40_000):
        one = frame.iloc[row]
        eta = beta @ [1, one["x"], one["z"]] + effects.sel(bank=one["bank"]).values
        np.testing.assert_allclose(found.sel(row=row), one["y"] * eta - np.logaddexp(0, eta), rtol=1e-9)
    some = fit.log_likelihood(rows=7, seed=2, progress=False)
    assert some.sizes["row"] == 7
    np.testing.assert_array_equal(some, fit.log_likelihood(rows=some["row"].values, progress=False))


def test_log_likelihoods_that_cannot_be(fit, frame):
    with pytest.raises(ValueError, match="there is no row 49,152: rows are counted from 0"):
        fit.log_likelihood(rows=[1, 49_152], progress=False)
    made = tb.sample(tb.GLM("y ~ size", frame.iloc[:400]), **QUICK)
    with pytest.raises(ValueError, match="or equal ones were merged, so they have no row numbers"):
        made.log_likelihood(rows=[1], progress=False)
    assert made.log_likelihood(rows=3, progress=False)["weight"].min() > 1


def test_more_log_likelihoods_than_memory_holds_are_refused(fit, monkeypatch):
    monkeypatch.setattr("tallbayes.rows.room.free_memory", lambda: 10**8)
    with pytest.raises(ValueError, match=r"log-likelihoods of 49,152 rows at 1,000 draws would take 393 MB of memory"):
        fit.log_likelihood(rows=None, progress=False)


def test_draws_that_are_not_of_the_model(frame):
    fit = tb.fit("claims ~ x", frame.iloc[:400], "poisson", **QUICK)
    fit.posterior = fit.posterior.assign(beta=1e5 * fit.posterior["beta"])
    with pytest.raises(ValueError, match="no finite log-likelihood"):
        fit.loo(progress=False)


def test_shapes_of_the_result(fit):
    found = fit.loo(rows=500, progress=False)
    assert found.scale == "log"
    assert found.kind == "loo"
    assert found.pareto_k.shape == (500,)
    assert replace(found, good_k=-1.0).__repr__().endswith("500 of them above: LOO is unsure there.")
