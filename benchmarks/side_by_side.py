"""Speed beside that of another checkout, and the loans beside glum: `--before SRC` is its `src` folder.

`--glum PYTHON` is an interpreter that has glum, such as that of `make bench-peers`. Each measures in processes of its
own, in turn, with warm caches; the best of all is shown.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.timing import SOURCE, printed

TURNS = 3

OURS = """
import json, sys, time, warnings
import numpy as np
import tallbayes as tb

warnings.simplefilter("ignore")
folder = sys.argv[1]
X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
rng, seconds = np.random.default_rng(1), {}
wide = np.column_stack([np.ones(100_000), rng.normal(size=(100_000, 49)), rng.random((100_000, 50)) < 0.1])
event = rng.random(100_000) < 1 / (1 + np.exp(2 - 0.1 * wide[:, 1:6].sum(1)))
groups = {"x": rng.normal(size=200_000), "g": rng.integers(0, 200, 200_000)}
groups["y"] = rng.random(200_000) < 1 / (1 + np.exp(2 - groups["x"]))
spline, curved = rng.random((200_000, 2)), rng.random(200_000)
curved = curved < 1 / (1 + np.exp(1 - 3 * np.abs(spline[:, 0] - 0.5)))
loans, theta = tb.GLM.from_arrays(X, y), np.r_[-6.5, np.zeros(X.shape[1] - 1)]
four = theta + 0.01 * rng.normal(size=(4, theta.size))
quiet = {"seed": 1, "progress": False}


def by_auto():
    return tb.sample(tb.GLM.from_arrays(X, y, prior=tb.Normal(0, 10)), draws=10_000, **quiet)


def splines():
    model = tb.MARS(spline, curved, max_bases=6)
    return tb.sample(model, draws=20, warmup=30, chains=2, **quiet)


tasks = {
    "pass, 4 vectors": (lambda: loans.log_likelihood(four), 60),
    "pass with derivatives": (lambda: loans.derivatives(theta), 60),
    "loans by auto, 4 x 10,000 draws": (by_auto, 4),
    "groups, 4 x 500 draws": (lambda: tb.fit("y ~ x + (1 | g)", groups, draws=500, **quiet), 2),
    "100 columns, 4 x 1,000 draws": (lambda: tb.sample(tb.GLM.from_arrays(wide, event), draws=1_000, **quiet), 2),
    "splines, 2 x 20 draws": (splines, 1),
}
for name, (task, times) in tasks.items():
    task()
    seconds[name] = np.inf
    for _ in range(times):
        began = time.perf_counter()
        task()
        seconds[name] = min(seconds[name], time.perf_counter() - began)
print(json.dumps(seconds))
"""

GLUM = """
import json, sys, time
import numpy as np
from glum import GeneralizedLinearRegressor

X, y = np.load(f"{sys.argv[1]}/X.npy"), np.load(f"{sys.argv[1]}/y.npy")
seconds = np.inf
for _ in range(4):
    began = time.perf_counter()
    GeneralizedLinearRegressor(
        family="binomial", alpha=1 / (100 * len(y)), l1_ratio=0, fit_intercept=False, copy_X=False
    ).fit(X, y)
    seconds = min(seconds, time.perf_counter() - began)
print(json.dumps({"loans by auto, 4 x 10,000 draws": seconds}))
"""

LOANS = """
import sys
import numpy as np
import tallbayes as tb
from tallbayes.data.formula import Formula
from tallbayes.paper.loans import FORMULA

_, X, y = Formula.learn(FORMULA, tb.datasets.simulate_loans())
np.save(f"{sys.argv[1]}/X.npy", np.asfortranarray(X.T))
np.save(f"{sys.argv[1]}/y.npy", y)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path, help="the src folder of another checkout")
    parser.add_argument("--glum", help="an interpreter that has glum")
    given = parser.parse_args() if __name__ == "__main__" else parser.parse_args([])
    sources = {"before": given.before.resolve(), "now": SOURCE} if given.before else {"now": SOURCE}
    seconds: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        printed(LOANS, folder)
        for _ in range(TURNS):
            found = {
                name: printed(OURS, folder, source=source, cache=f"{folder}{source}")
                for name, source in sources.items()
            }
            if given.glum:
                found["glum"] = printed(GLUM, folder, python=given.glum)
            for name, line in found.items():
                for task, spent in json.loads(line).items():
                    best = seconds.setdefault(task, {})
                    best[name] = min(best.get(name, spent), spent)
    names = [*sources, *(["glum"] if given.glum else [])]
    print(f"{'milliseconds':34}" + "".join(f"{name:>10}" for name in names) + "   now / before")
    for task, best in seconds.items():
        figures = "".join(f"{1e3 * best[name]:10.1f}" if name in best else f"{'':10}" for name in names)
        print(f"{task:34}{figures}" + (f"{best['now'] / best['before']:15.2f}" if given.before else ""))
    if given.glum:
        both = seconds["loans by auto, 4 x 10,000 draws"]
        print(f"loans by auto / glum {both['now'] / both['glum']:.2f} (at most 0.25)")


if __name__ == "__main__":
    main()
