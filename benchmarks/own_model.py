"""A model of one's own, a dose-response curve with a plateau: `python -m benchmarks.own_model [--rows N]`.

Rare side effects of a drug: their probability rises with the dose from a base to a plateau, and no linear predictor
tells it. Metropolis-Hastings beside two-stage with a case-control subsample and with an expansion at the mode, from
derivatives by JAX; all with the same function, compiled by JAX. Ratios are effective draws per minute of sampling over
those of Metropolis-Hastings, for each parameter. And one pass over all rows with NumPy, Numba and JAX.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax.numpy as jnp
import numba
import numpy as np

import tallbayes as tb
from benchmarks.timing import best

BASE, TOP, HALF, SLOPE = 0.002, 0.02, 2.0, 1.5


def simulate(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    dose = rng.lognormal(0.5, 1.5, rows)
    return {"dose": dose, "y": (rng.random(rows) < BASE + TOP / (1 + (HALF / dose) ** SLOPE)).astype(float)}


def by_jax(theta: Any, rows: Any) -> Any:
    p = theta.base + theta.top / (1 + (theta.half / rows.dose) ** theta.slope)
    return jnp.where(rows.y > 0, jnp.log(p), jnp.log1p(-p))


def by_numpy(theta: Any, rows: Any) -> Any:
    p = theta.base + theta.top / (1 + (theta.half / rows.dose) ** theta.slope)
    return np.where(rows.y > 0, np.log(p), np.log1p(-p))


@numba.njit(nogil=True)
def by_numba(theta: Any, rows: Any) -> Any:
    found = np.empty(rows.y.size)
    for i in range(found.size):
        p = theta.base + theta.top / (1 + (theta.half / rows.dose[i]) ** theta.slope)
        found[i] = np.log(p) if rows.y[i] > 0 else np.log1p(-p)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--controls", type=int, default=20_000, help="rows without an event in the subsample")
    parser.add_argument("--draws", type=int, default=1_000, help="of each of four chains of Metropolis-Hastings")
    given, _ = parser.parse_known_args()
    data = simulate(given.rows)
    prior = {"base": tb.Uniform(0, 0.5), "top": tb.Uniform(0, 0.5), "half": tb.LogNormal(0, 1), "slope": tb.LogNormal()}
    start = {"base": 0.01, "top": 0.01, "half": 1.0, "slope": 1.0}

    def model(function: Any, **options: Any) -> tb.Model:
        return tb.Model(function, prior, start, data, outcome="y", **options)

    print(f"{given.rows:,} rows, {int(data['y'].sum()):,} events, 4 parameters, 4 chains\n")
    models = {"NumPy": model(by_numpy), "Numba": model(by_numba), "JAX": model(by_jax, derivatives="jax")}
    u = models["JAX"].parameters.free(models["JAX"].parameters.start)[None]
    seconds = best(*(lambda one=one: one.log_likelihood(u) for one in models.values()), rounds=3)
    for name, one in zip(models, seconds, strict=True):
        print(f"one pass, {name:6s}{1e3 * one:8.1f} ms")
    methods = {
        "mh": (tb.MH(), given.draws),  # the others make as many as take about as long
        "two-stage, case-control": (tb.TwoStage(tb.CaseControl(given.controls)), 4 * given.draws),
        "two-stage, expansion": (tb.TwoStage(tb.Taylor()), given.draws // 4),
    }
    fits = {
        name: tb.sample(models["JAX"], method, draws=draws, seed=1, progress=False)
        for name, (method, draws) in methods.items()
    }
    print(f"\n{'':25s}{'mode s':>8s}{'warm s':>8s}{'draw s':>8s}{'accepted':>16s}{'R-hat':>8s}{'least ESS':>11s}")
    for name, fit in fits.items():
        spent, table = fit.stats["seconds"], fit.summary()
        accepted = " then ".join(f"{share:.2f}" for share in fit.stats["acceptance"].values())
        print(
            f"{name:25s}{spent['mode']:8.1f}{spent['warmup']:8.1f}{spent['sampling']:8.1f}{accepted:>16s}"
            f"{table['r_hat'].max():8.3f}{table['ess_bulk'].min():11,.0f}"
        )
    print(f"\n{'ratio to mh':25s}" + "".join(f"{label:>9s}" for label in models["JAX"].names))
    plain, reference = fits["mh"].summary(), fits["two-stage, expansion"].summary()
    for name, fit in fits.items():
        print(f"{name:25s}" + "".join(f"{ratio:9.2f}" for ratio in fit.summary()["edpm"] / plain["edpm"]))
    print(f"\n{'means less those of the expansion, in Monte Carlo errors'}")
    for name, fit in fits.items():
        table = fit.summary()
        z = (table["mean"] - reference["mean"]) / np.hypot(table["mcse_mean"], reference["mcse_mean"])
        if name != "two-stage, expansion":
            print(f"{name:25s}" + "".join(f"{one:9.1f}" for one in z))


if __name__ == "__main__":
    main()
