"""Saved fits that were damaged or changed: one clear error, never a crash, and never a fit without a word."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import xarray as xr
from runs import DATA, FEW, RUNS
from saved import change

import tallbayes as tb
from tallbayes.data.formula import Formula
from tallbayes.engines.packed import DamagedError
from tallbayes.results.checks import check_fit
from tallbayes.results.file import ATTRIBUTE, DIGEST, SEAL

KINDS = ("thinned", "groups", "splines", "gaussian", "own model")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    for name in KINDS:
        RUNS[name](**FEW).save(folder / name)
    tb.fit("y ~ center(x) + C(g)", DATA, **FEW).save(folder / "terms")
    return folder


def copied(files, name, tmp_path):
    path = tmp_path / "fit.nc"
    path.write_bytes((files / name).read_bytes())
    return path


@pytest.mark.parametrize("flips", [100, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KINDS)
def test_any_flipped_bit_is_noticed(name, flips, files, tmp_path):
    rng, path = np.random.default_rng(len(name)), tmp_path / "fit.nc"
    whole = (files / name).read_bytes()
    ends = range(len(whole) - len(SEAL) - DIGEST, len(whole))
    for place in [*rng.integers(0, len(whole), flips).tolist(), *ends]:
        content = bytearray(whole)
        content[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        with pytest.raises(DamagedError, match="is damaged"):
            tb.load(path)
    path.write_bytes(whole)
    assert tb.load(path).draws.shape[:2] == (2, 40)


@pytest.mark.parametrize("name", KINDS)
def test_any_cut_is_noticed(name, files, tmp_path):
    rng, path = np.random.default_rng(len(name)), tmp_path / "fit.nc"
    whole = (files / name).read_bytes()
    lengths = [0, 1, 8, 512, *rng.integers(0, len(whole), 20), *range(len(whole) - len(SEAL) - DIGEST, len(whole))]
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError, match=r"fit\.nc' is (damaged|not a netCDF)"):
            tb.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DamagedError):
        tb.load(path)


def without(part, *names):
    return {name: value for name, value in part.items() if name not in names}


def learned(state, **other):
    return state | {"formula": json.dumps(json.loads(state["formula"]) | other)}


def no_memory(state):
    return learned(state, transforms={"dict": []})


def lacking(*names):
    return {f"no {name}": (lambda state, name=name: without(state, name)) for name in names}


def of_another_type(*names):
    return {f"{name} of another type": (lambda state, name=name: state | {name: [3]}) for name in names}


EDITS = {
    "no JSON": lambda state: "{",
    "no object": lambda state: "3",
    "deep": lambda state: "[" * 100_000,
    "nothing": lambda state: {},
    "no format": lambda state: without(state, "format"),
    "format in words": lambda state: state | {"format": "three"},
    **{
        f"no {name}": (lambda state, name=name: without(state, name))
        for name in ("stats", "formula", "family", "prior")
    },
    **{
        f"{name} of another type": (lambda state, name=name: state | {name: [3]})
        for name in ("stats", "formula", "offset")
    },
    "no method": lambda state: state | {"stats": without(state["stats"], "method")},
    **{
        f"no {name} in stats": (lambda state, name=name: state | {"stats": without(state["stats"], name)})
        for name in ("approximation", "surrogate_rows_per_draw", "distinct_rows", "surrogate", "proposal")
    },
    **{
        f"odd {name} in stats": (lambda state, name=name: state | {"stats": state["stats"] | {name: [3]}})
        for name in ("approximation", "surrogate", "told", "outcome", "stopped", "groups")
    },
    "no seconds": lambda state: state | {"stats": state["stats"] | {"seconds": {}}},
    "odd doubts": lambda state: state | {"stats": state["stats"] | {"doubts": [3]}},
    "unknown family": lambda state: state | {"family": {"name": "zeta"}},
    "family without a name": lambda state: state | {"family": {}},
    "family with strange options": lambda state: state | {"family": {"name": "bernoulli", "by": 3}},
    "unknown link": lambda state: state | {"family": {"name": "bernoulli", "link": "log"}},
    "family that runs code": lambda state: state | {"family": {"name": "own", "expression": "open('a')*eta"}},
    "odd prior": lambda state: state | {"prior": {"x": 3}},
    "calibration of four parts": lambda state: state | {"calibration": [[1.0]] * 4},
    "calibration of two lengths": lambda state: state | {"calibration": [[1.0]] * 4 + [[1.0, 2.0]]},
    "calibration of text": lambda state: state | {"calibration": [["a"]] * 5},
    "no calibration at all": lambda state: state | {"calibration": [[]] * 5},
    "formula is no JSON": lambda state: state | {"formula": "y ~ x"},
    "another formula": lambda state: learned(state, text="y ~ log(x) + C(g)"),
    "another outcome only": lambda state: learned(state, text="y ~ "),
    "a term more": lambda state: learned(state, text="y ~ center(x) + C(g) + z"),
    "a term less": lambda state: learned(state, text="y ~ center(x)"),
    "a formula with code": lambda state: learned(state, text="y ~ center(x) + C(g) + open('a', 'w')"),
    "coefficients in another order": lambda state: learned(
        state, coefficients=json.loads(state["formula"])["coefficients"][::-1]
    ),
    "a coefficient less": lambda state: learned(state, coefficients=json.loads(state["formula"])["coefficients"][1:]),
    "a coefficient twice": lambda state: learned(state, left_out=["Intercept"]),
    "coefficients that are numbers": lambda state: learned(state, coefficients=[1, 2, 3]),
    "levels of nothing": lambda state: learned(state, levels={"q": [["a"], False]}),
    "odd levels": lambda state: learned(state, levels={"x": 3}),
    "a group": lambda state: learned(state, group_levels=[1, 2]),
    "no memory": no_memory,
    "an empty memory": lambda state: learned(state, transforms={"dict": [["center(x)", {"dict": []}]]}),
    "memory of another type": lambda state: learned(state, transforms=[1]),
    "arrays of objects": lambda state: learned(
        state, transforms={"dict": [["center(x)", {"array": [1], "dtype": "object", "shape": [1]}]]}
    ),
    "arrays of long texts": lambda state: learned(
        state, transforms={"dict": [["center(x)", {"array": ["a"], "dtype": "U999999999", "shape": [1]}]]}
    ),
    "arrays of a huge shape": lambda state: learned(
        state, transforms={"dict": [["center(x)", {"array": [1], "dtype": "f8", "shape": [10**9, 10**9]}]]}
    ),
    "formula lacks a key": lambda state: (
        state | {"formula": json.dumps(without(json.loads(state["formula"]), "levels"))}
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_a_file_says_must_fit_together(edit, files, tmp_path):
    path = copied(files, "terms", tmp_path)
    change(path, lambda file, state: EDITS[edit](state))
    with pytest.raises(DamagedError, match=r"fit\.nc' is damaged, or was changed: .+\. Take a copy, or fit again"):
        tb.load(path)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("label", [None, 5, ["a"], ""])
def test_a_family_of_ones_own_has_a_name(label, tmp_path):
    fit = tb.fit("y ~ x", {"x": [0.0, 1.0, 2.0], "y": [0.5, 1.0, 2.5]}, tb.family("-((y - eta) ** 2)"), **FEW)
    fit.save(tmp_path / "fit.nc")
    change(tmp_path / "fit.nc", lambda file, state: state | {"family": state["family"] | {"label": label}})
    with pytest.raises(DamagedError, match="Take a copy, or fit again"):
        tb.load(tmp_path / "fit.nc")


def test_a_seal_that_is_gone_is_noticed(files, tmp_path):
    path = copied(files, "thinned", tmp_path)
    change(path, lambda file, state: None, seal=False)
    with pytest.raises(DamagedError, match="the end of it is not there"):
        tb.load(path)


def altered(posterior, name, value):
    found = posterior.copy(deep=True)
    found[name][0, 3] = value
    return found


def of_table(fit, name, place, value):
    fit.table = fit.table.copy(deep=True)
    fit.table[name].values[place] = value


DRAWS = {
    "NaN": ("thinned", lambda fit: setattr(fit, "posterior", altered(fit.posterior, "beta", np.nan))),
    "infinite": ("groups", lambda fit: setattr(fit, "posterior", altered(fit.posterior, "1|g", np.inf))),
    "no variables": ("thinned", lambda fit: setattr(fit, "posterior", fit.posterior.drop_vars("beta"))),
    "no sd": ("gaussian", lambda fit: setattr(fit, "posterior", fit.posterior.drop_vars("sd"))),
    "no effects": ("groups", lambda fit: setattr(fit, "posterior", fit.posterior.drop_vars("1|g"))),
    "text": (
        "own model",
        lambda fit: setattr(fit, "posterior", fit.posterior.assign(a=fit.posterior["a"].astype(str))),
    ),
    "no draws": ("own model", lambda fit: setattr(fit, "posterior", fit.posterior.isel(draw=slice(0)))),
    "one coefficient less": ("thinned", lambda fit: setattr(fit, "posterior", fit.posterior.isel(coefficient=[0, 1]))),
    "another name": (
        "thinned",
        lambda fit: setattr(fit, "posterior", fit.posterior.assign_coords(coefficient=["Intercept", "z", "x"])),
    ),
    "the same name twice": (
        "thinned",
        lambda fit: setattr(fit, "posterior", fit.posterior.assign_coords(coefficient=["Intercept", "x", "x"])),
    ),
    "no axis of draws": ("thinned", lambda fit: setattr(fit, "posterior", fit.posterior.rename(draw="step"))),
    "other groups": (
        "groups",
        lambda fit: setattr(fit, "posterior", fit.posterior.assign_coords(g=np.arange(1, 17))),
    ),
    "facts on fewer groups": ("groups", lambda fit: setattr(fit, "groups", fit.groups.isel(g=slice(3)))),
    "no facts on groups": ("groups", lambda fit: setattr(fit, "groups", xr.Dataset())),
    "other sample_stats": (
        "own model",
        lambda fit: setattr(fit, "sample_stats", fit.sample_stats.isel(draw=slice(3))),
    ),
    "no table": ("splines", lambda fit: setattr(fit, "table", xr.Dataset())),
}


@pytest.mark.parametrize("what", DRAWS)
def test_draws_must_fit_the_rest(what, files, tmp_path):
    """As somebody would have them who makes the checksums, too."""
    name, edit = DRAWS[what]
    fit = tb.load(files / name)
    fit.continued = None
    edit(fit)
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(DamagedError, match="is damaged, or was changed"):
        tb.load(tmp_path / "fit.nc")


SPLINES = {
    "a basis that is not there": lambda fit: fit.splines["basis"].values.__setitem__((0, 0, 0), 10**6),
    "more bases than there are": lambda fit: fit.posterior["bases"].values.__setitem__((0, 0), 1_000),
    "a variable that is not there": lambda fit: of_table(fit, "bases", (0, 1), 1e6),
    "a variable that is not a number": lambda fit: of_table(fit, "bases", (0, 1), np.nan),
    "a degree that is not there": lambda fit: of_table(fit, "bases", (0, 0), 9.0),
    "fewer means": lambda fit: setattr(fit, "table", fit.table.isel(subset=slice(1))),
    "other variables": lambda fit: setattr(fit, "table", fit.table.assign_coords(variable=["q"])),
}


@pytest.fixture(scope="module")
def spline(files):
    return tb.load(files / "splines")


@pytest.mark.parametrize("what", SPLINES)
def test_splines_must_fit_their_table(what, spline):
    """Compiled code looks up what they name."""
    fit = copy.deepcopy(spline)
    check_fit(fit)
    SPLINES[what](fit)
    with pytest.raises(ValueError, match="spline"):
        check_fit(fit)


def test_what_was_saved_before_there_were_seals_is_loaded(files, tmp_path):
    path = copied(files, "thinned", tmp_path)
    change(path, lambda file, state: state | {"format": 2}, seal=False)
    assert tb.load(path).posterior.equals(tb.load(files / "thinned").posterior)


def test_other_programs_read_sealed_files(files):
    with xr.open_datatree(files / "groups", engine="h5netcdf") as tree:
        assert tree["posterior"]["beta"].dims == ("chain", "draw", "coefficient")
        assert json.loads(tree.attrs[ATTRIBUTE])["format"] == 3


@pytest.mark.parametrize(
    "right", ["center(x) + scale(x):Q('z')", "poly(x, 2) + poly(z, 2, raw=True)", "bs(x, df=4) + cr(z, df=4) - 1",
              "scale(bs(x, df=5)) + C(g)", "C(g):x + offset(center(z))", "C(x > 0) * z", "z + (1 | g)"],
)  # fmt: skip
def test_formulas_as_they_were_saved_are_read(right):
    formula = Formula.learn(f"y ~ {right}", DATA)[0]
    back = Formula.from_json(formula.to_json())
    assert back.coefficients == formula.coefficients
    np.testing.assert_array_equal(back.apply(DATA), formula.apply(DATA))
