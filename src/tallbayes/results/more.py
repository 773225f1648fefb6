"""More draws: a fit goes on where it stopped, as if it had been asked for more in the first place.

Set-up and warm-up are done again, since a fit holds no rows; then the chains go on from where they stood. So the draws
are those of one longer run, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallbayes.data.options import check_whole
from tallbayes.sampling.checkpoint import Argument, changes, recalled
from tallbayes.sampling.journal import Standing
from tallbayes.sampling.methods import named

if TYPE_CHECKING:
    from tallbayes.results.fit import Fit

DOORS: dict[str, Callable[..., Fit]] = {}  # what makes fits: (arguments, checkpoint, standing) -> Fit, by name


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
    if origin is None or origin.door not in DOORS:
        raise ValueError("this fit does not know how it was made (an older version has saved it); fit again")
    if unknown := next((name for name in again if name not in origin.asked), None):
        raise ValueError(f"fit.more takes no argument {unknown!r}; the seed and the checkpoint are those of the fit")
    again = {name: named(value) if name == "method" else value for name, value in again.items()}
    asked = {name: Argument.of(name, value) for name, value in again.items()}
    if changed := next(changes({name: origin.asked[name] for name in again}, asked), None):
        raise ValueError(f"fit.more goes on with what the fit was made from, but {changed}; leave it out, or fit again")
    arguments = recalled(origin.asked, {**origin.given, **again}, "fit.more(draws=1_000, {}=...)")
    made = fit.posterior.sizes["draw"]
    arguments |= {"draws": None if draws is None else made + draws, "target_ess": target_ess, "progress": progress}
    arguments["seed"] = fit.stats["seed"]
    return DOORS[origin.door](arguments, origin.checkpoint, standing)
