"""Dask's workers, real processes on loopback: the same draws, also when they die."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import tallbayes as tb
from tallbayes.data import pieces
from tallbayes.engines import opening
from tallbayes.engines.engine import Local
from tallbayes.engines.on_dask import DaskEngine
from tallbayes.engines.preparing import remote
from tallbayes.rows.passes import LENGTH

distributed = pytest.importorskip("distributed")

ROWS = 66_000
QUICK = {"draws": 40, "warmup": 30, "chains": 2, "seed": 1, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", LENGTH)
        yield


class Cluster:
    """A scheduler, and workers that are processes of their own: one that is killed is gone."""

    def __init__(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its ports and files
            self.scheduler = distributed.LocalCluster(
                n_workers=0, dashboard_address=None, host="127.0.0.1", silence_logs=50
            )
        self.address, self.processes = self.scheduler.scheduler_address, []

    def scale(self, workers):
        """Have at least so many."""
        self.processes = [process for process in self.processes if process.poll() is None]
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, *options]
        while len(self.processes) < workers:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.processes.append(subprocess.Popen(command, **quiet))

    def kill(self):
        self.processes.pop(0).kill()

    def close(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(timeout=30)
        self.scheduler.close()


@pytest.fixture(scope="module")
def cluster():
    found = Cluster()
    yield found
    found.close()


@pytest.fixture
def client(cluster):
    cluster.scale(2)
    with distributed.Client(cluster.address) as found:
        found.wait_for_workers(2, timeout=60)
        yield found


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    found = pd.DataFrame({"x": rng.normal(size=ROWS), "size": rng.choice(["small", "large"], ROWS)})
    found["bank"] = rng.integers(0, 50, ROWS)
    found["y"] = (rng.random(ROWS) < 1 / (1 + np.exp(2 - found["x"]))).astype(int)
    return found


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    place = tmp_path_factory.mktemp("loans")
    for number, part in enumerate(np.array_split(np.arange(ROWS), 5)):
        frame.iloc[part].to_parquet(place / f"{number}.parquet", index=False)
    return place


@pytest.fixture(scope="module")
def reference(folder):
    return tb.fit("y ~ x + size", folder, **QUICK)


def assert_same(fit, reference):
    np.testing.assert_array_equal(fit.draws, reference.draws)


def test_the_same_draws(client, folder, frame, reference):
    for data in (folder, frame):
        assert_same(tb.fit("y ~ x + size", data, engine=client, **QUICK), reference)
    assert_same(tb.fit("y ~ x + size", folder, engine=client.scheduler.address, **QUICK), reference)
    assert client.status == "running"  # it is the user's


def test_dask_frames(client, folder, reference):
    import dask.dataframe

    frame = dask.dataframe.read_parquet(folder)
    assert_same(tb.fit("y ~ x + size", frame, **QUICK), reference)
    assert_same(tb.fit("y ~ x + size", frame.repartition(npartitions=2), engine=client, **QUICK), reference)


def test_results_that_look_at_rows(client, folder, reference):
    """Effects, and leave-one-out: with workers the same as without."""
    import dask.dataframe

    fit = tb.fit("y ~ x + size", folder, engine=client, **QUICK)
    expected, loo = reference.avg_comparisons(by="size"), reference.loo(rows=500, progress=False)
    for data in (None, folder, dask.dataframe.read_parquet(folder)):
        found = fit.avg_comparisons(by="size", data=data, engine=client)
        pd.testing.assert_frame_equal(found, expected, rtol=1e-10)  # pieces of the workers are larger here
    found = fit.loo(rows=500, progress=False)
    assert (found.elpd, found.subsampling_se) == (loo.elpd, loo.subsampling_se)


def test_groups_and_shards(client, folder):
    for formula, options in (("y ~ x + (1 | bank)", {}), ("y ~ x", {"method": tb.Consensus(2)})):
        few = QUICK | {"draws": 20} | options
        one, other = (tb.fit(formula, folder, engine=engine, **few) for engine in (client, Local(1)))
        assert_same(one, other)


def test_a_function_of_the_users_goes_to_the_workers(client, folder):
    def logistic(theta, rows):
        eta = theta.level + theta.slope * rows.x
        return rows.y * eta - np.logaddexp(0, eta)

    prior, start = {"level": tb.Normal(), "slope": tb.Normal()}, {"level": 0.0, "slope": 0.0}
    few = {"seed": 1, "draws": 10, "chains": 2, "progress": False}
    one, other = (
        tb.sample(tb.Model(logistic, prior, start, folder, columns=["x", "y"], engine=engine), **few)
        for engine in (client, None)
    )
    np.testing.assert_array_equal(one.draws, other.draws)
    with pytest.raises(ValueError, match=r"failed on rows .*: KeyError: 'no such thing'"):
        tb.Model(lambda theta, rows: {}["no such thing"], prior, start, folder, columns=["x", "y"], engine=client)


def test_a_run_goes_on_with_workers_and_without(client, folder, reference, tmp_path):
    begun = QUICK | {"draws": 15, "checkpoint": tmp_path / "run.tb"}
    assert tb.fit("y ~ x + size", folder, engine=client, **begun).draws.shape[1] == 15
    tb.resume(tmp_path / "run.tb", engine=None, draws=30, progress=False)
    assert_same(tb.resume(tmp_path / "run.tb", engine=client, draws=QUICK["draws"], progress=False), reference)


@pytest.mark.long
def test_three_workers(cluster, client, folder, reference):
    cluster.scale(3)
    client.wait_for_workers(3, timeout=60)
    assert_same(tb.fit("y ~ x + size", folder, engine=client, **QUICK), reference)


def test_workers_without_rows(client, frame):
    few = frame[:2_000]
    assert_same(tb.fit("y ~ x", few, engine=client, **QUICK), tb.fit("y ~ x", few, **QUICK))


def test_every_part_is_heard_once(client, folder):
    rows, heard = tb.GLM("y ~ x", remote(DaskEngine(client), folder)).rows, []
    rows.engine.ask("run", rows._parts, (0, 0, None), heard.append)
    assert sorted(heard) == list(range(len(rows._parts)))


def test_a_slow_worker(client, folder, reference):
    busy = client.submit(time.sleep, 1, pure=False)  # some worker does nothing else meanwhile
    assert_same(tb.fit("y ~ x + size", folder, engine=client, **QUICK), reference)
    busy.result(timeout=30)


def test_an_error_of_a_worker(client, folder, frame, tmp_path):
    frame[:33_000].to_parquet(tmp_path / "a.parquet")
    frame[33_000:].assign(x=frame["x"].where(frame.index != 43_007)).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"column 'x' has 1 missing value \(first at row 10007 of .*b.parquet"):
        tb.fit("y ~ x", tmp_path, engine=client, **QUICK)
    with pytest.raises(FileNotFoundError, match="no such file"):
        tb.fit("y ~ x", tmp_path / "c.parquet", engine=client, **QUICK)


# The last of those with a client: every worker that is killed is to be started anew.


class Deadly(DaskEngine):
    """Kills a worker while it is asked for the n-th time."""

    def __init__(self, client, cluster, deadly):
        super().__init__(client)
        self.cluster, self.deadly = cluster, deadly

    def results(self, futures, *heard):
        if self.rounds == self.deadly:
            self.deadly = None
            self.cluster.kill()
        return super().results(futures, *heard)


@pytest.mark.parametrize(
    "phase", [pytest.param(phase, marks=() if phase == 5 else pytest.mark.long) for phase in range(7)]
)
def test_a_worker_dies(phase, client, cluster, folder, reference):
    """In each phase: listing, reading, building, the first pass, the mode, bounds and pool, calibration."""
    engine = Deadly(client, cluster, phase)
    assert_same(tb.fit("y ~ x + size", folder, engine=engine, **QUICK), reference)
    assert engine.deadly is None


def test_no_worker_is_left(folder):
    empty = Cluster()
    with (
        distributed.Client(empty.address) as client,
        pytest.raises(RuntimeError, match="the Dask cluster has had no worker for 1 seconds"),
    ):
        tb.fit("y ~ x", folder, engine=DaskEngine(client, patience=1.0), **QUICK)
    empty.close()


def test_a_client_is_needed(folder):
    import dask.dataframe

    with pytest.raises(ValueError, match="data is a Dask frame, but there is no Dask client"):
        tb.fit("y ~ x", dask.dataframe.read_parquet(folder), **QUICK)
    with pytest.raises(ValueError, match="a Dask frame needs Dask's workers"):
        tb.fit("y ~ x", dask.dataframe.read_parquet(folder), engine=Local(1), **QUICK)


def test_a_client_that_was_closed(folder):
    cluster = Cluster()
    cluster.scale(1)
    with distributed.Client(cluster.address) as client:
        fit = tb.fit("y ~ x", folder, engine=client, **QUICK)
    for ask in (fit.avg_predictions, fit.loo, lambda: tb.fit("y ~ x", folder, engine=client, **QUICK)):
        with pytest.raises(ValueError, match="the Dask client of engine= is closed; give one that is open"):
            ask()
    with distributed.Client(cluster.address) as client:
        assert 0 < fit.avg_predictions(engine=client)["mean"][0] < 1
    cluster.close()


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9\r\n"], ids=["nothing", "something else"])
def test_something_else_that_listens_is_no_scheduler(said, monkeypatch):
    monkeypatch.setattr(opening, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        heard = []

        def answer():
            with contextlib.suppress(OSError):  # the server is closed
                while True:
                    heard.append(server.accept()[0])
                    heard[-1].sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"no Dask scheduler answers at '{address}': "):
            tb.fit("y ~ x", {"x": [0.0, 1.0, 2.0], "y": [0, 1, 0]}, engine=address, **QUICK)
        for one in heard:
            one.close()
