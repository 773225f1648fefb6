"""Group effects: the paper's hierarchical experiment on simulated loans, late flights by carrier, and many groups.

`python -m benchmarks hierarchical` runs all three, `python -m benchmarks.hierarchical loans` (or flights, or groups)
one of them, with options.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import tallbayes as tb
from benchmarks import loans as plain_loans
from benchmarks.scaling import show
from tallbayes.paper.hierarchical import FORMULA as LOANS
from tallbayes.paper.hierarchical import PAPERS_PRIOR, SIZES
from tallbayes.sampling.diagnostics import ess, mcse
from tallbayes.sampling.kernel import Draws, Streams

LOAN_METHODS: dict[str, Any] = {
    "mh": tb.MH(),
    **{name: tb.TwoStage(tb.Stratified(size, by="bank")) for name, size in SIZES.items()},
    "uniform": tb.TwoStage(tb.Stratified(SIZES["rows_224000"], by="bank", uniform=True)),
    "auto": tb.Auto(),
}
LOAN_DRAWS = {
    "mh": 8_000,
    "rows_224000": 6_000,
    "rows_22400": 6_000,
    "uniform": 4_000,
    "auto": 10_000,
    "free": 2_000,
}  # a chain
SLOW_WARMUP = 500  # of what looks at all rows

FLIGHTS = "late ~ scale(month) + scale(hour) + scale(distance) + day_of_week + origin + (1 | carrier)"

GROUPS = (100, 1_000, 10_000)
GROUP_DRAWS = 1_000
FEWEST, MOST = 10, 1_000  # rows a group
SCALE, INTERCEPT, SLOPES = 0.5, -2.0, (0.5, -0.3, 0.2, -0.1)
COMPILE_ROWS, COMPILE_GROUPS, COMPILE_DRAWS = 200_000, 1_000, 5


def loans(rows: int = tb.datasets.LOAN_ROWS, draws: dict[str, int] | None = None) -> None:
    """The paper's experiment: 24 parameters by MH, two-stage MH with its two surrogates, and thinned."""
    data, draws = tb.datasets.simulate_loans(rows), LOAN_DRAWS | (draws or {})

    def fit(name: str, data: pd.DataFrame, count: int, warmup: int | None) -> tb.Fit:
        options: dict[str, Any] = {"group_prior": PAPERS_PRIOR, "prior": tb.Normal(0, 10), "seed": 1, "progress": False}
        return tb.fit(LOANS, data, method=LOAN_METHODS[name], draws=count, warmup=warmup, **options)

    for name in LOAN_METHODS:  # compile
        fit(name, data.head(COMPILE_ROWS), COMPILE_DRAWS, COMPILE_DRAWS)
    fits = {}
    for name in LOAN_METHODS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        fits[name] = fit(name, data, draws[name], None if name == "auto" else SLOW_WARMUP)
    others = data["bank"][data["foreclosed"] == 0].value_counts()
    cases = int(data["foreclosed"].sum())
    print(f"\nLoans by bank, {rows:,} rows, {cases:,} foreclosed, {len(fits['mh'].parameters)} parameters")
    for name, size in SIZES.items():
        print(f"{name:12} two-stage, screened by all foreclosed and {others.clip(upper=size).sum():,} other loans")
    print("uniform      the first of these as in the paper, other loans of a bank being drawn with equal probabilities")
    plain_loans.report(fits)
    effective = pd.DataFrame({name: one.summary()["ess_bulk"] for name, one in fits.items()})
    print(f"\nBulk ESS: where the reference has few, the ratios above say little\n{effective.round().to_string()}\n")
    ratios = tb.compare_parameters(**fits)
    goals = {"rows_224000": "at least 22; paper: all 24", "rows_22400": "paper: 20", "uniform": "paper: all 24"}
    for name, goal in goals.items():
        found, low = ratios[name], ratios.index[ratios[name] <= 1]
        print(f"{name:12} / mh  above 1 for {(found > 1).sum()} of {len(found)} ({goal}), median {found.median():.2f}")
        print(f"{'':17} at most 1: {', '.join(f'{one} {found[one]:.2f}' for one in low) or 'none'}")
    found, a_draw = ratios["auto"], effective["auto"] / fits["auto"].draws[..., 0].size
    print(f"auto         / mh  lowest {found.min():,.0f} (at least 200), median {found.median():,.0f} (at least 500)")
    print(f"{'':17} ESS a draw {a_draw.min():.2f} to {a_draw.max():.2f} (prototype: 0.6)")
    print(f"{'':17} rows a draw {fits['auto'].stats['rows_per_draw']:,.0f} (prototype: 300)")
    print_agreement(free_mh(LOANS, data, draws["free"], group_prior=PAPERS_PRIOR), fits["auto"])


def flights(rows: int | None = None, mh_draws: int = 4_000, auto_draws: int = 4_000, out: str = "demo") -> None:
    """Late flights: auto beside MH on all rows, what it says about carriers, and a picture of that."""
    data = tb.datasets.load_flights()
    if rows is not None:
        data = data.sample(rows, random_state=1)
    common: dict[str, Any] = {"seed": 1, "progress": False, "prior": tb.Normal(0, 10)}
    for method in ("mh", "auto"):  # compile
        tb.fit(FLIGHTS, data, method=method, draws=COMPILE_DRAWS, warmup=COMPILE_DRAWS, **common)
    auto = tb.fit(FLIGHTS, data, draws=auto_draws, **common)
    print(f"\nFlights by carrier, {len(data):,} rows, {int(data['late'].sum()):,} late\n\n{auto}\n")
    assert auto.groups is not None
    facts = auto.groups.to_dataframe()
    table = auto.summary().iloc[-len(facts) :][["mean", "sd", "eti94_lb", "eti94_ub", "ess_bulk"]]
    table = table.assign(**{str(name): facts[name].to_numpy() for name in facts}).sort_values("rows")
    print(f"Carriers, the smallest first\n{table.round(3).to_string()}\n")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    tb.plots.caterpillar(auto).savefig(folder / "caterpillar.png", dpi=120)
    print(f"Figure: {folder}/caterpillar.png", flush=True)
    mh = tb.fit(FLIGHTS, data, method="mh", draws=mh_draws, warmup=SLOW_WARMUP, **common)
    print(f"mh: {mh.minutes:.1f} minutes for 4 x {mh_draws:,} draws, auto: {auto.minutes:.2f} for 4 x {auto_draws:,}")
    print(f"lowest ESS as drawn: mh {ess(mh.draws).min():,.0f}, auto {ess(auto.draws).min():,.0f}")
    print_agreement(free_mh(FLIGHTS, data, mh_draws), auto)


def groups(counts: tuple[int, ...] = GROUPS, draws: int = GROUP_DRAWS) -> None:
    """Growing numbers of groups of the same sizes; the largest comes last, as memory is that of the process so far."""
    timed_fit(*simulate_groups(min(COMPILE_GROUPS, max(counts))), COMPILE_DRAWS)
    lines: dict[str, dict[str, float | str]] = {}
    for count in sorted(counts):
        X, y, codes = simulate_groups(count)
        fit, seconds = timed_fit(X, y, codes, draws)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        total, effective = seconds["total"], ess(fit.draws)
        lines[f"{count:,} groups"] = {
            "rows": f"{len(y):,}",
            **{f"{phase} s": spent for phase, spent in seconds.items()},
            "us a draw and group": 1e6 * seconds["sampling"] / (4 * draws * count),
            "parameters": f"{effective.size:,}",
            "min ESS": effective.min(),
            "median ESS": np.median(effective),
            "min ESS/s": effective.min() / total,
            "median ESS/s": np.median(effective) / total,
            "rows a draw": f"{fit.stats['rows_per_draw']:,.0f}",
            "rows a draw and group": fit.stats["rows_per_draw"] / count,
            "acceptance": ", ".join(f"{share:.2f}" for share in fit.stats["acceptance"].values()),
            "peak MB": f"{peak:,.0f}",
        }
        print(f"{count:,} groups: done after {total:.1f} s", file=sys.stderr, flush=True)
    title = f"Groups of {FEWEST} to {MOST:,} rows, {1 + len(SLOPES)} columns, 4 chains of {draws:,} draws"
    names = list(next(iter(lines.values())))
    split = names.index("us a draw and group")
    show(f"{title}: seconds", lines, names[:split])
    show(f"{title}: speed", lines, names[split:])


def simulate_groups(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X with contiguous columns, outcomes and group of each row, in no order; sizes of groups are log-uniform."""
    rng = np.random.default_rng(1)
    sizes = np.exp(rng.uniform(np.log(FEWEST), np.log(MOST), count)).round().astype(int)
    effects = rng.normal(0, SCALE, count)
    codes = rng.permutation(np.repeat(np.arange(count), sizes))
    columns = np.ones((1 + len(SLOPES), codes.size))
    columns[1:] = rng.standard_normal((len(SLOPES), codes.size))
    chance = expit(np.array([INTERCEPT, *SLOPES]) @ columns + effects[codes])
    return columns.T, (rng.random(codes.size) < chance).astype(float), codes


def timed_fit(X: np.ndarray, y: np.ndarray, codes: np.ndarray, draws: int) -> tuple[tb.Fit, dict[str, float]]:
    """Four chains from arrays to draws by auto, and the seconds of each phase and in total."""
    began = time.perf_counter()
    model = tb.Hierarchical.from_arrays(X, y, codes)
    fit = tb.sample(model, "auto", draws, chains=4, seed=1, progress=False)
    return fit, fit.stats["seconds"] | {"total": time.perf_counter() - began}


def free_mh(formula: str, data: pd.DataFrame, draws: int, **options: Any) -> np.ndarray:
    """Draws of MH on all rows, in the order of `Fit.draws`, that is free along the one direction no row knows of.

    Adding m to all effects and taking it from the intercept leaves the likelihood as it is, so that m given all else is
    Gaussian by the priors. One parameter at a time MH hardly moves along it, and tau follows it; so m is drawn after
    each sweep. That is one more Gibbs step, which leaves the posterior as it is.
    """
    model = tb.Hierarchical(formula, data, prior=tb.Normal(0, 10), **options)
    streams, rng = Streams.spawn(1, 4), np.random.default_rng(1)
    first, p = model.coefficients.index("Intercept"), len(model.coefficients)

    def sweeps(kernel: Any, state: Any, count: int) -> tuple[Any, Draws]:
        parts = []
        for _ in range(count):
            state, part = kernel.advance(state, 1, streams)
            theta, precision = state.theta, np.exp(-2 * state.theta[:, -1])
            total = 1 / 10**2 + model.rows.groups * precision  # the prior of the intercept is Normal(0, 10)
            mean = (theta[:, first] / 10**2 - theta[:, p:-1].sum(1) * precision) / total
            m = mean + rng.standard_normal(mean.size) / np.sqrt(total)
            theta[:, first] -= m
            theta[:, p:-1] += m[:, None]
            state.log_prior[:], state.full.theta[:], part.theta[0] = model.log_prior(theta), theta, theta
            parts.append(part)
        return state, Draws(*(np.concatenate(kind) for kind in zip(*parts, strict=True)))

    kernel = tb.MH().kernel(model, seed=1)
    kernel, state = kernel.tune(kernel.start(streams), SLOW_WARMUP, sweeps)
    theta = sweeps(kernel, state, draws)[1].theta.swapaxes(0, 1)
    return np.concatenate([theta[..., :p], np.exp(theta[..., -1:]), theta[..., p:-1]], axis=2)


def apart(draws: np.ndarray, others: np.ndarray) -> dict[str, np.ndarray]:
    """Differences of posterior means and of sds in Monte Carlo standard errors, for each parameter.

    The error of an sd is that of the mean square over twice the sd. Its usual estimate takes the ESS of the mean, which
    NUTS can have more of than draws, and is too small by half there.
    """

    def moments(draws: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        return {"mean": (mean, mcse(draws)), "sd": (sd, mcse((draws - mean) ** 2) / (2 * sd))}

    left, right = moments(draws), moments(others)
    return {of: (left[of][0] - right[of][0]) / np.hypot(left[of][1], right[of][1]) for of in left}


def print_agreement(draws: np.ndarray, other: tb.Fit) -> None:
    """Largest differences to MH that is free to move."""
    print(f"\nAuto against MH that also draws the common level of all effects (lowest ESS {ess(draws).min():,.0f})")
    for of, z in apart(other.draws, draws).items():
        worst = int(np.abs(z).argmax())
        rms = (z**2).mean() ** 0.5
        name = other.parameters[worst]
        print(f"largest |z| of {z.size} {of}s: {abs(z[worst]):.2f} ({name}), root mean square {rms:.2f}")


def main() -> None:
    for part in ("loans", "flights", "groups"):  # each in a process of its own, for its memory
        subprocess.run([sys.executable, "-m", "benchmarks.hierarchical", part], check=True)


def command_line() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hierarchical", description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("loans", help=loans.__doc__)
    part.add_argument("--rows", type=int, default=tb.datasets.LOAN_ROWS)
    for name, count in LOAN_DRAWS.items():
        flag = f"--{name.replace('_', '-')}-draws"
        part.add_argument(flag, dest=name, type=int, default=count, help=f"a chain ({count:,})")
    part = parts.add_parser("flights", help=flights.__doc__)
    part.add_argument("--rows", type=int, help="at random (all 327,346)")
    part.add_argument("--mh-draws", type=int, default=4_000, help="a chain (4,000)")
    part.add_argument("--auto-draws", type=int, default=4_000, help="a chain (4,000)")
    part.add_argument("--out", default="demo", help="folder for the figure")
    part = parts.add_parser("groups", help=groups.__doc__)
    part.add_argument("--counts", type=int, nargs="+", default=list(GROUPS), help="numbers of groups")
    part.add_argument("--draws", type=int, default=GROUP_DRAWS, help="a chain (1,000)")
    options = vars(parser.parse_args())
    match options.pop("part"):
        case "loans":
            loans(options.pop("rows"), options)
        case "flights":
            flights(**options)
        case "groups":
            groups(tuple(options["counts"]), options["draws"])


if __name__ == "__main__":
    command_line()
