"""Parameters of a user's own model: names, shapes, priors, and the scale on which chains move.

Chains move on the whole line. A parameter between two ends is a function x(u) of where the chain is,

    x = low + exp(u)       or       x = low + (high - low) / (1 + exp(-u)),

and the prior density of u is that of x times dx/du. What users see, in functions and in results, is x.
"""

from __future__ import annotations

import difflib
import keyword
import math
import unicodedata
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, logit

from tallbayes.data.options import check_function, refuse, shown
from tallbayes.data.per_row import as_numbers
from tallbayes.families.steady import exp, log
from tallbayes.own.priors import ParameterPrior

OURS = "tb.Normal, tb.StudentT, tb.HalfNormal, tb.HalfCauchy, tb.LogNormal or tb.Uniform"

TAKEN = ("chain", "draw")  # axes of results
MOST = 500  # parameters

Array = NDArray[np.float64]
JointPrior = Callable[[Any], float]


@cache
def record(kind: str, names: tuple[str, ...]) -> Any:
    """A named tuple with these fields, the same one for the same names: compiled code knows it again."""
    return namedtuple(kind, names)


def check_names(what: str, names: Sequence[str], hint: str = "") -> None:
    """Refuse names that cannot be fields of a named tuple."""
    for name in names:
        plain = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
        if not plain or name.startswith("_") or name in TAKEN:
            raise ValueError(
                f"{what} {name!r} must be a plain name such as 'dose', which can be written after a dot{hint}"
                f"{', and means nothing else in results, as chain and draw do' if name in TAKEN else ''}"
            )
        if (usual := unicodedata.normalize("NFKC", name)) != name:
            raise ValueError(f"{what} {name!r} is not what Python reads after a dot, which is {usual!r}; name it that")


@dataclass(frozen=True)
class Shapes:
    """Names and shapes of parameters, which lie one after the other in a vector."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> list[int]:
        """Entries of each."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def width(self) -> int:
        """Entries of all."""
        return sum(self.sizes)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each entry.

        >>> Shapes(("top", "slope"), ((), (2,))).labels
        ('top', 'slope[0]', 'slope[1]')
        """
        return tuple(
            f"{name}[{', '.join(map(str, place))}]" if shape else name
            for name, shape in zip(self.names, self.shapes, strict=True)
            for place in np.ndindex(shape)
        )

    def theta(self, flat: Any) -> Any:
        """A vector as users see it: a number or an array for each name, after a dot.

        >>> Shapes(("top", "slope"), ((), (2,))).theta(np.array([1.0, 2.0, 3.0])).slope
        array([2., 3.])
        """
        found, start = [], 0
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            found.append(flat[start : start + size].reshape(shape) if shape else flat[start])
            start += size
        return record("theta", self.names)(*found)

    def told(self, flat: Array) -> str:
        """A vector in words.

        >>> Shapes(("top", "slope"), ((), (2,))).told(np.array([1.0, 2.0, 3.0]))
        'top = 1, slope = [2. 3.]'
        """
        values = self.theta(np.asarray(flat, dtype=float))
        return ", ".join(
            f"{name} = {np.array2string(value, precision=6, threshold=8) if np.ndim(value) else f'{value:.6g}'}"
            for name, value in zip(self.names, values, strict=True)
        )


@dataclass(frozen=True)
class Parameters:
    """All parameters of a model, and their prior to the power `share`."""

    shapes: Shapes
    start: Array  # (width,) as users see it
    low: Array  # (width,) minus infinity: no such end
    high: Array
    prior: Mapping[str, ParameterPrior] | JointPrior
    share: float = 1.0

    @classmethod
    def of(
        cls,
        start: Mapping[str, ArrayLike],
        prior: Mapping[str, ParameterPrior] | JointPrior,
        positive: Sequence[str] = (),
    ) -> Parameters:
        """From what users give.

        >>> from tallbayes.models.priors import Normal
        >>> Parameters.of({"top": 1.0, "sd": 2.0}, {"top": Normal(0, 5), "sd": Normal(0, 1)}, ["sd"]).low
        array([-inf,   0.])
        """
        if not isinstance(start, Mapping) or not start:
            refuse("start", "a dict with a number or an array for each parameter, such as {'top': 1.0}", start)
        names = tuple(start)
        check_names("the parameter", names)
        values = {name: _numbers(name, value) for name, value in start.items()}
        for name in positive:
            _known(name, names, "positive=")
        ends = dict.fromkeys(names, (-math.inf, math.inf))
        if isinstance(prior, Mapping):
            for name, one in prior.items():
                _known(name, names, "prior=")
                if isinstance(one, type) or not (hasattr(one, "log_density") and hasattr(one, "support")):
                    refuse(f"the prior of {name!r}", OURS, one)
                ends[name] = one.support
            if missing := [name for name in names if name not in prior]:
                raise ValueError(f"the parameter {missing[0]!r} has no prior; give one for each parameter")
        else:
            what = "a dict with a prior for each parameter, such as {'top': tb.Normal(0, 5)}"
            check_function("prior", prior, f"{what}, or a function of theta that gives the log density")
        for name in positive:
            if ends[name][1] <= 0:
                raise ValueError(f"{name!r} is in positive=, but its prior ends at {ends[name][1]:g}")
            ends[name] = max(0.0, ends[name][0]), ends[name][1]
        for name, value in values.items():
            low, high = ends[name]
            if not ((low < value) & (value < high)).all():
                between = f"above {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
                raise ValueError(f"the start of {name!r} must be {between}, not {value}")
        shapes = Shapes(names, tuple(value.shape for value in values.values()))
        if shapes.width > MOST:
            raise ValueError(
                f"start= has {shapes.width:,} parameters in all; a tb.Model has at most {MOST}, since it needs the "
                "curvature of all pairs. For effects of many groups, write a formula with (1 | group)"
            )
        lows, highs = np.concatenate([np.repeat([ends[name]], values[name].size, axis=0) for name in names]).T
        flat = np.concatenate([value.ravel() for value in values.values()])
        return cls(shapes, flat, lows, highs, dict(prior) if isinstance(prior, Mapping) else prior)

    @property
    def joint(self) -> bool:
        """Whether the prior is one function of all parameters."""
        return not isinstance(self.prior, Mapping)

    def to_the_power(self, share: float) -> Parameters:
        """The same with the density of u to a power: what a part of the rows gets of it."""
        return replace(self, share=self.share * share)

    @property
    def _kinds(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which have a lower end alone, and which have two."""
        return np.isfinite(self.low) & np.isinf(self.high), np.isfinite(self.low) & np.isfinite(self.high)

    def natural(self, u: Array) -> Array:
        """x of u (..., width)."""
        above, between = self._kinds
        found = np.array(u, dtype=float)
        with np.errstate(over="ignore"):
            found[..., above] = self.low[above] + exp(found[..., above])
        wide = (self.high - self.low)[between]
        found[..., between] = self.low[between] + wide * expit(found[..., between])
        return found

    def free(self, x: Array) -> Array:
        """u of x (..., width)."""
        above, between = self._kinds
        found = np.array(x, dtype=float)
        found[..., above] = log(found[..., above] - self.low[above])
        found[..., between] = logit((found[..., between] - self.low[between]) / (self.high - self.low)[between])
        return found

    def slopes(self, u: Array) -> tuple[Array, Array]:
        """dx/du and d2x/du2 at one u (width,)."""
        above, between = self._kinds
        first, second = np.ones(u.size), np.zeros(u.size)
        first[above] = second[above] = np.exp(u[above])
        share, wide = expit(u[between]), (self.high - self.low)[between]
        first[between] = wide * share * (1 - share)
        second[between] = first[between] * (1 - 2 * share)
        return first, second

    def log_prior(self, u: Array) -> Array:
        """Log prior density of each u (several, width)."""
        u = np.atleast_2d(u)
        x, (above, between) = self.natural(u), self._kinds
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = self._log_density(x)
        found = found + u[:, above].sum(1)
        wide, free = (self.high - self.low)[between], u[:, between]
        found = found + (np.log(wide) + log_expit(free) + log_expit(-free)).sum(1)
        return np.asarray(self.share * np.where(np.isnan(found), -np.inf, found))

    def _log_density(self, x: Array) -> Array:
        if not isinstance(self.prior, Mapping):
            return np.array([_one_number(self.prior, self.shapes, one) for one in x])
        total, start = np.zeros(len(x)), 0
        for name, size in zip(self.shapes.names, self.shapes.sizes, strict=True):
            total += self.prior[name].log_density(x[:, start : start + size]).sum(1)
            start += size
        return total

    def described(self) -> dict[str, str]:
        """The prior of each entry in words, by its label."""
        found = {}
        for name, label in zip(np.repeat(self.shapes.names, self.shapes.sizes), self.shapes.labels, strict=True):
            one = self.prior[str(name)] if isinstance(self.prior, Mapping) else self.prior
            found[label] = _described(one)
        return found


def _described(prior: Any) -> str:
    if hasattr(prior, "support"):
        return f"{type(prior).__name__}({', '.join(f'{value:g}' for value in vars(prior).values())})"
    return str(getattr(prior, "__name__", type(prior).__name__))


def _one_number(prior: JointPrior, shapes: Shapes, x: Array) -> float:
    try:
        given = np.asarray(prior(shapes.theta(x)))
    except Exception as error:
        raise ValueError(f"the prior failed where {shapes.told(x)}: {type(error).__name__}: {error}") from error
    if given.dtype.kind not in "fiu":
        raise ValueError(f"the prior must give one number or -inf, but gives {shown(given[()])} where {shapes.told(x)}")
    found = given.astype(float)
    if found.shape != () or np.isnan(found) or found == np.inf:
        raise ValueError(f"the prior must give one number or -inf, but gives {found} where {shapes.told(x)}")
    return float(found)


def _numbers(name: str, value: ArrayLike) -> Array:
    what = "a finite number or an array of them"
    found = as_numbers(f"the start of {name!r}", value, what)
    if not found.size or not np.isfinite(found).all():
        refuse(f"the start of {name!r}", what, value)
    return found


def _known(name: str, names: Sequence[str], where: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(str(name), names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise ValueError(f"{where} names {name!r}, which is not a parameter in start=; {hint}")
