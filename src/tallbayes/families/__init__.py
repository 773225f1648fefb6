"""Families: what kind of outcome a regression has.

A family checks outcomes and says how they hang on the linear predictor eta. Its `tag` has the log-likelihood of a row
and its derivatives, in NumPy and for compiled loops (`terms.py` says what those ask for): written by hand (`logit.py`,
`probit.py`, `cloglog.py`, `poisson.py`), derived from an expression (`expressed.py`) or from the user's own functions
(`given.py`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tallbayes.data.options import check_choice, check_text, refuse, shown
from tallbayes.data.tally import row
from tallbayes.families.checks import Check, Counts, Successes, ZerosAndOnes
from tallbayes.families.cloglog import Cloglog
from tallbayes.families.exposure import Exposed
from tallbayes.families.expressed import Expressed
from tallbayes.families.gamma import Gamma
from tallbayes.families.gaussian import Gaussian
from tallbayes.families.given import Given
from tallbayes.families.logit import Logit
from tallbayes.families.negative_binomial import NegativeBinomial
from tallbayes.families.own import Own
from tallbayes.families.poisson import Log
from tallbayes.families.probit import Probit
from tallbayes.families.usual import Usual

Array = NDArray[np.float64]
Tag = Logit | Probit | Cloglog | Log | Expressed | Given

LINKS: dict[str, type[Logit | Probit | Cloglog]] = {"logit": Logit, "probit": Probit, "cloglog": Cloglog}


@dataclass(frozen=True)
class Bernoulli(Usual):
    """Outcomes 0 and 1; `link` is "logit", "probit" or "cloglog".

    >>> Bernoulli().mean(np.array([0.0, 2.0])).round(3)
    array([0.5  , 0.881])
    """

    link: str = "logit"
    name: ClassVar[str] = "bernoulli"

    def __post_init__(self) -> None:
        _check_link(self.link)

    @property
    def tag(self) -> Logit | Probit | Cloglog:
        """The log-likelihood of a row."""
        return LINKS[self.link]()

    def checking(self, name: str) -> Check:
        """A check of outcomes of this name, which refuses those that this family cannot have."""
        return ZerosAndOnes(name)

    def mean(self, eta: Array) -> Array:
        """Expected outcome."""
        return self.tag.mean(eta)

    def variance(self, mean: Array) -> Array:
        """Variance of an outcome with this mean."""
        return mean * (1 - mean)

    def simulate(self, rng: np.random.Generator, eta: Array, trials: Array | None = None) -> Array:
        """Draw outcomes."""
        return (rng.random(np.shape(eta)) < self.mean(eta)).astype(float)


@dataclass(frozen=True)
class Binomial(Usual):
    """The number of successes among `trials` (a column's name) independent trials a row.

    Without `trials` the formula has them: p(successes, trials) ~ x, or cbind(successes, failures) ~ x. A row with k
    successes among m trials is kept as two Bernoulli rows: y=1 with weight k and y=0 with weight m - k.

    >>> Binomial("sent", link="probit")
    Binomial(trials='sent', link='probit')
    """

    trials: str | None = None
    link: str = "logit"
    name: ClassVar[str] = "binomial"

    def __post_init__(self) -> None:
        check_text("trials", self.trials, "the name of a column", optional=True)
        _check_link(self.link)

    @property
    def tag(self) -> Logit | Probit | Cloglog:
        """The log-likelihood of a trial."""
        return LINKS[self.link]()

    def checking(self, name: str) -> Check:
        """What looks at numbers of successes, and refuses those that this family cannot have."""
        return Successes(name, str(self.trials))

    def mean(self, eta: Array) -> Array:
        """Expected share of successes."""
        return self.tag.mean(eta)

    def variance(self, mean: Array) -> Array:
        """Variance of one trial with this mean."""
        return mean * (1 - mean)

    def simulate(self, rng: np.random.Generator, eta: Array, trials: Array | None = None) -> Array:
        """Draw outcomes."""
        return rng.binomial(np.asarray(1 if trials is None else trials, dtype=int), self.mean(eta)).astype(float)


@dataclass(frozen=True)
class Poisson(Exposed):
    """Counts with mean exposure * e^eta; `exposure` is a column's name, or None where all rows have the same.

    >>> Poisson().mean(np.array([0.0, 1.0])).round(3)
    array([1.   , 2.718])
    """

    exposure: str | None = None
    name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        self.check_exposure()

    @property
    def tag(self) -> Log:
        """The log-likelihood of a row."""
        return Log()

    def checking(self, name: str) -> Check:
        """A check of outcomes of this name, which refuses those that this family cannot have."""
        return Counts(name)

    def mean(self, eta: Array) -> Array:
        """Expected count."""
        return self.tag.mean(eta)

    def variance(self, mean: Array) -> Array:
        """Variance of a count with this mean."""
        return mean

    def constant(self, y: Array) -> Array:
        """What the log-likelihood of outcomes y leaves out, since it does not depend on the linear predictor."""
        return np.asarray(-gammaln(y + 1))

    def simulate(self, rng: np.random.Generator, eta: Array, trials: Array | None = None) -> Array:
        """Draw outcomes."""
        return rng.poisson(self.mean(eta)).astype(float)


Family = Bernoulli | Binomial | Poisson | NegativeBinomial | Gamma | Gaussian | Own
NAMES: dict[str, type[Family]] = {
    kind.name: kind for kind in (Bernoulli, Binomial, Poisson, NegativeBinomial, Gamma, Gaussian)
}


def from_json(saved: Mapping[str, Any]) -> Family:
    """The family of which `to_json` gave this.

    >>> from_json(to_json(Poisson("days")))
    Poisson(exposure='days')
    """
    kind = Own if saved["name"] == Own.name else NAMES[saved["name"]]
    return kind(**{key: value for key, value in saved.items() if key != "name"})


def resolve(family: str | Family) -> Family:
    """The family that a name stands for.

    >>> resolve("bernoulli")
    Bernoulli(link='logit')
    """
    if isinstance(family, Family):
        return family
    if not isinstance(family, str):
        refuse(
            "family", f"one of {', '.join(map(repr, NAMES))}, or a value such as tb.Poisson(exposure='days')", family
        )
    if family == NegativeBinomial.name:
        raise ValueError("negative binomial outcomes need a shape: family=tb.NegativeBinomial(shape=2.0), for example")
    if family in NAMES:
        return NAMES[family]()  # type: ignore[call-arg]
    near = difflib.get_close_matches(family, NAMES, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(NAMES)}"
    raise ValueError(f"family {shown(family)} is not known; {hint}")


def with_trials(family: Family, trials: str | None) -> Family:
    """The family of an outcome for which the formula has the number of trials, or has none.

    >>> with_trials(Bernoulli("probit"), "sent")
    Binomial(trials='sent', link='probit')
    """
    if trials is None:
        if isinstance(family, Binomial) and family.trials is None:
            raise ValueError(
                "binomial outcomes need the number of trials: write p(successes, trials) ~ ... or cbind(successes, "
                "failures) ~ ..., or family=tb.Binomial(trials='column')"
            )
        return family
    if not isinstance(family, Bernoulli | Binomial):
        raise ValueError(f"the formula counts successes among trials ({trials}), which is not for family {family.name}")
    if isinstance(family, Binomial) and family.trials is not None:
        raise ValueError(
            f"the number of trials is given twice, in the formula ({trials}) and in {family}; leave out one of them"
        )
    return Binomial(trials, family.link)


def check(family: Family, y: Array, name: str, trials: Array | None = None) -> None:
    """Refuse outcomes that a family cannot have, or that do not vary.

    >>> check(Poisson(), np.array([0.0, 2.0, 0.5]), "clicks")
    Traceback (most recent call last):
    ValueError: 'clicks' must be counts (0, 1, 2, ...), but 1 rows are not (first at row 2: 0.5)
    """
    checking = family.checking(name)
    checking.add(y, row, trials)
    checking.finish()


def to_json(family: Family) -> dict[str, Any]:
    """What is needed to make the family again; functions of the user's own are not among it."""
    found = asdict(replace(family, functions=None) if isinstance(family, Own) else family)
    found.pop("functions", None)
    return {"name": family.name} | found


def _check_link(link: str) -> None:
    check_choice("link", link, tuple(LINKS))
