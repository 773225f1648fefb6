"""One peer on the rows of a folder, in the peers' environment: `python worker.py PEER FOLDER [SECONDS]`.

Reads X.npy, y.npy, mode.npy (the posterior mode) and, of models with groups, groups.npy and sd.npy; writes PEER.json
and PEER.npy: the draws (chains, draws, p) of a sampler, the coefficients (p,) of a point estimate. Importing, and
bringing the data into the layout that the peer likes best, come before the clock starts. Samplers also get the mode for
nothing, and fit what they do into SECONDS.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PRIOR_VARIANCE = 100.0
GROUP_SCALE = 2.5  # of the half-Cauchy prior of the groups' standard deviation
PYMHSS_SECONDS = 90
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)
DIGITS = 5e-4  # relative difference of numbers that agree to three significant digits
REPEATS = 3  # of a point estimate


class Data(NamedTuple):
    X: np.ndarray  # (rows, columns) with contiguous columns
    y: np.ndarray
    mode: np.ndarray  # (columns,), or coefficients, effects of the groups and log of their standard deviation
    groups: np.ndarray | None = None  # 0 to groups - 1, where there are groups
    sd: np.ndarray | None = None  # posterior standard deviations of what mode.npy has


class Wanted(NamedTuple):
    """What NUTS should do if time allows, and a guess of the leapfrog steps a draw to see what it allows."""

    warmup: int
    draws: int
    steps: int


NUTS, NUTS_GROUPS = Wanted(150, 150, 15), Wanted(500, 2_000, 31)


class Outcome(NamedTuple):
    values: np.ndarray
    seconds_setup: float | None
    seconds_total: float
    rows_per_draw: float | None
    note: str
    extra: dict[str, Any]


def numpyro(data: Data, limit: float, wide: bool) -> Outcome:
    """NUTS on the coefficients."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    numpyro.enable_x64(wide)
    kind = jnp.float64 if wide else jnp.float32
    columns, y, start = (jnp.asarray(values, kind) for values in (data.X.T, data.y, data.mode))

    def model(columns, y):
        beta = numpyro.sample("beta", dist.Normal(0.0, PRIOR_VARIANCE**0.5).expand([len(columns)]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=columns.T @ beta), obs=y)

    return nuts(model, (columns, y), {"beta": start}, lambda z: z["beta"], limit, NUTS)


def numpyro_groups(data: Data, limit: float, centred: bool, scaled: bool = False) -> Outcome:
    """NUTS on coefficients, sd of the groups and effects, in double precision, with rows sorted by group.

    If `scaled`, the mass matrix is that of the posterior's standard deviations, and only the step size is adapted.
    """
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    numpyro.enable_x64(True)
    order = np.argsort(data.groups, kind="stable")
    columns, y, groups = (jnp.asarray(values[..., order]) for values in (data.X.T, data.y, data.groups))
    p = len(columns)
    beta, effects, log_scale = (jnp.asarray(part) for part in np.split(data.mode, [p, data.mode.size - 1]))

    def model(columns, y, groups):
        beta = numpyro.sample("beta", dist.Normal(0.0, PRIOR_VARIANCE**0.5).expand([p]).to_event(1))
        tau = numpyro.sample("tau", dist.HalfCauchy(GROUP_SCALE))
        theta = numpyro.sample("theta", dist.Normal(0.0, tau if centred else 1.0).expand([len(effects)]).to_event(1))
        eta = columns.T @ beta + (theta if centred else tau * theta)[groups]
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)

    def values(z):
        tau = jnp.exp(z["tau"])
        return jnp.concatenate([z["beta"], tau[None], z["theta"] * (1.0 if centred else tau)])

    start = {"beta": beta, "tau": log_scale[0], "theta": effects if centred else effects / jnp.exp(log_scale)}
    options: dict[str, Any] = {}
    if scaled:  # in the order of the names
        ordered = np.concatenate([data.sd[:p], data.sd[-1:], data.sd[p:-1]])
        options = {"inverse_mass_matrix": jnp.asarray(ordered**2), "adapt_mass_matrix": False}
    return nuts(model, (columns, y, groups), start, values, limit, NUTS_GROUPS, **options)


def nuts(
    model: Callable[..., None],
    arguments: tuple[Any, ...],
    start: dict[str, Any],
    values: Callable[[dict[str, Any]], Any],
    limit: float,
    wanted: Wanted,
    **options: Any,
) -> Outcome:
    """NUTS as shipped (diagonal mass matrix), draw by draw as `MCMC.run` does it, so that it can stop in time.

    Where it starts, and where `values` has the parameters from, is on the unconstrained scale. The options are those of
    NumPyro's kernel.
    """
    import jax
    from numpyro.infer import NUTS
    from numpyro.infer.util import potential_energy

    gradient = jax.jit(jax.grad(lambda z, *arguments: potential_energy(model, arguments, {}, z)))
    jax.block_until_ready(gradient(start, *arguments))
    step = min(clocked(lambda: jax.block_until_ready(gradient(start, *arguments)))[0] for _ in range(5))
    warmup, draws = affordable(limit, step, wanted)

    clock = Clock(limit)
    kernel = NUTS(model, **options)
    state = kernel.init(jax.random.PRNGKey(1), warmup, start, model_args=arguments, model_kwargs={})
    sample = jax.jit(kernel.sample).lower(state, arguments, {}).compile()
    compiling = clock.seconds
    tuned, steps, kept = 0, [], []
    while tuned < warmup and clock.running:
        state = jax.block_until_ready(sample(state, arguments, {}))
        tuned += 1
        steps.append(int(state.num_steps))
    setup, tuning = clock.seconds, sum(steps)
    while tuned == warmup and len(kept) < draws and clock.running:
        state = jax.block_until_ready(sample(state, arguments, {}))
        kept.append(np.asarray(values(state.z), float))
        steps.append(int(state.num_steps))
    sampling = sum(steps) - tuning
    return Outcome(
        np.reshape(kept, (1, len(kept), sum(part.size for part in start.values()))),
        setup,
        clock.seconds,
        sampling / len(kept) * len(arguments[1]) if kept else None,
        nuts_note(1, tuned, warmup, len(kept), wanted),
        {"compile seconds": compiling, "gradient seconds": step, "leapfrog steps": [tuning, sampling]},
    )


def nutpie(data: Data, limit: float) -> Outcome:
    """nutpie's NUTS on PyMC's model compiled by jax, which is faster here than by numba; a chain a core."""
    import nutpie
    import pymc as pm

    columns, chains = np.ascontiguousarray(data.X.T), 2
    clock = Clock(limit)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, PRIOR_VARIANCE**0.5, shape=len(columns))
        eta = pm.math.dot(beta, pm.Data("columns", columns))
        pm.Bernoulli("y", logit_p=eta, observed=pm.Data("outcome", data.y))
    compiled = nutpie.compile_pymc_model(
        model, backend="jax", gradient_backend="jax", initial_points={"beta": data.mode}, jitter_rvs=set()
    )
    compiling = clock.seconds

    def run(draws: int, tune: int, timeout: float) -> Any:
        settings = {"chains": chains, "cores": chains, "seed": 1, "progress_bar": False, "blocking": False}
        sampler = nutpie.sample(compiled, draws=draws, tune=tune, **settings)
        try:
            return sampler.wait(timeout=timeout)
        except TimeoutError:
            return sampler.abort()

    # The first run compiles for good, the second tells what a step takes.
    first, _ = clocked(lambda: run(1, 1, limit))
    seconds, trial = clocked(lambda: run(1, 10, limit))
    step = seconds * chains / steps_in(trial.warmup_sample_stats, trial.sample_stats)
    warmup, draws = affordable(limit - compiling - first, step)
    seconds, trace = clocked(lambda: run(draws, warmup, limit - compiling - first))
    kept = trace.posterior["beta"].to_numpy()
    # A chain that was stopped early is filled up with NaN.
    kept = kept[:, : int(np.isfinite(kept).all(axis=2).sum(axis=1).min())]
    tuned = trace.warmup_posterior.sizes["draw"]
    tuning, sampling = steps_in(trace.warmup_sample_stats), steps_in(trace.sample_stats)
    return Outcome(
        kept,
        compiling + first + seconds * tuning / (tuning + sampling),
        compiling + first + seconds,
        sampling / max(1, kept[..., 0].size) * len(data.y),
        nuts_note(chains, tuned, warmup, kept.shape[1]) + "; set-up by share of steps",
        {"compile seconds": compiling + first, "gradient seconds": step, "steps": [tuning, sampling]},
    )


def pymhss(data: Data, limit: float) -> Outcome:
    """MH with scalable subsampling and second-order control variates; it knows flat priors only.

    The rows a draw are its own count, which includes those that the first stage makes needless.
    """
    from PyMHSS import MH_SS

    X = np.ascontiguousarray(data.X)
    chance = 1 / (1 + np.exp(-X @ data.mode))
    covariance = np.linalg.inv((X * (chance * (1 - chance))[:, None]).T @ X)

    def run(draws: int) -> dict[str, Any]:
        np.random.seed(1)  # noqa: NPY002 (PyMHSS draws from the global generator)
        start = {"V": covariance, "x0": data.mode, "nburn": 0, "npost": draws}
        found: dict[str, Any] = MH_SS(data.y, X, **start, model="logistic", implementation="vectorised", taylor_order=2)
        return found

    trial = 200
    wall, found = clocked(lambda: run(trial))
    setup = wall - found["cpu_time"]
    affordable = max(0.0, min(PYMHSS_SECONDS, limit - 2 * setup)) / found["cpu_time"] * trial
    draws = max(trial, int(affordable) // 2 * 2)  # its own ESS takes even numbers only
    wall, found = clocked(lambda: run(draws))
    return Outcome(
        found["parameters"][None],
        wall - found["cpu_time"],
        wall,
        float(found["BoverN"].mean()) * len(data.y),
        f"1 chain, {draws} draws, flat prior, acceptance {found['acc_rate']:.2f}",
        {"acceptance of stage 1": found["acc_rate_ratio1"]},
    )


def sklearn(data: Data, limit: float, solver: str) -> Outcome:
    from sklearn.linear_model import LogisticRegression

    def fit(tolerance: float) -> np.ndarray:
        model = LogisticRegression(C=PRIOR_VARIANCE, fit_intercept=False, solver=solver, tol=tolerance, max_iter=10_000)
        return model.fit(data.X, data.y).coef_[0]

    return loosest(fit, data.mode, limit)


def statsmodels(data: Data, limit: float) -> Outcome:
    """Maximum likelihood, without the prior: the faster of GLM's least squares and Logit's Newton steps."""
    import statsmodels.api as sm

    def glm(tolerance: float) -> np.ndarray:
        return sm.GLM(data.y, data.X, family=sm.families.Binomial()).fit(tol=tolerance).params

    def logit(tolerance: float) -> np.ndarray:
        return sm.Logit(data.y, data.X).fit(method="newton", tol=tolerance, disp=0).params

    found = {f.__name__: loosest(f, data.mode, limit / 2) for f in (glm, logit)}
    name = min(found, key=lambda key: (not found[key].extra["agrees"], found[key].seconds_total))
    others = {key: outcome.seconds_total for key, outcome in found.items()}
    return found[name]._replace(note=f"{name}, no prior, {found[name].note}", extra=found[name].extra | others)


def glum(data: Data, limit: float) -> Outcome:
    import tabmat
    from glum import GeneralizedLinearRegressor

    X = tabmat.DenseMatrix(np.asfortranarray(data.X))  # as it likes them best
    alpha = 1 / (PRIOR_VARIANCE * len(data.y))  # its loss is a mean over rows

    def fit(tolerance: float) -> np.ndarray:
        model = GeneralizedLinearRegressor(
            family="binomial",
            alpha=alpha,
            l1_ratio=0,
            fit_intercept=False,
            solver="irls-ls",
            gradient_tol=tolerance,
            copy_X=False,
        )
        return model.fit(X, data.y).coef_

    return loosest(fit, data.mode, limit)


PEERS: dict[str, Callable[[Data, float], Outcome]] = {
    "numpyro_float32": lambda data, limit: numpyro(data, limit, wide=False),
    "numpyro_float64": lambda data, limit: numpyro(data, limit, wide=True),
    "numpyro_centred": lambda data, limit: numpyro_groups(data, limit, centred=True),
    "numpyro_noncentred": lambda data, limit: numpyro_groups(data, limit, centred=False),
    "numpyro_scaled": lambda data, limit: numpyro_groups(data, limit, centred=True, scaled=True),
    "nutpie": nutpie,
    "pymhss": pymhss,
    "sklearn_lbfgs": lambda data, limit: sklearn(data, limit, "lbfgs"),
    "sklearn_newton_cholesky": lambda data, limit: sklearn(data, limit, "newton-cholesky"),
    "statsmodels": statsmodels,
    "glum": glum,
}
PACKAGES = ("numpyro", "jax", "nutpie", "pymc", "PyMHSS", "scikit-learn", "statsmodels", "glum", "numpy")


class Clock:
    """Seconds since it was made, and whether they are within the limit."""

    def __init__(self, limit: float) -> None:
        self._began, self._limit = time.perf_counter(), limit

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def running(self) -> bool:
        return self.seconds < self._limit


def clocked(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and what it returned."""
    clock = Clock(np.inf)
    result = call()
    return clock.seconds, result


def affordable(limit: float, step: float, wanted: Wanted = NUTS) -> tuple[int, int]:
    """Draws of NUTS for warm-up and to keep, if a leapfrog step takes so many seconds."""
    share = min(1.0, limit / (step * wanted.steps * (wanted.warmup + wanted.draws)))
    return max(10, int(share * wanted.warmup)), max(10, int(share * wanted.draws))


def nuts_note(chains: int, tuned: int, warmup: int, kept: int, wanted: Wanted = NUTS) -> str:
    few = " (fewer than wanted, for the time limit)" if warmup < wanted.warmup or kept < wanted.draws else ""
    return f"{chains} chain{'s' * (chains > 1)}, warm-up {tuned} of {warmup}, {kept} draws{few}"


def steps_in(*stats: Any) -> int:
    """Leapfrog steps in the statistics of nutpie's draws; those that were never made are NaN."""
    return int(sum(np.nansum(part["n_steps"].to_numpy()) for part in stats))


def loosest(fit: Callable[[float], np.ndarray], mode: np.ndarray, limit: float) -> Outcome:
    """The loosest tolerance at which an estimate agrees with the mode to three digits, or else the tightest."""
    clock, tried = Clock(limit), {}
    for tolerance in TOLERANCES:
        seconds, estimate = clocked(lambda tolerance=tolerance: fit(tolerance))
        tried[f"{tolerance:g}"] = seconds
        agrees = bool((np.abs(estimate - mode) <= DIGITS * np.abs(mode)).all())
        if agrees or not clock.running:
            break
    repeats = [seconds]
    while len(repeats) < REPEATS and clock.running:
        repeats.append(clocked(lambda: fit(tolerance))[0])
    note = f"tolerance {tolerance:g}, " + ("agrees to 3 digits" if agrees else "does not agree to 3 digits")
    return Outcome(estimate, None, min(repeats), None, note, {"agrees": agrees, "first seconds": tried})


def main(peer: str, folder: str, limit: str = "540") -> None:
    """Run a peer and write what came out."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # PyMHSS imports TensorFlow
    out = Path(folder)
    files = [out / f"{name}.npy" for name in Data._fields]
    data = Data(*(np.load(file) for file in files if file.exists()))
    found = PEERS[peer](data, float(limit))
    np.save(out / f"{peer}.npy", found.values)
    report = found._asdict() | {"versions": {name: version(name) for name in PACKAGES}}
    del report["values"]
    (out / f"{peer}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
