"""The first pass over a model's rows: the answers that single passes give, bit for bit, in one pass."""

import numpy as np
import pytest

from tallbayes.families import Bernoulli, Log, Logit
from tallbayes.groups.model import Hierarchical
from tallbayes.models import first as module
from tallbayes.models.first import LOOKED_AT, first_pass
from tallbayes.models.glm import GLM
from tallbayes.rows.looking import FirstLook
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.moments import ColumnMoments
from tallbayes.rows.tasks import LogLikelihoodDerivatives


def rows_of(n, p=3, weighted=False, offset=False, counts=False):
    rng = np.random.default_rng([n, p])
    x = np.concatenate([np.ones((1, n)), rng.normal(size=(p - 1, n))])
    y = rng.poisson(0.4, n) if counts else rng.random(n) < 0.2
    return MemoryRows(
        x, y, rng.gamma(1.0, size=n) if weighted else None, rng.normal(size=n) / 10 if offset else None
    )  # fmt: skip


def assert_equal(one, other):
    assert (one is None) == (other is None)
    if one is not None:
        for part, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, same)


@pytest.mark.parametrize("n", [1, 300, 2 * LOOKED_AT, 2 * LOOKED_AT + 1])
@pytest.mark.parametrize(("weighted", "offset"), [(False, False), (True, True)])
@pytest.mark.parametrize("tag", [Logit(), Bernoulli("probit").tag, Log()], ids=["logit", "probit", "log"])
def test_one_pass_says_what_single_ones_do(n, weighted, offset, tag):
    rows = rows_of(n, weighted=weighted, offset=offset, counts=isinstance(tag, Log))
    found = first_pass(rows, tag)
    looked = n > 2 * LOOKED_AT
    assert (rows.touched, rows.passes) == ((3 if looked else 2) * n, 1)
    assert_equal(found.moments, rows.reduce(ColumnMoments()))
    zero = rows.reduce(LogLikelihoodDerivatives(tag), np.zeros(3))
    assert_equal(found.at_zero[:3], zero[:3])
    assert (found.look is not None) == looked
    if looked:
        alone = rows.reduce(FirstLook(LOOKED_AT, rows.mean_outcome, rows.total_weight))
        np.testing.assert_array_equal(found.look.scale, alone.scale)
        np.testing.assert_array_equal(found.look.arrays.x, alone.arrays.x)
        assert 0.5 * LOOKED_AT < found.look.arrays.size < 1.1 * LOOKED_AT  # outcomes are certain, and would be more


def test_a_model_makes_it_once_and_anew_for_other_rows(monkeypatch):
    rng = np.random.default_rng(1)
    model = GLM("y ~ x", {"x": rng.normal(size=500), "y": rng.random(500) < 0.3})
    assert model.rows.passes == 1  # priors have asked for moments
    first = model.first
    assert model.first is first
    assert model.moments is first.moments
    assert model.rows.passes == 1
    part = model.part(MemoryRows.of(model.rows.arrays.take(np.arange(100))), 0.2)
    assert part.first is not first
    assert part.first.at_zero.value[0] == pytest.approx(-100 * np.log(2))
    assert model.first is first
    monkeypatch.setattr(module, "LOOKED_AT", 10)
    assert first_pass(model.rows, model.family.tag).look.arrays.size < 40


def test_columns_that_are_left_out_are_not_in_it():
    rng = np.random.default_rng(1)
    x = rng.normal(size=500)
    model = GLM("y ~ x + z", {"x": x, "z": 2 * x, "y": rng.random(500) < 0.3}, collinear="drop")
    assert list(model.coefficients) == ["Intercept", "x"]
    assert model.first.at_zero.curvature.shape == (1, 2, 2)
    assert model.moments.largest.size == 2


def test_models_with_groups_have_derivatives_of_effects():
    rng = np.random.default_rng(1)
    data = {"bank": rng.integers(5, size=300), "x": rng.normal(size=300), "y": rng.random(300) < 0.3}
    model = Hierarchical("y ~ x + (1 | bank)", data)
    assert model.first.at_zero.by_group.shape == (1, 5, 4)
    alone = model.derivatives(np.zeros(model.rows.width))
    assert_equal(model.first.at_zero, alone)


def test_many_rows_are_looked_at_in_proportion(monkeypatch):
    monkeypatch.setattr(module, "LOOKED_AT", 100)
    rows = rows_of(90_000)
    assert 250 < first_pass(rows, Logit()).look.scale.size < 350  # a three-hundredth
    monkeypatch.setattr(module, "MOST_BYTES", 8 * 5 * 150)
    assert 100 < first_pass(rows, Logit()).look.scale.size < 200


@pytest.mark.parametrize("looked", [False, True])
def test_what_is_kept_is_found_again(looked, monkeypatch):
    monkeypatch.setattr(module, "LOOKED_AT", 50 if looked else 30_000)
    rng = np.random.default_rng(1)
    names = {"bank": np.sort(rng.integers(5, size=300)), "year": rng.integers(3, size=300)}
    columns = np.ones((1, 300)), rng.random(300) < 0.3, rng.gamma(1.0, size=300), rng.normal(size=300)
    rows = MemoryRows(*columns, strata=names, group="bank", groups=5)
    first = first_pass(rows, Logit())
    assert (first.look is not None) == looked
    again = module.First.found(first.kept(), rows)
    for one, other in zip(again[:3], first[:3], strict=True):
        assert_equal(one, other)
    if looked:
        np.testing.assert_array_equal(again.look.scale, first.look.scale)
        assert_equal(*(look.arrays.parts(np.arange(look.scale.size)) for look in (again.look, first.look)))
        assert list(again.look.arrays.strata) == ["bank", "year"]
    else:
        assert again.look is None
