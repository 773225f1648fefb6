"""Compile what most tests need, before several workers would all do it: `python tests/warm.py plain|groups|splines`."""

import sys
import warnings

import numpy as np

import tallbayes as tb


def main(kind: str) -> None:
    rng, n = np.random.default_rng(1), 2_000
    x = rng.normal(size=n)
    data = {"x": x, "o": 0.1 * x, "g": rng.integers(20, size=n)}
    data["y"] = (rng.random(n) < 1 / (1 + np.exp(1 - x))).astype(int)
    few = {"draws": 20, "warmup": 40, "chains": 2, "seed": 1, "progress": False}
    if kind == "groups":
        tb.fit("y ~ x + (1 | g)", data, **few)
        tb.fit("y ~ x + (1 | g)", data, method=tb.Consensus(2), **few)
    elif kind == "splines":
        tb.sample(tb.MARS("y ~ x + o", data), **few)
    else:
        for family in (*(tb.Bernoulli(link) for link in ("logit", "probit", "cloglog")), tb.Poisson()):
            tb.fit("y ~ x", data, family=family, **few)
        for method in (tb.MH("one-at-a-time"), tb.TwoStage(), tb.Subsampling(), tb.Consensus(2)):
            tb.fit("y ~ x", data, method=method, **few)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
