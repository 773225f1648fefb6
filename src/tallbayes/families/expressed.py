"""A family's log-likelihood of a row from one expression of y and eta, such as "y * eta - log1p(exp(eta))".

Derivatives follow from the expression by the rules of calculus, and so does a bound on the third one: it is computed
over an interval of eta with arithmetic of intervals, twice, and the smaller bound is taken. Directly; and as what the
third derivative is in the middle, and how far it can get from there with the largest fourth derivative. The first holds
for wide intervals, and the second is close for narrow ones.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.compiled import compiled
from tallbayes.families.expressions import Node, read, smooth, without_constants
from tallbayes.families.source import load, split, table_of, write
from tallbayes.families.terms import chunk_derivatives, third, value

Array = NDArray[np.float64]
NO_WEIGHTS: Array = np.empty(0)


class Expressed(NamedTuple):
    """Tag of an expression, with the values of its constants by name."""

    text: str
    constants: tuple[tuple[str, float], ...] = ()

    @property
    def terms(self) -> NDArray[np.intp]:
        """What compiled loops ask for."""
        return _terms(self.text, self.constants)

    @property
    def canonical(self) -> bool:
        """Whether the log-likelihood is y eta - b(eta)."""
        return _facts(self.text, self.constants)[1]

    @property
    def trust(self) -> str:
        """What is known of bounds on third derivatives."""
        return _facts(self.text, self.constants)[2]

    @property
    def node(self) -> Node:
        """The expression without what does not depend on eta."""
        return _facts(self.text, self.constants)[0]

    def log_likelihood(self, y: Array, eta: Array) -> Array:
        """Log-likelihood of each row, without what does not depend on eta."""
        return np.asarray(by_row(self.terms, y, eta)[0])

    def derivatives(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative in eta of each row's log-likelihood."""
        _, first, second, third_ = by_row(self.terms, y, eta)
        return (first + y if self.canonical else first), second, third_


@cache
def _facts(text: str, constants: tuple[tuple[str, float], ...]) -> tuple[Node, bool, str]:
    """The expression, whether it is canonical, and what is known of its bounds."""
    node = without_constants(read(text, dict(constants)))
    return node, split(node)[0], "proved" if smooth(node) else "none"


@cache
def _terms(text: str, constants: tuple[tuple[str, float], ...]) -> NDArray[np.intp]:
    return table_of(load(write(read(text, dict(constants)), text)))


def by_row(terms: NDArray[np.intp], y: Array, eta: Array) -> Array:
    """Value, first (of chunks: without y eta of a canonical family), second and third derivative of each row."""
    outcomes, at = (np.require(part, float, ["C", "W"]) for part in np.broadcast_arrays(y, eta))
    found = np.empty((4, at.size))
    _by_row(terms, outcomes.reshape(-1), at.reshape(-1), NO_WEIGHTS, found)
    return found.reshape(4, *at.shape)


@compiled()
def _by_row(terms, y, eta, weights, out):
    chunk_derivatives(terms, y, eta, weights, out[1], out[2])
    for i in range(eta.size):
        out[0, i] = value(terms, y[i], eta[i])
        out[2, i] = -out[2, i]
        out[3, i] = third(terms, y[i], eta[i])


LEAST_SQUARES = Expressed("-((y - eta) ** 2) / 2")
