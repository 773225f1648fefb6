"""How a run went, in the few lines that a printed fit begins with."""

from __future__ import annotations

import textwrap
from typing import Any

from tallbayes.sampling.words import few

INDENT, WIDTH = 13, 110
RARELY = 0.01  # rows a draw: fewer are not counted out
METHODS = {
    "mh": "Metropolis-Hastings",
    "two-stage": "two-stage Metropolis-Hastings",
    "thinned": "two-stage Metropolis-Hastings with a thinned second stage",
    "consensus": "consensus Monte Carlo",
    "subsampling": "subsampling Metropolis-Hastings",
}
MIXED = "mixed, approximate"  # what is said instead of "converged" where the method is not exact


def story(facts: dict[str, list[str]]) -> str:
    """The facts as text, each title with its sentences on lines of their own."""
    return "\n".join(_entry(title, sentences) for title, sentences in facts.items())


def facts(stats: dict[str, Any], chains: int, draws: int, problems: list[str]) -> dict[str, list[str]]:
    """Method, draws, acceptance, rows, time, and the problems that diagnostics have found."""
    count, share = touched(stats)
    rows = f"{count} touched per draw, {share}"
    if stats["distinct_rows"] < stats["rows"]:
        rows += f" ({stats['distinct_rows']:,} distinct)"
    if stats["surrogate_rows_per_draw"]:
        rows += f", and {few(stats['surrogate_rows_per_draw'])} of the surrogate"
    method = METHODS.get(stats["method"], stats["method"])
    groups = stats.get("groups")
    said = [f"{groups['count']:,} of {groups['term']}", groups["said"]] if groups else []
    met, well = "convergence", "no problems found"
    if not stats["exact"]:
        met, well = "mixing", f"{MIXED}: the chains agree, but may all be off"
    outcome = stats.get("outcome", "")  # of some fits there is nothing to tell, such as those saved long ago
    every = {
        "outcome": [outcome],
        "left out": [sentence for sentence in stats.get("told", []) if sentence != outcome],
        "method": [f"{method}, {'exact' if stats['exact'] else 'approximate'}"],
        "approximate": stats["approximation"].get("said", []),
        "chosen": [f"because {stats['why']}"] if stats["why"] else [],
        "draws": [f"{chains} chain{'s' if chains > 1 else ''} x {draws:,}{_ended(stats)}"],
        "acceptance": [", ".join(f"{stage} {share:.3f}" for stage, share in stats["acceptance"].items())],
        "rows": [rows],
        "groups": [", ".join(filter(None, said))],
        "seconds": [", ".join(f"{phase} {time:.2f}" for phase, time in stats["seconds"].items())],
        met: problems or [well],
        "priors": stats["pulled"],
        "warnings": stats["warnings"],
    }
    return {title: sentences for title, sentences in every.items() if any(sentences)}


def touched(stats: dict[str, Any]) -> tuple[str, str]:
    """How many rows a draw touches, and of how many.

    >>> touched({"rows": 60_000, "distinct_rows": 60_000, "rows_per_draw": 2.5})
    ('2.5', 'of 60,000')
    >>> touched({"rows": 60_000, "distinct_rows": 60_000, "rows_per_draw": 60_120.0})
    ('60,120', '1.0 passes over 60,000')
    """
    count, rows, held = stats["rows_per_draw"], stats["rows"], stats["distinct_rows"]
    if count >= min(rows, held):  # of counts of successes twice as many rows are held as there were: y=1 and y=0
        return few(count), f"{count / held:,.1f} passes over {rows:,}"
    words = few(count) if count >= RARELY else f"fewer than {RARELY}" if count > 0 else "none"
    return words, f"of {rows:,}"


def _ended(stats: dict[str, Any]) -> str:
    """Why there are no more draws, where that was not their number; fits of earlier versions do not say."""
    if stats["interrupted"]:
        return ", interrupted"
    return {"converged": ", until converged", "budget": ", where the budget ended"}.get(stats.get("stopped", ""), "")


def _entry(title: str, sentences: list[str]) -> str:
    """A title and what there is to say about it, each sentence on lines of its own."""
    wrap = textwrap.TextWrapper(WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    lines = [line for sentence in sentences for line in wrap.wrap(sentence)]
    return f"{title:<{INDENT}}" + ("\n" + " " * INDENT).join(lines)


def enumerated(names: tuple[str, ...], most: int = 6) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
