"""Import time, and what the first and the second `tallbayes fit` on a machine spend on compiling."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tallbayes as tb


def main() -> None:
    def run(*command: str, **environment: str) -> float:
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=os.environ | environment)
        return time.perf_counter() - began

    bare = min(run(sys.executable, "-c", "pass") for _ in range(5))
    ours = min(run(sys.executable, "-c", "import tallbayes") for _ in range(5))
    print(f"\nimport tallbayes: {ours - bare:.2f} s (below 1)")
    command = Path(sys.executable).with_name("tallbayes")
    with tempfile.TemporaryDirectory() as folder:
        loans, out = f"{folder}/loans.parquet", f"{folder}/fit.nc"
        tb.datasets.simulate_loans(200_000).to_parquet(loans)
        for turn in ("first", "second"):
            arguments = [
                "fit",
                loans,
                "foreclosed ~ fico + dti",
                "--draws",
                "1000",
                "--seed",
                "1",
                "--out",
                out,
                "--force",
            ]
            seconds = run(str(command), *arguments, NUMBA_CACHE_DIR=f"{folder}/cache")
            compiling = tb.load(out).stats["seconds"]["compile"]
            print(f"{turn:6} tallbayes fit: {seconds:.1f} s, of which {compiling:.1f} s compiling")
