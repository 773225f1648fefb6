"""A small fit with groups, made of random numbers, to try things with."""

from __future__ import annotations

import numpy as np

from tallbayes.data.formula import Formula
from tallbayes.groups.fit import HierarchicalFit
from tallbayes.results.example import calibrated, example_result


def group_example(
    groups: int, seed: int = 0, seconds: float = 60.0, chains: int = 4, draws: int = 500
) -> HierarchicalFit:
    """A small fit with groups of many and of few rows, whose effects shrink towards zero the more.

    >>> group_example(3).posterior["bank"].values.tolist()
    ['b01', 'b02', 'b03']
    """
    found, rng = example_result(seed, seconds, chains, draws), np.random.default_rng([seed, groups])
    names, sigma = [f"b{i:0{max(2, len(str(groups)))}}" for i in range(1, groups + 1)], 0.6
    rows = np.exp(rng.normal(4.0, 1.5, groups)).astype(int) + 1
    ones = rng.binomial(rows, 1 / (1 + np.exp(1 - rng.normal(0, sigma, groups))))
    with np.errstate(divide="ignore"):  # without a 1, or without a 0, a group gives no effect of its own
        alone = 1 + np.log(ones) - np.log(rows - ones)
    share = (ones + 0.5) / (rows + 1)
    variance = 1 / (rows * share * (1 - share) + sigma**-2)
    center = (1 - variance / sigma**2) * (1 + np.log(share / (1 - share)))
    effects = rng.normal(center, np.sqrt(variance), (chains, draws, groups))
    spread = sigma * np.exp(rng.normal(0, 0.7 / np.sqrt(groups), (chains, draws)))
    drawn = {"1|bank": (("chain", "draw", "bank"), effects), "1|bank_sigma": (("chain", "draw"), spread)}
    facts = {"rows": ("bank", rows), "outcome": ("bank", ones / rows), "alone": ("bank", alone)}
    said = {"term": "1|bank", "count": groups, "prior": "HalfCauchy(scale=2.5)", "said": ""}
    data = {"y": [0, 1] * groups, "fico": [-1.0, 1.0] * groups, "bank": np.repeat(names, 2)}
    variables, coordinates = found.posterior
    return HierarchicalFit.of(
        found._replace(
            kind=HierarchicalFit.kind,
            posterior=(variables | drawn, coordinates | {"bank": names}),
            stats=found.stats
            | {"rows": int(rows.sum()), "distinct_rows": int(rows.sum()), "groups": said}
            | {"default_priors": [*found.stats["default_priors"], "1|bank_sigma"]},
            others={
                "prior": found.others["prior"] | {"1|bank_sigma": "HalfCauchy(scale=2.5)"},
                "formula": Formula.learn("y ~ fico + (1 | bank)", data)[0],
                "groups": (facts, {"bank": names}),
                "calibration": calibrated(np.repeat(share, rows), seed),
            },
        )
    )
