"""The first pass over a model's rows: what has to be known before anything else, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallbayes.families import Tag
from tallbayes.rows.arrays import Arrays, Outcomes
from tallbayes.rows.looking import FirstLook, Look
from tallbayes.rows.moments import ColumnMoments, Moments
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Derivatives, LogLikelihoodDerivatives

LOOKED_AT, SHARE = 30_000, 1 / 300  # rows where there are more than twice as many, or such a share of very many
MOST_BYTES = 1 << 25  # of them


class First(NamedTuple):
    """What the columns look like, derivatives of the log-likelihood at zero, and some of the rows if there are many.

    The part of the log-likelihood that is linear in the outcomes comes with it.
    """

    outcomes: Outcomes
    moments: Moments
    at_zero: Derivatives
    look: Look | None

    def kept(self) -> dict[str, NDArray[Any]]:
        """All of it as arrays by name, to be kept with the rows."""
        told = {
            "outcomes": self.outcomes._asdict(),
            "moments": self.moments._asdict(),
            "zero": self.at_zero._asdict(),
        }
        found = {
            f"{what} {name}": np.asarray(part)
            for what, parts in told.items()
            for name, part in parts.items()
            if part is not None
        }
        if self.look is not None:
            parts = self.look.scale, *self.look.arrays.parts(np.arange(self.look.scale.size))
            found |= {f"look {number}": part for number, part in enumerate(parts)}
        return found

    @classmethod
    def found(cls, kept: Mapping[str, NDArray[Any]], rows: Rows) -> First:
        """What was kept of the rows.

        >>> from tallbayes.families import Logit
        >>> from tallbayes.rows.memory import MemoryRows
        >>> rows = MemoryRows([[1.0, 1.0]], [0.0, 1.0])
        >>> First.found(first_pass(rows, Logit()).kept(), rows).moments.mean
        array([1.])
        """
        of: dict[str, dict[str, NDArray[Any]]] = {"outcomes": {}, "moments": {}, "zero": {}, "look": {}}
        for name, part in kept.items():
            what, own = name.split()
            of[what][own] = part
        look = None
        if looked := of["look"]:
            scale, *parts = (looked[str(number)] for number in range(len(looked)))
            look = Look(Arrays.joined(tuple(parts), rows.strata, rows.groups), scale)
        slopes, *sums = (of["outcomes"][name] for name in Outcomes._fields)
        return cls(Outcomes(slopes, *map(float, sums)), Moments(**of["moments"]), Derivatives(**of["zero"]), look)


def first_pass(rows: Rows, family: Tag) -> First:
    """What one pass over the rows tells.

    >>> from tallbayes.families import Logit
    >>> from tallbayes.rows.memory import MemoryRows
    >>> first_pass(MemoryRows([[1.0, 1.0]], [0.0, 1.0]), Logit()).at_zero.curvature
    array([[[0.5]]])
    """
    at_zero = (LogLikelihoodDerivatives(family), np.zeros(rows.width))
    if rows.size <= 2 * LOOKED_AT:
        moments, zero = rows.reduce_all((ColumnMoments(), None), at_zero)
        return First(rows.outcomes, moments, zero, None)
    most = MOST_BYTES // (8 * (rows.columns + 2))
    look = FirstLook(max(LOOKED_AT, min(most, int(SHARE * rows.size))), rows.mean_outcome, rows.total_weight)
    found = rows.reduce_all((ColumnMoments(), None), at_zero, (look, None))
    return First(rows.outcomes, *found)
