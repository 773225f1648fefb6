"""One pass over 2.3 million rows by 7 columns: log-likelihoods against reading the matrix and against NumPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numba import njit, prange

from benchmarks.timing import best
from tallbayes.families import Logit
from tallbayes.rows.memory import MemoryRows
from tallbayes.rows.tasks import LogLikelihood, LogLikelihoodDerivatives
from tallbayes.rows.track import Track


@njit(parallel=True, fastmath=True, cache=True)
def read(x, sums):  # type: ignore[no-untyped-def]
    length = -(-x.shape[1] // sums.size)
    for block in prange(sums.size):
        total = 0.0
        for j in range(x.shape[0]):
            part = x[j, block * length : (block + 1) * length]
            for i in range(part.size):
                total += part[i]
        sums[block] = total


def main(rows: int = 2_297_813, columns: int = 7) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((columns, rows))
    x[0] = 1.0
    y = (rng.random(rows) < 0.0016).astype(float)
    theta = 0.3 * rng.standard_normal((4, columns))
    theta[:, 0] = -6.5
    data, sums = MemoryRows(x, y), np.empty(256)
    linear = x @ y
    value, derivatives = LogLikelihood(Logit()), LogLikelihoodDerivatives(Logit())
    track = data.keep(Track, Logit())
    trail = track.start(theta)
    moved = theta.copy()
    moved[:, 1] += 0.01
    seconds = best(
        lambda: read(x, sums),
        lambda: theta[0] @ linear - np.logaddexp(0.0, theta[0] @ x).sum(),
        lambda: data.reduce(value, theta[:1]),
        lambda: data.reduce(value, theta),
        lambda: data.reduce(derivatives, theta[:1]),
        lambda: track.at(trail, moved, 1, np.arange(1)),
        lambda: track.at(trail, moved, 1, np.arange(4)),
    )
    names = [
        "read the matrix",
        "NumPy log-likelihood",
        "log-likelihood",
        "log-likelihood, 4 vectors",
        "with gradient and curvature",
        "one column moved, 1 chain",
        "one column moved, 4 chains",
    ]
    table = pd.DataFrame({"ms": np.array(seconds) * 1e3}, index=names)
    table["over reading"] = table["ms"] / table["ms"].iloc[0]
    print(f"\n{rows:,} rows x {columns} columns, float64\n{table.round(2).to_string()}")
    print(f"pass / read        {seconds[2] / seconds[0]:.2f}  (at most 2)")
    print(f"NumPy / pass       {seconds[1] / seconds[2]:.2f}  (at least 4)")
    print(f"4 vectors / 1      {seconds[3] / seconds[2]:.2f}  (at most 2.5)")
