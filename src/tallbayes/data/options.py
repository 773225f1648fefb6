"""Arguments that users give, checked: one check for each kind of argument, and one style of message.

    NAME must be WHAT, not THE VALUE THAT WAS GIVEN

All of them raise ValueError. Booleans and texts are no numbers, NumPy's numbers are; NaN and infinity are refused. With
`optional` None is fine, too: it stands for the default.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence, Sized
from typing import Any, NoReturn

import numpy as np

LONGEST = 60  # characters of a value in a message
MOST_BITS = 128  # of a whole number that is taken, or written out; a seed has as many


def refuse(name: str, what: str, value: object) -> NoReturn:
    """Raise the error that all checks have in common."""
    raise ValueError(f"{name} must be {what}, not {shown(value)}")


def shown(value: object) -> str:
    """A value in a message: as Python writes it if that is short, else its type.

    >>> shown("2GB"), shown(np.float64(0.5)), shown([0] * 1000), shown("a" * 1000)[-9:]
    ("'2GB'", '0.5', 'a value of type list', "aaaaa'...")
    """
    if isinstance(value, np.generic) and value.item() is not None:  # as it is of a time that is none
        value = value.item()
    if isinstance(value, str | bytes) and len(value) > LONGEST:
        return f"{value[:LONGEST]!r}..."
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a whole number beyond 2^{value.bit_length() - 1}"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    try:
        text = "" if _many(value) else repr(value)
    except Exception:  # of a class that cannot be written out
        text = ""
    return text if 0 < len(text) <= LONGEST and "\n" not in text else f"a value of type {type(value).__name__}"


def _many(value: Any) -> bool:
    """Whether a value has so many parts that writing them all out would take long."""
    try:
        return len(value) > LONGEST
    except TypeError:  # sparse matrices have a length that is not a number
        return False


def check_whole(
    name: str, value: object, least: int = 1, most: int | None = None, *, optional: bool = False, why: str = ""
) -> None:
    """Refuse what is no whole number, or out of bounds; `why` says why there is a largest value.

    Without one it is 2^128, so that it can be computed with and written out.

    >>> check_whole("draws", 0)
    Traceback (most recent call last):
    ValueError: draws must be a whole number of at least 1, not 0
    """
    if value is None and optional:
        return
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    large = whole and int(value).bit_length() > MOST_BITS  # type: ignore[call-overload]
    if whole and not large and least <= value and (most is None or value <= most):  # type: ignore[operator]
        return
    limits = f"of at least {least}" if most is None else f"from {least} to {most:,}"
    if most is None and large:
        limits += f" and below 2^{MOST_BITS}"
    refuse(name, f"a whole number {limits}{why and f' ({why})'}", value)


def is_number(value: object) -> bool:
    """Whether a value is a number, and finite.

    >>> is_number(np.float32(2)), is_number(True), is_number("2"), is_number(float("nan"))
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:
        return False


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    below: float | None = None,
    size: tuple[float, float] | None = None,
    optional: bool = False,
) -> None:
    """Refuse what is no finite number, or not strictly between bounds, or not of a `size` from the least to the most.

    >>> check_number("interval", 2, above=0, below=1)
    Traceback (most recent call last):
    ValueError: interval must be a number between 0 and 1, not 2
    >>> check_number("sd", 1e-300, above=0, size=(1e-100, 1e100))
    Traceback (most recent call last):
    ValueError: sd must be a positive number from 1e-100 to 1e+100, not 1e-300
    """
    if value is None and optional:
        return
    if is_number(value):
        number = float(value)  # small types of NumPy cannot be held against large bounds
        inside = (above is None or number > above) and (below is None or number < below)
        if inside and (size is None or number == 0 or size[0] <= abs(number) <= size[1]):
            return
    kind = "a positive number" if above == 0 and below is None else "a number"
    limits = f" between {above:g} and {below:g}" if above is not None and below is not None else ""
    if above is not None and below is None and above != 0:
        limits = f" above {above:g}"
    if size is not None:
        limits = f" from {size[0]:g} to {size[1]:g}" if above == 0 else f" whose size is at most {size[1]:g}"
    refuse(name, f"{kind}{limits}", value)


def check_choice(
    name: str, value: object, choices: Sequence[str], known: str = "known", *, optional: bool = False
) -> None:
    """Refuse what is not among the choices.

    >>> check_choice("combine", "median", ("average", "gaussian"))
    Traceback (most recent call last):
    ValueError: combine 'median' is not known; choose one of average, gaussian
    """
    if (value is None and optional) or (isinstance(value, str) and value in choices):
        return
    raise ValueError(f"{name} {shown(value)} is not {known}; choose one of {', '.join(choices)}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    >>> check_flag("progress", "no")
    Traceback (most recent call last):
    ValueError: progress must be True or False, not 'no'
    """
    if not isinstance(value, bool | np.bool_):
        refuse(name, "True or False", value)


def check_text(name: str, value: object, what: str = "a text", *, optional: bool = False) -> None:
    """Refuse what is no text, or an empty one, or blanks.

    >>> check_text("by", 3, "the name of a column")
    Traceback (most recent call last):
    ValueError: by must be the name of a column, not 3
    """
    if not ((value is None and optional) or (isinstance(value, str) and value.strip())):
        refuse(name, what, value)


def check_texts(name: str, value: object, what: str, *, optional: bool = False) -> None:
    """Refuse what is no list of texts; a single text is none.

    >>> check_texts("names", "fico", "a list of parameters' names")
    Traceback (most recent call last):
    ValueError: names must be a list of parameters' names, not 'fico'
    """
    if value is None and optional:
        return
    listed = not isinstance(value, str | bytes) and hasattr(value, "__iter__") and isinstance(value, Sized)
    if not (listed and all(isinstance(one, str) for one in value)):  # type: ignore[attr-defined]
        refuse(name, what, value)


def check_path(name: str, value: object, what: str = "a path") -> str:
    """The path as text, with the home folder for a '~'; refuse what is none.

    >>> check_path("checkpoint", 3)
    Traceback (most recent call last):
    ValueError: checkpoint must be a path, not 3
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        refuse(name, what, value)
    if "://" in path:
        refuse(name, f"{what} on this machine", path)
    path = os.path.expanduser(path)
    try:
        os.path.abspath(path)
    except FileNotFoundError:
        raise ValueError(
            f"{name} must be {what}; {shown(path)} cannot be found from a working folder that is gone"
        ) from None
    try:
        os.lstat(path)
    except UnicodeEncodeError:
        refuse(name, f"{what}, in characters that the system can write", path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError(f"{name} must be {what}, but {shown(path)} is longer than the system allows") from None
    return path


def check_kind(name: str, value: object, kinds: type | tuple[type, ...], what: str, *, optional: bool = False) -> None:
    """Refuse what is not of some type, such as one of ours.

    >>> check_kind("estimator", 3, str, "tb.TaylorProxy or tb.SplineProxy")
    Traceback (most recent call last):
    ValueError: estimator must be tb.TaylorProxy or tb.SplineProxy, not 3
    """
    if not ((value is None and optional) or isinstance(value, kinds)):
        refuse(name, what, value)


def check_function(name: str, value: object, what: str = "a function", *, optional: bool = False) -> None:
    """Refuse what cannot be called.

    >>> check_function("value", 3)
    Traceback (most recent call last):
    ValueError: value must be a function, not 3
    """
    if not ((value is None and optional) or callable(value)):
        refuse(name, what, value)
