"""From the name of a method to a kernel for splines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallbayes.sampling.subsample import Subsample, check_enough
from tallbayes.splines.cells import Cells, sheet_at
from tallbayes.splines.model import INTERCEPT_SD, MARS, splines
from tallbayes.splines.partition import Partition
from tallbayes.splines.reversible_jump import ReversibleJump
from tallbayes.splines.reversible_jump_loop import Law
from tallbayes.splines.sheet import Sheet, Sheets

METHODS, PROPOSALS = ("auto", "two-stage", "mh"), ("informed", "random-walk")
# Probabilities of birth, death, change, variation, coefficients, lambda. Where all rows decide on each move, those of
# coefficients cost most: no other kind passes the first stage as often.
MOVES, DECIDED_MOVES = (0.1, 0.1, 0.1, 0.4, 0.25, 0.05), (0.2, 0.2, 0.15, 0.25, 0.15, 0.05)
WIDER = 1.2  # variance of proposals over that of the sheet's posterior, where the sheet stands for all rows
TOGETHER, TOGETHER_WIDER = 0.8, 1.1  # share of proposals for all coefficients, where the sheet has a reference
INFORMERS = 4_000  # rows that inform proposals where nothing screens them
ROUNDS = 20  # moves a draw that all rows decide on
FIRST_LENGTH = 20  # of subchains, before warm-up knows better


def reversible_jump(
    model: MARS,
    method: str,
    surrogate: Any,
    proposal: str | None,
    subchain: int | None,
    rng: np.random.Generator,
) -> ReversibleJump:
    """The kernel: plain ("mh"), or two-stage with `Subsample` or `Cells` (which "auto" takes)."""
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not for splines; use one of {', '.join(METHODS)}")
    if proposal not in (None, *PROPOSALS):
        raise ValueError(f"proposal {proposal!r} is not for splines; use one of {', '.join(PROPOSALS)}")
    if surrogate is not None and not isinstance(surrogate, Cells | Subsample):
        raise TypeError(f"the surrogate of a spline must be tb.Cells or tb.Subsample, not {type(surrogate).__name__}")
    if method == "mh":
        for name, given in (("surrogate", surrogate), ("subchain", subchain)):
            if given is not None:
                raise ValueError(f"method 'mh' looks at all rows and takes no {name}; use method='two-stage' with it")
    if subchain is not None and not (isinstance(subchain, int | np.integer) and subchain >= 0):
        raise ValueError(f"subchain must be a whole number of at least 0, not {subchain!r}")
    rows, moves = model.rows, np.cumsum(DECIDED_MOVES)
    walk = 1 / rows.size**0.5 if proposal == "random-walk" else 0.0
    law = Law(model.reference, model.log_k, INTERCEPT_SD, *model.precision, moves, WIDER, 0.0, walk)
    if method == "mh":
        size = min(INFORMERS, rows.size)
        # The mode on a sample of the rows errs by as much as the posterior on it is wide.
        law = law._replace(wide=WIDER * (1 + rows.size / size))
        return ReversibleJump(model, law, _sample(model, size, rng), 0, ROUNDS)
    if isinstance(surrogate, Subsample):
        length = 1 if subchain is None else max(1, subchain)
        return ReversibleJump(model, law, _sample(model, surrogate.size, rng), length, ROUNDS if length == 1 else 1)
    cells = surrogate or Cells()
    partition = rows.partition(cells.count, cells.pairs, int(rng.integers(2**31)))
    sheets = Sheets(str(cells), (at_reference(model, partition, model.nothing[None]),), partition)
    law = law._replace(moves=np.cumsum(MOVES), wide=TOGETHER_WIDER, joint=TOGETHER)
    return ReversibleJump(
        model, law, sheets, FIRST_LENGTH if subchain is None else max(1, subchain), steered=subchain is None
    )


def at_reference(model: MARS, partition: Partition, theta: np.ndarray[Any, Any], power: float = 1.0) -> Sheet:
    """Cells where the reference is the mean of the splines of some parameter vectors (several, width)."""
    reference = splines(theta, model.most)
    return sheet_at(partition, model.rows.mean_spline(reference), reference.mean, power)


def _sample(model: MARS, size: int, rng: np.random.Generator) -> Sheets:
    check_enough(size, model.rows.size, "rows")
    x, y, _, weights = model.rows.sample(size, rng).arrays()
    return Sheets(str(Subsample(size)), (Sheet.of_rows(x, y, weights if weights.size else np.ones(size)),))
