"""Heavy calibration runs (`make test-long`): simulation-based calibration, long quadrature runs, full-size loans."""

from __future__ import annotations

import harness
import numpy as np
import pytest
import test_thinned as thinned_models
from scipy import stats
from test_kernels import KERNELS, SKEWED, make

import tallbayes as tb

pytestmark = pytest.mark.long

REPEATS, BINS = 250, 20


def ranks(fitted_sd: float, **options: object) -> np.ndarray:
    """Ranks of the true coefficients among posterior draws, over data simulated from the prior N(0, 0.7^2)."""
    rng = np.random.default_rng(0)
    found = []
    for seed in range(REPEATS):
        theta = 0.7 * rng.standard_normal(3)
        x = rng.standard_normal((2, 200))
        y = tb.Bernoulli().simulate(rng, theta[0] + theta[1:] @ x)
        data = {"a": x[0], "b": x[1], "y": y}
        how = {key: value for key, value in options.items() if key != "more"}
        fit = tb.fit("y ~ a + b", data, prior=tb.Normal(0, fitted_sd), chains=1, seed=seed, progress=False, **how)
        fit = fit.more(**options["more"], progress=False) if "more" in options else fit
        draws = fit.draws[0, :: fit.draws.shape[1] // 99][:99]
        found.append((draws < theta).sum(0))
    return np.array(found)


def uniformity(found: np.ndarray) -> float:
    """Smallest p-value, over the coefficients, that ranks 0..99 are uniform."""
    tables = [np.bincount(column * BINS // 100, minlength=BINS) for column in found.T]
    return min(stats.chisquare(table).pvalue for table in tables)


METHODS = {
    "default": {"draws": 495},
    "taylor": {"method": "two-stage", "draws": 495},
    "mh": {"method": tb.MH("one-at-a-time"), "draws": 1_980},
    "subsample": {"method": tb.TwoStage(tb.Subsample(100)), "draws": 1_980},
    "stopped": {"target_ess": 400},
    "until converged": {"method": tb.MH()},
    "gone on": {"method": tb.MH(), "draws": 200, "more": {"target_ess": 150}},
}


@pytest.mark.parametrize("options", METHODS.values(), ids=METHODS.keys())
def test_simulation_based_calibration(options):
    assert uniformity(ranks(0.7, **options)) > harness.FALSE_ALARM


def test_simulation_based_calibration_sees_a_wrong_prior():
    assert uniformity(ranks(0.2, draws=495)) < harness.FALSE_ALARM


@pytest.mark.parametrize("parts", KERNELS.values(), ids=KERNELS.keys())
def test_very_long_runs_agree_with_quadrature(parts):
    chains = 2_000
    z = harness.largest_z(make(*parts), 1_000, chains, 17, harness.Quadrature.of(SKEWED, 1_201))
    assert z < harness.z_limit(chains)


@pytest.mark.parametrize("name", [*thinned_models.MODELS, "zero event"])
def test_very_long_thinned_runs_agree_with_quadrature(name):
    """Every family with all rows thinned, and the tail of a level without events."""
    chains, model = 2_000, thinned_models.model_named(name)
    z = harness.largest_z(thinned_models.make(name), 300, chains, 17, harness.Quadrature.of(model, 1_201))
    assert z < harness.z_limit(chains)


def test_loans_at_full_size():
    """Seven coefficients, 2.3 million rows: four methods within Monte Carlo error of each other."""
    data = tb.datasets.simulate_loans()
    formula = "foreclosed ~ first_payment + fico + dti + upb + first_time"
    common = {"seed": 1, "progress": False}
    fits = {
        "auto": tb.fit(formula, data, draws=10_000, **common),
        "taylor": tb.fit(formula, data, method="two-stage", draws=1_500, **common),
        "block_mh": tb.fit(formula, data, method="mh", draws=3_000, **common),
        "case_control": tb.fit(
            formula, data, method=tb.TwoStage(tb.CaseControl(100_000)), draws=800, warmup=150, **common
        ),
    }
    table = tb.compare(**fits)
    assert table[["largest_z", "largest_z_sd"]].to_numpy().max() < stats.norm.isf(1e-6 / (6 * 14))


def covered(kind: str, repeats: int = 120) -> int:
    """How often a 94% interval has the expected outcome of a new row, parameters being drawn from the prior.

    One row for each data set, so that the count is binomial. With groups, the row has one that the fit has not seen.
    """
    found = 0
    for seed in range(repeats):
        rng = np.random.default_rng([seed, len(kind)])
        theta, x, days = 0.7 * rng.standard_normal(2), rng.standard_normal(151), rng.gamma(2.0, size=151)
        group = np.append(rng.integers(12, size=150), 12)
        eta, family, options = theta[0] + theta[1] * x, "bernoulli", {}
        if kind == "poisson":
            eta, family = eta + np.log(days), tb.Poisson(exposure="days")
        if kind == "groups":
            eta = eta + (abs(rng.standard_normal()) * rng.standard_normal(13))[group]
            options = {"group_prior": tb.HalfNormal(1.0)}
        mean = np.exp(eta) if kind == "poisson" else 1 / (1 + np.exp(-eta))
        y = rng.poisson(mean) if kind == "poisson" else rng.random(151) < mean
        data = {"x": x, "days": days, "group": group, "y": y.astype(int)}
        seen, new = ({name: values[part] for name, values in data.items()} for part in (slice(150), slice(150, None)))
        formula = "y ~ x + (1 | group)" if kind == "groups" else "y ~ x"
        prior = tb.Normal(0, 0.7)
        fit = tb.fit(formula, seen, family, prior, draws=500, chains=2, seed=seed, progress=False, **options)
        low, high = fit.predict(new, seed=seed).iloc[0, 1:]
        found += low <= mean[150] <= high
    return found


@pytest.mark.parametrize("kind", ["logit", "poisson", "groups"])
def test_intervals_of_predictions_have_their_coverage(kind):
    assert stats.binomtest(covered(kind), 120, 0.94).pvalue > harness.FALSE_ALARM


def test_new_groups_without_an_effect_of_their_own_are_noticed(monkeypatch):
    monkeypatch.setattr("tallbayes.groups.predict._normals", lambda level, seed, count: np.zeros(count))
    assert stats.binomtest(covered("groups"), 120, 0.94).pvalue < harness.FALSE_ALARM
