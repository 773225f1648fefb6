"""One contestant on the Parquet files of a folder: `python out_of_core.py NAME FOLDER FILES [MODE.json] [MEMORY]`.

It runs in a process of its own, in the peers' environment unless it is ours. The last line that it prints is JSON: its
seconds, which begin after imports, the coefficients if it has them, and a note. Nobody may hold all rows unless that is
how the contestant works; then the rows are read straight into the arrays that it likes best.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OUTCOME, NUMBERS, FACTOR = "foreclosed", ["first_payment", "fico", "dti", "upb"], "first_time"
LEVELS = ("no", "unknown", "yes")
FORMULA = f"{OUTCOME} ~ {' + '.join(NUMBERS)} + {FACTOR}"
WIDTH = 1 + len(NUMBERS) + len(LEVELS) - 1
ROWS = 262_144  # of a batch
ROUNDS = 20  # of boosting
EPOCHS = 30  # at most, of stochastic gradients
CLOSE = 1.0  # posterior sds from the mode that are close enough


class Task(NamedTuple):
    folder: Path
    files: list[Path]
    mode: np.ndarray | None = None  # of the posterior, and its sds: where they serve to measure distances
    sd: np.ndarray | None = None
    memory: str = "2GB"


Found = dict[str, Any]


def batches(files: list[Path], rows: int = ROWS) -> Iterator[Any]:
    """Record batches of the columns of the model, file after file."""
    import pyarrow.parquet as pq

    for file in files:
        yield from pq.ParquetFile(file).iter_batches(rows, columns=[OUTCOME, *NUMBERS, FACTOR])


def design(batch: Any, kind: type = np.float64, intercept: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """X (rows, columns) and y of a batch."""
    first = batch.column(FACTOR)
    codes = np.array([LEVELS.index(level) for level in first.dictionary.to_pylist()])[first.indices.to_numpy()]
    X = np.empty((len(codes), WIDTH), kind)
    X[:, 0] = 1
    for place, name in enumerate(NUMBERS, 1):
        X[:, place] = batch.column(name).to_numpy()
    for level in range(1, len(LEVELS)):
        X[:, len(NUMBERS) + level] = codes == level
    return X[:, 0 if intercept else 1 :], batch.column(OUTCOME).to_numpy().astype(kind)


def scan(task: Task) -> Found:
    """Read the columns and do nothing with them: what everyone's seconds are multiples of."""
    import pyarrow.parquet  # noqa: F401

    began = time.perf_counter()
    rows = sum(batch.num_rows for batch in batches(task.files))
    return {"seconds": time.perf_counter() - began, "gives": "nothing", "note": f"{rows:,} rows"}


def newton(task: Task) -> Found:
    """Newton's method by hand: a pass of NumPy over batches for each step, until a step is below .001 sds."""
    import pyarrow.parquet  # noqa: F401
    from scipy.special import expit

    began = time.perf_counter()
    rows = ones = 0
    for batch in batches(task.files):
        y = batch.column(OUTCOME).to_numpy()
        rows, ones = rows + len(y), ones + int(y.sum())
    beta = np.zeros(WIDTH)
    beta[0] = np.log(ones / (rows - ones))
    passes, off = 1, np.inf
    while off > 1e-3:
        gradient, information = np.zeros(WIDTH), np.zeros((WIDTH, WIDTH))
        for batch in batches(task.files):
            X, y = design(batch)
            p = expit(X @ beta)
            gradient += X.T @ (y - p)
            information += (X * (p * (1 - p))[:, None]).T @ X
        covariance = np.linalg.inv(information)
        step, sd = covariance @ gradient, np.sqrt(np.diag(covariance))
        beta, passes, off = beta + step, passes + 1, float(np.abs(step / sd).max())
    return {
        "seconds": time.perf_counter() - began,
        "gives": "point estimate, standard errors",
        "coefficients": beta.tolist(),
        "sd": sd.tolist(),
        "note": f"{passes} passes",
    }


def sgd(task: Task, epochs: int) -> Found:
    """scikit-learn's stochastic gradients, a batch at a time, until it is told that it is close to the mode.

    Its own schedule of step sizes without a penalty came closest of all settings that were tried.
    """
    import pyarrow.parquet  # noqa: F401
    from sklearn.linear_model import SGDClassifier

    assert task.mode is not None
    assert task.sd is not None
    began = time.perf_counter()
    model = SGDClassifier(loss="log_loss", penalty=None, random_state=1)
    epoch, apart = 0, np.inf
    while epoch < epochs and apart > CLOSE:
        for batch in batches(task.files):
            X, y = design(batch, intercept=False)
            model.partial_fit(X, y, classes=[0.0, 1.0])
        epoch += 1
        found = np.concatenate([model.intercept_, model.coef_[0]])
        apart = float(np.abs((found - task.mode) / task.sd).max())
    return {
        "seconds": time.perf_counter() - began,
        "gives": "point estimate",
        "coefficients": found.tolist(),
        "note": f"{epoch} {'epoch' if epoch == 1 else 'epochs'}",
    }


def xgboost(task: Task) -> Found:
    """Boosted trees from external memory: no regression, but a yardstick for work in passes over rows on disk."""
    import pyarrow.parquet  # noqa: F401
    import xgboost

    with tempfile.TemporaryDirectory() as cache:

        class Batches(xgboost.DataIter):  # type: ignore[misc]
            def __init__(self) -> None:
                self.coming = batches(task.files, 1_000_000)
                super().__init__(cache_prefix=os.path.join(cache, "cache"))

            def next(self, input_data: Callable[..., None]) -> bool:
                batch = next(self.coming, None)
                if batch is None:
                    return False
                X, y = design(batch, np.float32, intercept=False)
                input_data(data=X, label=y)
                return True

            def reset(self) -> None:
                self.coming = batches(task.files, 1_000_000)

        began = time.perf_counter()
        rows = xgboost.ExtMemQuantileDMatrix(Batches(), max_bin=256)
        binned = time.perf_counter() - began
        xgboost.train({"tree_method": "hist", "objective": "binary:logistic", "seed": 1}, rows, ROUNDS)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "gives": "trees", "note": f"{ROUNDS} rounds, of which binning {binned:.0f} s"}


def duckreg(task: Task) -> Found:
    """Logistic regression on distinct rows, which DuckDB finds and may keep on disk while it does."""
    import ibis
    from duckreg import DuckLogisticRegression

    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        connection = ibis.duckdb.connect(
            os.path.join(folder, "rows.db"), memory_limit="1GB", temp_directory=folder, preserve_insertion_order=False
        )
        files = ", ".join(f"'{file}'" for file in task.files)
        dummies = ", ".join(f"({FACTOR} = '{level}')::INTEGER AS {FACTOR}_{level}" for level in LEVELS[1:])
        connection.raw_sql(
            f"CREATE VIEW loans AS SELECT {OUTCOME}, {', '.join(NUMBERS)}, {dummies} FROM read_parquet([{files}])"
        )
        terms = [*NUMBERS, *(f"{FACTOR}_{level}" for level in LEVELS[1:])]
        model = DuckLogisticRegression(
            None, "loans", f"{OUTCOME} ~ {' + '.join(terms)}", seed=1, method="irls", connection=connection
        )
        model.fit()
        model.fit_vcov()
    return {
        "seconds": time.perf_counter() - began,
        "gives": "point estimate, standard errors",
        "coefficients": model.point_estimate.tolist(),
        "note": f"{len(model.df_compressed):,} distinct rows",
    }


def dask(task: Task) -> Found:
    """dask-ml's logistic regression by Newton's method, a file a block; each step reads all files again."""
    import dask
    import dask.array as da
    import pyarrow.parquet as pq
    from dask_ml.linear_model import LogisticRegression

    read = dask.delayed(lambda file: next(design(batch, intercept=False) for batch in batches([file], 2**30)), nout=2)

    began = time.perf_counter()
    blocks = []
    for file in task.files:
        rows, (X, y) = pq.read_metadata(file).num_rows, read(file)
        shapes = ((X, (rows, WIDTH - 1)), (y, (rows,)))
        blocks.append([da.from_delayed(part, shape, np.float64) for part, shape in shapes])
    X, y = (da.concatenate(parts) for parts in zip(*blocks, strict=True))
    model = LogisticRegression(solver="newton", max_iter=20).fit(X, y)
    return {
        "seconds": time.perf_counter() - began,
        "gives": "point estimate",
        "coefficients": [float(model.intercept_), *np.ravel(model.coef_).tolist()],
        "note": "Newton's method",
    }


def numpyro(task: Task) -> Found:
    """NUTS, only as far as its first few steps: does it fit into memory?"""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    import pyarrow.parquet as pq
    from numpyro.infer import NUTS

    began = time.perf_counter()
    rows = sum(pq.read_metadata(file).num_rows for file in task.files)
    X, y, place = np.empty((rows, WIDTH), np.float32), np.empty(rows, np.float32), 0
    for batch in batches(task.files):
        own = slice(place, place + batch.num_rows)
        X[own], y[own] = design(batch, np.float32)
        place = own.stop
    arguments = jnp.asarray(X), jnp.asarray(y)
    del X, y

    def model(X: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0.0, 5.0).expand([WIDTH]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)

    kernel = NUTS(model, max_tree_depth=2)
    state = kernel.init(jax.random.PRNGKey(1), 2, None, model_args=arguments, model_kwargs={})
    sample = jax.jit(kernel.sample)
    state = jax.block_until_ready(sample(state, arguments, {}))
    ready = time.perf_counter()
    state = jax.block_until_ready(sample(state, arguments, {}))
    step = (time.perf_counter() - ready) / int(state.num_steps)
    return {
        "seconds": time.perf_counter() - began,
        "gives": "nothing yet",
        "note": f"set-up and two draws of at most 3 leapfrog steps, {step:.2g} s each",
    }


def ours(task: Task) -> Found:
    """tallbayes: the posterior of all rows."""
    import tallbayes as tb

    with tempfile.TemporaryDirectory() as folder:
        for file in task.files:  # the first files alone
            os.symlink(file, Path(folder) / file.name)
        began = time.perf_counter()
        fit = tb.fit(FORMULA, folder, draws=10_000, chains=4, seed=1, memory=task.memory, progress=False)
        seconds = time.perf_counter() - began
    phases = ", ".join(f"{name} {spent:.1f}" for name, spent in fit.stats["seconds"].items() if spent > 0.5)
    return {
        "seconds": seconds,
        "gives": "posterior: 4 chains x 10,000 draws",
        "coefficients": fit.draws.mean(axis=(0, 1)).tolist(),
        "sd": fit.draws.std(axis=(0, 1)).tolist(),
        "note": f"{fit.stats['method']}, least ESS {fit.summary()['ess_bulk'].min():,.0f}; seconds: {phases}",
    }


CONTESTANTS: dict[str, Callable[[Task], Found]] = {
    "scan": scan,
    "newton": newton,
    "sgd_one_epoch": lambda task: sgd(task, 1),
    "sgd": lambda task: sgd(task, EPOCHS),
    "xgboost": xgboost,
    "duckreg": duckreg,
    "dask_ml": dask,
    "numpyro": numpyro,
    "ours": ours,
}


def main(name: str, folder: str, files: str, known: str = "", memory: str = "2GB") -> None:
    """Run a contestant on the first files."""
    found = sorted(Path(folder).glob("*.parquet"))[: int(files)]
    task = Task(Path(folder), found, memory=memory)
    if known:
        saved = json.loads(Path(known).read_text())
        task = task._replace(mode=np.array(saved["coefficients"]), sd=np.array(saved["sd"]))
    print(json.dumps(CONTESTANTS[name](task)))


if __name__ == "__main__":
    main(*sys.argv[1:])
