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


def example(seed: int = 0, seconds: float = 60.0, chains: int = 4, draws: int = 500, groups: int = 0) -> Fit:
    """A small fit made of random numbers, to try things with; with `groups`, of a model with that many of them.

    >>> example().coefficients
    ('Intercept', 'fico')
    """
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
    }
    variables = {"beta": (("chain", "draw", "coefficient"), beta)}, {"coefficient": list(formula.coefficients)}
    others = {"formula": formula, "calibration": _calibrated(Bernoulli().mean(np.linspace(-2.0, 0.0, 1_000)), seed)}
    found = Result("regression", variables, {"lp": -(beta**2).sum(axis=2)}, stats, others)
    return Fit.of(_with_groups(found, rng, groups, seed) if groups else found)


def _with_groups(found: Result, rng: np.random.Generator, count: int, seed: int) -> Result:
    """The example with groups of many and of few rows, whose effects shrink towards zero the more."""
    names, sigma = [f"b{i:0{max(2, len(str(count)))}}" for i in range(1, count + 1)], 0.6
    rows = np.exp(rng.normal(4.0, 1.5, count)).astype(int) + 1
    ones = rng.binomial(rows, 1 / (1 + np.exp(1 - rng.normal(0, sigma, count))))
    with np.errstate(divide="ignore"):  # without a 1, or without a 0, a group gives no effect of its own
        alone = 1 + np.log(ones) - np.log(rows - ones)
    share = (ones + 0.5) / (rows + 1)
    variance = 1 / (rows * share * (1 - share) + sigma**-2)
    center = (1 - variance / sigma**2) * (1 + np.log(share / (1 - share)))
    shape = found.sample_stats["lp"].shape
    effects = rng.normal(center, np.sqrt(variance), (*shape, count))
    spread = sigma * np.exp(rng.normal(0, 0.7 / np.sqrt(count), shape))
    drawn = {"1|bank": (("chain", "draw", "bank"), effects), "1|bank_sigma": (("chain", "draw"), spread)}
    facts = {"rows": ("bank", rows), "outcome": ("bank", ones / rows), "alone": ("bank", alone)}
    said = {"term": "1|bank", "count": count, "prior": "HalfCauchy(scale=2.5)", "said": ""}
    data = {"y": [0, 1] * count, "fico": [-1.0, 1.0] * count, "bank": np.repeat(names, 2)}
    variables, coordinates = found.posterior
    return found._replace(
        posterior=(variables | drawn, coordinates | {"bank": names}),
        stats=found.stats | {"rows": int(rows.sum()), "distinct_rows": int(rows.sum()), "groups": said},
        others={
            "formula": Formula.learn("y ~ fico + (1 | bank)", data)[0],
            "groups": (facts, {"bank": names}),
            "calibration": _calibrated(np.repeat(share, rows), seed),
        },
    )


def _calibrated(chance: Array, seed: int) -> Calibration:
    """What would be seen of rows with these probabilities."""
    eta = np.log(chance / (1 - chance))
    rows = MemoryRows([eta], Bernoulli().simulate(np.random.default_rng(seed), eta))
    return calibrate(by_predictor(rows, [1.0]), Bernoulli())
