"""Saved fits go on: with the data, and bit for bit as one longer run would have."""

from __future__ import annotations

import os

import numpy as np
import pytest
from runs import AGAIN, DATA, FEW, RUNS, same
from saved import change
from test_checkpoint import CASES

import tallbayes as tb
from tallbayes.engines import packed
from tallbayes.engines.wire import pack
from tallbayes.results.file import CONTINUED
from tallbayes.sampling.checkpoint import Argument

THINNED = RUNS["thinned"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file of a thinned fit."""
    path = tmp_path_factory.mktemp("fits") / "fit.nc"
    THINNED(**FEW).save(path)
    return path.read_bytes()


@pytest.fixture
def saved(written, tmp_path):
    """That file, for a test to change."""
    (tmp_path / "fit.nc").write_bytes(written)
    return tmp_path / "fit.nc"


@pytest.mark.parametrize("name", CASES)
def test_a_saved_fit_goes_on_as_the_longer_run(name, tmp_path):
    run, path = RUNS[name], tmp_path / "fit.nc"
    run(**FEW).save(path)
    longer = run(**FEW | {"draws": 70})
    found = tb.load(path).more(draws=30, progress=False, **AGAIN[run]())
    assert same(found, longer)
    for told in ("acceptance", "rows_per_draw", "method", "stopped"):
        assert found.stats[told] == longer.stats[told] or told == "rows_per_draw"


def test_again_and_again_with_files_as_data(tmp_path):
    data, path = tmp_path / "data.csv", tmp_path / "fit.nc"
    DATA.to_csv(data, index=False)
    how = {"formula": "y ~ x + z", "data": str(data), "method": tb.Thinned()} | FEW
    tb.fit(**how).save(path)
    for _ in range(2):
        fit = tb.load(path)
        fit.save(path)  # as it was loaded
        tb.load(path).more(draws=15, progress=False).save(path)
    assert same(tb.load(path), tb.fit(**how | {"draws": 70}))


MORE = [
    ({"weigths": "w"}, "takes no argument 'weigths'"),
    ({"seed": 7}, "takes no argument 'seed'"),
    ({"checkpoint": "run.tb"}, "takes no argument 'checkpoint'"),
    ({"method": "mh"}, r"but method was Thinned\(.*\), and is MH\(proposal=None\) now"),
    ({"prior": tb.Normal(0, 1)}, r"but prior was None, and is Normal\(mean=0, sd=1\) now"),
    ({"chains": 3}, "but chains was 2, and is 3 now"),
]


@pytest.mark.parametrize(("again", "message"), MORE)
def test_what_cannot_be_otherwise_is_refused(again, message, saved):
    with pytest.raises(ValueError, match=message):
        tb.load(saved).more(draws=30, data=DATA, progress=False, **again)
    assert tb.load(saved).more(draws=3, data=DATA, method="thinned", chains=np.uint8(2), progress=False) is not None


def test_a_target_is_reached_as_by_one_run(saved):
    wanted = THINNED(**FEW | {"draws": None, "target_ess": 300})
    assert same(tb.load(saved).more(target_ess=300, data=DATA, progress=False), wanted)


def test_a_fit_with_a_checkpoint_goes_on_without_its_folder(tmp_path):
    path = tmp_path / "fit.nc"
    THINNED(**FEW, checkpoint=tmp_path / "run.tb").save(path)
    before = sorted(os.listdir(tmp_path / "run.tb" / "draws"))
    found = tb.load(path).more(draws=30, data=DATA, progress=False)
    assert same(found, THINNED(**FEW | {"draws": 70}))
    assert sorted(os.listdir(tmp_path / "run.tb" / "draws")) == before


@pytest.mark.parametrize(("name", "most"), [("thinned", 0.4), ("groups", 0.3), ("gaussian", 0.05), ("splines", 0.7)])
def test_draws_are_kept_once(name, most, tmp_path):
    fit = RUNS[name](**FEW | {"draws": 2_000})
    fit.save(tmp_path / "fit.nc")
    held = sum(fit.posterior[variable].nbytes for variable in fit.posterior.data_vars)
    assert len(tb.load(tmp_path / "fit.nc").continued) < most * held + 100_000


def changed(column, value):
    frame = DATA.copy()
    frame.loc[7, column] = value
    return frame


@pytest.mark.parametrize(
    ("again", "message"),
    [
        ({}, "data was .*DataFrame.*, which files do not keep: give it again, as in fit.more"),
        ({"data": changed("x", 0.123)}, "with these its chains would start elsewhere"),
        ({"data": changed("y", 1 - DATA.loc[7, "y"])}, "with these its chains would start elsewhere"),
        ({"data": DATA.iloc[1:]}, "with these its chains would start elsewhere"),
    ],
)
def test_other_data_are_refused(again, message, saved):
    with pytest.raises(ValueError, match=message):
        tb.load(saved).more(draws=30, progress=False, **again)


KINDS = [("splines", "x"), ("splines", "y"), ("gaussian", "v"), ("groups", "y"), ("mh", "x")]


@pytest.mark.parametrize(("name", "column"), KINDS)
def test_other_data_are_refused_by_all_kinds(name, column, tmp_path):
    """Also where chains start at the same place whatever the data are."""
    RUNS[name](**FEW).save(tmp_path / "fit.nc")
    with pytest.raises(tb.CheckpointError, match=r"with these its chains would (start|go) elsewhere"):
        tb.load(tmp_path / "fit.nc").more(draws=30, data=changed(column, 1 - DATA.loc[7, column]), progress=False)


def test_an_engine_and_a_cache_are_not_taken_from_a_file(tmp_path):
    """Whoever sends a file could have workers of theirs unpickle what they like, or folders written."""
    fit = THINNED(**FEW)
    asked = dict(fit.origin.asked)
    asked |= {
        "engine": Argument.of("engine", "tcp://10.0.0.1:8786"),
        "cache": Argument.of("cache", str(tmp_path / "cache")),
    }
    object.__setattr__(fit.origin, "asked", asked)
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"engine was 'tcp://10.0.0.1:8786', which files do not keep"):
        tb.load(tmp_path / "fit.nc").more(draws=30, data=DATA, progress=False)
    assert not (tmp_path / "cache").exists()


def rewritten(path, edit):
    """Change what a file keeps of where chains have stopped, with all its checksums."""
    fit = tb.load(path)
    fit.continued = b"".join(packed.parts(pack(edit(packed.from_bytes(fit.continued)), functions=False)))
    fit.save(path)


def test_other_versions_are_refused(saved):
    rewritten(saved, lambda kept: kept | {"versions": kept["versions"] | {"numpy": "1.0"}})
    with pytest.raises(tb.CheckpointError, match=r"made with numpy 1.0 \(here: "):
        tb.load(saved).more(draws=30, data=DATA)


@pytest.mark.parametrize(
    "edit",
    [
        lambda kept: {},
        lambda kept: [],
        lambda kept: kept | {"asked": {"formula": 3}},
        lambda kept: kept | {"draws": kept["draws"] | {"shape": (3, 1, 2)}},
        lambda kept: kept | {"draws": kept["draws"] | {"found": np.array([0, 1, 99])}},
        lambda kept: kept | {"draws": kept["draws"] | {"log_posterior": np.ones(3)}},
        lambda kept: kept | {"draws": kept["draws"] | {"accepted": np.ones(1, np.uint8)}},
        lambda kept: kept | {"draws": kept["draws"] | {"screened": "all"}},
        lambda kept: kept | {"facts": {}},
        lambda kept: kept | {"streams": None},
        lambda kept: kept | {"streams": type(kept["streams"])([], [])},
        lambda kept: kept | {"draws": kept["draws"] | {"found": np.array([0, 1, -1])}},
        lambda kept: kept | {"draws": kept["draws"] | {"found": np.array([0, 1, -1]), "rest": b"squeezed"}},
    ],
)
def test_where_chains_stopped_is_held_together(edit, saved):
    rewritten(saved, edit)
    loaded = tb.load(saved)
    assert loaded.draws.shape == (2, 40, 3)  # all else can be used
    with pytest.raises(packed.DamagedError, match="where the chains of the fit have stopped cannot be read"):
        loaded.more(draws=30, data=DATA)


def test_a_fit_of_an_older_version_says_so(saved):
    def older(file, state):
        del file[CONTINUED]
        return state | {"format": 2}

    change(saved, older, seal=False)
    loaded = tb.load(saved)
    assert loaded.draws.shape == (2, 40, 3)
    with pytest.raises(ValueError, match="an older version has saved it"):
        loaded.more(draws=30, data=DATA)
