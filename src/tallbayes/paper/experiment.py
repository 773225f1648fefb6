"""What an experiment leaves behind, how it tells where it is, and what the experiments measure alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from tallbayes.fit import fit
from tallbayes.models.priors import Normal
from tallbayes.results.compare import compare
from tallbayes.results.fit import Fit
from tallbayes.sampling.diagnostics import ess, mcse
from tallbayes.sampling.methods import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRIOR = Normal(0, 10)  # of all coefficients, in all experiments
FALSE_ALARM = 1e-3  # chance that methods which agree are said to differ


class Finding(NamedTuple):
    """What the paper found, what we find, and whether that is the same."""

    papers: str
    ours: str
    agrees: bool


@dataclass
class Experiment:
    """One experiment of the paper: tables and figures by the name of their file, each with its caption."""

    name: str
    title: str
    setting: str
    tables: dict[str, tuple[str, pd.DataFrame]] = field(default_factory=dict)
    figures: dict[str, tuple[str, Figure]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    discussion: list[str] = field(default_factory=list)


class CutShort(KeyboardInterrupt):
    """Ctrl-C during an experiment: where it was, and its fits until then, the last perhaps with fewer draws."""

    def __init__(self, where: str, fits: Mapping[str, Fit] | None = None) -> None:
        super().__init__(where)
        self.fits = dict(fits or {})


@dataclass
class Steps:
    """Says which of how many steps is at work; silent without somebody to tell."""

    name: str
    total: int
    tell: Callable[[str], None] | None
    done: int = 0
    what: str = ""

    @property
    def progress(self) -> bool:
        """Whether to show progress."""
        return self.tell is not None

    def next(self, what: str) -> None:
        """The next step begins."""
        self.done, self.what = self.done + 1, what
        if self.tell is not None:
            self.tell(f"{self.name} {self.done}/{self.total}: {what}")

    def cut_short(self, fits: Mapping[str, Fit] | None = None) -> CutShort:
        """What to raise when the step at work was interrupted."""
        return CutShort(f"at step {self.done} of {self.total} ({self.what})", fits)


def fit_all(
    formula: str, data: Any, methods: Mapping[str, Method], draws: Mapping[str, int], steps: Steps, **common: Any
) -> dict[str, Fit]:
    """Each method on the same data, with so many draws a chain; a Ctrl-C ends all of it."""
    fits: dict[str, Fit] = {}
    for name, method in methods.items():
        steps.next(f"{name.replace('_', ' ')}, 4 x {draws[name]:,} draws")
        asked: dict[str, Any] = {"draws": draws[name], "progress": steps.progress, "seed": 1, "prior": PRIOR}
        try:
            fits[name] = fit(formula, data, method=method, **asked, **common)
        except KeyboardInterrupt:  # before its first draw
            raise steps.cut_short(fits) from None
        if fits[name].stats["interrupted"]:
            raise steps.cut_short(fits)
    return fits


def made_until(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """What there is of an experiment that was cut short."""
    lines = {
        name: {
            "complete": "no" if one.stats["interrupted"] else "yes",
            "minutes": one.minutes,
            "draws a chain": one.posterior.sizes["draw"],
            "least ESS": one.summary()["ess_bulk"].min(),
            "rows a draw": one.stats["rows_per_draw"],
        }
        for name, one in fits.items()
    }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("method")


def errors(fit: Fit, truth: Fit) -> pd.DataFrame:
    """Of each parameter: the error of its mean in posterior sds, and its sd over that of the truth."""
    sd = truth.draws.std((0, 1))
    mean = (fit.draws.mean((0, 1)) - truth.draws.mean((0, 1))) / sd
    return pd.DataFrame({"mean": mean, "sd": fit.draws.std((0, 1)) / sd}, index=pd.Index(truth.parameters))


def noise(fit: Fit) -> float:
    """The largest Monte Carlo error of a mean, in posterior sds."""
    return float(np.max(mcse(fit.draws) / fit.draws.std((0, 1))))


def agree(reference: Fit, other: Fit) -> tuple[float, float]:
    """The largest difference of a mean or an sd in Monte Carlo errors, and the limit that chance rarely passes."""
    table = compare(reference=reference, other=other)[["largest_z", "largest_z_sd"]]
    limit = -ndtri(FALSE_ALARM / (4 * len(reference.parameters)))  # two sides, means and sds
    return float(table.to_numpy()[1].max()), float(limit)


def same_posterior(two_stage: Fit, reference: Fit, name: str) -> Finding:
    """Whether two-stage agrees with a method of this name, and from how many effective draws that is told."""
    z, limit = agree(reference, two_stage)
    least = min(float(ess(one.draws).min()) for one in (two_stage, reference))
    return Finding(
        "Two-stage Metropolis-Hastings has the posterior of Metropolis-Hastings.",
        f"No mean or sd differs from those of {name} by more than {z:.1f} Monte Carlo errors (chance alone passes "
        f"{limit:.1f} once in 1,000 times), with {least:,.0f} effective draws or more of each parameter.",
        z < limit,
    )
