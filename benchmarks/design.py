"""From a data frame to rows ready for sampling, against formulaic's model matrix alone."""

from __future__ import annotations

import formulaic
import pandas as pd

import tallbayes as tb
from benchmarks.timing import best

FORMULA = "foreclosed ~ first_payment + fico + dti + upb + first_time"


def main() -> None:
    categorical = tb.datasets.simulate_loans()
    text = categorical.astype({"first_time": str})
    lines = {}
    for name, frame in (("categorical column", categorical), ("text column", text)):
        reference, ours = best(
            lambda frame=frame: formulaic.model_matrix(FORMULA, frame),
            lambda frame=frame: tb.GLM(FORMULA, frame),
            rounds=4,
        )
        lines[name] = {"formulaic s": reference, "rows ready s": ours, "ratio (at most 3)": ours / reference}
    print(f"\nDesign of {len(text):,} rows\n{pd.DataFrame(lines).T.round(3).to_string()}")
