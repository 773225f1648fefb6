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
        fit = tb.fit("y ~ a + b", data, prior=tb.Normal(0, fitted_sd), chains=1, seed=seed, progress=False, **options)
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
    "mh": {"method": "mh", "proposal": "one-at-a-time", "draws": 1_980},
    "subsample": {"method": "two-stage", "surrogate": tb.Subsample(100), "draws": 1_980},
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
            formula, data, method="two-stage", surrogate=tb.CaseControl(100_000), draws=800, warmup=150, **common
        ),
    }
    table = tb.compare(**fits)
    assert table[["largest_z", "largest_z_sd"]].to_numpy().max() < stats.norm.isf(1e-6 / (6 * 14))
