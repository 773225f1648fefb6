"""Warnings of other libraries that are not for our users, silenced for a while.

Python's filters of warnings are those of the whole process: were two threads to change them at the same time, the one
that ends last would restore what the other had changed, for good. So it is one thread at a time. Nothing may hang on
what is silenced: threads of the user's may change the filters meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from tallbayes.data.alone import ALONE


@contextmanager
def without(*unwanted: str | type[Warning]) -> Iterator[None]:
    """Silence warnings that are of these kinds, or begin with these words.

    >>> with without("it is late"):
    ...     warnings.warn("it is late and dark")
    """
    with ALONE, warnings.catch_warnings():
        for one in unwanted:
            if isinstance(one, str):
                warnings.filterwarnings("ignore", one)
            else:
                warnings.simplefilter("ignore", one)
        yield
