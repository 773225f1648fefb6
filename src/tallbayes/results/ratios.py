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
COUNTS = {"poisson": "rate ratio", "negative_binomial": "rate ratio"}  # what ratios of their means are called
SCALES = {
    "odds ratio": "log-odds",
    "rate ratio": "log of the expected count",
    "ratio of means": "log of the mean",
    "hazard ratio": "log of the hazard",
}


def ratio_of(family: Family) -> str:
    """What exp of a coefficient is, "" if nothing that has a name.

    >>> from tallbayes.families import Bernoulli, Gaussian, Poisson
    >>> ratio_of(Bernoulli()), ratio_of(Poisson()), ratio_of(Bernoulli("cloglog")), ratio_of(Gaussian())
    ('odds ratio', 'rate ratio', 'hazard ratio', '')
    """
    with np.errstate(all="ignore"):
        mean = np.asarray(family.mean(ETA), float)
        for name, of in PROPORTIONAL.items():
            found = of(mean)
            if np.allclose(found[1:] / found[:-1], np.e, rtol=1e-6, atol=0):
                return COUNTS.get(family.name, name)
    return ""


def require_ratio(family: Family) -> None:
    """Refuse families of which exp of a coefficient is nothing that has a name."""
    if not ratio_of(family):
        raise ValueError(
            f"exponentiate=True gives ratios of odds, means or hazards, which coefficients of {family.title} outcomes "
            f"with this link are not; leave it out, or ask for what you mean, as in fit.contrast('exp(x)')"
        )


def scale_of(family: Family) -> str:
    """What the linear predictor is called.

    >>> from tallbayes.families import Bernoulli
    >>> scale_of(Bernoulli()), scale_of(Bernoulli("probit"))
    ('log-odds', 'linear predictor')
    """
    return "outcome" if family.location else SCALES.get(ratio_of(family), "linear predictor")
