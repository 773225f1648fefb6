"""Attributes that are computed when they are first asked for, and then stay.

As `functools.cached_property`, which until Python 3.11 has a lock for all objects of a class: fits in several threads
would wait for each other's passes, and a process that is forked meanwhile would wait for good. Here two threads that
are first at the same time both compute it, and the first to be done has it for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801
    """An attribute that a method without arguments computes.

    >>> class Circle:
    ...     radius = 2
    ...
    ...     @once
    ...     def area(self):
    ...         print("computed")
    ...         return 3 * self.radius**2
    >>> circle = Circle()
    >>> circle.area, circle.area
    computed
    (12, 12)
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        return vars(instance).setdefault(self._name, self._compute(instance))  # type: ignore[no-any-return]
