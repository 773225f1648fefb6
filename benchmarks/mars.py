"""Bayesian MARS: the paper's table, samplers beside plain reversible jump, growing rows, and defaults.

`python -m benchmarks mars` runs all of it, `python -m benchmarks.mars paper` (or collapsed, growing, defaults, cells,
scaling) one of them, with options. `benchmarks.peers.splines` holds predictions against those of others.
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import tallbayes as tb
from tallbayes.data.timing import Phases
from tallbayes.paper.mars import (
    CHAINS,
    FORMULA,
    MOVES,
    PAPERS,
    TEST_ROWS,
    VARIABLES,
    log_odds,
    measure,
    predictions,
    rms,
    seconds,
)
from tallbayes.sampling import loop
from tallbayes.sampling.diagnostics import ess, mcse, r_hat
from tallbayes.sampling.loop import Run
from tallbayes.sampling.request import Request
from tallbayes.splines.cells import at_reference
from tallbayes.splines.partition import Partition
from tallbayes.splines.reversible_jump import ReversibleJumpKernel
from tallbayes.splines.reversible_jump_loop import SCALE
from tallbayes.splines.sheet import Sheets
from tallbayes.splines.warmup import AVERAGED

LINES = 0.5  # the package's default
SPLINE = "y ~ s(x1, x2, x3, x4)"
POINTS = 50  # test rows whose log-odds are followed
TUNING = 96  # draws that find the step of a random walk
EVERY = 10  # how many draws lie between the places that make a reference

CELLS = (*(tb.Cells(count) for count in (1_024, 2_048, 4_096, 8_192)), tb.Cells(pairs=1), tb.Cells(pairs=16_000))
LENGTHS = (10, 30, 100, 300)
BINS = 20  # of the calibration error


def paper(rows: int = 1_000_000, moves: int = 2_000, repeats: int = 2, warmup: int = 1_000) -> None:
    """The paper's table: equal numbers of moves, plain and screened by subsamples, from the same converged chains."""
    model, test, _, theta, _ = warmed(rows, warmup)
    kernels, runs = dict[tuple[str, int, float], ReversibleJumpKernel](), dict[tuple[str, int, float], Run]()
    for percent, sd in PAPERS:
        walk = screened(model, percent, theta)
        kernels["the paper's", percent, sd] = replace(walk, law=walk.law._replace(walk=sd, moves=np.cumsum(MOVES)))
        kernels["tuned", percent, walk.law.walk] = walk
        kernels["informed", percent, np.nan] = screened(model, percent)
    for kernel in kernels.values():  # compile
        measure(kernel, theta, 2)
    for turn in range(repeats):  # in turns, as the machine may be busy now and then
        for key, kernel in kernels.items():
            run = measure(kernel, theta, max(1, moves // kernel.rounds))
            runs[key] = min(runs.get(key, run), run, key=seconds)
            say(f"run {turn + 1} of {repeats}, steps {key[0]}, {key[1]}%: {seconds(run):.1f} s")
    lines, plain = [], dict[str, tuple[float, float]]()
    for (steps, percent, sd), run in runs.items():
        spent, tried = seconds(run), run.theta.shape[0] * run.theta.shape[1] * run.kernel.rounds
        lambdas = run.state.tally[:, SCALE, 0].sum()
        stages = run.acceptance if percent else {"stage 1": np.nan, "stage 2": np.nan}
        moved, passed = ((one * tried - lambdas) / (tried - lambdas) for one in (run.moved, stages["stage 1"]))
        base, base_moved = plain.setdefault(steps, (spent, moved))
        share, ratio = PAPERS.get((percent, sd), (np.nan, np.nan))
        line = {"steps": steps, "subsample %": str(percent or "none"), "walk sd": sd}
        line |= {"accepted": run.moved, "paper's": share, "but lambda": moved}
        line |= {"stage 1": passed, "stage 2": stages["stage 2"]}
        line |= {"seconds": spent, "time ratio": spent / base, "paper's ratio": ratio}
        line |= {"moved/s ratio": moved / base_moved * base / spent, "RMSE": rmse(model, run.theta, test)}
        lines.append(line)
    table = pd.DataFrame(lines).set_index("steps").loc[list(plain)]
    show(f"The paper's table: {rows:,} rows, {CHAINS} chains of {moves:,} moves, best of {repeats} runs", table)
    print("but lambda, stage 1, stage 2: without draws of lambda, which are always accepted")
    print("moved/s ratio: such accepted moves a second over those of plain reversible jump with the same steps")
    print(f"RMSE: of mean probabilities against the true ones on {TEST_ROWS:,} other rows (paper: .0804 to .0808)")


def cells(rows: int = 1_000_000, minutes: float = 3.0, grid_minutes: float = 0.5, warmup: int = 1_000) -> None:
    """Effective draws per minute of log-odds, and how they depend on the number of cells and on subchains."""
    model, test, kernel, theta, been = warmed(rows, warmup)
    runs = {name: lasting(one, theta, 60 * minutes) for name, one in samplers(model, theta, kernel).items()}
    lines = dict[str, dict[str, float]]()
    points = test[VARIABLES].to_numpy()[:POINTS].T
    spread = log_odds(model, runs["cells"].theta, points)
    reference = expit(spread)
    for name, run in runs.items():
        draws = log_odds(model, run.theta, points)
        chance, together = expit(draws), ess(draws)
        alone = np.sum([ess(draws[chain : chain + 1]) for chain in range(CHAINS)], axis=0)
        z = (chance.mean((0, 1)) - reference.mean((0, 1))) / np.hypot(mcse(chance), mcse(reference))
        spent = seconds(run)
        line = {"seconds": spent, "draws a chain": draws.shape[1], "ms a step": step_ms(run)}
        line |= {"half forgotten, s": forgotten(draws, spread, spent)}
        line |= {"median ESS": np.median(together), "least ESS": together.min(), "median ESS apart": np.median(alone)}
        line |= {"EDPM": 60 * np.median(together) / spent, "EDPM apart": 60 * np.median(alone) / spent}
        line |= {"median R-hat": np.median(r_hat(draws)), "largest R-hat": r_hat(draws).max()}
        line |= {"RMSE": rmse(model, run.theta, test), "largest |z|": np.nan if name == "cells" else np.abs(z).max()}
        lines[name] = line
    table = pd.DataFrame(lines)
    for of in ("EDPM", "EDPM apart"):
        table.loc[f"{of} ratio"] = table.loc[of] / table.loc[of].iloc[:2].max()
    half = table.loc["half forgotten, s"]
    table.loc["half forgotten ratio"] = half.iloc[:2].min() / half
    show(f"Log-odds of {POINTS} rows from {rows:,}, {CHAINS} chains; cells with subchains of {kernel.subchain}", table)
    print("apart: the ESS of each chain by itself, summed; ratio: to the better of the two plain ones")
    print("half forgotten: until the squared change of log-odds is half that of independent draws, as cells have them")
    print(
        "(median of points; a third of the run at most). Chains that start apart and hardly move have an ESS of 4 to 9"
    )
    print("all the same, so that the EDPM of slow samplers is too high.")
    print(f"largest |z|: of the differences of {POINTS} mean probabilities to those of cells, in Monte Carlo errors")
    grid = []
    for one in CELLS:
        partition = model.rows.keep(Partition, one.count, one.pairs, 1)
        each = tuple(at_reference(model, partition, been[:, chain]) for chain in range(CHAINS))
        for length in LENGTHS:
            changed = replace(kernel, surrogate=Sheets(str(one), each, partition), subchain=length)
            run = lasting(changed, theta, 60 * grid_minutes)
            edpm = 60 * float(np.median(ess(log_odds(model, run.theta, points)))) / seconds(run)
            where = {"cells": one.count, "pairs": one.pairs, "subchain": length}
            grid.append(where | {"stage 2": run.acceptance["stage 2"], "ms a step": step_ms(run), "EDPM": edpm})
    title = f"Cells by length of subchains, {grid_minutes:g} minutes each (chains that have not met have an ESS of 5)"
    show(title, pd.DataFrame(grid).pivot(index=["cells", "pairs"], columns="subchain"))


def collapsed(rows: int = 1_000_000, draws: int = 1_000, minutes: float = 2.0) -> None:
    """Coefficients integrated out, from nothing, and plain reversible jump from where its chains have been."""
    model, test = simulated(rows, LINES)
    points = test[VARIABLES].to_numpy()[:POINTS].T
    loop.run(tb.Auto().kernel(model, 1), Request(2, CHAINS, seed=1, warmup=20, progress=False), Phases())  # compiles
    phases = Phases()
    began = time.perf_counter()
    own = loop.run(tb.Auto().kernel(model, 1, phases), Request(draws, CHAINS, seed=1, progress=False), phases)
    from_nothing = time.perf_counter() - began
    starts = own.theta[:, 0]
    plain = {"plain, walk": screened(model, 0, starts), "plain, informed": screened(model, 0)}
    runs = {name: lasting(kernel, starts, 60 * minutes) for name, kernel in plain.items()} | {"collapsed": own}
    chance, lines = expit(log_odds(model, own.theta, points)), dict[str, dict[str, float]]()
    for name, run in runs.items():
        found = log_odds(model, run.theta, points)
        together, own_chance = ess(found), expit(found)
        z = (own_chance.mean((0, 1)) - chance.mean((0, 1))) / np.hypot(mcse(own_chance), mcse(chance))
        spent = seconds(run)
        lines[name] = {
            "seconds": spent,
            "draws a chain": found.shape[1],
            "ms a step": step_ms(run),
            "median ESS": np.median(together),
            "least ESS": together.min(),
            "EDPM": 60 * np.median(together) / spent,
            "least EDPM": 60 * together.min() / spent,
            "largest R-hat": r_hat(found).max(),
            "RMSE": rmse(model, run.theta, test),
            "largest |z|": np.nan if run is own else np.abs(z).max(),
        }
    table = pd.DataFrame(lines)
    for of in ("EDPM", "least EDPM"):
        table.loc[f"{of} ratio"] = table.loc[of] / table.loc[of].iloc[:2].max()
    show(f"Log-odds of {POINTS} rows from {rows:,}, {CHAINS} chains, from the same starts", table)
    error = own.sample_stats["surrogate_error"].std(1)
    print(
        f"collapsed: {from_nothing:.0f} s from nothing, with warm-up; stage 2 accepts {own.acceptance['stage 2']:.2f}"
    )
    print(f"sd of log L - L* by chain: {error.round(2)}; bases: {own.theta[..., 0].mean():.1f}")
    print("EDPM: effective draws per minute of sampling, median of the points; ratio: to the better of the plain ones")


def growing(rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000), draws: int = 100) -> None:
    """What a draw of the default sampler takes against the number of rows."""
    lines = {}
    for size in rows:
        model, test = simulated(size, LINES)
        points = test[VARIABLES].to_numpy()[:POINTS].T
        loop.run(
            tb.Auto().kernel(model, 1), Request(2, CHAINS, seed=1, warmup=20, progress=False), Phases()
        )  # compiles
        phases = Phases()
        run = loop.run(tb.Auto().kernel(model, 1, phases), Request(draws, CHAINS, seed=1, progress=False), phases)
        kernel: Any = run.kernel
        found = log_odds(model, run.theta, points)
        lines[f"{size:,} rows"] = {
            "set-up s": phases.seconds["surrogate"],
            "warm-up s": phases.seconds["warmup"],
            "ms a draw": step_ms(run),
            "moves a draw": kernel.moves,
            "stage 2": run.acceptance["stage 2"],
            "median ESS a draw": np.median(ess(found)) / (CHAINS * draws),
            "ms an effective draw": 1e3 * seconds(run) / np.median(ess(found)),
            "largest R-hat": r_hat(found).max(),
        }
    show(f"Coefficients integrated out, {CHAINS} x {draws} draws; a draw is one chain's", pd.DataFrame(lines))


def defaults(rows: tuple[int, ...] = (3_000, 60_000, 200_000, 1_000_000), seeds: tuple[int, ...] = (1, 2)) -> None:
    """`tb.fit` as it is: seconds from data to result, and whether it has converged."""
    how: dict[str, Any] = {"progress": False}
    tb.fit(SPLINE, tb.datasets.simulate_mars(rows[0]), draws=4, warmup=20, seed=1, **how)  # compiles
    lines = []
    for size, seed in ((size, seed) for size in rows for seed in seeds):
        data = tb.datasets.simulate_mars(size)
        fit, spent = timed(lambda data=data, seed=seed: tb.fit(SPLINE, data, seed=seed, **how))
        summary = fit.summary()
        line = {"rows": size, "seed": seed, "seconds": spent, "draws a chain": fit.posterior.sizes["draw"]}
        line |= {"least ESS": summary["ess_bulk"].min(), "median ESS": summary["ess_bulk"].median()}
        lines.append(line | {"largest R-hat": summary["r_hat"].max(), "converged": str(fit.converged)})
    classifier, spent = timed(_classify, rows[0])
    show("Defaults, from data to result, loops compiled before", pd.DataFrame(lines), digits=4)
    print(f"MARSClassifier().fit on {rows[0]:,} rows: {spent:.1f} s, converged: {classifier.fit_.converged}")


def _classify(rows: int) -> Any:
    data = tb.datasets.simulate_mars(rows)
    return tb.MARSClassifier(random_state=1).fit(data[VARIABLES], data["y"])


def scaling(rows: tuple[int, ...] = (10_000, 100_000, 1_000_000), seconds: float = 10.0, warmup: int = 1_000) -> None:
    """Milliseconds a step, one chain's share, and microseconds a move against the number of rows."""
    steps, moves, setup = (dict[str, dict[str, float]]() for _ in range(3))
    for size in rows:
        model, _, kernel, theta, been = warmed(size, warmup)
        kernels = samplers(model, theta, replace(kernel, subchain=100))
        partition, cut = timed(model.rows.keep, Partition, tb.Cells().count, tb.Cells().pairs, 1)
        setup[f"{size:,} rows"] = {"partition": cut, "reference": timed(at_reference, model, partition, been[:, 0])[1]}
        each = {name: step_ms(lasting(one, theta, seconds)) for name, one in kernels.items()}
        made = {name: one.rounds * max(1, one.subchain) for name, one in kernels.items()}
        steps[f"{size:,} rows"], moves[f"{size:,} rows"] = each, {name: 1e3 * each[name] / made[name] for name in each}
    show("Milliseconds a step and chain: 20 moves, or a subchain of 100 on cells", pd.DataFrame(steps))
    show("Microseconds a move", pd.DataFrame(moves))
    show(f"Seconds of set-up: partition for all chains, reference of one chain from {AVERAGED}", pd.DataFrame(setup))


def scores(y: np.ndarray, chance: np.ndarray) -> dict[str, float]:
    """Of probabilities, which count as 2e-16 at least; the calibration error is that of bins with equally many rows."""
    log_loss = -np.log(np.where(y == 1, chance, 1 - chance).clip(np.finfo(float).eps)).mean()
    bins = np.array_split(np.argsort(chance, kind="stable"), BINS)
    apart = sum(abs((chance - y)[some].sum()) for some in bins) / len(y)
    return {"log loss": log_loss, "Brier": ((chance - y) ** 2).mean(), "calibration error": apart}


def lasting(kernel: ReversibleJumpKernel, theta: np.ndarray, length: float) -> Run:
    """A run of about so many seconds; the first of some shorter ones compiles, the last tells how many draws fit."""
    draws, spent = 2, 0.0
    tried = measure(kernel, theta, draws)
    while spent < length / 20:
        draws *= 2
        tried = measure(kernel, theta, draws)
        spent = seconds(tried)
    facts = kernel.facts()
    say(f"{kernel.surrogate.name}, subchain {kernel.subchain}, {facts['proposal']}: {step_ms(tried):.2f} ms a step")
    return measure(kernel, theta, max(4, int(draws * length / spent)))


def step_ms(run: Run) -> float:
    """Milliseconds a step of one chain."""
    return 1e3 * seconds(run) / float(np.prod(run.theta.shape[:2]))


def warmed(rows: int, draws: int) -> tuple[tb.MARS, pd.DataFrame, ReversibleJumpKernel, np.ndarray, np.ndarray]:
    """The paper's model, test rows, a kernel, where its chains are, and where they were (places, chains, width)."""
    model, test = simulated(rows)
    request = Request(EVERY * AVERAGED, CHAINS, seed=1, warmup=draws, progress=False)
    run = loop.run(tb.TwoStage(tb.Cells()).kernel(model, 1), request, Phases())
    spent, height = run.phases.seconds["warmup"], run.sample_stats["total_log_likelihood"][:, -1]
    say(f"{rows:,} rows: warm-up took {spent:.0f} s; log-likelihoods {height.round(1)}")
    kernel: Any = run.kernel
    return model, test, kernel, run.theta[:, -1], run.theta.swapaxes(0, 1)[::EVERY]


def simulated(rows: int, lines: float = 0.0) -> tuple[tb.MARS, pd.DataFrame]:
    """The paper's model, with some lines instead of hinges if so wished, and test rows."""
    model = tb.MARS(FORMULA, tb.datasets.simulate_mars(rows), max_interaction=3, lines=lines)
    return model, tb.datasets.simulate_mars(TEST_ROWS, seed=1)


def screened(model: tb.MARS, percent: int, walk_from: np.ndarray | None = None) -> Any:
    """Reversible jump with a subsample of so many percent, or plain; informed, or with a walk tuned from somewhere."""
    proposal = None if walk_from is None else "random-walk"
    sample = tb.Subsample(max(1, model.rows.size * percent // 100))
    kernel: Any = (tb.TwoStage(sample, proposal) if percent else tb.MH(proposal)).kernel(model, seed=1)
    if walk_from is None:
        return kernel
    request = Request(1, CHAINS, seed=3, warmup=TUNING, progress=False)
    return replace(loop.run(replace(kernel, initial=walk_from), request, Phases()).kernel, initial=None)


def samplers(model: tb.MARS, theta: np.ndarray, cells: ReversibleJumpKernel) -> dict[str, ReversibleJumpKernel]:
    plain = {"plain, walk": screened(model, 0, theta), "plain, informed": screened(model, 0)}
    return plain | {f"subsample {percent}%": screened(model, percent) for percent in (5, 1)} | {"cells": cells}


def forgotten(draws: np.ndarray, independent: np.ndarray, seconds: float) -> float:
    """Seconds until a chain has moved, in mean square, half as far as independent draws are apart."""
    variance = independent.reshape(-1, independent.shape[2]).var(0)
    count = draws.shape[1]
    found = np.full(draws.shape[2], count // 3)
    for lag in np.unique(np.geomspace(1, count // 3, 60).astype(int))[::-1]:
        moved = ((draws[:, lag:] - draws[:, :-lag]) ** 2).mean((0, 1))
        found[moved >= variance] = lag  # twice the variance would be all
    return float(np.median(found) * seconds / count)


def rmse(model: tb.MARS, theta: np.ndarray, test: pd.DataFrame) -> float:
    """Of posterior mean probabilities."""
    return rms(predictions(model, theta, test) - test["probability"].to_numpy())


def timed(function: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    found = function(*given)
    return found, time.perf_counter() - began


def show(title: str, table: pd.DataFrame, digits: int = 3) -> None:
    said = table.map(lambda one: one if isinstance(one, str) else "" if np.isnan(one) else f"{one:,.{digits}g}")
    print(f"\n{title}\n{said.to_string()}", flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


PARTS: dict[str, Callable[..., None]] = {
    part.__name__: part for part in (paper, collapsed, growing, defaults, cells, scaling)
}


def main() -> None:
    for part in PARTS:  # each in a process of its own, for its memory
        subprocess.run([sys.executable, "-m", "benchmarks.mars", part], check=True)


def command_line() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mars", description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for name, function in PARTS.items():
        part = parts.add_parser(name, help=function.__doc__)
        for option in inspect.signature(function).parameters.values():
            value, flag = option.default, f"--{option.name.replace('_', '-')}"
            kind: dict[str, Any] = {"type": int, "nargs": "+"} if isinstance(value, tuple) else {"type": type(value)}
            part.add_argument(flag, default=value, help=f"({value})", **kind)
    options = vars(parser.parse_args())
    PARTS[options.pop("part")](**options)


if __name__ == "__main__":
    command_line()
