"""The table of parameters: mean, sd and interval of each, and how far to trust them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallbayes.families.steady import exp
from tallbayes.models.side_by_side import Parameters, batches, cuts
from tallbayes.results.intervals import Interval
from tallbayes.sampling.diagnostics import Diagnostics, diagnose

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def table(
    draws: Parameters, names: Sequence[str], found: Diagnostics, minutes: float, interval: Interval
) -> pd.DataFrame:
    """One line per parameter, of draws whose diagnostics are known."""
    return _framed([described(some, interval) for some in batches(draws)], names, found, minutes, interval)


def exponentiated(
    draws: Parameters, names: Sequence[str], ratios: Flags, minutes: float, interval: Interval
) -> pd.DataFrame:
    """One line per parameter, of exp(draws) where that is a ratio; what is too large for a number is infinite.

    >>> draws = np.log(np.arange(1.0, 9.0)).reshape(2, 4, 1) * [1.0, 1.0]
    >>> exponentiated(draws, ["a", "b"], np.array([True, False]), 1.0, Interval())["mean"].round(2).to_dict()
    {'a': 4.5, 'b': 1.33}
    """
    parts, found = list[Array](), []
    with np.errstate(over="ignore", invalid="ignore"):
        for some in _exponentiated(draws, ratios):
            parts.append(described(some, interval))
            found.append(diagnose(some))
    every = Diagnostics(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    return _framed(parts, names, every, minutes, interval)


def _exponentiated(draws: Parameters, ratios: Flags) -> Iterator[Array]:
    """A few parameters after the other."""
    for some in cuts(draws, least=2):
        values = np.array(draws[:, :, some], order="C")  # sums have the same bits however draws lie in memory
        values[..., ratios[some]] = exp(values[..., ratios[some]])
        yield values


def described(draws: Array, interval: Interval) -> Array:
    """Mean, sd and interval of each parameter, a row each."""
    over, ddof = (0, 1), min(1, draws[..., 0].size - 1)
    ends = interval.ends(draws.reshape(-1, draws.shape[2]))
    return np.stack([draws.mean(axis=over), draws.std(axis=over, ddof=ddof), *ends])


def _framed(
    described: Sequence[Array], names: Sequence[str], found: Diagnostics, minutes: float, interval: Interval
) -> pd.DataFrame:
    import pandas as pd

    columns = {
        **dict(zip(("mean", "sd", *interval.names), np.concatenate(described, axis=1), strict=True)),
        **found._asdict(),
        "edpm": found.ess_bulk / minutes,
    }
    return pd.DataFrame(columns, index=pd.Index(names))
