"""More rows than memory: `python -m benchmarks.out_of_core --folder loans100m --rows 10000000 100000000`.

Everyone fits the same model to the same Parquet files in a process of its own, under a hard limit of memory. The files
are not in the page cache when a contestant starts. `--ours` runs tallbayes as well. The files are made by

    tallbayes simulate loans --rows 100000000 --seed 1 --out loans100m/
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.memory_limit import Outcome, forget_files, how_limited, run_limited

ROOT = Path(__file__).parents[1]
WORKER = ROOT / "benchmarks" / "peers" / "out_of_core.py"
PEERS = ("scan", "newton", "sgd_one_epoch", "sgd", "xgboost", "duckreg", "dask_ml", "numpyro")
FIRST = ("scan", "newton")  # the unit, and the mode from which distances are measured
A_FILE = 1_000_000  # rows
CAP = 600  # seconds
SCANNED = 3  # times, of which the fastest counts
MEGABYTE = 10**6

SECONDS, SCANS, CPU, PRIVATE, PEAK, APART, GIVES, NOTE = (
    "seconds", "scans", "CPU s", "private MB", "with cache MB", "apart", "gives", "note",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("loans100m"), help="that `tallbayes simulate` wrote")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000, 100_000_000], help="of the first files")
    parser.add_argument("--limit", type=float, default=2e9, help="bytes of memory")
    parser.add_argument("--cap", type=float, default=CAP, help="seconds that a contestant may take")
    parser.add_argument("--only", help="names of contestants, separated by commas; scan and newton always run")
    parser.add_argument("--ours", action="store_true", help="tallbayes too")
    parser.add_argument("--python", default=str(ROOT / ".venv-peers" / "bin" / "python"), help="with the peers")
    options = parser.parse_args()
    everyone = [*PEERS, "ours"]
    asked = options.only.split(",") if options.only else list(PEERS)
    if unknown := [name for name in asked if name not in everyone]:
        parser.error(f"no contestant {unknown[0]!r}; there are {', '.join(everyone)}")
    names = [name for name in everyone if name in (*FIRST, *asked) or (name == "ours" and options.ours)]
    files = sorted(options.folder.resolve().glob("*.parquet"))
    if len(files) * A_FILE < max(options.rows):
        parser.error(
            f"'{options.folder}' has {len(files)} files of {A_FILE:,} rows; make more with "
            f"`tallbayes simulate loans --rows {max(options.rows)} --seed 1 --out {options.folder}/`"
        )
    race = Race(files, int(options.limit), options.cap, options.python)
    went_through = set(names)
    for rows in options.rows:
        table = race.run(rows, [name for name in names if name in went_through])
        went_through = {name for name in table.index if name in FIRST or not np.isnan(table.at[name, SECONDS])}
    if "numpyro" in names:
        race.bisect("numpyro", 1, len(files))


class Race:
    """Contestants one after the other, each under the limit."""

    def __init__(self, files: list[Path], limit: int, cap: float, python: str) -> None:
        self.files, self.limit, self.cap, self.python = files, limit, cap, python
        print(f"Limit of memory: {limit / MEGABYTE:,.0f} MB by {how_limited()}; of time: {cap:,.0f} s")
        print(f"{SECONDS}: without imports; {SCANS}: multiples of the bare scan; {CPU}: of the whole process")
        print(f"{PRIVATE}: without page cache, given back when needed; {APART}: from the mode, in posterior sds")

    def run(self, rows: int, names: list[str]) -> pd.DataFrame:
        """Everyone on so many rows."""
        lines: dict[str, dict[str, Any]] = {}
        known: dict[str, Any] = {}
        for name in names:
            tried = [self.compete(name, rows // A_FILE, known) for _ in range(SCANNED if name == "scan" else 1)]
            outcome, found = min(tried, key=lambda one: one[0].seconds)
            if name == "newton":
                known = found
            lines[name] = line(outcome, found, lines.get("scan", {}).get(SECONDS), known)
        table = pd.DataFrame(lines).T
        print(f"\nLoans, {rows:,} rows")
        print(table.map(word).to_string(), flush=True)
        return table

    def compete(self, name: str, files: int, known: dict[str, Any]) -> tuple[Outcome, dict[str, Any]]:
        """How a contestant ended, and what it reports if it came to its end."""
        forget_files(self.files)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as saved:
            json.dump(known, saved)
            saved.flush()
            python = sys.executable if name == "ours" else self.python
            options = [saved.name if known else "", f"{0.6 * self.limit / 1e9:g}GB"]
            argv = [python, "-W", "ignore", str(WORKER), name, str(self.files[0].parent), str(files), *options]
            print(f"{name}, {files} files ...", file=sys.stderr, flush=True)
            outcome = run_limited(argv, self.limit, self.cap, env=surroundings())
        ended = outcome.code == 0 and not outcome.killed
        return outcome, json.loads(outcome.stdout.splitlines()[-1]) if ended else {}

    def bisect(self, name: str, least: int, most: int) -> None:
        """The most files that a contestant can take, and how the next one ends it."""
        ended = "it took all"
        fits, fails = least - 1, most + 1
        while fails - fits > 1:
            files = (fits + fails) // 2
            outcome, found = self.compete(name, files, {})
            if found:
                fits = files
            else:
                fails, ended = files, f"with {files * A_FILE:,} rows: {failure(outcome)}"
        print(f"\n{name} ran with at most {fits * A_FILE:,} rows; {ended}", flush=True)


def line(outcome: Outcome, found: dict[str, Any], scan: float | None, known: dict[str, Any]) -> dict[str, Any]:
    """A contestant's line of the table."""
    used = {CPU: outcome.cpu, PRIVATE: outcome.private / MEGABYTE, PEAK: outcome.peak / MEGABYTE}
    if not found:
        return {SECONDS: np.nan, SCANS: np.nan, **used, APART: np.nan, GIVES: "nothing", NOTE: failure(outcome)}
    seconds, apart = found["seconds"], np.nan
    if known and "coefficients" in found:
        apart = np.abs((np.array(found["coefficients"]) - known["coefficients"]) / known["sd"]).max()
    return {
        SECONDS: seconds,
        SCANS: seconds / (scan or seconds),
        **used,
        APART: apart,
        GIVES: found["gives"],
        NOTE: found["note"],
    }


def failure(outcome: Outcome) -> str:
    """What ended a contestant, and when."""
    if outcome.killed:
        return f"killed for memory after {outcome.seconds:,.0f} s"
    if outcome.late:
        return f"not done after {outcome.seconds:,.0f} s"
    return (outcome.stderr.strip().splitlines() or [f"exit code {outcome.code}"])[-1]


def surroundings() -> dict[str, str]:
    """The environment of contestants: what is installed for them, and our own source."""
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "TF_CPP_MIN_LOG_LEVEL": "3"}


def word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
