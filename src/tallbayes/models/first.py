"""The first pass over a model's rows: what has to be known before anything else, all at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tallbayes.families import Tag
from tallbayes.rows.looking import FirstLook, Look
from tallbayes.rows.moments import ColumnMoments, Moments
from tallbayes.rows.protocol import Rows
from tallbayes.rows.tasks import Derivatives, LogLikelihoodDerivatives

LOOKED_AT = 30_000  # rows, where there are more than twice as many


class First(NamedTuple):
    """What the columns look like, derivatives of the log-likelihood at zero, and some of the rows if there are many."""

    moments: Moments
    at_zero: Derivatives
    look: Look | None


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
        return First(moments, zero, None)
    look = FirstLook(LOOKED_AT, rows.mean_outcome, rows.total_weight)
    return First(*rows.reduce_all((ColumnMoments(), None), at_zero, (look, None)))
