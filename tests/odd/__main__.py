"""Run cases, and print counts by kind and outcome, and each case that went wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("TALLBAYES_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from odd.catalogue import generate
from odd.runner import SECONDS, Told, run, table
from odd.warm import warm_up


def main() -> int:
    given = argparse.ArgumentParser(prog="python -m odd", description=__doc__)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--cases", type=int, help="how many; all of a first round, unless given")
    given.add_argument("--only", default="", help="cases whose name has this; they are told at length")
    given.add_argument("--seconds", type=float, default=SECONDS, help="that a case may take")
    given.add_argument("--slow", action="store_true", help="tell the slowest cases, too")
    asked = given.parse_args()
    cases = [case for case in generate(asked.seed, asked.cases) if asked.only in case.name]
    began, told = time.monotonic(), list[Told]()
    warm_up()
    ready = time.monotonic()
    for one in run(cases, asked.seconds):
        told.append(one)
        if one.bad or asked.only:
            print(f"{one.verdict.outcome.upper():<18}{one.case.name!r}\n    {one.verdict.note}", flush=True)
    print(table(told))
    seconds = time.monotonic() - ready
    print(f"{len(told)} cases in {seconds:.0f} s, after {ready - began:.0f} s to warm up; seed {asked.seed}")
    if asked.slow:
        for one in sorted(told, key=lambda one: -one.seconds)[:30]:
            print(f"{one.seconds:8.2f} s  {one.case.name}")
    return 1 if any(one.bad for one in told) else 0


if __name__ == "__main__":
    sys.exit(main())
