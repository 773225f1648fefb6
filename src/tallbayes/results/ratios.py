"""What exp of a coefficient is: a ratio of odds, of means or of hazards, by what the family's mean is of eta."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Family

Array = NDArray[np.float64]

ETA = np.array([-2.0, -1.0, 0.0, 1.0])  # where it is tried
PROPORTIONAL: dict[str, Callable[[Array], Array]] = {  # what of the mean, if it is proportional to e^eta
    "odds ratio": lambda mean: mean / (1 - mean),
    "ratio of means": lambda mean: mean,
    "hazard ratio": lambda mean: -np.log1p(-mean),
}


def ratio(family: Family) -> str:
    """What exp of a coefficient is, "" if nothing that has a name.

    >>> from tallbayes.families import Bernoulli, Gaussian, Poisson
    >>> ratio(Bernoulli()), ratio(Poisson()), ratio(Bernoulli("cloglog")), ratio(Gaussian())
    ('odds ratio', 'ratio of means', 'hazard ratio', '')
    """
    with np.errstate(all="ignore"):
        mean = np.asarray(family.mean(ETA), float)
        for name, of in PROPORTIONAL.items():
            found = of(mean)
            if np.allclose(found[1:] / found[:-1], np.e, rtol=1e-6, atol=0):
                return name
    return ""


def require_ratio(family: Family) -> None:
    """Refuse families of which exp of a coefficient is nothing that has a name."""
    if not ratio(family):
        raise ValueError(
            f"exponentiate=True gives ratios of odds, means or hazards, which coefficients of {family.title} outcomes "
            f"with this link are not; leave it out, or ask for what you mean, as in fit.contrast('exp(x)')"
        )
