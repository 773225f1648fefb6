"""Run all benchmarks, or those that are named, each in a process of its own; results/ keeps what they print.

The documentation's page of benchmarks is made from results/. `python -m benchmarks.mars paper > results.txt` and the
like run a part of one with options.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

ALL = (
    *("passes", "side_by_side", "design", "cold_start", "loans", "hierarchical"),
    *("mars", "bank", "convergence", "consensus", "subsampling", "scaling", "own_model", "checkpoints"),
)
RESULTS = Path(__file__).parent / "results"


def run(name: str) -> None:
    """Show what a benchmark prints, and keep it if it comes to its end."""
    lines = [f"python -m benchmarks {name}\n", f"{datetime.date.today()}, {machine()}\n", "\n"]
    code = f"from benchmarks import {name}; {name}.main()"
    with subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip() + "\n")
    if child.returncode:
        sys.exit(child.returncode)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.txt").write_text("".join(lines))


def machine() -> str:
    """The processor and its cores."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


if unknown := [name for name in sys.argv[1:] if name not in ALL]:
    sys.exit(f"no benchmark {unknown[0]!r}; there are {', '.join(ALL)}")
for name in sys.argv[1:] or ALL:
    run(name)
