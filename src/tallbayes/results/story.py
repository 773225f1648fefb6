"""How a run went, in the few lines that a printed fit begins with."""

from __future__ import annotations

import textwrap
from typing import Any

from tallbayes.sampling.words import few

INDENT, WIDTH = 13, 110
METHODS = {
    "mh": "Metropolis-Hastings",
    "two-stage": "two-stage Metropolis-Hastings",
    "thinned": "two-stage Metropolis-Hastings with a thinned second stage",
    "consensus": "consensus Monte Carlo",
    "subsampling": "subsampling Metropolis-Hastings",
}
MIXED = "mixed, approximate"  # what is said instead of "converged" where the method is not exact


def story(stats: dict[str, Any], chains: int, draws: int, problems: list[str]) -> str:
    """Method, draws, acceptance, rows, time, and whether anything speaks against the draws."""
    rows = f"{few(stats['rows_per_draw'])} touched per draw, of {stats['rows']:,}"
    if stats["distinct_rows"] != stats["rows"]:
        rows += f" ({stats['distinct_rows']:,} distinct)"
    if stats["surrogate_rows_per_draw"]:
        rows += f", and {few(stats['surrogate_rows_per_draw'])} of the surrogate"
    method = METHODS.get(stats["method"], stats["method"])
    groups = stats.get("groups")
    said = [f"{groups['count']:,} of {groups['term']}", groups["said"]] if groups else []
    met, well = "convergence", "nothing speaks against it"
    if not stats["exact"]:
        met, well = "mixing", f"{MIXED}: the chains agree, but may be off together"
    story = {
        "method": [f"{method}, {'exact' if stats['exact'] else 'approximate'}"],
        "approximate": stats["approximation"].get("said", []),
        "chosen": [f"because {stats['why']}"] if stats["why"] else [],
        "draws": [f"{chains} chain{'s' if chains > 1 else ''} x {draws:,}{_ended(stats)}"],
        "acceptance": [", ".join(f"{stage} {share:.3f}" for stage, share in stats["acceptance"].items())],
        "rows": [rows],
        "groups": [", ".join(filter(None, said))],
        "seconds": [", ".join(f"{phase} {time:.2f}" for phase, time in stats["seconds"].items())],
        met: problems or [well],
        "warnings": stats["warnings"],
    }
    return "\n".join(_entry(title, sentences) for title, sentences in story.items() if any(sentences))


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


def number(value: float) -> str:
    """As many digits as one wants to read.

    >>> number(-1234.5), number(-0.01234567), number(16)
    ('-1,234', '-0.01235', '16')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def enumerated(names: tuple[str, ...], most: int = 6) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
