"""All kinds of cases, and as many of them as are asked for."""

from __future__ import annotations

import numpy as np

from odd import (
    arguments,
    checkpoints,
    columns,
    combined,
    command_line,
    containers,
    files,
    formulas,
    methods,
    numbers,
    outcomes,
    predictions,
    priors,
    saved,
    texts,
    weights,
)
from odd.case import Case

KINDS = (
    containers, columns, texts, numbers, outcomes, formulas, arguments, weights, files, command_line, saved,
    checkpoints, priors, methods, predictions, combined,
)  # fmt: skip


def generate(seed: int, count: int | None = None) -> list[Case]:
    """So many cases, kind by kind: all of a first round, and those of further rounds, of which some are left out.

    Another seed gives other data, other places and other combinations. Names are unique, and tell the round.
    """
    found: dict[str, Case] = {}
    round_ = 0
    while not found or (count is not None and len(found) < count):
        for kind in KINDS:
            rng = np.random.default_rng([seed, round_, KINDS.index(kind)])
            for case in kind.cases(rng):
                name = case.name if round_ == 0 else f"{case.name} [{round_}]"
                while f"{case.kind}: {name}" in found:
                    name += "'"
                found[f"{case.kind}: {name}"] = Case(**{**vars(case), "name": f"{case.kind}: {name}"})
        round_ += 1
    cases = list(found.values())
    if count is None or count >= len(cases):
        return cases
    kept = np.random.default_rng([seed, 999]).permutation(len(cases))[:count]
    return [cases[place] for place in sorted(kept)]
