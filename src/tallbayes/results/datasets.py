"""Datasets of a fit, made when they are first asked for: xarray and pandas take half a second to import."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

Given = Any  # an xarray Dataset, or the variables and coordinates of one


def dataset() -> Any:
    """For an attribute of a class: it is set to what a dataset is made of, to a dataset, or to None."""
    return _Dataset()


def sizes(given: Given) -> Mapping[Any, int]:
    """The length of each axis that has a coordinate."""
    return {axis: len(values) for axis, values in given[1].items()} if isinstance(given, tuple) else given.sizes


class _Dataset:
    """A descriptor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, instance: object, given: Given | None) -> None:
        vars(instance)[self._name] = given if given is None or isinstance(given, tuple) else _signed(given)

    def __get__(self, instance: object | None, owner: type | None = None) -> xr.Dataset | _Dataset | None:
        if instance is None:
            return self
        found: Given | None = vars(instance)[self._name]
        if isinstance(found, tuple):
            import xarray as xr

            found = vars(instance)[self._name] = _signed(xr.Dataset(*found))
        return found


def _signed(found: xr.Dataset) -> xr.Dataset:
    """The dataset, saying who made it unless it says so already."""
    made_by = {"inference_library": "tallbayes", "inference_library_version": version("tallbayes")}
    return found.assign_attrs({**made_by, **found.attrs})
