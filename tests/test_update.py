"""fit.update: a formula changed as in R, and the fit that tb.fit would have made of it."""

import copy

import numpy as np
import pandas as pd
import pytest
from kinds import FEW, data

import tallbayes as tb
from tallbayes.data.updated import updated
from tallbayes.results.continuation import to_bytes
from tallbayes.results.example import example

QUIET = {"progress": False}


@pytest.mark.parametrize(
    ("old", "change", "new"),
    [
        ("y ~ x", "~ .", "y ~ x"),
        ("y ~ x", ". ~ .", "y ~ x"),
        ("y ~ x", "late ~ .", "late ~ x"),
        ("y ~ x", "log(size) ~ . + z", "log(size) ~ x + z"),
        ("`my y` ~ `a ~ b`", "~ . + z", "`my y` ~ `a ~ b` + z"),
        ("y ~ x", "~ . - x", "y ~ 1"),
        ("y ~ x", "~ z", "y ~ z"),
        ("y ~ x + z + x:z", "~ . - x:z", "y ~ x + z"),
        ("y ~ x * z", "~ . - x:z", "y ~ x * z - x:z"),
        ("y ~ x + x * z", "~ . - x", "y ~ x + x * z - x"),  # not x * z, which has an x of its own
        ("y ~ (x + z)", "~ . - z", "y ~ (x + z) - z"),
        ("y ~ x", "~ . - z", "y ~ x - z"),  # which tb.fit refuses in its words
        ("y ~ x - 1", "~ . + 1", "y ~ x"),
        ("y ~ 0 + x", "~ . + z", "y ~ 0 + x + z"),
        ("y ~ -1+x", "~ . - x + z", "y ~ - 1 + z"),
        ("y ~ x", "~ . - 1", "y ~ x - 1"),
        ("y ~ x", "~ . * z", "y ~ (x) * z"),
        ("y ~ x + z", "~ .:w + .", "y ~ (x + z):w + x + z"),
        ("y ~ x + z", "~ (. + w)**2", "y ~ ((x + z) + w)**2"),
        ("y ~ x + (1 | bank)", "~ . - x", "y ~ (1 | bank)"),
        ("y ~ x + (1 | bank)", "~ . - (1|bank) + z", "y ~ x + z"),
        ("y ~ (1 | bank)", "~ . - (1 | bank) + (1 | state)", "y ~ (1 | state)"),
        ("y ~ x", "~ . + (1 | `my bank`)", "y ~ x + (1 | `my bank`)"),
        ("k ~ x + offset(log(days))", "~ . - offset( log(days) )", "k ~ x"),
        ("k ~ x", "~ . + offset(log(days))", "k ~ x + offset(log(days))"),
        ("p(paid, loans) ~ x", "~ . + z", "p(paid, loans) ~ x + z"),
        ("cbind(paid, loans - paid) ~ x", "p(paid, loans) ~ .", "p(paid, loans) ~ x"),
        ("y ~ s(x, z, knots=9)", "late ~ .", "late ~ s(x, z, knots=9)"),
        ("y ~ s(.)", "~ .", "y ~ s(.)"),
        ("y ~ s(x, z)", "~ . - s(x,z) + x", "y ~ x"),
        ("y ~ x", "~ s(x, z)", "y ~ s(x, z)"),
        ("y ~ C(g, contr.treatment('a b')) + x", "~ . - x", "y ~ C(g, contr.treatment('a b'))"),
        ("y ~ I(x - z) + z", "~ . - z", "y ~ I(x - z)"),
    ],
)
def test_a_formula_is_changed_as_in_r(old, change, new):
    assert updated(old, change) == new


@pytest.mark.parametrize(
    ("old", "change", "message"),
    [
        ("y ~ x", "x + z", "^the change 'x . z' has no '~'; write it as '~ . . x'"),
        ("y ~ x", "~", "nothing follows its last sign"),
        ("y ~ x", "~ . +", "nothing follows its last sign"),
        ("y ~ x", "", "^formula must be a change of the formula such as"),
        ("y ~ x", 3, "^formula must be a change of the formula such as '~ . . x', not 3"),
        ("y ~ x", "~ . - (1 | g)", r"takes \(1 \| g\) away, which is not among the terms of 'x'"),
        ("y ~ x", "~ . - offset(x)", r"takes offset\(x\) away, which is not among the terms"),
        ("y ~ x + (1 | g)", "~ .:z", r"^the '.' in .:z of the change .* would put \(1 \| g\) into another term"),
        ("y ~ s(x)", "~ . * z", r"would put s\(x\) into another term"),
        ("y ~ x", "~ s(.)", r"^the change '~ s\(.\)' has a '.' in s\(.\)"),
        ("y ~ x", "~ . + (z", "^cannot understand the formula"),
        ("y ~ x", "~ . + __import__('os')", "^the formula calls '__import__'"),
    ],
)
def test_changes_that_cannot_be_are_refused(old, change, message):
    with pytest.raises(ValueError, match=message):
        updated(old, change)


def same(one, other):
    return one.parameters == other.parameters and np.array_equal(one.draws, other.draws)


@pytest.mark.parametrize(
    ("formula", "how", "change", "changes", "formula_then", "how_then"),
    [
        ("y ~ x", {}, "~ . + z", {}, "y ~ x + z", {}),
        ("y ~ x", {}, "~ .", {"seed": 5, "draws": 30}, "y ~ x", {"seed": 5, "draws": 30}),
        ("y ~ x", {}, "~ . + (1 | bank)", {}, "y ~ x + (1 | bank)", {}),
        ("y ~ x + (1 | bank)", {}, "~ . - (1 | bank)", {}, "y ~ x", {}),
        ("y ~ x", {"weights": "loans"}, "~ . + race", {"weights": None}, "y ~ x + race", {}),
        ("y ~ x", {"prior": tb.Normal(0, 1)}, "size ~ .", {"family": "gaussian"}, "size ~ x",
         {"prior": tb.Normal(0, 1), "family": "gaussian"}),
        ("count ~ x + offset(log(days))", {"family": "poisson"}, "~ . + `my income`", {},
         "count ~ x + offset(log(days)) + `my income`", {"family": "poisson"}),
        ("p(paid, loans) ~ x", {}, "~ . * z", {"method": "mh"}, "p(paid, loans) ~ x * z", {"method": "mh"}),
        ("y ~ s(x, z, max_bases=4)", {}, "~ s(x, max_bases=4)", {}, "y ~ s(x, max_bases=4)", {}),
        ("y ~ x", {"method": tb.MH("one-at-a-time")}, "~ . + z", {}, "y ~ x + z",
         {"method": tb.MH("one-at-a-time")}),
    ],
)  # fmt: skip
def test_the_fit_is_the_one_that_tb_fit_makes(formula, how, change, changes, formula_then, how_then):
    fit = tb.fit(formula, data(), **FEW | how)
    assert same(fit.update(change, **changes, **QUIET), tb.fit(formula_then, data(), **FEW | how_then))


def test_a_dot_that_stood_for_all_columns_stands_for_those_that_were_there():
    some = {name: data()[name] for name in ("y", "x", "z")}
    fit = tb.fit("y ~ .", some, **FEW)
    assert same(fit.update("~ . - z", **QUIET), tb.fit("y ~ x", some, **FEW))
    other = fit.update("~ . + race", data=data(), **QUIET)
    assert other.formula.text == "y ~ x + z + race"


def test_a_seed_that_nobody_gave_stays():
    fit = tb.fit("y ~ x", data(), **{**FEW, "seed": None})
    assert same(fit.update(**QUIET), fit)


def test_fits_that_were_loaded_or_copied_ask_for_what_is_gone(tmp_path):
    fit = tb.fit("y ~ x", data(), **FEW)
    fit.save(tmp_path / "fit.nc")
    expected = fit.update("~ . + z", **QUIET)
    for one in (tb.load(tmp_path / "fit.nc"), copy.copy(fit)):
        with pytest.raises(ValueError, match=r"^data was dict, .* as in fit.update\('~ . \+ z', data=...\)"):
            one.update("~ . + z")
        assert same(one.update("~ . + z", data=data(), **QUIET), expected)


def test_fits_of_files_know_them(tmp_path):
    pd.DataFrame(data()).to_csv(tmp_path / "loans.csv", index=False)
    fit = tb.fit("y ~ x", tmp_path / "loans.csv", checkpoint=tmp_path / "run.tb", **FEW)
    expected = tb.fit("y ~ x + z", data(), **FEW)
    fit.save(tmp_path / "fit.nc")
    for one in (fit, tb.load(tmp_path / "fit.nc"), tb.resume(tmp_path / "run.tb", **QUIET)):
        other = one.update("~ . + z", **QUIET)
        assert same(other, expected)
        assert other.origin.checkpoint is None
    again = fit.update("~ . + z", checkpoint=tmp_path / "other.tb", **QUIET)
    assert same(tb.resume(tmp_path / "other.tb", **QUIET), again)
    longer = again.more(draws=20, **QUIET)
    assert longer.draws.shape[1] == FEW["draws"] + 20


def test_a_fit_of_another_version_can_be_updated_though_not_go_on(monkeypatch):
    fit = tb.fit("y ~ x", data(), **FEW)
    fit.continued = to_bytes(fit)
    fit.origin = fit.standing = None
    monkeypatch.setattr("tallbayes.results.continuation.others", lambda found: "numpy 1.0 (here: 2.0)")
    with pytest.raises(tb.CheckpointError, match=r"made with numpy 1\.0"):
        fit.more(draws=10, data=data())
    assert fit.update("~ . + z", data=data(), **QUIET).parameters == ("Intercept", "x", "z")


def test_a_file_does_not_say_where_to_write(tmp_path):
    fit = tb.fit("y ~ x", data(), **FEW)
    asked = dict(fit.origin.asked)
    asked["checkpoint"] = asked["cache"] = type(asked["formula"]).of("cache", str(tmp_path / "there"))
    fit.origin = type(fit.origin)("fit", asked, {})
    fit.continued = to_bytes(fit)
    fit.origin = fit.standing = None
    fit.update(data=data(), **QUIET)
    assert not (tmp_path / "there").exists()


def test_what_cannot_be_updated_is_refused():
    fit = tb.fit("y ~ x", data(), **FEW)
    for call, message in (
        (lambda: fit.update("~ . - q", **QUIET), "takes q away, which is not among its terms"),
        (lambda: fit.update("~ . + q", **QUIET), "no column 'q' in the data"),
        (lambda: fit.update("~ . + z", draws="a"), "^draws must be a whole number"),
        (lambda: fit.update("~ . + s(z)", **QUIET), r"s\(...\) must be all of the right side"),
        (lambda: fit.update("~ . + (1 | bank) + (1 | race)", **QUIET), "2 group terms"),
        (lambda: example().update("~ . + z"), "^this fit does not know how it was made"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'drwas'"):
        fit.update("~ . + z", drwas=3)
    model = tb.GLM("y ~ x", data())
    with pytest.raises(ValueError, match=r"is for fits that tb.fit made, but tb.sample made this one"):
        tb.sample(model, "mh", **FEW).update("~ . + z")
