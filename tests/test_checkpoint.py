"""Runs that were ended go on from their checkpoints, and end with the draws of the unbroken run, bit for bit."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from runs import DATA, FEW, ROWS, RUNS, often, same

import tallbayes as tb
from tallbayes.engines import packed
from tallbayes.sampling import journal, loop
from tallbayes.sampling.checkpoint import _locked
from tallbayes.sampling.status import status
from tallbayes.sampling.thinned import ThinnedKernel

ALIKE = (  # kernels that others have, too, with another surrogate, proposal or inner method
    "thinned, student", "two-stage", "two-stage, subchain", "groups, two-stage", "consensus of thinned",
    "gaussian groups", "groups, consensus", "splines, two-stage", "mh on disk", "subsampling on disk",
)  # fmt: skip
CASES = [pytest.param(name, marks=pytest.mark.long if name in ALIKE else ()) for name in RUNS]
THINNED, MH = RUNS["thinned"], RUNS["mh by column"]
PASSES = 3  # over the rows, of a process that goes on: state of chains, and pools of rows
SHORT = FEW | {"draws": 20, "warmup": 30}  # has hundreds of moments, too; long cases are as long as ever


class KilledError(BaseException):
    """The process is gone."""


class Killer:
    """Ends a run at the n-th moment at which something is about to be done that could be left half done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.seen = -1, 0
        self._lock = threading.Lock()
        for owner, name in ((os, "fsync"), (Path, "replace"), (journal.Walk, "offer"), (journal.Walk, "begin")):
            monkeypatch.setattr(owner, name, self._deadly(getattr(owner, name)))

    def _deadly(self, function: Any) -> Any:
        real = None if function is os.fsync else function  # a disk that is slow would not change anything here

        def call(*given: Any, **named: Any) -> Any:
            with self._lock:
                self.seen += 1
                self.left -= 1
                gone = self.left == 0
            if gone:
                raise KilledError
            return None if real is None else real(*given, **named)

        return call

    def run(self, run: Any, moment: int = -1) -> tb.Fit | None:
        """What a run gives, or None if it was ended."""
        self.left, self.seen = moment, 0
        try:
            return run()
        except KilledError:
            return None
        except tb.ShardError as error:  # of threads, of which one was ended
            if isinstance(error.__cause__, KilledError):
                return None
            raise


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_is_ended_goes_on_to_the_same_draws(name, tmp_path, monkeypatch):
    how, kills = (FEW, 5) if name in ALIKE else (SHORT, 3)
    unbroken = RUNS[name](**how)
    run = lambda: RUNS[name](**how, checkpoint=tmp_path / "run.tb")  # noqa: E731
    with often():
        killer = Killer(monkeypatch)
        assert same(killer.run(run), unbroken)
        moments, rng = killer.seen, np.random.default_rng(len(name))
        shutil.rmtree(tmp_path / "run.tb")
        found = None
        for moment in [3, *rng.integers(1, moments // 2, kills).tolist(), -1]:
            found = killer.run(run, int(moment))
            if found is not None:
                break
        assert same(found, unbroken)
        again = (found.stats["rows_per_draw"] - unbroken.stats["rows_per_draw"]) * unbroken.draws[..., 0].size
        assert again <= kills * PASSES * ROWS  # to begin where the chains stood
        assert found.stats["rows_per_draw"] >= 0.8 * unbroken.stats["rows_per_draw"]
    assert not list(tmp_path.rglob(".*")), "something was left half written"


@pytest.mark.parametrize("forgotten", ["generators", "rows that were used", "draws of a segment"])
def test_the_draws_differ_if_something_is_forgotten(forgotten, tmp_path, monkeypatch):
    run = lambda: THINNED(**FEW, checkpoint=tmp_path / "run.tb")  # noqa: E731
    with often():
        killer, unbroken = Killer(monkeypatch), THINNED(**FEW)
        assert killer.run(run, 600) is None
        if forgotten == "generators":
            monkeypatch.setattr(journal, "_set", lambda streams, kept: None)
        elif forgotten == "rows that were used":
            restored = ThinnedKernel.restored

            def unused(self: Any, state: Any) -> Any:
                for chain in state.chains:
                    chain.record["used"] = 0
                return restored(self, state)

            monkeypatch.setattr(ThinnedKernel, "restored", unused)
        else:
            drawn = journal.Walk._draws
            monkeypatch.setattr(
                journal.Walk, "_draws", lambda self, call, count: drawn(self, call, count - (call == self._last))
            )
        assert not same(killer.run(run), unbroken)


def test_states_that_chains_have_left_may_be_without_large_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "SMALL", 1_000)  # linear predictors have more, and places of chains have not
    killer, unbroken = Killer(monkeypatch), MH(**FEW)
    with often():
        assert killer.run(lambda: MH(**FEW, checkpoint=tmp_path / "a"), 300) is None
        ended = [packed.read(path) for path in (tmp_path / "a" / "warm-up-000").glob("???")]
        assert any(isinstance(one["state"].full.eta, journal.Absent) for one in ended)
        assert same(killer.run(lambda: MH(**FEW, checkpoint=tmp_path / "a")), unbroken)


def test_a_checkpoint_costs_no_draw_and_a_run_that_has_ended_gives_its_fit_again(tmp_path):
    at = tmp_path / "run.tb"
    first = THINNED(**FEW, checkpoint=at)
    assert same(first, THINNED(**FEW))
    before = {path: path.stat().st_mtime_ns for path in (at / "draws").iterdir()}
    assert same(tb.resume(at, data=DATA, progress=False), first)
    assert set((at / "draws").iterdir()) == set(before)


@pytest.mark.parametrize("kept", [0, 20])
def test_draws_that_take_less_time_than_writing_them_are_made_again(kept, tmp_path, monkeypatch):
    at, how = tmp_path / "run.tb", {**FEW, "checkpoint": tmp_path / "run.tb"}
    if kept:
        THINNED(**how | {"draws": kept})
    monkeypatch.setattr(journal, "LITTLE", 0)
    monkeypatch.setattr(journal, "SHARE", 1e-9)
    first = THINNED(**how)
    found = status(at)
    assert (found.draws, found.kept) == (40, kept)
    assert dict(found.lines())["saved"].endswith(
        f"the last {40 - kept} draws took less time than writing them, and are made again"
    )
    assert same(first, THINNED(**FEW))
    assert same(tb.resume(at, data=DATA, progress=False), first)
    assert same(first.more(draws=30, progress=False), THINNED(**FEW | {"draws": 70}))
    with pytest.raises(tb.CheckpointError, match="has 70 draws a chain already, more than the 39 that are asked for"):
        THINNED(**how | {"draws": 39})


def test_ctrl_c_writes_however_long_that_takes(tmp_path, monkeypatch):
    with patch.object(journal, "LITTLE", 0), patch.object(journal, "SHARE", 1e-9):
        test_ctrl_c_keeps_what_was_drawn_and_the_run_goes_on(tmp_path, monkeypatch)
    assert status(tmp_path / "run.tb").kept == 10


def test_more_draws_go_on_in_the_folder(tmp_path):
    at = tmp_path / "run.tb"
    first = THINNED(**FEW, checkpoint=at)
    longer = THINNED(**FEW | {"draws": 70})
    assert same(first.more(draws=30, progress=False), longer)
    assert same(tb.resume(at, data=DATA, progress=False), longer)
    assert same(THINNED(**FEW | {"draws": 70}, checkpoint=at), longer)


@pytest.mark.parametrize("part", ["draws", "asked.json", "draws/000-000000"])
def test_parts_of_another_run_are_refused(part, run, tmp_path):
    other = tmp_path / "other.tb"
    tb.fit("y ~ x + z", DATA, method=tb.Thinned(), **FEW | {"seed": 2}, checkpoint=other)
    at = shutil.copytree(run, tmp_path / "run.tb")
    shutil.rmtree(at / part) if (at / part).is_dir() else (at / part).unlink()
    (shutil.copytree if (other / part).is_dir() else shutil.copy)(other / part, at / part)
    with pytest.raises(tb.DamagedError, match="is part of another run"):
        tb.resume(at, data=DATA, progress=False)


def test_the_same_in_other_words_is_the_same_run(run, tmp_path):
    at = shutil.copytree(run, tmp_path / "run.tb")
    how = {"data": DATA, "progress": False, "method": "thinned", "chains": np.int64(2), "warmup": np.uint8(60)}
    assert same(tb.resume(at, **how), tb.resume(run, data=DATA, progress=False))


def test_a_relative_folder_is_found_from_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    fit = MH(**FEW, checkpoint="run.tb")
    monkeypatch.chdir(tmp_path / "below")
    fit.more(draws=10, progress=False)
    assert not list((tmp_path / "below").iterdir())
    assert status(tmp_path / "run.tb").draws == 50


def test_fewer_draws_than_there_are_is_refused(run):
    with pytest.raises(tb.CheckpointError, match="has 40 draws a chain already, more than the 39 that are asked for"):
        tb.fit("y ~ x + z", DATA, method=tb.Thinned(), checkpoint=run, **FEW | {"draws": 39})


@pytest.mark.parametrize("name", ["lock", "asked.json", "draws/state", "draws/000-000000", "draws"])
def test_folders_and_files_in_each_others_place_are_named(name, run, tmp_path):
    at = shutil.copytree(run, tmp_path / "run.tb")
    if (at / name).is_dir():
        shutil.rmtree(at / name)
        (at / name).write_text("")
    else:
        (at / name).unlink()
        (at / name).mkdir()
    with pytest.raises((tb.CheckpointError, tb.DamagedError, OSError), match=f"{name}|damaged") as refused:
        tb.resume(at, data=DATA, progress=False)
    assert "Errno" not in str(refused.value)


def test_ctrl_c_keeps_what_was_drawn_and_the_run_goes_on(tmp_path, monkeypatch):
    at, advance = tmp_path / "run.tb", loop._Loop.advance

    def interrupted(self, *given, **named):
        if named.get("stoppable"):
            monkeypatch.undo()
            found = advance(self, *given[:2], 10, *given[3:], **named)
            self.stop.set()
            return found
        return advance(self, *given, **named)

    monkeypatch.setattr(loop._Loop, "advance", interrupted)
    first = THINNED(**FEW, checkpoint=at)
    assert first.stats["stopped"] == "interrupted"
    assert first.draws.shape[1] == 10
    assert same(tb.resume(at, data=DATA, progress=False), THINNED(**FEW))


def test_a_seed_that_was_drawn_stays(tmp_path):
    few = FEW | {"seed": None}
    first = THINNED(**few, checkpoint=tmp_path / "run.tb")
    again = THINNED(**few, checkpoint=tmp_path / "run.tb")
    assert same(first, again)
    assert again.stats["seed"] == first.stats["seed"]


def changed(column: str, row: int = 7) -> Any:
    frame = DATA.copy()
    frame.loc[row, column] = 1 - frame.loc[row, column]
    return frame


REFUSED = {
    "another value": ({"data": changed("x")}, r"other values in 'x'"),
    "another outcome": ({"data": changed("y")}, "other values in .*'outcome'"),
    "a row less": ({"data": DATA.iloc[1:]}, "599 rows, not 600"),
    "rows in another order": ({"data": DATA.iloc[::-1]}, "other values in"),
    "another seed": ({"seed": 2}, "seed was 1, and is 2 now"),
    "another formula": ({"formula": "y ~ x"}, "formula was 'y ~ x [+] z', and is 'y ~ x' now"),
    "another prior": ({"prior": tb.Normal(0, 3)}, "prior was None, and is Normal"),
    "another method": ({"method": tb.MH()}, "method was Thinned.., and is MH"),
    "more chains": ({"chains": 3}, "chains was 2, and is 3 now"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    at = tmp_path_factory.mktemp("runs") / "run.tb"
    tb.fit("y ~ x + z", DATA, method=tb.Thinned(), **FEW, checkpoint=at)
    return at


@pytest.mark.parametrize("what", REFUSED)
def test_what_differs_is_refused_and_named(what, run):
    other, message = REFUSED[what]
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    given = {"formula": "y ~ x + z", "data": DATA, "method": tb.Thinned(), **FEW} | other
    with pytest.raises(tb.CheckpointError, match=message):
        tb.fit(**given, checkpoint=run)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}


def edited(run, tmp_path, change):
    """A copy of a run, with something else in what was asked."""
    at = shutil.copytree(run, tmp_path / "run.tb")
    asked = json.loads((at / "asked.json").read_text())
    del asked["check"]
    change(asked)
    (at / "asked.json").write_text(json.dumps(asked | {"check": packed.checksum(asked)}))
    return at


EDITS = {
    "nothing asked": lambda found: found.update(asked={}),
    "asked a list": lambda found: found.update(asked=[]),
    "draws not asked": lambda found: found["asked"].pop("draws"),
    "versions null": lambda found: found.update(versions=None),
    "no facts": lambda found: found.update(facts={}),
    "run a number": lambda found: found["facts"].update(run=5),
    "data a list": lambda found: found["facts"].update(data=[]),
    "columns a number": lambda found: found["facts"].update(data={"rows": 600, "columns": 5}),
    "ended in words": lambda found: found["facts"].update(ended="x"),
    "another prior": lambda found: found["asked"]["prior"].update(packed='"normal(0, 1)"'),
    "a prior that is none": lambda found: found["asked"]["prior"].update(packed="{"),
    "a prior of others": lambda found: found["asked"]["prior"].update(packed='["own", "os:system", ["true"]]'),
    "fewer draws": lambda found: found["asked"]["draws"].update(packed="10"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_asked_is_held_against_its_checksums_and_shape(edit, run, tmp_path):
    at = edited(run, tmp_path, EDITS[edit])
    with pytest.raises(tb.CheckpointError, match=r"asked.json.* is damaged"):
        tb.resume(at, data=DATA, progress=False)


@pytest.mark.parametrize("text", ["null", "5", "[]", "[" * 100_000, '{"format": 3}', ""])
def test_another_file_in_place_of_what_was_asked_is_damaged(text, run, tmp_path):
    at = shutil.copytree(run, tmp_path / "run.tb")
    (at / "asked.json").write_text(text)
    with pytest.raises(tb.CheckpointError, match=r"asked.json' is damaged, so the run cannot go on: it") as refused:
        tb.resume(at, data=DATA, progress=False)
    assert "object" not in str(refused.value)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes with names")
def test_a_pipe_in_place_of_a_part_is_no_reason_to_wait(run, tmp_path):
    at = shutil.copytree(run, tmp_path / "run.tb")
    (at / "draws" / "state").unlink()
    os.mkfifo(at / "draws" / "state")
    for look in (lambda: tb.resume(at, data=DATA, progress=False), lambda: status(at)):
        with pytest.raises(tb.DamagedError, match="is a pipe, not a file"):
            look()


@pytest.mark.parametrize("name", ["tallbayes", "numpy"])
def test_another_version_is_refused(name, run, tmp_path):
    at = edited(run, tmp_path, lambda asked: asked["versions"].update({name: "0.0.1"}))
    with pytest.raises(tb.CheckpointError, match=f"begun with {name} 0.0.1 .here: "):
        tb.resume(at, data=DATA)


def test_what_changes_the_start_is_noticed(run, tmp_path):
    at = edited(run, tmp_path, lambda asked: asked["facts"].update(start=1))
    with pytest.raises(tb.CheckpointError, match="chains would start elsewhere"):
        tb.resume(at, data=DATA)


def test_two_at_once_are_refused(run):
    with _locked(run):
        with pytest.raises(tb.CheckpointError, match=f"another process is working on .* .process {os.getpid()}"):
            tb.resume(run, data=DATA)
        assert status(run).running == str(os.getpid())


def test_what_is_no_checkpoint_is_said(tmp_path):
    with pytest.raises(tb.CheckpointError, match="no such folder"):
        tb.resume(tmp_path / "nothing")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "photo.jpg").write_text("x")
    for act in (lambda: tb.resume(tmp_path / "other"), lambda: THINNED(**FEW, checkpoint=tmp_path / "other")):
        with pytest.raises(tb.CheckpointError, match="is not a checkpoint"):
            act()
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["photo.jpg"]
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        THINNED(**FEW, checkpoint=tmp_path / "other" / "photo.jpg")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        THINNED(**FEW, checkpoint=tmp_path / "no" / "run.tb")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError, match="is a link that leads nowhere"):
        THINNED(**FEW, checkpoint=tmp_path / "link")


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="nothing"):
        tb.fit("y ~ nothing", DATA, **FEW, checkpoint=tmp_path / "run.tb")
    assert not (tmp_path / "run.tb").exists()


def test_what_files_do_not_keep_has_to_be_given_again(run):
    with pytest.raises(ValueError, match=r"data was DataFrame, .* as in tb.resume\(checkpoint, data=...\)"):
        tb.resume(run)


@pytest.mark.parametrize("place", ["draws/state", "draws/000-000000", "asked.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_damaged_files_are_named(place, damage, run, tmp_path):
    at = shutil.copytree(run, tmp_path / "run.tb")
    content = (at / place).read_bytes()
    if damage == "gone":
        (at / place).unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0x80]) + content[middle + 1 :]
        (at / place).write_bytes(content[:middle] if damage == "cut" else flipped)
    if (place, damage) == ("draws/state", "gone"):  # then the draws begin anew
        assert same(tb.resume(at, data=DATA, progress=False), THINNED(**FEW))
        return
    with pytest.raises(ValueError, match=r"damaged|is not a checkpoint|is missing"):
        tb.resume(at, data=DATA, progress=False)


def test_status_tells_how_far_a_run_is(tmp_path, monkeypatch):
    at = tmp_path / "run.tb"
    killer = Killer(monkeypatch)
    with often():
        assert killer.run(lambda: THINNED(**FEW, checkpoint=at), 100) is None
        found = status(at)
        assert found.draws == 0
        assert 0 < found.warmup <= 60
        THINNED(**FEW, checkpoint=at)
    found = status(at)
    assert (found.draws, found.goal, found.running) == (40, 40, "")
    assert found.asked["formula"].value("formula") == "y ~ x + z"


def test_what_goes_wrong_while_a_file_is_written_is_raised_and_the_run_goes_on_later(tmp_path, monkeypatch):
    at = tmp_path / "run.tb"
    with often():
        real, calls = journal._writing, iter(range(1_000))

        def full(folder: Path, files: dict[str, Any]) -> Any:
            if next(calls) == 30:
                monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
            return real(folder, files)

        with monkeypatch.context() as patch:
            patch.setattr(journal, "_writing", full)
            with pytest.raises(OSError, match="the disk is full"):
                THINNED(**FEW, checkpoint=at)
        monkeypatch.undo()
    assert same(tb.resume(at, data=DATA, progress=False), THINNED(**FEW))
