"""Group terms with every family: the thinned kernel against Metropolis-Hastings on all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tallbayes as tb

# Four fits with some twenty means and sds each: false-alarm rate 1e-6 in all.
LARGEST_Z = stats.norm.isf(1e-6 / 200)


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(6), [200, 150, 100, 40, 8, 1])
    data = pd.DataFrame({"x": rng.standard_normal(group.size), "g": group})
    mean = np.exp(-1.0 + 0.5 * data["x"] + np.array([0.6, -0.5, 0.3, -0.7, 0.4, 0.0])[group])
    data["y"] = (rng.random(group.size) < -np.expm1(-mean)).astype(int)
    data["sent"] = rng.integers(1, 6, group.size)
    data["opened"] = rng.binomial(data["sent"], -np.expm1(-mean))
    data["days"] = rng.uniform(0.5, 2.0, group.size)
    data["claims"] = rng.poisson(data["days"] * mean)
    return data


DATA = frame()
FAMILIES = {
    "probit": ("y", tb.Bernoulli("probit")),
    "cloglog": ("y", tb.Bernoulli("cloglog")),
    "binomial": ("opened", tb.Binomial("sent")),
    "poisson": ("claims", tb.Poisson("days")),
}


# Those that no other test holds against exact draws.
EVERY_RUN = ("cloglog", "binomial")


@pytest.mark.parametrize(
    "name", [name if name in EVERY_RUN else pytest.param(name, marks=pytest.mark.long) for name in FAMILIES]
)
def test_every_family(name):
    outcome, family = FAMILIES[name]
    formula = f"{outcome} ~ 0 + x + (1 | g)"
    common = {"family": family, "seed": 1, "progress": False, "prior": tb.StudentT(4, 0, 2.5)}
    full = tb.fit(formula, DATA, method="mh", draws=500, warmup=200, **common)
    fit = tb.fit(formula, DATA, draws=1_000, **common)
    table = tb.compare(full=full, fit=fit)
    assert table["ess_min"].min() > 100
    assert table.loc["fit", ["largest_z", "largest_z_sd"]].max() < LARGEST_Z
