"""A fit for ArviZ: a DataTree, or the InferenceData that ArviZ had before version 1.

Which of the two is wanted is asked of the version that is installed; ArviZ itself is imported for InferenceData alone.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

    from tallbayes.results.fit import Fit

FIRST_WITH_TREES = 1  # version of ArviZ


def to_arviz(fit: Fit) -> Any:
    """What `Fit.to_arviz` does."""
    if not wants_inference_data():
        return tree(fit)
    from arviz import InferenceData

    return InferenceData(attrs=dict(fit.posterior.attrs), warn_on_custom_groups=False, **parts(fit))


def wants_inference_data() -> bool:
    """Whether an ArviZ is installed that knows no DataTree."""
    try:
        found = version("arviz")
    except PackageNotFoundError:
        return False
    return int(found.partition(".")[0]) < FIRST_WITH_TREES


def tree(fit: Fit) -> xr.DataTree:
    """All datasets of a fit.

    >>> from tallbayes.results.example import example
    >>> list(tree(example()).children)
    ['posterior', 'sample_stats']
    """
    import xarray as xr

    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=fit.posterior.attrs)} | parts(fit))


def parts(fit: Fit) -> dict[str, xr.Dataset]:
    """The datasets that a fit has, by the names that ArviZ and files know."""
    found = {name: getattr(fit, argument) for argument, name in fit.datasets.items()}
    return {name: dataset for name, dataset in found.items() if dataset is not None}
