"""The posterior of a model of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.pieces import Source
from tallbayes.results.expected import Centre
from tallbayes.results.fit import Fit
from tallbayes.results.predict import Asked, Predicted

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

NO_PREDICTIONS = "a tb.Model says how likely rows are, not what to expect of new ones; compute that from fit.posterior"


class ModelFit(Fit):
    """A posterior sample of a `tb.Model`; `posterior` has its parameters by name."""

    kind: ClassVar[str] = "model"
    called: ClassVar[str] = "parameter"

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of all parameters, an entry each."""
        return tuple(
            f"{name}[{', '.join(map(str, place))}]" if values.ndim > 2 else str(name)
            for name, values in self.posterior.data_vars.items()
            for place in np.ndindex(values.shape[2:])
        )

    @property
    def _draws(self) -> Array:
        values = (np.asarray(one.values) for one in self.posterior.data_vars.values())
        return np.concatenate([one.reshape(*one.shape[:2], -1) for one in values], axis=2)

    @property
    def _model(self) -> str:
        """What was fitted, in two words."""
        return "A model of your own"

    @property
    def _title(self) -> str:
        """The log-likelihood's name and its columns."""
        told = self.stats["model"]
        return f"{told['log_likelihood']}({', '.join(told['columns'])})"

    def _told(self) -> dict[str, str]:
        told = self.stats["model"]
        return {"log-likelihood": f"{self._title}, derivatives {told['derivatives']}"}

    def calibration(self) -> pd.DataFrame:
        """Raise an error: a log-likelihood alone makes no predictions."""
        raise ValueError("a tb.Model has no predictions to hold against outcomes; compute them from fit.posterior")

    def _ratios(self) -> NDArray[np.bool_]:
        raise ValueError(
            "exponentiate=True is for coefficients of regressions; a tb.Model says what its parameters are, so ask for "
            "what you mean, as in fit.contrast('exp(x)')"
        )

    def _advice(self) -> list[str]:
        return [
            "Where chains stay in one place for long, the expansion is a poor picture of the posterior: write the "
            "model in other parameters, such as logarithms, or screen with a subsample, such as "
            "tb.TwoStage(tb.CaseControl(20_000))."
        ]

    def _predicted(self, source: Source, keep: Sequence[str], asked: Asked) -> Iterator[Predicted]:
        raise ValueError(NO_PREDICTIONS)

    def _centre(self, offset: float | None) -> Centre:
        raise ValueError(NO_PREDICTIONS)
