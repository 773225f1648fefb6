"""What is asked of the parameters of a fit: their table, single ones, statements and contrasts, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_flag, check_whole
from tallbayes.results.intervals import Interval
from tallbayes.results.posterior import Posterior
from tallbayes.results.ratios import require_ratio
from tallbayes.results.table import exponentiated, table
from tallbayes.sampling import diagnostics

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


class OfParameters(Posterior):
    """The part of a fit that tells of its parameters."""

    def summary(self, exponentiate: bool = False, interval: float = 0.94, kind: str = "eti") -> pd.DataFrame:
        """One line per parameter: posterior mean, sd and 94% interval, and how far to trust them.

        `interval` is the share of draws in the interval, `kind` "eti" (equal tails) or "hdi" (the shortest one). With
        `exponentiate`, mean, sd, interval and Monte Carlo errors are those of exp(draws) of coefficients and of effects
        of groups: odds ratios, or ratios of means (rates) with a log link, or of hazards with cloglog; for the
        intercept, the odds or the mean where all columns are 0. The sd of the groups stays as it is.

        >>> from tallbayes.results.example import example
        >>> example().summary()[["mean", "sd", "r_hat"]].round(2)
                   mean    sd  r_hat
        Intercept  -1.0  0.05    1.0
        fico        0.5  0.05    1.0
        >>> example().summary(exponentiate=True, interval=0.9, kind="hdi")[["mean", "hdi90_lb", "hdi90_ub"]].round(1)
                   mean  hdi90_lb  hdi90_ub
        Intercept   0.4       0.3       0.4
        fico        1.7       1.5       1.8
        """
        check_flag("exponentiate", exponentiate)
        asked = Interval.of(interval, kind)
        if exponentiate:
            return exponentiated(self._draws, self.parameters, self._ratios(), self.minutes, asked)
        return table(self._draws, self.parameters, self._diagnostics, self.minutes, asked)

    def _ratios(self) -> NDArray[np.bool_]:
        """Of which parameters exp is a ratio: of coefficients, and of effects of groups, which come last."""
        require_ratio(self.family)
        place = np.arange(len(self.parameters))
        return (place < len(self.coefficients)) | (place >= len(self.main_parameters))

    def __getitem__(self, name: str) -> xr.DataArray:
        """Draws (chain, draw) of one of `parameters`, a copy.

        >>> from tallbayes.results.example import example
        >>> example()["fico"].dims
        ('chain', 'draw')
        """
        from tallbayes.results.questions import parameter

        return parameter(self._whole, name)

    def __iter__(self) -> Iterator[str]:
        """Names of all parameters."""
        return iter(self.parameters)

    def draws_frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """The draws as a table: a line for each chain and draw, a column for each parameter, or for those named.

        >>> from tallbayes.results.example import example
        >>> example(draws=2, chains=1).draws_frame().round(1)
                    Intercept  fico
        chain draw
        0     0          -1.0   0.5
              1          -1.0   0.5
        """
        from tallbayes.results.questions import draws_frame

        return draws_frame(self._whole, names)

    def prob(self, statement: str) -> float:
        """The posterior probability of a statement about parameters: the share of draws in which it is true.

        A statement compares parameters, numbers, and what is computed from them by + - * / **, abs, exp, log and sqrt,
        and joins comparisons by `and`, `or` and `not`. Names are written as in `parameters`; where one could also be
        read as something else, put it in backticks.

        The Monte Carlo standard error of a probability p is about sqrt(p (1 - p) / n), with the `ess_bulk` of the
        parameters for n. A probability of 0 or 1 means that the statement was true in none, or all, of about n
        independent draws.

        >>> from tallbayes.results.example import example
        >>> example().prob("fico > 0"), example().prob("Intercept < -1 and 0.4 < fico < 0.6")
        (1.0, 0.4895)
        """
        from tallbayes.results.questions import probability

        return probability(self._whole, statement)

    def contrast(
        self,
        contrasts: str | Sequence[str] | Mapping[str, str],
        exponentiate: bool = False,
        interval: float = 0.94,
        kind: str = "eti",
    ) -> pd.DataFrame:
        """One line per expression of parameters, such as a difference of two, with the columns of `summary`.

        `contrasts` is an expression, a list of them, or a dict of them by name; `prob` says what they can hold. With
        `exponentiate`, a difference of coefficients becomes a ratio of odds, means or hazards.

        >>> from tallbayes.results.example import example
        >>> example().contrast({"at 1": "Intercept + fico", "ratio": "exp(fico)"})[["mean", "sd"]].round(1)
               mean   sd
        at 1   -0.5  0.1
        ratio   1.7  0.1
        """
        from tallbayes.results.questions import contrast

        return contrast(self._whole, contrasts, exponentiate, Interval.of(interval, kind))

    def plot(self, names: Sequence[str] | None = None, kind: str = "forest") -> Figure:
        """A picture of the fit, as a matplotlib Figure; the functions of `tb.plots` have more options.

        `kind` is "forest" (intervals), "density", "trace" or "speed", of the parameters in `names`; or "calibration" or
        "seconds", with groups "caterpillar", and of splines "effects" or "importance", which are of the whole fit.

        >>> from tallbayes.results.example import example
        >>> [panel.get_title() for panel in example().plot(["fico"], "density").axes]
        ['fico']
        """
        from tallbayes.results.pictures import plot

        return plot(self._whole, names, kind, self._pictures())

    def _pictures(self) -> dict[str, Callable[..., Figure]]:
        """Pictures that only this kind of fit has."""
        return {}

    def edpm(self, thin: int = 1, setup: bool = False) -> pd.Series[float]:
        """Effective draws per minute of sampling; with `setup`, per minute of the whole run except diagnostics.

        >>> from tallbayes.results.example import example
        >>> fit = example()
        >>> bool((fit.edpm() > fit.edpm(setup=True)).all())
        True
        """
        import pandas as pd

        check_whole("thin", thin)
        check_flag("setup", setup)
        before = sum(spent for phase, spent in self.stats["seconds"].items() if phase != "diagnostics")
        minutes = before / 60 if setup else self.minutes
        values = self._diagnostics.ess_bulk / minutes if thin == 1 else diagnostics.edpm(self._draws, minutes, thin)
        return pd.Series(values, index=pd.Index(self.parameters), name="edpm")
