"""Passes from several threads at once, in every threading layer of numba that is here.

The layer "workqueue" ends the process when two threads start a parallel loop at the same time, and a process has one
layer only: each is tried in a process of its own.
"""

import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
from numba import prange

from tallbayes.families.compiled import ONE_PASS, compiled

MODULES = {"omp": "omppool", "workqueue": "workqueue", "tbb": "tbbpool"}

PASSES = """
import hashlib
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

import tallbayes as tb
from tallbayes.families import Logit
from tallbayes.rows.memory import LogLikelihood, LogLikelihoodDerivatives, MemoryRows

rng, n = np.random.default_rng(1), 150_000
x, y = rng.normal(size=(3, n)).round(1), (rng.random(n) < 0.3).astype(float)
x[0] = 1
rows, params, found = MemoryRows(x, y), rng.normal(size=(2, 3)), hashlib.sha256()
deals = [rng.integers(n, size=n // 2) for _ in range(4)]


def work(k):
    shard = rows.part(deals[k % 4])
    track = rows.track(Logit(), params)
    bounds = rows.remainders(Logit(), params[0], np.eye(3) / 100).bounds(5.0)
    answers = [shard._linear, rows._hashes(), rows.largest(), bounds, track.value]
    answers += [some.sum(LogLikelihood(Logit()), params) for some in (rows, shard)]
    answers += rows.sum(LogLikelihoodDerivatives(Logit()), params)[:3]
    return b"".join(np.asarray(answer).tobytes() for answer in answers)


with ThreadPoolExecutor(4) as pool:
    answers = list(pool.map(work, range(16)))
assert all(answers[k] == answers[k % 4] for k in range(16))
for answer in answers:
    found.update(answer)
data = {"x": x[1, :20_000], "y": y[:20_000]}
fit = tb.fit("y ~ x", data, method=tb.Consensus(6, workers=4), chains=2, draws=20, seed=1, progress=False)
found.update(fit.draws.tobytes())
print(numba.threading_layer(), found.hexdigest())
"""


def is_here(layer):
    try:
        importlib.import_module(f"numba.np.ufunc.{MODULES[layer]}")
    except ImportError:
        return False
    return True


def test_passes_from_several_threads_in_every_layer():
    layers, found = [layer for layer in MODULES if is_here(layer)], {}
    assert "workqueue" in layers
    for layer in layers:
        done = subprocess.run(
            [sys.executable, "-c", PASSES],
            env=os.environ | {"NUMBA_THREADING_LAYER": layer},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, (layer, done.stderr[-2_000:])
        used, found[layer] = done.stdout.split()
        assert used == layer
    assert len(set(found.values())) == 1  # the same bits in all layers


@compiled(parallel=True)
def double(values):
    for i in prange(values.size):
        values[i] *= 2.0


def test_a_parallel_loop_waits_its_turn():
    values = np.ones(4)
    double(values)
    with ThreadPoolExecutor(1) as pool:
        with ONE_PASS:
            job = pool.submit(double, values)
            assert not wait([job], timeout=0.2).done
        job.result()
    assert (values == 4).all()
