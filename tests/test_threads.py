"""Passes in several threads: the same bits for any number of them, asked for by several at once, also after a fork."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import harness
import numpy as np
import pytest

from tallbayes.families import Logit
from tallbayes.rows import threads
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.moments import ColumnMoments
from tallbayes.rows.remainders import RemainderBounds
from tallbayes.rows.tasks import LogLikelihood, LogLikelihoodDerivatives

RNG, N = np.random.default_rng(1), 150_000
X, Y = RNG.normal(size=(3, N)).round(1), (RNG.random(N) < 0.3).astype(float)
X[0] = 1
ROWS, PARAMS = MemoryRows(X, Y), RNG.normal(size=(2, 3))
DEALS = [RNG.integers(N, size=N // 2) for _ in range(4)]


def answers(k: int) -> bytes:
    """All kinds of passes over rows and a shard of them."""
    shard = MemoryRows.of(ROWS.arrays.take(DEALS[k % 4]))
    track = harness.tracked(ROWS, Logit(), PARAMS)
    measure = RemainderBounds(Logit(), PARAMS[0], np.eye(3) / 100, 5.0)
    bounds, urn = measure.of(ROWS.arrays), ROWS.draw(measure, PARAMS[0], 1.0, 20, 3)
    found = [shard.outcomes.slopes, ROWS.reduce(ColumnMoments()), bounds, track.value]
    found += [some.reduce(LogLikelihood(Logit()), PARAMS) for some in (ROWS, shard)]
    found += ROWS.reduce(LogLikelihoodDerivatives(Logit()), PARAMS)[:3]
    found += [*urn.seen, *urn.pool((k % 4, 0), 0, 1, 1_000)]
    return b"".join(np.asarray(one).tobytes() for one in found)


def test_passes_asked_for_by_several_threads_at_once():
    with threads.using(1):
        alone = [answers(k) for k in range(4)]

    def work(k):
        with threads.using(1 + k % 4):
            return answers(k)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(16))) == [alone[k % 4] for k in range(16)]


def test_an_error_in_one_thread_is_seen():
    def fails(begin, end):
        if begin > 0:
            raise ArithmeticError(f"block {begin}")

    with threads.using(3), pytest.raises(ArithmeticError, match="block"):
        threads.over_blocks(fails, 12, evaluations=10**9)


def test_every_block_is_done_once():
    done = np.zeros(1_001, int)

    def work(begin, end):
        done[begin:end] += 1

    for count in (1, 2, 5):
        with threads.using(count):
            threads.over_blocks(work, done.size, evaluations=10**9)
    assert (done == 3).all()


def test_the_number_of_threads_is_each_threads_own():
    with threads.using(3), ThreadPoolExecutor(1) as pool:
        assert threads.count() == 3
        assert pool.submit(threads.count).result() != 3 or threads._available() == 3


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*os.fork.*:RuntimeWarning")  # where another test has imported it
def test_passes_after_a_fork():
    with threads.using(2):
        here = answers(0)
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=lambda: queue.put(answers(0)))
        child.start()
        there = queue.get(timeout=60)
        child.join(timeout=60)
    assert there == here
    assert child.exitcode == 0
