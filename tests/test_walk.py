"""From a file to rows there is no turn back: one parse, one pass that learns, one that builds, one set of rows."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.data import formula as formula_module
from tallbayes.data import learned, learning, parts
from tallbayes.rows.memory import MemoryRows


class _ModelMadeError(Exception):
    """The walk is followed no further."""


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(1)
    n = 900
    columns = {"y": rng.integers(2, size=n), "x": rng.normal(size=n), "w": rng.integers(3, size=n)}
    columns |= {"a": rng.choice(["p", "q"], n), "g": rng.choice(list("uvw"), n), "sent": rng.integers(1, 4, n)}
    path = tmp_path / "rows.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.fixture
def counts(monkeypatch):
    """How often each stage is entered."""
    found: Counter[str] = Counter()

    def count(where, name, stage, wrap=lambda call: call):
        call = getattr(where, name)

        def counted(*args, **kwargs):
            found[stage] += 1
            return call(*args, **kwargs)

        monkeypatch.setattr(where, name, wrap(counted))

    count(formula_module.Formula, "parse", "parse", staticmethod)
    count(MemoryRows, "__init__", "rows")
    count(learning, "_pieces", "pass")
    count(learning.Learning, "finish", "learn")
    count(learned.Learned, "designs", "build")
    count(parts.Parts, "__iter__", "parts")

    make = tb.GLM.__init__

    def stop(*args, **kwargs):
        make(*args, **kwargs)
        raise _ModelMadeError

    monkeypatch.setattr(tb.GLM, "__init__", stop)
    return found


WALKS = [
    ("y ~ x + a", {}),
    ("y ~ a", {}),  # with duplicates
    ("y ~ log(x + 9) + a", {"weights": "w", "offset": "x"}),
    ("y ~ x + (1 | g)", {}),
    ("y ~ a + (1 | g)", {"weights": "w"}),
    ("w ~ a", {"family": tb.Poisson(exposure="sent")}),
    ("y ~ . + (1 | g)", {"weights": "w"}),
    ("a ~ x + offset(log(sent))", {"outcome": "p", "missing": "drop", "collinear": "drop"}),
    ("p(y, sent) ~ x", {}),
]


@pytest.mark.parametrize(("formula", "options"), WALKS)
def test_from_a_file_to_rows_each_stage_is_entered_once(file, counts, formula, options):
    with pytest.raises(_ModelMadeError):
        tb.fit(formula, file, progress=False, **options)
    assert counts == {"parse": 1, "learn": 1, "build": 1, "pass": 2, "parts": 1, "rows": 1}


def test_splines_take_the_same_walk(file, counts):
    tb.MARS("y ~ x + a", file)
    assert counts == {"parse": 1, "learn": 1, "build": 1, "pass": 2, "parts": 1, "rows": 1}
