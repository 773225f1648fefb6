"""Checkpoints that were damaged, or belong to something else, and fits that shall go on."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tallbayes as tb
from odd.case import FEW, Case, Complaints, Table, pick, refused
from odd.saved import KIND, fitted


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Runs that were ended, whose folders were changed since, and runs that shall go on."""
    table = Table(rng)
    data = table.dict()
    how = {**FEW, "method": "mh"}

    def broken(folder: Path, change: Callable[[Path], Any]) -> Any:
        tb.fit("y ~ x", data, checkpoint=folder / "run.tb", **how)
        change(folder / "run.tb")
        return tb.resume(folder / "run.tb", data=data, progress=False)

    def whole(fit: Any) -> Complaints:
        right = tb.fit("y ~ x", data, **how)
        return [] if np.array_equal(fit.draws, right.draws) else ["the draws are not those of the unbroken run"]

    def some_file(place: float, how: str) -> Callable[[Path], Any]:
        def change(run: Path) -> Any:
            files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "lock")
            path = files[int(place * len(files))]
            bits = bytearray(path.read_bytes())
            if how == "gone":
                return path.unlink()
            if how == "empty":
                return path.write_bytes(b"")
            if how == "cut":
                return path.write_bytes(bytes(bits[: len(bits) // 2]))
            bits[len(bits) // 2] ^= 0x10
            return path.write_bytes(bytes(bits))

        return change

    for number in range(16):
        damage, place = pick(rng, ["gone", "empty", "cut", "flipped"]), float(rng.random())
        yield Case(
            KIND,
            f"checkpoint: a file {damage} at {place:.3f}, {number}",
            lambda folder, d=damage, p=place: broken(folder, some_file(p, d)),
            whole,
            ("run.tb|asked|state|checkpoint",),
        )
    yield Case(KIND, "checkpoint: as it was", lambda folder: broken(folder, lambda run: None), whole, answer=True)
    yield refused(
        KIND,
        "checkpoint: an empty folder",
        lambda folder: broken(folder, lambda run: (shutil.rmtree(run), run.mkdir())),
        "run.tb",
    )
    yield refused(
        KIND,
        "checkpoint: a file",
        lambda folder: broken(folder, lambda run: (shutil.rmtree(run), run.write_text("a"))),
        "run.tb",
    )
    yield refused(
        KIND, "checkpoint: no folder", lambda folder: tb.resume(folder / "run.tb", data=data, progress=False), "run.tb"
    )

    def other(folder: Path, **changed: Any) -> Any:
        tb.fit("y ~ x", data, checkpoint=folder / "run.tb", **how)
        return tb.fit(**{"formula": "y ~ x", "data": data, "checkpoint": folder / "run.tb", **how, **changed})

    for name, changed, word in (
        ("data", {"data": table.dict(x=table["z"])}, "data"),
        ("formula", {"formula": "y ~ z"}, "formula"),
        ("method", {"method": "thinned"}, "method"),
        ("prior", {"prior": tb.Normal(0, 3)}, "prior"),
        ("chains", {"chains": 3}, "chains"),
        ("a row less", {"data": {key: values[:-1] for key, values in data.items()}}, "data|rows"),
    ):
        yield refused(
            KIND, f"checkpoint: another {name}", lambda folder, changed=changed: other(folder, **changed), word
        )
    yield refused(
        KIND,
        "resume with other data",
        lambda folder: (
            tb.fit("y ~ x", data, checkpoint=folder / "run.tb", **how),
            tb.resume(folder / "run.tb", data=table.dict(y=1 - table["y"]), progress=False),
        ),
        "data",
    )
    yield refused(
        KIND,
        "resume without data",
        lambda folder: (
            tb.fit("y ~ x", data, checkpoint=folder / "run.tb", **how),
            tb.resume(folder / "run.tb", progress=False),
        ),
        "data",
    )
    yield refused(
        KIND,
        "resume with another argument",
        lambda folder: (
            tb.fit("y ~ x", data, checkpoint=folder / "run.tb", **how),
            tb.resume(folder / "run.tb", data=data, nothing=5, progress=False),
        ),
        "nothing",
    )
    for value in (0, -1, 1.5, "5", True, [5]):
        for name in ("draws", "target_ess"):
            if not (name == "target_ess" and value == 1.5):
                yield refused(
                    KIND,
                    f"more {name}={value!r}",
                    lambda folder, name=name, value=value: fitted("plain").more(**{name: value}, progress=False),
                    name.replace("_", "|"),
                )
    yield refused(KIND, "more of nothing", lambda folder: fitted("plain").more(progress=False), "draws")
    held = io.BytesIO()
    yield refused(KIND, "save into memory", lambda folder: fitted("plain").save(held), "path|file|name")
