"""A small fit made of random numbers, to try things with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.formula import Formula
from tallbayes.families import Bernoulli
from tallbayes.models.model import Result
from tallbayes.results.fit import Fit
from tallbayes.rows.calibration import Calibration, by_predictor, calibrate
from tallbayes.rows.memory import MemoryRows

Array = NDArray[np.float64]


def example(seed: int = 0, seconds: float = 60.0, chains: int = 4, draws: int = 500) -> Fit:
    """A small fit made of random numbers, to try things with.

    >>> example().coefficients
    ('Intercept', 'fico')
    """
    return Fit.of(example_result(seed, seconds, chains, draws))


def example_result(seed: int, seconds: float, chains: int, draws: int) -> Result:
    """What the small fit is made of."""
    formula, _, _ = Formula.learn("y ~ fico", {"y": [0, 1], "fico": [-1.0, 1.0]})
    rng = np.random.default_rng(seed)
    beta = rng.normal([-1.0, 0.5], 0.05, (chains, draws, 2))
    stats = {
        "exact": True,
        "approximation": {},
        "method": "two-stage",
        "why": "",
        "acceptance": {"stage 1": 0.41, "stage 2": 0.93},
        "rows_per_draw": 410.0,
        "surrogate_rows_per_draw": 50.0,
        "seconds": {"compile": 0.0, "design": 0.1, "mode": 0.2, "warmup": 5.0, "sampling": seconds},
        "rows": 1_000,
        "distinct_rows": 1_000,
        "surrogate": "CaseControl(50)",
        "proposal": "random walk",
        "subchain": None,
        "seed": seed,
        "interrupted": False,
        "warnings": [],
        "doubts": [],
        "pulled": [],
        "fitted": "2026-01-31T12:00:00+00:00",
        "data": "loans.csv",
        "default_priors": ["Intercept", "fico"],
        "columns": {"mean": [1, 0], "sd": [0, 1], "low": [1, -3], "high": [1, 3], "two": [False, False]},
    }
    variables = {"beta": (("chain", "draw", "coefficient"), beta)}, {"coefficient": list(formula.coefficients)}
    prior = {"Intercept": "Normal(0, 10) at the columns' means", "fico": "Normal(0, 5)"}
    others = {
        "formula": formula,
        "prior": prior,
        "calibration": calibrated(Bernoulli().mean(np.linspace(-2.0, 0.0, 1_000)), seed),
    }
    return Result("regression", variables, {"lp": -(beta**2).sum(axis=2)}, stats, others)


def calibrated(chance: Array, seed: int) -> Calibration:
    """What would be seen of rows with these probabilities."""
    eta = np.log(chance / (1 - chance))
    rows = MemoryRows([eta], Bernoulli().simulate(np.random.default_rng(seed), eta))
    return calibrate(by_predictor(rows, [1.0]), Bernoulli())
