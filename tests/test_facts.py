import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallbayes as tb
from tallbayes.data.formula import Formula
from tallbayes.data.source_names import called
from tallbayes.results import facts
from tallbayes.results.example import example

FEW = {"draws": 50, "seed": 1, "progress": False}


def data(rows=400):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.standard_normal(rows), "home": rng.choice(["own", "rent", "other"], rows)})
    frame["y"] = (rng.random(rows) < 0.25).astype(int)
    frame["sent"], frame["days"] = rng.integers(5, 9, rows), rng.integers(1, 4, rows)
    frame["opened"] = rng.binomial(frame["sent"], 0.3)
    return frame


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("/home/ada/secret/loans.csv", "loans.csv"),
        (Path("data/loans.parquet"), "loans.parquet"),
        ("loans/", "loans"),
        ("~/loans/*.csv", "*.csv"),
        ("-", "standard input"),
        ("https://ada:secret@example.org/files/loans.csv?key=secret", "loans.csv"),
        ("s3://bucket", "bucket"),
        ("s3://bucket/loans/", "loans"),
        ({"x": [1]}, "a dict of arrays in memory"),
        (pd.DataFrame({"x": [1]}), "a pandas data frame in memory"),
        (pl.DataFrame({"x": [1]}), "a polars data frame in memory"),
        (pl.LazyFrame({"x": [1]}), "a lazy frame of polars"),
        (pa.table({"x": [1]}), "a pyarrow table in memory"),
    ],
)
def test_what_data_are_called(given, name):
    assert called(given) == name


def test_the_data_of_each_kind_of_model_are_named(tmp_path):
    frame, file = data(), tmp_path / "people.csv"
    frame.to_csv(file, index=False)
    for source, name in [
        (file, "people.csv"),
        (str(file), "people.csv"),
        (frame, "a pandas data frame in memory"),
        (tb.scan(lambda: iter([frame])), "what a function gives to tb.scan"),
    ]:
        assert tb.fit("y ~ x", source, **FEW).stats["data"] == name
    assert tb.fit("y ~ x", file, cache=tmp_path, **FEW).stats["data"] == "people.csv"
    assert tb.fit("y ~ x", file, cache=tmp_path, **FEW).stats["data"] == "people.csv"  # from the cache
    assert tb.fit("y ~ x", file, decimal=".", na_values="?", **FEW).stats["data"] == "people.csv"
    arrays = tb.GLM.from_arrays(np.ones((400, 1)), frame["y"])
    assert tb.sample(arrays, **FEW).stats["data"] == "arrays in memory"
    assert tb.MARS("y ~ x", file).called == "people.csv"
    assert tb.MARS(frame[["x"]], frame["y"]).called == "arrays in memory"
    assert str(tmp_path) not in json.dumps(tb.fit("y ~ x", file, **FEW).stats)


def test_events_counts_and_means_are_those_of_the_data():
    frame = data()
    told = lambda formula, **more: facts.outcomes(tb.fit(formula, frame, **more, **FEW))  # noqa: E731
    ones = frame["y"].sum()
    assert told("y ~ x") == {"events": f"{ones} of 400 rows, a base rate of {ones / 4:.3g}%"}
    ones, weight = frame["y"] @ frame["days"], frame["days"].sum()
    said = f"{ones} of {weight} rows, counted with their weights, a base rate of {100 * ones / weight:.3g}%"
    assert told("y ~ x", weights="days") == {"events": said}
    opened, sent = frame["opened"].sum(), frame["sent"].sum()
    said = f"{opened} of {sent:,} trials, a base rate of {100 * opened / sent:.3g}%"
    assert told("p(opened, sent) ~ x") == {"events": said}
    said = f"{opened} in all, {opened / 400:.4g} a row on average"
    assert told("opened ~ x", family="poisson") == {"counts": said}
    sent = frame["sent"]
    assert told("sent ~ x", family="gaussian") == {"outcomes": f"mean {sent.mean():.4g}, sd {sent.std(ddof=0):.4g}"}
    frame["sent"] = 1e9 + 1e-3 * frame["x"]  # the sd is lost in rounding errors, and not told
    assert "sd" not in told("sent ~ home", family="gaussian")["outcomes"]


@pytest.mark.parametrize(
    ("formula", "reference"),
    [
        ("y ~ home", {"home": "other"}),
        ("y ~ x * home", {"home": "other"}),
        ("y ~ C(home, Treatment('rent'))", {"C(home, Treatment('rent'))": "rent"}),
        ("y ~ C(sent)", {"C(sent)": 5}),
        ("y ~ home * C(days)", {"home": "other", "C(days)": 1}),
        ("y ~ 0 + home", {}),
        ("y ~ C(home, Sum)", {}),
        ("y ~ x", {}),
    ],
)
def test_reference_levels(formula, reference):
    assert dict(facts.reference_levels(Formula.learn(formula, data())[0])) == reference


def test_priors_in_words():
    frame = data()
    said = " ".join(facts.priors(tb.fit("y ~ x + home", frame, prior={"x": tb.Normal(0, 2)}, **FEW)))
    assert said.startswith(
        "Given: x. The others are defaults, which follow the columns. A usual difference in a column"
    )
    assert "The intercept is Normal(0, 10) where all columns are at their means." in said
    said = " ".join(facts.priors(tb.fit("y ~ x", frame, prior=tb.Normal(0, 2), **FEW)))
    assert "default" not in said
    assert "usual difference" not in said
    fit = tb.fit("sent ~ x + (1 | home)", frame, "gaussian", **FEW)
    assert fit.stats["default_priors"] == ["Intercept", "x", "1|home_sigma", "sd"]
    assert "changes the outcome by Normal(0, 5 sd of the outcome)." in " ".join(facts.priors(fit))
    fit = tb.fit("y ~ x", frame, prior={"x": tb.Normal(3, 0.01)}, **FEW)
    assert "No prior moves" not in " ".join(facts.priors(fit))


def test_a_changed_story_is_damage(tmp_path):
    for name, value in [
        ("outcomes", {"weight": 3.0}),
        ("outcomes", [1, 2]),
        ("data", 3),
        ("default_priors", [3]),
        ("fitted", None),
        ("fitted", "yesterday"),
    ]:
        fit = example()
        fit.stats[name] = value
        fit.save(tmp_path / "fit.nc")
        with pytest.raises(tb.DamagedError):
            tb.load(tmp_path / "fit.nc")
