"""More of a fit that holds no rows: more draws, or its model once more.

For more draws set-up and warm-up are done again; then the chains go on from where they stood. So the draws are those of
one longer run, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tallbayes.data.options import check_whole
from tallbayes.models.model import Model
from tallbayes.sampling.checkpoint import Argument, changes, recalled
from tallbayes.sampling.journal import Standing
from tallbayes.sampling.methods import named

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit


class Door(NamedTuple):
    """What makes fits, and their models, of the arguments of a public function."""

    fit: Callable[..., Fit]  # (arguments, checkpoint, standing)
    model: Callable[[dict[str, Any], Sequence[str]], AbstractContextManager[Model]]  # and strata that rows are to keep


DOORS: dict[str, Door] = {}  # by name


@dataclass(frozen=True)
class Origin:
    """How a fit was made: the door that it came from, and what that was given."""

    door: str
    asked: Mapping[str, Argument]  # as files have them
    given: Mapping[str, Any] = field(default_factory=dict)  # those that are at hand, data included
    checkpoint: str | None = None

    @classmethod
    def of(cls, door: str, given: Mapping[str, Any], checkpoint: str | None) -> Origin:
        """From the arguments of a door."""
        return cls(door, {name: Argument.of(name, value) for name, value in given.items()}, given, checkpoint)


def go_on(fit: Fit, draws: int | None, target_ess: float | None, again: Mapping[str, Any], progress: bool) -> Fit:
    """What `Fit.more` does."""
    if draws is None and target_ess is None:
        raise ValueError("say how many more draws there should be: more(draws=1_000), or more(target_ess=2_000)")
    check_whole("draws", draws, optional=True)
    origin: Origin | None = fit.origin
    standing: Standing | None = fit.standing
    if origin is None and fit.continued is not None:
        from tallbayes.results.continuation import from_bytes

        origin, standing = from_bytes(fit.continued, fit)
    origin = _known(origin)
    arguments = _arguments(origin, again, "fit.more(draws=1_000, {}=...)")
    made = fit.posterior.sizes["draw"]
    arguments |= {"draws": None if draws is None else made + draws, "target_ess": target_ess, "progress": progress}
    arguments["seed"] = fit.stats["seed"]
    return DOORS[origin.door].fit(arguments, origin.checkpoint, standing)


def model_of(
    fit: Fit, again: Mapping[str, Any], how: str, progress: bool, strata: Sequence[str] = ()
) -> AbstractContextManager[Model]:
    """The model of a fit, made once more, as long as its rows are at hand; `how` says how to give what is missing."""
    origin = origin_of(fit)
    return DOORS[origin.door].model(_arguments(origin, again, how) | {"progress": progress}, strata)


def origin_of(fit: Fit) -> Origin:
    """How a fit was made; refuse one that does not know it."""
    origin: Origin | None = fit.origin
    if origin is None and fit.continued is not None:
        from tallbayes.results.continuation import origin_from

        origin = origin_from(fit.continued)
    return _known(origin)


def _known(origin: Origin | None) -> Origin:
    """Refuse a fit that does not know how it was made."""
    if origin is None or origin.door not in DOORS:
        raise ValueError("this fit does not know how it was made (an older version has saved it); fit again")
    return origin


def _arguments(origin: Origin, again: Mapping[str, Any], how: str) -> dict[str, Any]:
    """The arguments of a fit, some of which are given again; `how` says how to give others."""
    call = how.partition("(")[0]
    if unknown := next((name for name in again if name not in origin.asked), None):
        raise ValueError(f"{call} takes no argument {unknown!r}; besides its own it takes what the fit was made from")
    again = {name: named(value) if name == "method" else value for name, value in again.items()}
    asked = {name: Argument.of(name, value) for name, value in again.items()}
    if changed := next(changes({name: origin.asked[name] for name in again}, asked), None):
        raise ValueError(f"{call} needs what the fit was made from, but {changed}; leave it out, or fit again")
    return recalled(origin.asked, {**origin.given, **again}, how)
