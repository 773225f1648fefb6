"""Files of results: how a fit is saved and loaded.

A saved fit is one netCDF file: the datasets posterior and sample_stats, others that its kind has, such as
constant_data of groups, and all the rest as JSON in an attribute.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from tallbayes import families
from tallbayes.data.formula import Formula
from tallbayes.data.writing import check_writable, replacing
from tallbayes.results.fit import Fit
from tallbayes.rows.calibration import Calibration

FORMAT_VERSION = 2
ATTRIBUTE = "tallbayes"


def save(fit: Fit, path: str | os.PathLike[str]) -> None:
    """What `Fit.save` does."""
    check_writable(path)
    state = {
        "format": FORMAT_VERSION,
        "kind": fit.kind,
        "stats": fit.stats,
        "formula": None if fit.formula is None else fit.formula.to_json(),
        "family": families.to_json(fit.family),
        "offset": fit.offset,
        "has_offset": fit.has_offset,
        "prior": fit.prior,
        "calibration": None if fit._calibration is None else [part.tolist() for part in fit._calibration],
    }
    tree = fit.to_arviz()
    tree.attrs[ATTRIBUTE] = json.dumps(state, default=lambda number: number.item())
    with replacing(path) as partial:
        tree.to_netcdf(partial, engine="h5netcdf")


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fit that `Fit.save` wrote.

    >>> load("no_such_file.nc")
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'no_such_file.nc'
    """
    import h5netcdf
    import xarray as xr

    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {path!r}")
    try:
        with h5netcdf.File(path, "r") as file:
            saved = file.attrs.get(ATTRIBUTE)
    except PermissionError:
        raise
    except OSError as error:
        raise ValueError(f"{path!r} is not a netCDF file in HDF5 format: {error}") from error
    if saved is None:
        raise ValueError(f"{path!r} was not written by tallbayes; load takes what fit.save wrote")
    state = json.loads(saved)
    if state["format"] != FORMAT_VERSION:
        raise ValueError(
            f"{path!r} has format {state['format']}, but this version of tallbayes reads {FORMAT_VERSION}; "
            "load it with the version that wrote it"
        )
    kind = Fit.kinds.get(state["kind"])
    if kind is None:
        raise ValueError(f"{path!r} holds a fit of kind {state['kind']!r}; load it with the version that wrote it")
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        tree = opened.load()
    parts: dict[str, Any] = {
        argument: tree[name].to_dataset() for argument, name in kind.datasets.items() if name in tree.children
    }
    parts |= {name: state[name] for name in ("stats", "offset", "has_offset", "prior")}
    parts["formula"] = None if state["formula"] is None else Formula.from_json(state["formula"])
    parts["family"] = families.resolve(state["family"])
    if state.get("calibration") is not None:
        parts["calibration"] = Calibration(*map(np.array, state["calibration"]))
    return kind(**parts)
