"""Families of the user's own, by an expression or by functions: `tb.family`."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.options import check_choice, check_function, check_number, check_text
from tallbayes.families.checks import Check, Counts, Numbers, Positive, ZerosAndOnes
from tallbayes.families.expressed import LEAST_SQUARES, Expressed
from tallbayes.families.expressions import ETA, HOLDS, Node, Y, derivative, has, read, scale, without_eta
from tallbayes.families.given import Function, Given
from tallbayes.families.source import split
from tallbayes.families.trial import try_family
from tallbayes.families.usual import Usual

Array = NDArray[np.float64]

OUTCOMES: dict[str, type[Any]] = {"numbers": Numbers, "positive": Positive, "counts": Counts, "0/1": ZerosAndOnes}


@dataclass(frozen=True)
class Own(Usual):
    """A family of one linear predictor; see `tb.family`."""

    expression: str | None
    constants: tuple[tuple[str, float], ...] = ()
    outcomes: str = "numbers"
    mean_is: str | None = None
    label: str = "own"
    functions: Given | None = None
    name: ClassVar[str] = "own"

    def __post_init__(self) -> None:
        object.__setattr__(self, "constants", tuple((str(key), float(one)) for key, one in self.constants))
        check_choice("outcomes", self.outcomes, tuple(OUTCOMES))
        check_text("expression", self.expression, "a text such as 'y * eta - exp(eta)'", optional=True)
        check_text("mean", self.mean_is, "a text such as 'exp(eta)'", optional=True)
        if self.expression is not None and not has(read(self.expression, dict(self.constants)), ETA):
            raise ValueError(f"the expression {self.expression!r} has no eta, so it says nothing about coefficients")
        self._mean()

    @property
    def tag(self) -> Any:
        """The log-likelihood of a row."""
        if self.functions is not None:
            return self.functions
        if self.expression is None:
            raise ValueError(
                f"the family {self.label!r} was made from functions, which are not kept with a fit: make it again with "
                "tb.family and pass it where it is needed"
            )
        return Expressed(self.expression, self.constants)

    def checking(self, name: str) -> Check:
        """A check of outcomes of this name, which refuses those that this family cannot have."""
        found: Check = OUTCOMES[self.outcomes](name)
        return found

    def _mean(self) -> Node:
        """The mean as an expression: given, or b'(eta) of a log-likelihood y eta - b(eta), or else eta."""
        if self.mean_is is not None:
            found = read(self.mean_is, dict(self.constants))
            if has(found, Y):
                raise ValueError(f"the mean {self.mean_is!r} must be an expression of eta alone, without y")
            return found
        if self.expression is not None:
            canonical, rest = split(Expressed(self.expression, self.constants).node)
            if canonical:
                return scale(-1.0, derivative(rest))
        return ETA

    def mean(self, eta: Array) -> Array:
        """Expected outcome."""
        node = self._mean()
        return np.asarray(eta, dtype=float) if node is ETA else evaluate(node, np.asarray(eta, dtype=float))

    def variance(self, mean: Array) -> None:
        """A mean does not tell."""

    def constant(self, y: Array) -> Array:
        """What the log-likelihood of outcomes y leaves out: the terms of the expression that have no eta."""
        if self.expression is None:
            return np.zeros(y.shape)
        return evaluate(without_eta(read(self.expression, dict(self.constants))), np.zeros(y.shape), y)

    @property
    def title(self) -> str:
        """What to call it on pages."""
        return self.label

    def described(self) -> dict[str, Any]:
        """What was chosen, by name, for people."""
        said = {"log-likelihood": self.expression or "by functions", "mean": self.mean_is}
        return said | dict(self.constants)

    @property
    def location(self) -> bool:
        """Whether linear predictors are where outcomes are, on their scale."""
        return self._mean() is ETA and not self.canonical

    @property
    def signed(self) -> bool:
        """Whether outcomes may be negative."""
        return self.outcomes == "numbers"

    @property
    def canonical(self) -> bool:
        """Whether the log-likelihood is y eta - b(eta), which is concave."""
        return self.expression is not None and Expressed(self.expression, self.constants).canonical

    @property
    def tag_at_zero(self) -> Any:
        """Least squares, where the log-likelihood need not be concave."""
        return self.tag if self.canonical else LEAST_SQUARES

    @property
    def untried(self) -> bool:
        """Whether its functions have to be tried on the data."""
        return True

    def try_on(self, y: Array, eta: Array | None = None) -> None:
        """Refuse functions that do not fit each other, for outcomes y and linear predictors as these are, or may be."""
        if eta is None:
            eta = y if self.location else np.linspace(-3.0, 3.0, 13)
        try_family(self.tag, y, eta, self.label)
        if (bad := ~np.isfinite(self.mean(eta))).any():
            raise ValueError(
                f"the mean of the family {self.label!r} is not a number where eta = {eta[int(bad.argmax())]:g}; it "
                "must be one wherever the data may lead: use where(eta > 0, ..., ...), or another expression as mean="
            )


def evaluate(node: Node, eta: Array, y: Array | None = None) -> Array:
    """An expression at each eta, and at the outcomes y if it has these."""
    from scipy import special

    functions: dict[str, Any] = {
        "exp": np.exp, "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "erf": special.erf, "abs": np.abs,
        "sign": np.sign, "logistic": special.expit, "softplus": lambda u: np.logaddexp(0.0, u),
        "log_ndtr": special.log_ndtr, "lgamma": special.gammaln,
        "mills": lambda u: np.exp(-0.5 * u * u - special.log_ndtr(u)) / (2 * np.pi) ** 0.5,
    }  # fmt: skip

    def at(node: Node) -> Any:
        kind, parts = node.kind, node.parts
        if kind == "number":
            return parts[0]
        if kind == "eta":
            return eta
        if kind == "y":
            return y
        if kind == "where":
            return np.where(HOLDS[parts[0]](at(parts[1]), at(parts[2])), at(parts[3]), at(parts[4]))
        if kind == "sum":
            return parts[0] + sum(coefficient * at(term) for term, coefficient in parts[1:])
        if kind == "product":
            return np.prod(np.broadcast_arrays(*(at(base) ** exponent for base, exponent in parts)), axis=0)
        if kind == "excess":
            u = at(parts[0])
            return functions["mills"](u) + u
        if kind.startswith("polygamma"):
            return special.polygamma(int(kind[9:]), at(parts[0]))
        return functions[kind](at(parts[0]))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.asarray(at(node) + np.zeros_like(eta), dtype=float)


def family(
    expression: str | None = None,
    *,
    value: Function | None = None,
    derivatives: Function | None = None,
    third: Function | None = None,
    bound: Function | None = None,
    outcomes: str = "numbers",
    mean: str | None = None,
    name: str | None = None,
    **constants: float,
) -> Own:
    """A family of your own: what a row with outcome y says about its linear predictor eta.

    Give an `expression` of y and eta, the log-likelihood of a row. It may have + - * / **, numbers, the functions exp,
    log, log1p, expm1, sqrt, logistic, softplus, tanh, erf, log_ndtr, lgamma and abs, where(y > 0, one, other), and
    constants that you name and give: `tb.family("-(y - eta)**2 / (2 * s**2)", s=0.5)`. Derivatives, and proved bounds
    on the third one, follow from it.

    Or give functions of (y, eta) that Numba can compile: `value`; `derivatives`, which returns the first and the second
    derivative in eta; the `third`; and `bound(y, low, high)`, at least as large as the third derivative's size for any
    eta in between. With all four the thinned sampler runs, and trusts your bound; else all rows decide on proposals.

    `outcomes` says what y may be: "numbers", "positive", "counts" or "0/1". `mean` is the expected outcome as an
    expression of eta; without it, predictions are of eta, or where the log-likelihood is y eta - b(eta) of b'(eta).

    >>> robust = family("-2.5 * log1p((y - eta)**2 / (4 * s**2))", s=2.0, name="student t")
    >>> robust.tag.derivatives(np.array([1.0]), np.array([0.0]))[0].round(3)
    array([0.294])
    """
    check_text("name", name, optional=True)
    label = name or "own"
    given = (value, derivatives, third, bound)
    if (expression is None) == (value is None):
        raise ValueError("a family needs an expression, or a function as value=, and not both")
    for one, what in zip(given, ("value", "derivatives", "third", "bound"), strict=True):
        check_function(what, one, "a function of y and eta", optional=True)
        if one is not None and expression is not None:
            raise ValueError(f"the expression has all that is needed, so leave out {what}=")
    for key, number in constants.items():
        if keyword.iskeyword(key):
            raise ValueError(f"the constant {key!r} needs another name: it is a word of the Python language")
        check_number(f"the constant {key!r}", number)
        if value is None and key not in re.findall(r"\w+", f"{expression} {mean}"):
            raise ValueError(f"the constant {key!r} is not in the expression; write it there, or leave it out")
    functions = None
    if value is not None:
        if constants:
            raise ValueError(f"functions know their own numbers; leave out {', '.join(constants)}")
        functions = Given(value, derivatives, third, bound)
    return Own(expression, tuple(constants.items()), outcomes, mean, label, functions)
