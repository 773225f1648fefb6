"""How much the draws are worth: effective draws, their speed, and whether the chains agree.

ESS is rank-normalised (Vehtari et al., 2021; the formulas are in mixing.py): n / (1 + 2 sum rho_k) of all chains
together, the sum cut where noise begins. EDPM = ESS / minutes is how Payne and Mallick compare samplers; REDPM is the
ratio of two EDPMs. Draws have the shape (chain, draw, parameter); results have one number per parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.data.options import check_choice, check_number, check_whole
from tallbayes.models.side_by_side import Parameters, SideBySide, batches
from tallbayes.sampling import mixing

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

FEWEST_DRAWS = 4  # a chain is split in two, and half a chain needs a variance
R_HAT_LIMIT = 1.01
ESS_LIMIT = 100  # per chain
R_HAT_LACK = 1.4  # times the draws that are tried where chains disagree: how fast R-hat falls nobody knows


class Diagnostics(NamedTuple):
    """All that is known of each parameter's draws."""

    ess_bulk: Array
    ess_tail: Array
    r_hat: Array
    mcse_mean: Array
    mcse_sd: Array


def diagnose(draws: ArrayLike) -> Diagnostics:
    """Compute every diagnostic once.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> diagnose(draws).r_hat.round(2)
    array([1., 1.])
    """
    return Diagnostics(*_each(draws, *Diagnostics._fields))


def ess(draws: ArrayLike, kind: str = "bulk") -> Array:
    """Effective number of draws in the bulk or in the tails (the 5% and 95% quantiles, whichever is worse).

    A parameter that no chain ever moves has none. Fewer than 4 draws a chain, or infinite ones, give NaN.

    >>> rng = np.random.default_rng(0)
    >>> bool(3_500 < ess(rng.normal(size=(4, 1_000, 1)))[0] < 4_500)
    True
    >>> ess(np.ones((4, 1_000, 1)))
    array([0.])
    """
    check_choice("kind", kind, ("bulk", "tail"))
    return _each(draws, f"ess_{kind}")[0]


def r_hat(draws: ArrayLike) -> Array:
    """Disagreement between chains: 1 if none, above 1.01 a sign that they have not converged.

    Chains are compared by halves, and one chain alone by quarters. NaN where nothing ever moves.

    >>> apart = np.random.default_rng(0).normal(size=(2, 100, 1)) + np.array([0, 5]).reshape(2, 1, 1)
    >>> bool(r_hat(apart)[0] > 1.5)
    True
    """
    return _each(draws, "r_hat")[0]


def mcse(draws: ArrayLike, of: str = "mean") -> Array:
    """Monte Carlo standard error of the posterior mean or sd.

    >>> draws = np.random.default_rng(0).normal(size=(4, 2_500, 1))
    >>> bool(0.009 < mcse(draws)[0] < 0.011)
    True
    """
    check_choice("of", of, ("mean", "sd"))
    return _each(draws, f"mcse_{of}")[0]


def edpm(draws: ArrayLike, minutes: float, thin: int = 1) -> Array:
    """Effective draws per minute: the bulk ESS of every `thin`-th draw, over the minutes that all draws took.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 1))
    >>> bool(edpm(draws, minutes=2.0)[0] == ess(draws)[0] / 2)
    True
    """
    check_number("minutes", minutes, above=0)
    check_whole("thin", thin)
    return ess(_shaped(draws)[:, ::thin, :]) / minutes


def problems(draws: ArrayLike, names: Sequence[str], found: Diagnostics | None = None) -> list[str]:
    """Problems with the draws, a sentence each that names the worst parameter; an empty list if there are none.

    `found` are the diagnostics of these draws, where they are known already.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> problems(draws, ["Intercept", "fico"])
    []
    >>> draws[:, :, 1] = 1
    >>> problems(draws, ["Intercept", "fico"])
    ["no chain ever moved 'fico'; its proposals are never accepted"]
    """
    draws = _shaped(draws)
    chains, count = draws.shape[:2]
    if len(names) != draws.shape[2]:
        raise ValueError(f"{len(names)} names for {draws.shape[2]} parameters; give one each")
    broken = np.concatenate([~np.isfinite(some).all(axis=(0, 1)) for some in batches(draws)])
    if broken.any():
        return [f"{_several(names, broken)} has draws that are not finite"]
    if count < FEWEST_DRAWS:
        return [f"{count} draws a chain are too few to judge convergence; take at least 1,000"]
    found = found or diagnose(draws)
    (stuck, disagree, bulk, tail), few = _failing(found, chains), ESS_LIMIT * chains
    said = []
    if stuck.any():
        said.append(f"no chain ever moved {_several(names, stuck)}; its proposals are never accepted")
    for values, wrong, should in [
        (found.r_hat, disagree, f"chains disagree: r_hat should be at most {R_HAT_LIMIT}"),
        (-found.ess_bulk, bulk, f"too few effective draws: bulk ESS should be at least {few:,}"),
        (-found.ess_tail, tail, f"too few effective draws in the tails: tail ESS should be at least {few:,}"),
    ]:
        if wrong.any():
            worst = int(np.argmax(np.where(wrong, values, -np.inf)))
            said.append(
                f"{should}, but is {abs(values[worst]):,.4g} for {names[worst]!r} "
                f"({wrong.sum()} of {len(names)} parameters fail); draw more"
            )
    return said


def lack(found: Diagnostics, chains: int) -> float:
    """How many times as many draws it should take until there are no `problems`; 1 if there are none now.

    That is by the parameter whose ESS is smallest, and infinite where one never moves or is not finite.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> lack(diagnose(draws), chains=4)
    1.0
    >>> round(lack(diagnose(draws[:, :20]), chains=4))
    9
    """
    stuck, disagree, bulk, tail = _failing(found, chains)
    if stuck.any() or np.isnan(found.ess_bulk).any():
        return float("inf")
    least = min(np.min(ess, where=few, initial=np.inf) for ess, few in ((found.ess_bulk, bulk), (found.ess_tail, tail)))
    return max(1.0, float(ESS_LIMIT * chains / least), R_HAT_LACK if disagree.any() else 1.0)


def cut_short(found: Diagnostics, names: Sequence[str], draws: int, chains: int, budget: str) -> str:
    """What to do about `problems` of a run that a budget has ended after so many draws of so many chains.

    >>> few = diagnose(np.random.default_rng(0).normal(size=(4, 50, 1)).cumsum(axis=1))
    >>> cut_short(few, ["fico"], draws=50, chains=4, budget="50 draws a chain")
    "stopped at the budget of 50 draws a chain: by its bulk ESS, 'fico' needs about 2,300 a chain; set draws=2300"
    """
    times, said = lack(found, chains), f"stopped at the budget of {budget}: "
    if not np.isfinite(times):
        return f"{said}more draws would hardly help; look at the data and the prior"
    needed = np.ceil(times * draws)
    digit = 10.0 ** max(0, np.floor(np.log10(needed)) - 1)
    needed = int(np.ceil(needed / digit) * digit)
    kind = "bulk" if found.ess_bulk.min() <= found.ess_tail.min() else "tail"
    ess = found.ess_bulk if kind == "bulk" else found.ess_tail
    if ess.min() < ESS_LIMIT * chains:
        name = names[int(ess.argmin())]
        return f"{said}by its {kind} ESS, {name!r} needs about {needed:,} a chain; set draws={needed}"
    name = names[int(np.nanargmax(found.r_hat))]
    return f"{said}chains still disagree on {name!r}; set draws={needed}, and a longer warmup"


def _failing(found: Diagnostics, chains: int) -> tuple[Flags, Flags, Flags, Flags]:
    """Parameters that no chain ever moved, and of the others those that fail by R-hat, by bulk and by tail ESS."""
    stuck, few = found.ess_bulk == 0, ESS_LIMIT * chains
    return stuck, ~stuck & (found.r_hat > R_HAT_LIMIT), ~stuck & (found.ess_bulk < few), ~stuck & (found.ess_tail < few)


def _several(names: Sequence[str], which: NDArray[np.bool_]) -> str:
    first, *more = [repr(name) for name, chosen in zip(names, which, strict=True) if chosen]
    return first + (f" (and {len(more)} more)" if more else "")


def _shaped(draws: ArrayLike) -> Parameters:
    if isinstance(draws, SideBySide):
        return draws
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 3:
        raise ValueError(f"draws must have the shape (chain, draw, parameter), got {draws.shape}")
    return draws


def _each(draws: ArrayLike, *names: str) -> list[Array]:
    """Statistics by name. A parameter that no chain ever moves has no effective draws, and all else is NaN."""
    draws = _shaped(draws)
    if draws.shape[1] < FEWEST_DRAWS:
        return [np.full(draws.shape[2], np.nan) for _ in names]
    found = mixing.statistics(draws, names)
    stuck = np.concatenate([(some.min(axis=1) == some.max(axis=1)).all(axis=0) for some in batches(draws)])
    for name, values in zip(names, found, strict=True):
        values[stuck & ~np.isnan(values)] = 0 if name.startswith("ess") else np.nan
    return found
