"""What one row adds to the log-likelihood, as compiled loops ask for it.

Each function is chosen by the type of a family's `tag`, an empty NamedTuple: numba resolves it while compiling, so the
loops stay cached on disk. A tag's file gives all five by `numba.extending.overload`. Outcomes are y, linear predictors
eta.

A canonical tag has log-likelihood  y eta - b(eta).  The sum of y_i eta_i is linear in the coefficients and is computed
once, so its chunk functions give only the part -b(eta) and never read y. The functions of one row give all of it.
"""

from __future__ import annotations

from typing import Any


def chunk_value(tag: Any, y: Any, eta: Any, weights: Any) -> float:
    """Sum of the weighted log-likelihood over a chunk of rows (weights may be None)."""
    raise NotImplementedError


def chunk_derivatives(tag: Any, y: Any, eta: Any, weights: Any, first: Any, second: Any) -> float:
    """Like `chunk_value`, and write weighted d/d eta and -d2/d eta2 of every row."""
    raise NotImplementedError


def value(tag: Any, y: Any, eta: Any) -> float:
    """Log-likelihood of one row, as the tag's `log_likelihood` gives it."""
    raise NotImplementedError


def third(tag: Any, y: Any, eta: Any) -> float:
    """Third derivative of one row's log-likelihood, with small relative error also in the tails."""
    raise NotImplementedError


def bound3(tag: Any, y: Any, low: Any, high: Any) -> float:
    """The largest |third derivative| for eta in [low, high]."""
    raise NotImplementedError


def has_tag(tag: Any, kind: type) -> bool:
    """Whether numba's type of a tag stands for this kind."""
    return getattr(tag, "instance_class", None) is kind
