"""What most cases need is imported and compiled before processes are forked."""

from __future__ import annotations

import warnings

import numpy as np

import tallbayes as tb
from odd.case import FAMILIES, FEW, OUTCOMES, Table


def warm_up() -> None:
    """A fit of each kind; no threads are left that a fork would lose."""
    table = Table(np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, family in FAMILIES.items():
            tb.fit(f"{OUTCOMES[name]} ~ x", table.dict(), family=family, **FEW).summary()
        tb.fit("y ~ x", table.dict(), weights="w", offset="o", **FEW)
        tb.fit("y ~ x", table.dict(), prior=tb.StudentT(4), **FEW)
        for formula, family in (
            ("y ~ x + (1 | g)", "bernoulli"),
            ("v ~ x + (1 | g)", "gaussian"),
            ("k ~ x + (1 | g)", "poisson"),
            ("y ~ s(x)", "bernoulli"),
        ):
            tb.fit(formula, table.dict(), family=family, **FEW)
        for method in (tb.MH(), tb.MH("one-at-a-time"), tb.TwoStage(), tb.Subsampling(), tb.Consensus(2)):
            tb.fit("y ~ x", table.dict(), method=method, **FEW)
