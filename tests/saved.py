"""Saved fits that somebody has changed, and has sealed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py

from tallbayes.results.file import ATTRIBUTE, DIGEST, SEAL, sealed


def change(path: Path, edit: Callable[[Any, dict[str, Any]], Any], seal: bool = True) -> None:
    """Change a file: `edit` gets the open file and what it says as JSON, and returns what it is to say, if another."""
    path.write_bytes(path.read_bytes()[: -len(SEAL) - DIGEST])
    with h5py.File(path, "r+") as file:
        said = edit(file, json.loads(file.attrs[ATTRIBUTE]))
        if said is not None:
            file.attrs[ATTRIBUTE] = said if isinstance(said, str) else json.dumps(said)
    if seal:
        path.write_bytes(b"".join(sealed(path.read_bytes())))
