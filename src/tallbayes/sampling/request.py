"""How much to draw: what users ask of a run, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tallbayes.data.options import check_flag, check_number, check_whole, shown
from tallbayes.sampling.seeds import fresh_seed

if TYPE_CHECKING:
    from tallbayes.sampling.past import Past

# Draws a chain where neither a number nor an ESS is asked for: at least, and then until the fit has converged, but no
# more than this, by what a draw of the kernel costs. NO_MORE: where more draws would not help, or hardly.
DRAWS = 1_000
CHEAP, COSTLY, NO_MORE = 20_000, 5_000, DRAWS
MOST_DRAWS = 1_000_000  # a chain, where only an ESS was asked for
MOST_CHAINS = 10_000  # each has generators and a warm-up of its own; beyond this they only wait for each other


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
        check_whole("draws", self.draws, optional=True)
        check_whole("chains", self.chains, 1, MOST_CHAINS)
        check_whole("warmup", self.warmup, 0, optional=True)
        check_whole("seed", self.seed, 0, optional=True)
        check_number("target_ess", self.target_ess, above=0, optional=True)
        for name in ("draws", "chains", "warmup", "seed"):
            if (value := getattr(self, name)) is not None:  # those of NumPy overflow
                object.__setattr__(self, name, int(value))
        check_flag("progress", self.progress)
        if self.target_ess is not None and self.draws is None and self.target_ess > MOST_DRAWS * self.chains:
            raise ValueError(
                f"target_ess must be at most {MOST_DRAWS * self.chains:,}, the draws that {self.chains} chains make at "
                f"most unless draws= says otherwise, not {shown(self.target_ess)}"
            )
        if self.seed is None:
            object.__setattr__(self, "seed", fresh_seed())
