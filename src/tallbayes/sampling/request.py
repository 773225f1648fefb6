"""How much to draw: what users ask of a run, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tallbayes.sampling.options import check_whole
from tallbayes.sampling.seeds import fresh_seed

if TYPE_CHECKING:
    from tallbayes.sampling.past import Past

# Draws a chain where neither a number nor an ESS is asked for: at least, and then until the fit has converged, but no
# more than this, by what a draw of the kernel costs. NO_MORE: where more draws would not help, or hardly.
DRAWS = 1_000
CHEAP, COSTLY, NO_MORE = 20_000, 5_000, DRAWS


@dataclass(frozen=True)
class Request:
    """So many draws of so many chains, or until each parameter has `target_ess` effective draws.

    With neither, a run goes on until it has converged (`stopping.py`).

    `warmup` None leaves its length to the kernel; without a seed, one is drawn at random.

    >>> Request(seed=1)
    Request(draws=None, chains=4, seed=1, target_ess=None, warmup=None, progress=True)
    """

    draws: int | None = None
    chains: int = 4
    seed: int | None = None
    target_ess: float | None = None
    warmup: int | None = None
    progress: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any], past: Past) -> Request:
        """From arguments of the same names; a run that goes on has the seed that it had."""
        own = {one.name: given[one.name] for one in fields(cls)}
        return cls(**own | {"seed": past.pinned("seed", given["seed"], fresh_seed)})

    def __post_init__(self) -> None:
        check_whole("draws", self.draws, 1)
        check_whole("chains", 0 if self.chains is None else self.chains, 1)
        check_whole("warmup", self.warmup, 0)
        check_whole("seed", self.seed, 0)
        if self.target_ess is not None and not self.target_ess > 0:
            raise ValueError(f"target_ess must be a positive number, not {self.target_ess!r}")
        if self.seed is None:
            object.__setattr__(self, "seed", fresh_seed())
