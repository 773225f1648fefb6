"""A store that is kept in a folder, to be found again by what it was made from.

It is written aside and renamed when it is complete: what is there is whole, and what is not whole is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tallbayes.data.writing import check_folder, make_folder, replacing_folder
from tallbayes.rows.store import CHUNK_ROWS, Fields, Store, mapped

FORMAT = 2
ROWS, INDEX, KNOWN, ABOUT = "rows.bin", "index.npz", "known.npz", "about.json"


class Found(NamedTuple):
    """A store, and what its maker wrote beside it: facts, and arrays by name."""

    store: Store
    about: dict[str, Any]
    known: dict[str, NDArray[Any]]


def place(folder: str | os.PathLike[str], made_from: Any) -> Path:
    """The folder of a store that was made from this, which must be fit for JSON.

    >>> place("designs", {"formula": "y ~ x"}).name.startswith("tallbayes-")
    True
    """
    text = json.dumps([FORMAT, CHUNK_ROWS, made_from], sort_keys=True)
    return Path(folder) / f"tallbayes-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def find(at: Path) -> Found | None:
    """What lies there, None if it is nothing, or not whole."""
    try:
        about = json.loads((at / ABOUT).read_text())
        with (at / INDEX).open("rb") as file, np.load(file, allow_pickle=False) as index:
            offsets, widths = index["offsets"], index["widths"]
            ends, values, totals = np.cumsum(index["sizes"]), index["values"], index["totals"]
        with (at / KNOWN).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            known = dict(arrays)
        with (at / ROWS).open("rb") as file:
            if os.fstat(file.fileno()).st_size != about["bytes"]:
                return None
            content = mapped(file, about["bytes"])
    except (OSError, ValueError, KeyError, BadZipFile):
        return None
    fields = about["fields"]
    named = Fields(**fields | {"x": tuple(fields["x"])})
    palettes = tuple(np.split(values, ends[:-1]))
    store = Store(named, about["rows"], offsets, widths, palettes, totals, content)
    return Found(store, about["about"], known)


class Draft:
    """A store on its way into the cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file: IO[bytes] = (folder / ROWS).open("w+b")

    def save(self, store: Store, about: dict[str, Any], known: dict[str, NDArray[Any]]) -> None:
        """Write all that is needed to find the store again; its rows are in the file already."""
        sizes = [palette.size for palette in store.palettes]
        np.savez(
            self._folder / INDEX,
            offsets=store.offsets,
            widths=store.widths,
            sizes=np.array(sizes, dtype=np.int64),
            values=np.concatenate(store.palettes),
            totals=store.totals,
        )
        np.savez(self._folder / KNOWN, **known)  # type: ignore[arg-type]
        facts = {"rows": store.rows, "bytes": store.content.size, "fields": asdict(store.fields), "about": about}
        (self._folder / ABOUT).write_text(json.dumps(facts))


@contextmanager
def writing(at: Path) -> Iterator[Draft]:
    """A draft that takes its place when all went well; otherwise nothing of it is left."""
    make_folder(at.parent)
    check_folder(at)
    with replacing_folder(at) as aside:
        draft = Draft(aside)
        with draft.file:
            yield draft
