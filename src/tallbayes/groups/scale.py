"""The standard deviation tau of group effects: its priors, and an exact draw of it given the effects.

Given k effects with the sum of squares S, u = log tau has the log density

    f(u) = log p(tau) + u - k u - S / 2 exp(-2u),

which is concave for every prior here, so that three of its tangents are enough for a draw (`tangents.py`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_kind, check_number, shown
from tallbayes.families.compiled import compiled, inside, small
from tallbayes.groups.tangents import APART, draw, envelope
from tallbayes.models.priors import SIZES
from tallbayes.sampling.shape import uniform

Array = NDArray[np.float64]

LONGEST = 2.0  # distance of the outer tangents from the mode
NEAREST = 1e-9  # a scale of a prior beside linear predictors: smaller ones are none, and rounding decides
FARTHEST_LIMIT = 100.0  # the same of a lower limit: beyond, groups are all alone


class ScaleCode(NamedTuple):
    """A prior as compiled code knows it: log p(tau) = -power u - heavy log(1 + e^2u) - light e^2u, u > lowest."""

    power: float
    heavy: float
    light: float
    shift: float  # u is log tau minus this in the two terms with e^2u
    lowest: float


@dataclass(frozen=True)
class HalfCauchy:
    """Half-Cauchy prior of the groups' standard deviation: half of it below `scale`, with a long tail.

    >>> HalfCauchy(2.5)
    HalfCauchy(scale=2.5)
    """

    scale: float = 2.5
    support: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def __post_init__(self) -> None:
        _check("scale", self.scale)

    @property
    def code(self) -> ScaleCode:
        """See `ScaleCode`."""
        return ScaleCode(0.0, 1.0, 0.0, math.log(self.scale), -math.inf)

    def log_density(self, tau: Array) -> Array:
        """Log density at tau, with its constant."""
        return np.asarray(math.log(2 / (math.pi * self.scale)) - np.log1p((tau / self.scale) ** 2))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Independent draws."""
        return np.abs(self.scale * rng.standard_cauchy(size))


@dataclass(frozen=True)
class HalfNormal:
    """Half-Normal prior of the groups' standard deviation.

    >>> HalfNormal(1)
    HalfNormal(scale=1)
    """

    scale: float = 1.0
    support: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def __post_init__(self) -> None:
        _check("scale", self.scale)

    @property
    def code(self) -> ScaleCode:
        """See `ScaleCode`."""
        return ScaleCode(0.0, 0.0, 0.5, math.log(self.scale), -math.inf)

    def log_density(self, tau: Array) -> Array:
        """Log density at tau, with its constant."""
        return np.asarray(0.5 * math.log(2 / math.pi) - math.log(self.scale) - 0.5 * (tau / self.scale) ** 2)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Independent draws."""
        return np.abs(self.scale * rng.standard_normal(size))


@dataclass(frozen=True)
class InverseSquare:
    """The prior p(tau) ~ tau^-2 of Payne and Mallick, above a lower limit.

    Without the limit the posterior would be improper: the likelihood has a finite value at tau = 0 and the prior an
    infinite mass there. So the limit is part of the model, and may even be the answer; the result says what the data
    say about tau = 0.

    >>> InverseSquare(lower=0.01)
    InverseSquare(lower=0.01)
    """

    lower: float

    def __post_init__(self) -> None:
        _check("lower limit", self.lower)

    @property
    def support(self) -> tuple[float, float]:
        """Where the density is positive."""
        return self.lower, math.inf

    @property
    def code(self) -> ScaleCode:
        """See `ScaleCode`."""
        return ScaleCode(2.0, 0.0, 0.0, 0.0, math.log(self.lower))

    def log_density(self, tau: Array) -> Array:
        """Log density at tau, with its constant."""
        tau = np.asarray(tau, dtype=float)
        return np.where(tau >= self.lower, math.log(self.lower) - 2 * np.log(tau), -np.inf)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Independent draws."""
        return self.lower / (1 - rng.random(size))


ScalePrior = HalfCauchy | HalfNormal | InverseSquare


def scale_prior_from_text(text: str) -> ScalePrior:
    """The prior that a text describes: "half_cauchy(SCALE)", "half_normal(SCALE)" or "inverse_square(LOWER)".

    >>> scale_prior_from_text("half_normal(1)")
    HalfNormal(scale=1.0)
    """
    kinds: dict[str, type[ScalePrior]]
    kinds = {"half_cauchy": HalfCauchy, "half_normal": HalfNormal, "inverse_square": InverseSquare}
    found = re.fullmatch(r"\s*([a-z_]+)\s*\(([^(),]*)\)\s*", text, re.IGNORECASE)
    name, inside = (found[1].lower(), found[2]) if found else ("", "")
    try:
        number = float(inside)
    except ValueError:
        name, number = "", 0.0
    if name not in kinds:
        raise ValueError(
            f"the group prior {shown(text)} is not like half_cauchy(SCALE), half_normal(SCALE) or "
            "inverse_square(LOWER), such as half_normal(1)"
        )
    return kinds[name](number)


def given_scale_prior(name: str, prior: ScalePrior | str | None) -> ScalePrior | None:
    """The prior that was given as an argument of this name, or that a text describes.

    >>> given_scale_prior("group_prior", "half_normal(1)")
    HalfNormal(scale=1.0)
    """
    prior = scale_prior_from_text(prior) if isinstance(prior, str) else prior
    ours = "tb.HalfCauchy, tb.HalfNormal, tb.InverseSquare, or a text such as 'half_normal(1)'"
    check_kind(name, prior, (HalfCauchy, HalfNormal, InverseSquare), ours, optional=True)
    return prior


def check_scale(name: str, prior: ScalePrior, unit: float) -> None:
    """Refuse a prior of a standard deviation that is far from the unit in which linear predictors are."""
    (value,) = vars(prior).values()
    most = FARTHEST_LIMIT if isinstance(prior, InverseSquare) else math.inf
    if not NEAREST * unit <= value <= most * unit:
        limit = f"at least {NEAREST * unit:.2g}" if value < unit else f"at most {most * unit:.2g}"
        raise ValueError(f"{name} is {prior}, but its number must be {limit}: linear predictors are of size {unit:.2g}")


@dataclass(frozen=True)
class Power:
    """A prior such that the density of log tau is that of another prior to a power: the share of a part of the rows.

    >>> Power(HalfNormal(1), 0.5).code.light
    0.25
    """

    of: ScalePrior | Power
    share: float

    @property
    def code(self) -> ScaleCode:
        """See `ScaleCode`."""
        code, share = self.of.code, self.share
        return code._replace(power=1 - share * (1 - code.power), heavy=share * code.heavy, light=share * code.light)

    def log_density(self, tau: Array) -> Array:
        """Log density at tau, up to a constant."""
        log_tau = np.log(tau)
        return np.asarray(self.share * (self.of.log_density(tau) + log_tau) - log_tau)


def _check(what: str, value: float) -> None:
    check_number(f"the {what} of a group prior", value, above=0, size=SIZES)


@inside()
def log_prior(code, u):
    """Log density of u = log tau under the prior, up to a constant."""
    square = math.exp(2.0 * (u - code.shift))
    return u - code.power * u - code.heavy * math.log1p(square) - code.light * square


@inside()
def _bend(code, count, squares, u):
    """f, f' and -f'' at u."""
    square = math.exp(2.0 * (u - code.shift))
    data = squares * math.exp(-2.0 * u)
    share = square / (1.0 + square) if square < 1e300 else 1.0
    value = log_prior(code, u) - count * u - 0.5 * data
    slope = 1.0 - code.power - count + data - 2.0 * code.heavy * share - 2.0 * code.light * square
    return value, slope, 2.0 * data + 4.0 * code.heavy * share * (1.0 - share) + 4.0 * code.light * square


@compiled()
def log_density(code, count, squares, u):
    """f: log density of u given `count` effects with this sum of squares, up to a constant."""
    return log_prior(code, u) - count * u - 0.5 * squares * math.exp(-2.0 * u) if u >= code.lowest else -math.inf


@inside()
def draw_log_scale(code, count, squares, rng):
    """A draw of u = log tau given `count` effects, two or more, with this sum of squares; NaN if that is no number."""
    small()
    if not (squares < math.inf):
        return math.nan
    squares = squares if squares > 1e-280 else 1e-280
    mode = 0.5 * math.log(squares / (count + code.power - 1.0))
    if code.light > 0.0:  # it may pull the mode far to the left: begin where it alone would balance the data
        balance = 0.25 * math.log(squares / (2.0 * code.light)) + 0.5 * code.shift
        mode = balance if balance < mode else mode
    for _ in range(100):
        _, slope, bend = _bend(code, count, squares, mode)
        if abs(slope) < 0.01 * math.sqrt(bend):
            break
        step = slope / bend
        mode += step if abs(step) < 1.0 else math.copysign(1.0, step)
    mode = mode if mode > code.lowest else code.lowest
    top, slope, bend = _bend(code, count, squares, mode)
    width = APART / math.sqrt(bend)
    width = width if width < LONGEST else LONGEST
    left, left_slope, _ = _bend(code, count, squares, mode - width)
    right, right_slope, _ = _bend(code, count, squares, mode + width)
    lowest = code.lowest - mode
    made = envelope(width, left - top, left_slope, slope, right - top, right_slope, lowest)
    while True:
        t, height = draw(made, left_slope, slope, right_slope, lowest, rng)
        if math.log(uniform(rng)) < _bend(code, count, squares, mode + t)[0] - top - height:
            return mode + t


@compiled()
def new_log_scale(code, count, squares, rng):
    """What `draw_log_scale` draws, with an entry for Python."""
    return draw_log_scale(code, count, squares, rng)
