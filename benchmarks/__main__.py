"""Run all benchmarks, or those that are named."""

from __future__ import annotations

import sys

from benchmarks import bank, cold_start, consensus, design, hierarchical, loans, mars, passes, scaling, subsampling

ALL = {
    "passes": passes,
    "design": design,
    "cold_start": cold_start,
    "loans": loans,
    "hierarchical": hierarchical,
    "mars": mars,
    "bank": bank,
    "consensus": consensus,
    "subsampling": subsampling,
    "scaling": scaling,
}

if unknown := [name for name in sys.argv[1:] if name not in ALL]:
    sys.exit(f"no benchmark {unknown[0]!r}; there are {', '.join(ALL)}")
for name in sys.argv[1:] or ALL:
    ALL[name].main()
