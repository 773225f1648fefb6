"""What a file keeps of a fit so that it can go on: how it was made, and where its chains have stopped.

Draws that the posterior has are not kept twice, and of each update only what is told of a run. The bytes are those of
`packed.py`: nothing is pickled.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.engines import packed
from tallbayes.engines.wire import pack
from tallbayes.results.fit import Fit
from tallbayes.results.more import Origin
from tallbayes.sampling.checkpoint import Argument, others, versions
from tallbayes.sampling.journal import Standing
from tallbayes.sampling.kernel import Draws, Streams
from tallbayes.sampling.past import CheckpointError

Array = NDArray[np.float64]

FACTS = ("start", "warm", "spent", "goal", "seconds", "asked")  # that a run goes on with (`past.py`)
TRIED = 1 << 20  # bytes by which is seen whether squeezing is of use


def to_bytes(fit: Fit) -> bytes | None:
    """What `from_bytes` needs, besides the posterior; None if the fit does not know how it was made."""
    if fit.standing is None or fit.origin is None:
        return fit.continued
    state, streams, draws, facts = fit.standing
    kept = {
        "versions": versions(),
        "door": fit.origin.door,
        "asked": {name: argument._asdict() for name, argument in fit.origin.asked.items()},
        "state": state,
        "streams": streams,
        "facts": facts,
        "draws": _taken(draws, fit),
    }
    return b"".join(packed.parts(pack(kept, functions=False)))


def from_bytes(content: bytes, fit: Fit) -> tuple[Origin, Standing]:
    """How the fit was made, and where its chains have stopped.

    Raises DamagedError if that cannot be read, and CheckpointError if the draws of other versions would differ.
    """
    kept = packed.from_bytes(content)
    with _as_damage():
        if found := others(kept["versions"]):
            raise CheckpointError(
                f"the fit was made with {found}; its next draws might differ here: use the versions "
                "that made it, or fit again"
            )
        origin = _origin(kept)
        draws, streams, facts = _put(kept["draws"], fit), kept["streams"], dict(kept["facts"])
        if not isinstance(streams, Streams) or any(len(part) != draws.theta.shape[1] for part in streams):
            raise ValueError("its chains have no random numbers")
        if missing := [name for name in FACTS if name not in facts]:
            raise ValueError(f"it does not know {missing[0]!r}")
        return origin, Standing(kept["state"], streams, draws, facts)


def origin_from(content: bytes) -> Origin:
    """How the fit was made, whatever versions made it; raises DamagedError if that cannot be read."""
    kept = packed.from_bytes(content)
    with _as_damage():
        return _origin(kept)


def _origin(kept: Any) -> Origin:
    """How the fit was made; a stranger's file must not say where to write."""
    asked = {str(name): Argument(**argument) for name, argument in kept["asked"].items() if name != "checkpoint"}
    if "cache" in asked:
        asked["cache"] = Argument.of("cache", None)
    return Origin(str(kept["door"]), asked)


@contextmanager
def _as_damage() -> Iterator[None]:
    """Whatever fails means that the bytes are not as they were written."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, StopIteration, zlib.error) as error:
        if isinstance(error, CheckpointError):
            raise
        raise packed.DamagedError(f"where the chains of the fit have stopped cannot be read ({error})") from error


def _taken(draws: Draws, fit: Fit) -> dict[str, Any]:
    """The draws, without what the posterior has, and without what follows from the rest or is told nobody."""
    columns = _columns(fit)
    places: dict[bytes, int] = {column.tobytes(): place for place, column in enumerate(columns)}
    own = [np.ascontiguousarray(draws.theta[:, :, place].T) for place in range(draws.theta.shape[2])]
    found = np.array([places.get(column.tobytes(), -1) for column in own], np.int64)
    rest = [column for column, place in zip(own, found, strict=True) if place < 0]
    accepted, decided = draws.accepted, draws.decided
    return {
        "found": found,
        "rest": _squeezed(rest),
        "log_posterior": _or_number(draws.log_posterior),
        "variance": _or_number(draws.variance),
        "shape": accepted.shape,
        "accepted": np.packbits(accepted),
        "decided": True if decided.all() else np.packbits(decided),
        "screened": None if np.array_equal(draws.screened, accepted) else draws.screened,
        "one_stage": bool(np.isnan(draws.log_second).all()),
    }


def _put(kept: dict[str, Any], fit: Fit) -> Draws:
    columns, shape = _columns(fit), tuple(int(size) for size in kept["shape"])
    steps, _, chains = shape
    missing = int((kept["found"] < 0).sum())
    own, rest = [], iter(_unsqueezed(kept["rest"], (missing, chains, steps)))
    for place in kept["found"].tolist():
        own.append(columns[place] if place >= 0 else next(rest))
    theta = np.ascontiguousarray(np.array(own).transpose(2, 1, 0))
    accepted = _flags(kept["accepted"], shape)
    decided = np.ones(shape, bool) if kept["decided"] is True else _flags(kept["decided"], shape)
    screened = accepted.astype(float) if kept["screened"] is None else kept["screened"]
    log_posterior, variance = (_filled(kept[name], (steps, chains)) for name in ("log_posterior", "variance"))
    log_first, log_second = np.full(shape, np.nan), np.full(shape, np.nan if kept["one_stage"] else 0.0)
    draws = Draws(theta, log_posterior, screened, decided, accepted, log_first, log_second, variance)
    if any(len(part) != steps for part in draws) or theta.shape[:2] != (steps, chains) or screened.shape != shape:
        raise ValueError("its draws do not have the shape of the posterior")
    return draws


def _squeezed(columns: list[Array]) -> Any:
    """Arrays, as bytes that are fewer if they can be: of splines, most entries are zeros or as before."""
    whole = np.array(columns)
    content = whole.tobytes()
    shorter = len(zlib.compress(content[:TRIED], 1)) < len(content[:TRIED]) / 2
    return zlib.compress(content, 1) if shorter else whole


def _unsqueezed(kept: Any, shape: tuple[int, ...]) -> Array:
    if isinstance(kept, bytes):
        size = 8 * int(np.prod(shape))
        kept = np.frombuffer(zlib.decompressobj().decompress(kept, size + 1))  # no more than there should be
    return np.asarray(kept, float).reshape(shape)


def _columns(fit: Fit) -> list[Array]:
    """All that the posterior has of each draw, as arrays (chain, draw)."""
    found = []
    for values in fit.posterior.data_vars.values():
        if values.dims[:2] == ("chain", "draw") and values.dtype == np.float64:
            every = values.values.reshape(*values.shape[:2], -1)
            found += [np.ascontiguousarray(every[:, :, place]) for place in range(every.shape[2])]
    return found


def _or_number(values: Array) -> Array | float:
    """One number if all are that."""
    first = float(values.flat[0])
    return first if np.array_equal(values, np.full_like(values, first), equal_nan=True) else values


def _filled(kept: Any, shape: tuple[int, ...]) -> Array:
    return np.full(shape, kept) if isinstance(kept, float) else np.array(kept, float).reshape(shape)


def _flags(kept: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    count = int(np.prod(shape))
    if kept.size != -(-count // 8):
        raise ValueError("it does not have a flag for each draw")
    return np.unpackbits(kept, count=count).reshape(shape).astype(bool)
