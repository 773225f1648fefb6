"""What a fit feels of a slow network: `python -m benchmarks.latency`.

Workers are threads of this process, and every round takes a while longer, as if answers came from far away. A thinned
fit asks a few times in all; Metropolis-Hastings asks for every draw.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tallbayes as tb
from tallbayes.engines.engine import Local
from tallbayes.engines.wire import Message
from tallbayes.paper.loans import FORMULA

ROWS, FILES, REPEATS = 500_000, 8, 3
LINE = "{:10} {:>10} {:>7} {:>8} {:>7} {:>15}  {}"
DELAYS = (0.0, 0.001, 0.01, 0.1)  # seconds a round
FEW: dict[str, Any] = {"draws": 25, "warmup": 25}
CASES: dict[str, dict[str, Any]] = {
    "auto": {"method": "auto", "draws": 1_000},
    "two-stage": {"method": "two-stage", **FEW},
    "mh": {"method": "mh", **FEW},
}


class Far(Local):
    """Workers whose answers take a while, those of a round together."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self.delay = delay

    def unpacked(self, messages: Sequence[Message]) -> list[Any]:
        """See `Counted`."""
        time.sleep(self.delay)
        return super().unpacked(messages)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, loans = Path(place), tb.datasets.simulate_loans(rows=options.rows)
        for number, part in enumerate(np.array_split(np.arange(len(loans)), FILES)):
            loans.iloc[part].to_parquet(folder / f"{number}.parquet", index=False)
        print(f"{len(loans):,} loans, 4 chains, two workers\n")
        print(LINE.format("method", "draws", "delay", "seconds", "rounds", "rounds x delay", "the same draws"))
        for name, given in CASES.items():
            one_fit(folder, 0.0, given)  # compiles
            first = None
            for delay in DELAYS:
                tries = [one_fit(folder, delay, given) for _ in range(REPEATS)]
                spent, rounds, fit = min(tries, key=lambda one: one[0])
                first = fit.draws if first is None else first
                drawn = f"{given.get('warmup', '-')} + {given['draws']}"
                told = f"{1e3 * delay:.0f} ms", f"{spent:.2f}", rounds, f"{rounds * delay:.2f}"
                same = "yes" if (fit.draws == first).all() else "NO"
                print(LINE.format(name, drawn, *told, same), flush=True)


def one_fit(folder: Path, delay: float, given: dict[str, Any]) -> tuple[float, int, Any]:
    """Seconds and rounds of a fit, and the fit."""
    engine = Far(delay)
    began = time.perf_counter()
    fit = tb.fit(FORMULA, folder, engine=engine, seed=1, progress=False, **given)
    return time.perf_counter() - began, engine.rounds, fit


if __name__ == "__main__":
    main()
