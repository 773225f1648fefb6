"""Options that users give: whole numbers, and names out of a list."""

from __future__ import annotations

import numpy as np


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number, or below its least value; None stands for the default.

    >>> check_whole("draws", 0, 1)
    Traceback (most recent call last):
    ValueError: draws must be a whole number of at least 1, not 0
    """
    number = None if isinstance(value, bool) else value  # True is 1 to Python, but hardly to who wrote it
    if value is not None and not (isinstance(number, int | np.integer) and number >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


def check_choice(name: str, given: object, choices: tuple[str, ...], known: str = "known") -> None:
    """Refuse what is not among the choices; None stands for the default.

    >>> check_choice("combine", "median", ("average", "gaussian"))
    Traceback (most recent call last):
    ValueError: combine 'median' is not known; choose one of average, gaussian
    """
    if given is not None and given not in choices:
        raise ValueError(f"{name} {given!r} is not {known}; choose one of {', '.join(choices)}")
