"""What a checkpoint costs: seconds of the same fit without one and with one, in turns."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tallbayes as tb
from tallbayes.paper.experiment import PRIOR
from tallbayes.paper.loans import FORMULA

AIM = 0.02


def seconds(fit: Callable[..., tb.Fit], **options: Any) -> tuple[float, float, int]:
    """Of a fit without a checkpoint and with one, and the bytes that are kept."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder, "run.tb")
        began = time.perf_counter()
        fit(**options)
        middle = time.perf_counter()
        fit(**options, checkpoint=at)
        size = sum(path.stat().st_size for path in at.rglob("*") if path.is_file())
        return middle - began, time.perf_counter() - middle, size


def row(name: str, rounds: int, fit: Callable[..., tb.Fit], **options: Any) -> None:
    """The least of several, and the median of their ratios in pairs."""
    found = [seconds(fit, **options) for _ in range(rounds)]
    plain, kept = (min(pair[place] for pair in found) for place in (0, 1))
    ratios = sorted(pair[1] / pair[0] - 1 for pair in found)
    print(
        f"{name:<42}{plain:>9.2f}{kept:>9.2f}{kept / plain - 1:>9.1%}{ratios[len(ratios) // 2]:>9.1%}"
        f"{found[0][2] / 1e6:>9.1f}",
        flush=True,
    )


def main() -> None:
    """Loans by default, and a long run of Metropolis-Hastings."""
    data = tb.datasets.simulate_loans()
    few, some = data.head(20_000), data.head(300_000)

    def loans(**options: Any) -> tb.Fit:
        return tb.fit(FORMULA, data, prior=PRIOR, seed=1, progress=False, **options)

    def walking(**options: Any) -> tb.Fit:
        return tb.fit(FORMULA, some, prior=PRIOR, seed=1, progress=False, method=tb.MH("one-at-a-time"), **options)

    for method in (tb.Auto(), tb.MH("one-at-a-time")):  # compile
        tb.fit(FORMULA, few, draws=5, warmup=5, seed=0, progress=False, method=method, prior=PRIOR)
    print(f"{'':<42}{'seconds':>18}{'more':>9}{'in pairs':>9}{'MB':>9}")
    print(f"{'':<42}{'without':>9}{'with':>9}   (aim: below {AIM:.0%})")
    row("loans, 2.3 million rows, until converged", 9, loans)
    row("loans, 2.3 million rows, 4 x 20,000 draws", 5, loans, draws=20_000)
    row("MH by column, 300,000 rows, 4 x 2,000 draws", 2, walking, draws=2_000, warmup=300)


if __name__ == "__main__":
    main()
