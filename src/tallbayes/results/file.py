"""Files of results: how a fit is saved and loaded.

A saved fit is one netCDF file: the datasets posterior and sample_stats, others that its kind has, such as
constant_data of groups, what it takes to go on (`continuation.py`), and all the rest as JSON in an attribute. Behind
it follows a seal, which other programs do not look at: a checksum of all bytes. A file that was damaged is refused
before HDF5, which may not survive that, has looked at it.

HDF5 does not survive a full disk either, so the file is made in memory first.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from tallbayes import families
from tallbayes.data.formula import Formula
from tallbayes.data.options import check_path
from tallbayes.data.paths import require_regular
from tallbayes.data.writing import check_writable, write_whole
from tallbayes.engines.packed import DamagedError
from tallbayes.results import arviz, checks, continuation
from tallbayes.results.fit import Fit

FORMAT_VERSION = 3
UNSEALED = 2  # the format before there were seals
ATTRIBUTE = "tallbayes"
CONTINUED, BYTES = "continuation", "bytes"  # a group, and the variable in it
SEAL = b"\ntallbayes seal 1\n"
DIGEST = 32  # bytes of the checksum after it


def save(fit: Fit, path: str | os.PathLike[str]) -> None:
    """What `Fit.save` does."""
    import xarray as xr

    path = check_path("path", path, "the path of a file")
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
    tree = arviz.tree(fit)
    tree.attrs[ATTRIBUTE] = json.dumps(state, default=lambda number: number.item())
    if (kept := continuation.to_bytes(fit)) is not None:
        tree[CONTINUED] = xr.DataTree(xr.Dataset({BYTES: ("byte", np.frombuffer(kept, np.uint8))}))
    write_whole(path, sealed(tree.to_netcdf(engine="h5netcdf")))


def sealed(content: bytes | memoryview) -> list[bytes | memoryview]:
    """The parts of a file: its content, and a seal.

    >>> [len(part) for part in sealed(b"content")]
    [7, 18, 32]
    """
    return [content, SEAL, hashlib.blake2b(content, digest_size=DIGEST).digest()]


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fit that `Fit.save` wrote; a DamagedError says what is wrong with a file that has been changed.

    >>> load("no_such_file.nc")
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'no_such_file.nc'
    """
    path = check_path("path", path, "the path of a file that fit.save wrote")
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {path!r}")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path!r} is a folder; give the name of a file that fit.save wrote")
    require_regular(path)
    has_seal = _has_seal(path)
    saved = _attribute(path)
    if saved is None:
        raise ValueError(f"{path!r} was not written by tallbayes; load takes what fit.save wrote")
    try:
        state = checks.state_of(saved)
    except ValueError as error:
        raise _damaged(path, error) from error
    form = state["format"]
    if form not in (UNSEALED, FORMAT_VERSION):
        raise ValueError(
            f"{path!r} has format {form}, but this version of tallbayes reads {FORMAT_VERSION}; "
            "load it with the version that wrote it"
        )
    if form == FORMAT_VERSION and not has_seal:
        raise DamagedError(f"{path!r} is damaged, or another program has changed it: the end of it is not there")
    try:
        checks.check_state(state)
    except ValueError as error:
        raise _damaged(path, error) from error
    if state["kind"] not in Fit.kinds:
        raise ValueError(f"{path!r} holds a fit of kind {state['kind']!r}; load it with the version that wrote it")
    try:
        return _fit(path, state, Fit.kinds[state["kind"]])
    except Exception as error:  # whatever HDF5 or somebody who has made a seal, too, has made of it
        raise _damaged(path, error) from error


def _fit(path: str, state: dict[str, Any], kind: type[Fit]) -> Fit:
    import xarray as xr

    with xr.open_datatree(path, engine="h5netcdf") as opened:
        tree = opened.load()
    parts: dict[str, Any] = {
        argument: tree[name].to_dataset() for argument, name in kind.datasets.items() if name in tree.children
    }
    checks.check_draws(parts)
    parts |= {name: state[name] for name in ("stats", "offset", "has_offset", "prior")}
    parts["formula"] = None if state["formula"] is None else Formula.from_json(state["formula"])
    parts["family"] = families.from_json(state["family"])
    if state.get("calibration") is not None:
        parts["calibration"] = checks.calibration(state["calibration"])
    fit = kind(**parts)
    checks.check_fit(fit)
    if CONTINUED in tree.children:
        fit.continued = np.asarray(tree[CONTINUED][BYTES].values, np.uint8).tobytes()
    return fit


def _attribute(path: str) -> Any:
    """What the file has as JSON, if anything."""
    import h5netcdf

    try:
        with h5netcdf.File(path, "r") as file:
            return file.attrs.get(ATTRIBUTE)
    except PermissionError:
        raise
    except Exception as error:  # of many kinds
        raise DamagedError(
            f"{path!r} is not a netCDF file in HDF5 format, or is damaged; load takes what fit.save wrote"
        ) from error


def _has_seal(path: str) -> bool:
    """Whether there is a seal; raises DamagedError if the content is not what was sealed."""
    length = os.path.getsize(path) - len(SEAL) - DIGEST
    with open(path, "rb") as file:
        file.seek(max(0, length))
        seal = file.read()
        if length < 0 or not seal.startswith(SEAL):
            return False
        file.seek(0)
        found = hashlib.blake2b(digest_size=DIGEST)
        for part in _read(file, length):
            found.update(part)
    if found.digest() != seal[len(SEAL) :]:
        raise DamagedError(
            f"{path!r} is damaged, or was changed: its checksum does not match. Take a copy, or fit again"
        )
    return True


def _read(file: Any, length: int) -> Iterator[bytes]:
    while length > 0 and (part := file.read(min(length, 1 << 22))):
        yield part
        length -= len(part)


def _damaged(path: str, error: Exception) -> DamagedError:
    what = str(error) if isinstance(error, ValueError) else "its parts are not as they were written"
    return DamagedError(f"{path!r} is damaged, or was changed: {what}. Take a copy, or fit again")
