"""The rows that a fit was made from, or others: opened again, since a fit holds none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tallbayes.data.pieces import Source
from tallbayes.data.sources import open_source
from tallbayes.data.texts import USUAL
from tallbayes.engines.opening import on_engine
from tallbayes.results.more import Origin, origin_of
from tallbayes.sampling.checkpoint import Argument, recalled

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit


class Rows(NamedTuple):
    """Rows ready to be read, and how they are to be taken."""

    source: Source
    own: bool  # those that the fit was made from
    drop: bool  # rows with missing values
    weights: str | None  # the name of a column


@contextmanager
def rows_of(fit: Fit, data: Any, engine: Any, weights: str | None, how: str) -> Iterator[Rows]:
    """The rows of `data`, or those that the fit was made from; `how` says how to give them to what asks."""
    texts = USUAL if fit.formula is None else fit.formula.texts
    if data is not None:
        with on_engine(engine, data, texts) as opened:
            yield Rows(open_source(opened), False, False, weights)
        return
    origin = _origin(fit, how)
    asked = _recalled(origin, engine, how if weights is not None else _weighted(origin, how))
    own = asked["weights"]
    if weights is None and own is not None and not isinstance(own, str):
        raise ValueError(
            f"the fit had an array of weights: give the data with a column of them, {how.format('data=..., weights')}"
        )
    with on_engine(asked["engine"], asked["data"], texts) as opened:
        yield Rows(open_source(opened), True, asked["missing"] == "drop", weights if weights is not None else own)


def _origin(fit: Fit, how: str) -> Origin:
    """How a fit was made, if that was by `tb.fit`."""
    origin = origin_of(fit)
    if origin.door != "fit":
        raise ValueError(f"the fit does not know which data it was made from; give them, {how.format('data')}")
    return origin


def _weighted(origin: Origin, how: str) -> str:
    """How to give what asks its data again, with the weights that the fit had, which other data have not."""
    asked = origin.asked["weights"]
    named = None if asked.packed is None else asked.value("weights")
    return how if named is None else how.replace("=...", f"=..., weights={named!r}")


def _recalled(origin: Origin, engine: Any, how: str) -> dict[str, Any]:
    """What the fit was made from, as `tb.fit` was asked."""
    given = {name: origin.given[name] for name in ("data", "weights", "engine", "missing") if name in origin.given}
    given |= {} if engine is None else {"engine": engine}
    asked: dict[str, Argument] = {name: origin.asked[name] for name in ("data", "weights", "engine", "missing")}
    if "weights" not in given and asked["weights"].packed is None:
        given["weights"] = ()
    return recalled(asked, given, how)
