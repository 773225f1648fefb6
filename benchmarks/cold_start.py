"""What a new user waits for: import, compiling for the first fits, and the first fit of a process with a warm cache.

`python -m benchmarks.cold_start --before SRC` measures another checkout (its `src` folder) in turn with this one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.timing import SOURCE, printed

STEPS = """
import json, sys, time, warnings
import numpy as np
from numba.core import event

class Compiling(event.Listener):
    depth = count = 0
    seconds = cpu = 0.0
    def on_start(self, event):
        if Compiling.depth == 0:
            self.began = time.perf_counter(), time.process_time()
        Compiling.depth += 1
        Compiling.count += 1
    def on_end(self, event):
        Compiling.depth -= 1
        if Compiling.depth == 0:
            Compiling.seconds += time.perf_counter() - self.began[0]
            Compiling.cpu += time.process_time() - self.began[1]

event.register("numba:compile", Compiling())
import tallbayes as tb

warnings.simplefilter("ignore")
rng, n, found = np.random.default_rng(1), 4_000, {}
x, z = rng.normal(size=(2, n))
data = {"x": x, "z": z, "o": 0.1 * rng.normal(size=n), "w": 1.0 + rng.integers(3, size=n)}
data["g"] = rng.integers(12, size=n)
data["y"] = (rng.random(n) < 1 / (1 + np.exp(1 - x))).astype(int)
few = {"draws": 300, "chains": 2, "seed": 1, "progress": False}
steps = {
    "first logit fit": lambda: tb.fit("y ~ x + z", data, **few),
    "with an offset": lambda: tb.fit("y ~ x + z", data, offset="o", **few),
    "with weights": lambda: tb.fit("y ~ x + z", data, weights="w", **few),
    "with a Student-t prior": lambda: tb.fit("y ~ x + z", data, prior=tb.StudentT(4, 0, 1), **few),
    "probit": lambda: tb.fit("y ~ x + z", data, family=tb.Bernoulli("probit"), **few),
    "cloglog": lambda: tb.fit("y ~ x + z", data, family=tb.Bernoulli("cloglog"), **few),
    "Poisson": lambda: tb.fit("y ~ x + z", data, family="poisson", **few),
    "group terms": lambda: tb.fit("y ~ x + z + (1 | g)", data, **few),
    "splines": lambda: tb.sample(tb.MARS("y ~ x + z", data), **few),
}
for name in sys.argv[1:] or steps:
    before, began = (Compiling.seconds, Compiling.cpu, Compiling.count), time.perf_counter()
    steps[name]()
    after = (Compiling.seconds, Compiling.cpu, Compiling.count)
    found[name] = [b - a for a, b in zip(before, after)] + [time.perf_counter() - began]
    if len(sys.argv) == 2:
        began = time.perf_counter()
        steps[name]()
        found["again"] = [time.perf_counter() - began]
print(json.dumps(found))
"""

WARM = """
import json, sys, time
import numpy as np
import tallbayes as tb

rng, n = np.random.default_rng(1), int(sys.argv[1])
X = np.ones((n, 7), order="F")
X[:, 1:] = rng.normal(size=(n, 6))
y = rng.random(n) < 1 / (1 + np.exp(6.5 - 0.5 * X[:, 1] - 0.3 * X[:, 2]))
seconds = []
for _ in range(4):
    began = time.perf_counter()
    fit = tb.sample(tb.GLM.from_arrays(X, y), draws=10_000, seed=1, progress=False)
    seconds.append(time.perf_counter() - began)
began = time.perf_counter()
fit.posterior
print(json.dumps([seconds[0], min(seconds[1:]), time.perf_counter() - began]))
"""
LOANS = 2_300_000  # rows, as the loans have
MOST = {"first logit fit": 10.0, "group terms": 6.0, "splines": 8.0}  # seconds of compiling; 1.5 for what is not named


def run(code: str, source: Path, cache: str, *arguments: str) -> Any:
    return json.loads(printed(code, *arguments, source=source, cache=cache))


def importing(source: Path) -> float:
    code = "import time; t = time.perf_counter(); import tallbayes; print(time.perf_counter() - t)"
    return min(float(printed(code, source=source)) for _ in range(5))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path, help="the src folder of another checkout")
    before = parser.parse_args().before if __name__ == "__main__" else None
    checkouts = {"before": before, "now": SOURCE} if before else {"now": SOURCE}
    for name, source in checkouts.items():
        print(f"{name:6} import tallbayes: {importing(source):.2f} s (below 1)")
    with tempfile.TemporaryDirectory() as folder:
        cold = {name: run(STEPS, source, f"{folder}/{name}") for name, source in checkouts.items()}
        print("\nCompiling, each after those above it: seconds on the clock, seconds of the processor, functions")
        print(f"{'':24}" + "".join(f"{name:>22}" for name in cold) + "     at most")
        for step in cold["now"]:
            figures = "".join("{:8.1f} {:7.1f} {:5.0f}".format(*found[step][:3]) for found in cold.values())
            print(f"{step:24}{figures}{MOST.get(step, 1.5):12.1f}")
        print(
            "\nWith a warm cache, seconds: first fit of a process, the next, their ratio (at most 1.3), first posterior"
        )
        for name, source in checkouts.items():
            tried = [run(WARM, source, f"{folder}/{name}", str(LOANS)) for _ in range(5)]
            first, again, asked = map(min, zip(*tried, strict=True))
            print(f"{name:6} {LOANS:,} rows from arrays: {first:.2f} {again:.2f} {first / again:.2f} {asked:.2f}")
        for name, source in checkouts.items():
            small = [run(STEPS, source, f"{folder}/{name}", "first logit fit") for _ in range(5)]
            first, again = (min(one[which][-1] for one in small) for which in ("first logit fit", "again"))
            print(f"{name:6} 4,000 rows by a formula, with imports of pandas and formulaic: {first:.2f} {again:.2f}")


if __name__ == "__main__":
    main()
