"""Counts over time, area or people: what an exposure adds to the linear predictor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_text
from tallbayes.data.tally import Where, row
from tallbayes.families.usual import Usual

Array = NDArray[np.float64]


class Exposed(Usual):
    """A family of counts whose mean is an exposure times e^eta; `exposure` is a column's name, or None."""

    exposure: str | None

    def check_exposure(self) -> None:
        """Refuse an exposure that is not a column's name."""
        check_text("exposure", self.exposure, "the name of a column (for arrays there is offset=)", optional=True)

    def log_exposure(self, exposure: Array, where: Where = row) -> Array:
        """What the exposure adds to eta; refuse what is not positive."""
        wrong = ~(exposure > 0)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ValueError(
                f"exposure {self.exposure!r} must be positive, but is {exposure[first]:g} in {where(first)}"
            )
        return np.log(exposure)
