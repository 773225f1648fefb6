"""Rows on many workers: the same draws as on one machine, from the same passes, and errors that say as much."""

import numpy as np
import pandas as pd
import pytest
from on_disk import model_on_disk

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.engines.engine import Local
from tallbayes.engines.preparing import MOST_PIECES, InMemory, remote
from tallbayes.engines.rows import EngineRows
from tallbayes.models.first import LOOKED_AT
from tallbayes.rows.passes import LENGTH
from tallbayes.rows.protocol import RowsAtHand
from tallbayes.rows.tasks import LogLikelihoodDerivatives

ROWS = 66_000
QUICK = {"draws": 40, "warmup": 30, "chains": 2, "seed": 1, "progress": False}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    found = pd.DataFrame(
        {
            "x": rng.normal(size=ROWS),
            "z": np.where(rng.random(ROWS) < 0.003, np.nan, rng.normal(size=ROWS)),
            "size": rng.choice(["small", "medium", "large"], ROWS),
            "bank": rng.integers(0, 300, ROWS),
            "weight": rng.integers(0, 3, ROWS).astype(float),
            "sent": rng.integers(1, 5, ROWS),
            "few": rng.integers(0, 3, ROWS),
        }
    )
    eta = found["x"] - 2 - 0.3 * (found["size"] == "large")
    found["y"] = (rng.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(int)
    found["opened"] = rng.binomial(found["sent"], 0.2)
    found["claims"] = rng.poisson(np.exp(0.3 * found["x"] - 1))
    return found


@pytest.fixture(scope="module")
def places(frame, tmp_path_factory):
    """The same rows in files of several kinds; small pieces, so that there are several parts."""
    folder = tmp_path_factory.mktemp("loans")
    (folder / "many").mkdir()
    frame.to_parquet(folder / "one.parquet", index=False, row_group_size=7_000)
    for number, part in enumerate(np.array_split(np.arange(ROWS), 7)):
        frame.iloc[part].to_parquet(folder / "many" / f"{number}.parquet", index=False)
    frame.to_csv(folder / "all.csv", index=False)
    return folder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", LENGTH)


SOURCES = {
    "one file": lambda places, frame: places / "one.parquet",
    "many files": lambda places, frame: places / "many",
    "csv": lambda places, frame: places / "all.csv",
    "frame": lambda places, frame: frame,
}


@pytest.fixture(scope="module")
def reference(places):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", LENGTH)
        return tb.fit("y ~ x + size", places / "many", **QUICK)


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_draws_from_everywhere(source, places, frame, reference):
    fit = tb.fit("y ~ x + size", SOURCES[source](places, frame), engine=Local(3), **QUICK)
    np.testing.assert_array_equal(fit.draws, reference.draws)
    assert fit.stats["rows"] == ROWS
    assert fit.stats["exact"]
    assert fit.stats["told"] == reference.stats["told"]
    assert (fit.stats["engine"], fit.stats["workers"]) == ("local", 3)
    assert "engine" not in reference.stats


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long), 8])
def test_the_same_draws_for_any_number_of_workers(workers, places, reference):
    engine = Local(workers)
    fit = tb.fit("y ~ x + size", places / "many", engine=engine, **QUICK)
    np.testing.assert_array_equal(fit.draws, reference.draws)
    assert engine.rounds <= 8


KINDS = {
    "rows left out": ("y ~ x + z + size", {"missing": "drop"}),
    "weights, some of them zero": ("y ~ x + size", {"weights": "weight"}),
    "trials": ("p(opened, sent) ~ x", {}),
    "counts": ("claims ~ scale(x) + C(few)", {"family": "poisson"}),
    "duplicates": ("y ~ size + few", {}),
    "a spline's basis": ("y ~ bs(x, df=4)", {}),
    "a wildcard": ("y ~ .", {"missing": "drop"}),
    "collinear": ("y ~ x + I(2 * x)", {"collinear": "drop"}),
    "two-stage": ("y ~ x", {"method": "two-stage", "draws": 20}),
    "two-stage, subsample": ("y ~ x", {"method": tb.TwoStage(surrogate=tb.CaseControl(2_000)), "draws": 20}),
    "mh": ("y ~ x", {"method": "mh", "draws": 20}),
    "subsampling": ("y ~ x", {"method": "subsampling"}),
    "consensus": ("y ~ x + size", {"method": tb.Consensus(3)}),
    "stratified consensus": ("y ~ x + size", {"method": tb.Consensus(3, sharding="stratified")}),
}


# What the stratified consensus does too.
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long if kind == "consensus" else ()) for kind in KINDS]
)
@pytest.mark.filterwarnings("ignore:consensus")
def test_the_same_draws_of_every_kind(kind, places):
    formula, options = KINDS[kind]
    if kind == "a wildcard":
        options = options | {"weights": "weight", "offset": "few"}
    one, other = (
        tb.fit(formula, places / "many", **QUICK | options | {"engine": engine}) for engine in (None, Local(3))
    )
    np.testing.assert_array_equal(other.draws, one.draws)
    assert other.stats["told"] == one.stats["told"]
    assert other.stats["rows"] == one.stats["rows"]


def test_groups_are_those_of_rows_on_disk(places):
    model = tb.Hierarchical("y ~ x + (1 | bank)", places / "one.parquet")
    on_disk = tb.sample(model_on_disk(model), **QUICK)
    fit = tb.fit("y ~ x + (1 | bank)", places / "one.parquet", engine=Local(3), **QUICK)
    np.testing.assert_array_equal(fit.draws, on_disk.draws)


# Rows


@pytest.fixture(scope="module")
def models(places):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", LENGTH)
        return [tb.GLM("y ~ x + size", data) for data in (places / "many", remote(Local(3), places / "many"))]


def test_rows_answer_as_those_in_memory(models):
    memory, engine = models
    assert isinstance(engine.rows, EngineRows)
    rows: RowsAtHand = engine.rows
    for name in ("size", "columns", "groups", "width", "strata", "total_weight", "mean_outcome"):
        assert getattr(rows, name) == getattr(memory.rows, name), name
    theta = np.array([[0.1, 0.2, -0.3, 0.4], [0.0, 1.0, 2.0, 3.0]])
    task = LogLikelihoodDerivatives(memory.family.tag)
    for one, other in zip(memory.rows.reduce(task, theta)[:3], rows.reduce(task, theta)[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    for start, stop in ((0, 5), (LENGTH - 3, 2 * LENGTH + 3), (ROWS - 4, ROWS)):
        one, other = memory.rows.run(start, stop), rows.run(start, stop)
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.y, other.y)
    assert rows.run(5, 5).size == 0
    np.testing.assert_array_equal(rows.without([1]).run(0, 9).x, memory.rows.run(0, 9).x[[0, 2, 3]])
    assert rows.without([1]).without([0]).columns == 2


def test_what_needs_any_row_at_any_time_brings_them_home(models, places):
    one, other = (tb.sample(model, tb.MH(proposal="one-at-a-time"), **QUICK | {"draws": 10}) for model in models)
    np.testing.assert_array_equal(one.draws, other.draws)
    model = tb.GLM("y ~ x", remote(Local(3), places / "many"), memory="50MB")
    model.rows._room = type(model.rows._room)(10**6)
    with pytest.raises(ValueError, match=r"needs any row at any time, and the 66,000 rows .* do not fit into 1 MB"):
        tb.sample(model, tb.MH(proposal="one-at-a-time"), **QUICK)


def test_rounds_and_bytes(models, places):
    """A pass is one round, and its answers have a few numbers for each block."""
    _, model = models
    engine = model.rows.engine
    before = engine.rounds, engine.sent, engine.received, model.rows.passes
    model.derivatives(np.zeros(4))
    after = engine.rounds, engine.sent, engine.received, model.rows.passes
    rounds, sent, received, passes = (now - then for now, then in zip(after, before, strict=True))
    assert (rounds, passes) == (1, 1)
    parts, blocks = len(model.rows._parts), -(-ROWS // LENGTH)
    assert sent < parts * 1_000
    assert received < blocks * 8 * (1 + 4 + 16) + parts * 1_000


def test_every_part_is_heard_once(models):
    rows, heard = models[1].rows, []
    rows.engine.ask("run", rows._parts, (0, 0, None), heard.append)
    assert sorted(heard) == list(range(len(rows._parts)))


def test_only_those_are_asked_that_have_the_rows(models, monkeypatch):
    rows, asked = models[1].rows, []
    right = rows.engine.ask
    monkeypatch.setattr(rows.engine, "ask", lambda *given: asked.append(given[1]) or right(*given))
    for start, stop, parts in ((0, 5, [0]), (ROWS - 5, ROWS, [-1]), (rows._sizes[0] - 1, rows._sizes[0] + 1, [0, 1])):
        assert rows.run(start, stop).size == stop - start
        assert asked.pop() == [rows._parts[number] for number in parts]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_fractional_weights_of_duplicates(frame, workers):
    """Their sums do not depend on who has which rows."""
    rng = np.random.default_rng(2)
    data = frame[["size", "few", "y"]].assign(w=rng.random(ROWS))
    one, other = (
        tb.fit("y ~ size + few", data, weights="w", engine=engine, **QUICK) for engine in (None, Local(workers))
    )
    np.testing.assert_array_equal(one.draws, other.draws)
    assert one.stats["distinct_rows"] == other.stats["distinct_rows"] == 18


def test_few_rows_need_no_look(frame):
    engine = Local(2)
    few = frame[:1_000]
    assert len(few) < LOOKED_AT
    one, other = (tb.fit("y ~ x", few, **QUICK | {"engine": given}) for given in (None, engine))
    np.testing.assert_array_equal(one.draws, other.draws)


def test_parts_do_not_grow_with_the_data():
    for rows in (1, 10**5, 10**9):
        ends = list(InMemory(Local(2), None).cut(rows))
        sizes = [(stop - start) / pieces.PIECE for start, stop in ends]
        assert max(sizes) <= MOST_PIECES
        assert max(sizes) - min(sizes) <= 2
        assert all(size == int(size) for size in sizes[:-1])
        assert (ends[0][0], ends[-1][1]) == (0, rows)
        assert [stop for _, stop in ends[:-1]] == [start for start, _ in ends[1:]]


# What goes wrong


def test_errors_name_file_and_row(places, frame, tmp_path):
    with pytest.raises(ValueError) as one:
        tb.fit("y ~ x + z", places / "many", **QUICK)
    with pytest.raises(ValueError) as other:
        tb.fit("y ~ x + z", places / "many", engine=Local(3), **QUICK)
    assert str(one.value) == str(other.value)
    assert "0.parquet" in str(one.value)
    broken = frame.copy()
    broken.loc[ROWS - 3, "y"] = 7
    (tmp_path / "last").mkdir()
    for number, part in enumerate(np.array_split(np.arange(ROWS), 3)):
        broken.iloc[part].to_parquet(tmp_path / "last" / f"{number}.parquet", index=False)
    for formula, outcome, where in (
        ("y ~ x", None, "row 21997 of .*2.parquet"),
        ("few ~ log(y - 7)", 1, "first at row 0 of .*0.parquet"),
    ):
        messages = []
        for engine in (None, Local(3)):
            with pytest.raises(ValueError, match=where) as error:
                tb.fit(formula, tmp_path / "last", outcome=outcome, engine=engine, **QUICK)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.ones(ROWS)}, "with engine= weights must name a column"),
        ({"cache": "designs"}, "cache= is for rows on this machine"),
        ({"engine": 7}, "engine= takes a Dask client, the address of a Dask scheduler .* not int"),
    ],
)
def test_what_cannot_be(options, message, places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        tb.fit("y ~ x", places / "many", **QUICK | {"engine": Local(2)} | options)


def test_too_many_levels(frame):
    for levels, where in ((ROWS, "in 16,384 rows from row 16384 on"), (3_000, "")):
        data = frame[["y"]].assign(name=[f"n{number % levels}" for number in range(ROWS)])
        with pytest.raises(ValueError, match=rf"column 'name' is text with \d+ levels {where}"):
            tb.fit("y ~ name", data, engine=Local(3), **QUICK)


def test_an_outcome_that_cannot_travel(frame):
    with pytest.raises(ValueError, match=r"outcome=Timestamp.* cannot be sent to workers; give a text or a number"):
        tb.fit("y ~ x", frame, outcome=pd.Timestamp("2020-01-01"), engine=Local(2), **QUICK)


def test_queries_are_refused(frame):
    with pytest.raises(ValueError, match="write what a query or a function gives to Parquet files first"):
        tb.fit("y ~ x", tb.scan(lambda: iter([frame[:10]])), engine=Local(2), **QUICK)


def test_no_such_file():
    with pytest.raises(FileNotFoundError, match=r"no such file: 'nothing.csv'"):
        tb.fit("y ~ x", "nothing.csv", engine=Local(2), **QUICK)


def test_a_file_that_changes(places, frame, tmp_path, monkeypatch):
    source = tmp_path / "data"
    source.mkdir()
    for number in range(2):
        frame[number * 40_000 : (number + 1) * 40_000].to_parquet(source / f"{number}.parquet")
    engine = Local(2)
    right = engine.remake

    def remake(*given):
        frame[:39_999].to_parquet(source / "1.parquet")
        return right(*given)

    monkeypatch.setattr(engine, "remake", remake)
    with pytest.raises(ValueError, match=r"1.parquet' changed while it was being read"):
        tb.fit("y ~ x", source, engine=engine, **QUICK)
