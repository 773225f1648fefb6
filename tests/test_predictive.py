"""Posterior predictive draws: their moments against those of the model. False alarms: below 1e-6 a row or a fit."""

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.data.new_rows import new_rows
from tallbayes.results.predictive import _require
from tallbayes.results.predictive_plot import _made, observations

SURE = 4.9
RNG = np.random.default_rng(0)
N = 400
DATA = pd.DataFrame({"x": RNG.normal(size=N), "days": RNG.uniform(1, 3, N), "bank": RNG.integers(0, 12, N)})
DATA["trials"] = RNG.integers(1, 9, N)
ETA = 0.3 + 0.5 * DATA.x + RNG.normal(size=12)[DATA.bank]
DATA["y"] = (RNG.random(N) < 1 / (1 + np.exp(-ETA))).astype(int)
DATA["paid"] = RNG.binomial(DATA.trials, 1 / (1 + np.exp(-ETA)))
DATA["count"] = RNG.poisson(np.exp(ETA) * DATA.days)
DATA["cost"] = RNG.gamma(2, np.exp(ETA) / 2)
DATA["size"] = ETA + RNG.normal(size=N)
FEW = {"draws": 500, "seed": 1, "progress": False}
NEW = DATA.iloc[:40]

FITS = {
    "logit": ("y ~ x", "bernoulli"),
    "probit": ("y ~ x", tb.Bernoulli("probit")),
    "successes": ("p(paid, trials) ~ x", "bernoulli"),
    "trials": ("paid ~ x", tb.Binomial("trials")),
    "counts": ("count ~ x", tb.Poisson("days")),
    "overdispersed": ("count ~ x", tb.NegativeBinomial(3.0)),
    "costs": ("cost ~ x", tb.Gamma(2.0)),
    "normal": ("size ~ x", "gaussian"),
    "groups": ("y ~ x + (1 | bank)", "bernoulli"),
    "normal groups": ("size ~ x + (1 | bank)", "gaussian"),
    "splines": ("y ~ s(x, days)", "bernoulli"),
}


@pytest.mark.parametrize("name", FITS)
def test_moments(name):
    formula, family = FITS[name]
    fit = tb.fit(formula, DATA, family, **FEW | ({"draws": 100, "warmup": 300} if name == "splines" else {}))
    found = fit.predictive(NEW, draws=10**6)
    assert found.dims == ("chain", "draw", "row")
    assert found.shape == (4, fit.posterior.sizes["draw"], 40)
    assert found.name == fit.formula.outcome
    values = found.values.reshape(-1, 40)
    trials = NEW.trials.to_numpy() if "paid" in formula else np.ones(40)
    assert "paid" not in formula or (values <= trials).all()
    means = trials[:, None] * fit._some(10**6, 0).means(fit._centre(None).features(_rows(fit)))
    variance = _variance(fit, means, trials[:, None])
    error = np.sqrt(variance.mean(axis=1) / len(values))
    assert (np.abs(values.mean(axis=0) - means.mean(axis=1)) < SURE * error).all()
    squares = (values.T - means) ** 2 / variance
    assert abs(squares.mean() - 1) < SURE * squares.std() / np.sqrt(squares.size)
    assert np.allclose(means.mean(axis=1), trials * fit.predict(NEW, draws=10**6)["mean"], rtol=1e-12)
    assert (values % 1 == 0).all() == (name not in ("costs", "normal", "normal groups"))


def _rows(fit):
    (rows,) = new_rows(fit._opened(NEW), fit._centre(None).columns, fit._centre(None).clean)
    return rows


def _variance(fit, means, trials):
    """Of outcomes with these expectations (row, draw)."""
    if fit.family.name == "gaussian":
        return np.broadcast_to(fit.posterior["sd"].values.ravel() ** 2, means.shape)
    if fit.family.name == "negative_binomial":
        return means + means**2 / 3
    if fit.family.name == "gamma":
        return means**2 / 2
    return trials * fit.family.variance(means / trials)


def test_a_seed_tells_all_and_pieces_do_not(monkeypatch):
    fit = tb.fit("count ~ x", DATA, "poisson", **FEW)
    found = fit.predictive(NEW, seed=3)
    assert found.identical(fit.predictive(NEW, seed=3))
    assert not found.equals(fit.predictive(NEW, seed=4))
    assert found.shape == (4, 250, 40)
    assert fit.predictive(NEW.set_index("bank"))["row"].values.tolist() == NEW.bank.tolist()
    monkeypatch.setattr(pieces, "PIECE", 16)
    assert fit.predictive(NEW, seed=3).shape == found.shape


def test_rows_of_a_new_group_share_its_effect():
    fit = tb.fit("size ~ x + (1 | bank)", DATA, "gaussian", draws=2_000, seed=1, progress=False)
    new = pd.DataFrame({"x": [0.0] * 3, "bank": [100, 100, 101]})
    values = fit.predictive(new, draws=8_000).values.reshape(-1, 3)
    together = np.corrcoef(values.T)
    share = (fit.posterior["1|bank_sigma"] ** 2).mean() / values.var()
    assert together[0, 1] == pytest.approx(float(share), abs=0.1)
    assert abs(together[0, 2]) < 0.1


def test_what_cannot_be(monkeypatch):
    fit = tb.fit("count ~ x", DATA, "poisson", **FEW)
    with pytest.raises(ValueError, match="draws must be a whole number"):
        fit.predictive(NEW, draws=0)
    with pytest.raises(ValueError, match="'x'"):
        fit.predictive({"z": [1.0]})
    trials = tb.fit("p(paid, trials) ~ x", DATA, **FEW)
    with pytest.raises(ValueError, match="trials must be whole numbers from 0, but are -1 in row 1"):
        trials.predictive({"x": [0.0, 0.0], "paid": [1, 1], "trials": [2, -1]})
    own = tb.fit("count ~ x", DATA, tb.family("y * eta - exp(eta)", mean="exp(eta)"), **FEW)
    with pytest.raises(ValueError, match="does not say how outcomes are drawn"):
        own.predictive(NEW)
    with pytest.raises(
        ValueError, match=r"4,000 draws of the outcomes of 100,000,000 rows would take 6.4 TB of memory"
    ):
        _require(100_000_000, 4_000)


# The check against the outcomes that were fitted


def outside(figure):
    """The share of bars that are not in the range of 94% of the draws."""
    (panel,) = figure.axes
    heights = np.array([bar.get_height() for bar in panel.patches])
    ends = np.array([line[:, 1] for line in panel.collections[0].get_segments()])
    return float(((heights < ends[:, 0]) | (heights > ends[:, 1])).mean())


def counts(shape):
    rng = np.random.default_rng(5)
    x = rng.normal(size=6_000)
    mean = np.exp(0.5 + 0.3 * x)
    made = rng.poisson(mean if shape is None else mean * rng.gamma(shape, 1 / shape, x.size))
    return {"x": x, "count": made}


def test_counts_of_the_right_family_lie_inside_and_of_a_wrong_one_outside():
    right, wrong = (tb.fit("count ~ x", counts(shape), "poisson", **FEW) for shape in (None, 0.7))
    mended = tb.fit("count ~ x", counts(0.7), tb.NegativeBinomial(0.7), **FEW)
    assert outside(tb.plots.predictive(right, progress=False)) < 0.3
    assert outside(tb.plots.predictive(mended, progress=False)) < 0.3
    assert outside(tb.plots.predictive(wrong, progress=False)) > 0.6


@pytest.mark.parametrize("name", ["logit", "successes", "normal", "costs", "groups", "normal groups", "splines"])
def test_every_kind_is_drawn(name, tmp_path):
    formula, family = FITS[name]
    fit = tb.fit(formula, DATA, family, **FEW | ({"draws": 100, "warmup": 300} if name == "splines" else {}))
    figure = tb.plots.predictive(fit, draws=50, progress=False)
    assert "observed" in figure.axes[0].get_legend_handles_labels()[1]
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"tb.plots.predictive\(fit, data=...\)"):
        tb.plots.predictive(tb.load(tmp_path / "fit.nc"), progress=False)
    again = tb.plots.predictive(tb.load(tmp_path / "fit.nc"), draws=50, progress=False, data=DATA, narrow=True)
    heights = [[bar.get_height() for bar in one.axes[0].patches] for one in (figure, again)]
    assert heights[0] == heights[1]


def test_weights_are_rows():
    """A row of weight 3 is three observations, each with an outcome of its own."""
    data = pd.DataFrame({"y": [0, 1], "x": [0.0, 0.0], "w": [7_000, 3_000]})
    fit = tb.fit("y ~ 1", data, weights="w", draws=200, seed=1, progress=False)
    (panel,) = tb.plots.predictive(fit, progress=False).axes
    shares = [bar.get_x() for bar in panel.patches if bar.get_height()]
    assert 0.26 < min(shares) < max(shares) < 0.34
    assert panel.lines[0].get_xdata()[0] == pytest.approx(0.3, abs=0.025)


def test_pictures_refuse_what_they_cannot():
    fit = tb.fit("count ~ x", DATA, "poisson", **FEW)
    for given, said in [
        ({"rows": 0}, "rows must be"),
        ({"draws": 1.5}, "draws must be"),
        ({"seed": -1}, "seed must be"),
    ]:
        with pytest.raises(ValueError, match=said):
            tb.plots.predictive(fit, **given)


@pytest.mark.parametrize("weights", [None, "w"])
def test_what_was_observed_is_what_rows_of_some_weight_have(weights):
    """Equal rows are merged, so that they have weights, too; a model of the mean has it right."""
    rng = np.random.default_rng(2)
    data = {"k": rng.integers(0, 3, 600), "y": rng.random(600) < 0.4, "w": rng.integers(0, 4, 600)}
    fit = tb.fit("y ~ C(k)", data, weights=weights, **FEW)
    made = _made(fit, 10_000, 50, 1, False, {})
    counted = np.ones(600, int) if weights is None else data["w"]
    assert made.observed.mean() == pytest.approx(np.average(data["y"], weights=counted), rel=1e-12)
    assert made.replicated.shape == (counted.sum(), 50)


def test_observations_of_rows_with_weights():
    rng = np.random.default_rng(3)
    weights = np.array([2.0, 0.0, 5.0, 3.0])
    assert observations(weights, 99, rng).tolist() == [0, 0, 2, 2, 2, 2, 2, 3, 3, 3]
    some = np.concatenate([observations(weights, 4, rng) for _ in range(5_000)])
    found = np.bincount(some, minlength=4) / some.size
    assert np.allclose(found, weights / 10, atol=SURE * 0.5 / np.sqrt(some.size))
    assert max(np.bincount(observations(weights, 4, rng)).max() for _ in range(200)) <= 4
    parts = np.concatenate([observations(weights / 8, 3, rng) for _ in range(5_000)])
    assert np.allclose(
        np.bincount(parts, minlength=4) / parts.size, weights / 10, atol=SURE * 0.5 / np.sqrt(parts.size)
    )
    assert observations(np.full(10, 1e-3), 99, rng).size == 1
