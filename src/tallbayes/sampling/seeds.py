"""Seeds of a run: one each for the surrogate's rows and the chains."""

from __future__ import annotations

import numpy as np

Seed = int | np.random.SeedSequence | None

SEEDS = 2  # of a run


def seeds(seed: Seed) -> list[np.random.SeedSequence]:
    """Independent seeds for the surrogate's rows and the chains."""
    return (seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)).spawn(SEEDS)


def fresh_seed() -> int:
    """A seed drawn at random, for those who gave none."""
    return int(np.random.SeedSequence().generate_state(1)[0])
