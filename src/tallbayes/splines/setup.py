"""Set-up of splines: reversible jump, plain ("mh"), or two-stage with `Subsample` or `Cells` (which "auto" takes)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from tallbayes.data.options import check_choice, refuse
from tallbayes.data.timing import Phases
from tallbayes.sampling.seeds import Seed, seeds
from tallbayes.sampling.subsample import Subsample
from tallbayes.sampling.surrogate import Description
from tallbayes.splines import collapsed_loop
from tallbayes.splines.cells import Cells
from tallbayes.splines.collapsed import CollapsedKernel
from tallbayes.splines.guide import no_guide
from tallbayes.splines.model import INTERCEPT_SD, MARS, splines
from tallbayes.splines.quadratic import Expansion, points_for
from tallbayes.splines.reversible_jump import ReversibleJumpKernel
from tallbayes.splines.reversible_jump_loop import Law
from tallbayes.splines.sheet import Sheet, Sheets
from tallbayes.splines.tables import MOST_NUMBERS, different, numbers_in
from tallbayes.splines.track import SplineTrack

METHODS, PROPOSALS = ("auto", "two-stage", "mh"), ("informed", "random-walk")
# Probabilities of birth, death, change, variation, coefficients, lambda. Where all rows decide on each move, those of
# coefficients cost most: no other kind passes the first stage as often.
MOVES, DECIDED_MOVES = (0.1, 0.1, 0.1, 0.4, 0.25, 0.05), (0.2, 0.2, 0.15, 0.25, 0.15, 0.05)
WIDER = 1.2  # variance of proposals over that of the sheet's posterior, where the sheet stands for all rows
TOGETHER, TOGETHER_WIDER = 0.8, 1.1  # share of proposals for all coefficients, where the sheet has a reference
INFORMERS = 4_000  # rows that inform proposals where nothing screens them
# Birth, death, change, variation, lambda; and birth, death, change with a guide.
COLLAPSED_MOVES = (0.1, 0.1, 0.02, 0.34, 0.04, 0.12, 0.12, 0.16)
SUBCHAIN, MOVE = (200, 3_000), 500  # of them before all rows decide: each costs about as much as so many rows
ROUNDS = 20  # moves a draw that all rows decide on
FIRST_LENGTH = 20  # of subchains, before warm-up knows better


@dataclass(frozen=True)
class SplineSetup:
    """How methods make kernels for splines; see `sampling/setup.py`."""

    model: MARS
    seed: Seed
    phases: Phases

    def auto(self) -> CollapsedKernel | ReversibleJumpKernel:
        """With coefficients integrated out, if there is room for the tables; or two-stage with cells."""
        model, law = self.model, self._law(None)
        knots = [own.size for own in different(model.reference.knots)]
        if numbers_in(knots, model.reference.degree) > MOST_NUMBERS:
            why = "tables of all sets of variables that a basis may have would not fit into memory"
            return replace(self.two_stage(None, None, None), why=why)
        with self.phases("surrogate"):
            prior = collapsed_loop.Law(*law[:5], np.cumsum(COLLAPSED_MOVES), no_guide(model.reference))
            seed = int(self._rng.integers(2**31))
            expansion = model.rows.keep(Expansion, model.reference, points_for(model.rows.size, len(model.names)), seed)
            quadratic = expansion.at(splines(model.nothing[None], model.most))
            track = model.rows.keep(SplineTrack, model.most, model.column_memory)
            moves = int(np.clip(model.rows.size // MOVE, *SUBCHAIN))
            otherwise = partial(self.two_stage, None, None, None)
            return CollapsedKernel(model, prior, expansion, quadratic, track, moves, otherwise=otherwise)

    def metropolis(self, proposal: str | None) -> ReversibleJumpKernel:
        """Plain reversible jump: all rows decide on each move."""
        rows, law = self.model.rows, self._law(proposal)
        with self.phases("surrogate"):
            size = min(INFORMERS, rows.size)
            # The mode on a sample of the rows errs by as much as the posterior on it is wide.
            law = law._replace(wide=WIDER * (1 + rows.size / size))
            return self._kernel(law, self._sample(Subsample(size)), 0, ROUNDS)

    def two_stage(
        self, surrogate: Description | None, proposal: str | None, subchain: int | None
    ) -> ReversibleJumpKernel:
        """Moves on a sheet of weighted rows, before all rows decide."""
        law, chosen = self._law(proposal), Cells() if surrogate is None else surrogate
        kinds: dict[type, Callable[[Any, Law, int | None], ReversibleJumpKernel]]
        kinds = {Cells: self._with_cells, Subsample: self._with_sample}
        make = kinds.get(type(chosen))
        if make is None:
            refuse("the surrogate of a spline", "tb.Cells or tb.Subsample", chosen)
        with self.phases("surrogate"):
            return make(chosen, law, subchain)

    def thinned(self) -> NoReturn:
        """Refuse: splines have no mode to expand at."""
        _refuse("thinned")

    def subsampling(self, estimator: Any) -> NoReturn:
        """Refuse: splines have no mode to expand at."""
        _refuse("subsampling")

    def consensus(self, how: Any) -> NoReturn:
        """Refuse: splines of shards have different bases, and no average."""
        _refuse("consensus")

    @property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(seeds(self.seed)[0])

    def _law(self, proposal: str | None) -> Law:
        check_choice("proposal", proposal, PROPOSALS, "for splines", optional=True)
        model, walk = self.model, 1 / self.model.rows.size**0.5 if proposal == "random-walk" else 0.0
        moves = np.cumsum(DECIDED_MOVES)
        return Law(model.reference, model.log_k, INTERCEPT_SD, *model.precision, moves, WIDER, 0.0, walk)

    def _with_cells(self, cells: Cells, law: Law, subchain: int | None) -> ReversibleJumpKernel:
        law = law._replace(moves=np.cumsum(MOVES), wide=TOGETHER_WIDER, joint=TOGETHER)
        length = FIRST_LENGTH if subchain is None else max(1, subchain)
        sheets = cells.build(self.model, None, self._rng)
        return self._kernel(law, sheets, length, steered=subchain is None)

    def _with_sample(self, chosen: Subsample, law: Law, subchain: int | None) -> ReversibleJumpKernel:
        length = 1 if subchain is None else max(1, subchain)
        return self._kernel(law, self._sample(chosen), length, ROUNDS if length == 1 else 1)

    def _kernel(
        self, law: Law, sheets: Sheets, subchain: int, rounds: int = 1, steered: bool = False
    ) -> ReversibleJumpKernel:
        track = self.model.rows.keep(SplineTrack, self.model.most, self.model.column_memory)
        return ReversibleJumpKernel(self.model, law, sheets, track, subchain, rounds, steered=steered)

    def _sample(self, chosen: Subsample) -> Sheets:
        rows = chosen.draw(self.model.rows, self._rng).arrays
        return Sheets(str(chosen), (Sheet.of_rows(rows.x, rows.y, rows.own),))


def _refuse(method: str) -> NoReturn:
    raise ValueError(f"method {method!r} is not for splines; use one of {', '.join(METHODS)}")
