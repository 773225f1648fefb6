"""What most families have in common, and others say for themselves."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Usual:
    """A family whose linear predictor is on a scale of its own, and whose log-likelihood is concave."""

    name: ClassVar[str]
    tag: Any

    @property
    def title(self) -> str:
        """What to call it on pages."""
        return self.name.replace("_", " ")

    def described(self) -> dict[str, Any]:
        """What was chosen, by name, for people."""
        return dict(vars(self))

    @property
    def location(self) -> bool:
        """Whether linear predictors are where outcomes are, on their scale."""
        return False

    @property
    def signed(self) -> bool:
        """Whether outcomes may be negative."""
        return False

    @property
    def tag_at_zero(self) -> Any:
        """The log-likelihood whose derivatives at zero tell about columns; it must be concave."""
        return self.tag

    def constant(self, y: Array) -> Array:
        """What the log-likelihood of outcomes y leaves out, since it does not depend on the linear predictor."""
        return np.zeros(y.shape)

    @property
    def untried(self) -> bool:
        """Whether its functions have to be tried on the data; those that we wrote were tried by tests."""
        return False

    def try_on(self, y: Array, eta: Array | None = None) -> None:
        """Refuse functions that do not fit each other, on outcomes y."""

    def simulate(self, rng: np.random.Generator, eta: Array, trials: Array | None = None) -> Array:
        """Draw outcomes, of so many trials if they are successes."""
        raise ValueError(f"family {self.name!r} does not say how outcomes are drawn; draw them from fit.predict")
