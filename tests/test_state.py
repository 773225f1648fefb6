"""The state of every kernel is plain arrays and generators: a run that goes on from saved ones is the unbroken run."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import harness
import numpy as np
import pytest

import tallbayes as tb
from tallbayes.rows.track import Trail
from tallbayes.sampling.kernel import Draws, Streams
from tallbayes.splines.track import SplineTrail

RNG = np.random.default_rng(1)
N = 600
DATA = {"x": RNG.normal(size=N), "g": RNG.integers(0, 16, N)}
DATA["y"] = (RNG.random(N) < 1 / (1 + np.exp(1 - DATA["x"]))) * 1

METHODS = [
    tb.MH(),
    tb.MH("one-at-a-time"),
    tb.TwoStage(tb.Taylor(40)),
    tb.TwoStage(tb.CaseControl(50)),
    tb.TwoStage(tb.Subsample(50), subchain=4),
    tb.Thinned(),
    tb.Subsampling(tb.TaylorProxy(30)),
    tb.Consensus(3, inner=tb.MH("one-at-a-time")),
    tb.Consensus(2, inner=tb.Thinned()),
]
GROUP_METHODS = [tb.Thinned(), tb.MH(), tb.TwoStage(), tb.Consensus(2, inner=tb.Thinned())]
SPLINE_METHODS = [tb.MH(), tb.TwoStage(), tb.TwoStage(tb.Subsample(60))]
CASES = [("plain", one) for one in METHODS] + [("groups", one) for one in GROUP_METHODS]
CASES += [("splines", one) for one in SPLINE_METHODS]
# Kernels that others have too, with another surrogate, proposal or inner method.
ALIKE = (METHODS[3], METHODS[7], SPLINE_METHODS[2])
CASES = [pytest.param(*case, marks=pytest.mark.long if case[1] in ALIKE else ()) for case in CASES]


def kernel_of(kind: str, method: Any) -> Any:
    models = {
        "plain": lambda: tb.GLM("y ~ x", DATA),
        "groups": lambda: tb.Hierarchical("y ~ x + (1 | g)", DATA),
        "splines": lambda: tb.MARS("y ~ x", DATA, max_bases=4),
    }
    return method.kernel(models[kind](), seed=1)


def strange(part: Any) -> list[type]:
    """The types in a state that are not plain: neither arrays, numbers and generators nor what holds them."""
    if isinstance(part, tuple | list):
        return [one for each in part for one in strange(each)]
    if is_dataclass(part):
        own = [] if isinstance(part, Trail | SplineTrail) else [type(part)]
        return own + [one for each in fields(part) for one in strange(getattr(part, each.name))]
    return [] if isinstance(part, np.ndarray | np.generic | np.random.Generator | int | float) else [type(part)]


@pytest.mark.parametrize(("kind", "method"), CASES, ids=lambda part: str(part)[:50])
def test_a_run_goes_on_from_what_was_saved(kind, method):
    kernel = kernel_of(kind, method)
    streams = Streams.spawn(3, 2)
    state, first = kernel.advance(kernel.start(streams), 6, streams)
    assert strange(state) == []
    saved = pickle.dumps((state, streams))
    again = kernel_of(kind, method)  # as another process would make it
    state, streams = pickle.loads(saved)
    _, second = again.advance(state, 104, streams)  # beyond a refresh
    broken = Draws(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
    assert harness.same(broken, harness.some_draws(kernel_of(kind, method), [110]))


def test_what_is_strange_is_seen():
    assert strange((np.zeros(2), [1.0, {"a": 1}], lambda: 0)) == [dict, type(lambda: 0)]
