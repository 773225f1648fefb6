"""What has come of a case: a right answer or a clear error, or one of four things that must not be.

An answer is right if its draws have the means, sds and quantiles of the reference, within Monte Carlo error, and if the
log posterior of its model is the reference's at some of its draws, up to a constant. FALSE_ALARM is the chance that a
right answer is called wrong. An error is clear if tallbayes raised it, by a class that callers expect, with words that
belong to the case, and none that come from below.
"""

from __future__ import annotations

import linecache
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import tallbayes as tb
from odd.case import Answered, Case, Complaints
from odd.posterior import UnsettledError, reference
from odd.problem import Problem, Reference

Array = NDArray[np.float64]

GOOD = ("right answer", "clear error")
BAD = ("silent", "unclear", "needless refusal", "hang", "crash")
FALSE_ALARM = 1e-7  # of a case; 1e-4 of a thousand
HEAVY = 12.0  # kurtosis above which moments of a sample say little
ROUNDING = 16 * np.finfo(float).eps
SAME = 2e-3  # difference of log posteriors: priors are stated with four digits
LONGEST = 3_000  # characters of a message
PACKAGE = str(Path(tb.__file__).parent)
EXPECTED = (
    ValueError, TypeError, OSError, FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError,
    NotADirectoryError, MemoryError, ImportError,
)  # fmt: skip
FROM_BELOW = re.compile(
    r"ufunc|truth value|has no attribute|cannot cast|can't cast|out of bounds|object of type|unhashable"
    r"|'NoneType' object|Traceback|thrift|zlib|Arrow(Invalid|TypeError|NotImplemented|Key|Capacity)|codec"
    r"|could not convert string|invalid literal|not subscriptable|not iterable|slice indices|could not be broadcast"
    r"|SVD|singular matrix|positive definite|dtype\(|KeyError|IndexError|setting an array element"
    r"|not supported between|unsupported operand|division by zero|malformed node|math domain|overflow encountered"
    r"|Could not convert|did not recognize|ArrowPeriodType|inhomogeneous|with a dtyped|numpy boolean"
    r"|__quoted_|FactorEvaluation|numba|llvm|embedded null|Maximum allowed dimension",
    re.IGNORECASE,
)


class CommandError(Exception):
    """A command that ended with an exit code, after saying why."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code


class Verdict(NamedTuple):
    """How a case has ended, and why."""

    outcome: str
    note: str


def right(problem: Problem) -> Callable[[Answered], Complaints]:
    """Holds a fit against the right posterior."""
    return lambda answered: held_against(problem, answered)


def held_against(problem: Problem, answered: Answered) -> Complaints:
    """What is wrong with the draws of a fit."""
    fit, model = answered
    if sorted(fit.parameters) != sorted(problem.names):
        return [f"parameters are {', '.join(fit.parameters)}, not {', '.join(problem.names)}"]
    try:
        expected = reference(problem, fit.prior)
    except UnsettledError as error:
        return [f"cannot be judged: {error}"]
    order = [fit.parameters.index(name) for name in problem.names]
    draws = np.asarray(fit.draws)[..., order]
    if not np.isfinite(draws).all():
        return ["draws are not finite"]
    found = _compared(problem.names, draws, expected) if fit.stats["exact"] else []
    if model is not None:
        found += _log_posteriors(problem, draws, model, expected)
    return found


def _compared(names: list[str], draws: Array, expected: Reference) -> Complaints:
    """Means and sds, of what has moments that can be estimated, and quantiles of all."""
    allowed = float(stats.norm.isf(FALSE_ALARM / (10 * len(names))))
    mean, sd = draws.mean((0, 1)), draws.std((0, 1))
    fine = ROUNDING * np.abs(expected.mean)  # numbers that differ by less are the same
    of_mean = expected.sd / np.sqrt(effective(draws))
    of_sd = expected.sd * np.sqrt((expected.kurtosis - 1) / 4 / effective((draws - mean) ** 2))
    usual = expected.kurtosis < HEAVY
    compared = [
        ("mean", mean, expected.mean, np.hypot(of_mean, expected.error_of_mean()), usual),
        ("sd", sd, expected.sd, np.hypot(of_sd, expected.error_of_sd()), usual),
    ]
    for share in (0.1, 0.5, 0.9):
        ends = expected.quantiles(share)
        below, wide = (draws <= ends).astype(float), expected.sd > 10 * fine
        error = np.sqrt(share * (1 - share) / effective(below) + expected.error_of_share(ends))
        compared.append(
            (f"share below the {share:.0%} point", below.mean((0, 1)), np.full(len(ends), share), error, wide)
        )
    found = []
    for what, value, true, error, judged_by in compared:
        z = (value - true) / (error + (fine if what in ("mean", "sd") else 1e-3))
        for j in np.flatnonzero((np.abs(z) > allowed) & judged_by):
            found.append(f"{what} of {names[j]} is {value[j]:.4g}, not {true[j]:.4g} ({z[j]:+.1f} standard errors)")
    return found


def effective(draws: Array) -> Array:
    """Effective draws (parameter,) of chains (chain, draw, parameter), by Geyer's pairs of autocovariances."""
    chains, length, width = draws.shape
    away = draws - draws.mean((0, 1))
    power = np.abs(np.fft.rfft(away, 2 * length, axis=1)) ** 2
    covariance = np.fft.irfft(power, axis=1)[:, :length].mean(0) / length
    found = np.empty(width)
    for j in range(width):
        if covariance[0, j] <= 0:
            found[j] = 1.0
            continue
        pairs = (covariance[0 : length - 1 : 2, j] + covariance[1:length:2, j]) / covariance[0, j]
        first = np.flatnonzero(pairs <= 0)
        time = 2 * np.minimum.accumulate(pairs[: first[0] if first.size else None]).sum() - 1
        found[j] = chains * length / max(time, 0.5)
    return found


def _log_posteriors(problem: Problem, draws: Array, model: Any, expected: Reference) -> Complaints:
    """Those of the model against the reference's, at some draws and far from them."""
    some = draws.reshape(-1, draws.shape[-1])[:: max(1, draws[..., 0].size // 12)]
    some = np.concatenate([some, some.mean(0) + 3 * (some - some.mean(0))])
    own = np.asarray(model.log_posterior(some[:, [problem.names.index(name) for name in model.coefficients]]))
    apart = own - expected.target.log_posterior(some)
    spread, size = float(np.ptp(apart)), float(np.ptp(own))
    if not spread < SAME * (1 + size) + 16 * expected.target.noise(some):
        return [f"log posteriors differ by {spread:.3g} among draws over which they vary by {size:.3g}"]
    return []


def judged(case: Case, folder: Path) -> Verdict:
    """Run a case here, and judge what comes of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer, error = case.call(folder), None
        except BaseException as raised:  # what ends a process, too
            answer, error = None, raised
    harm = [] if case.after is None else case.after(folder)
    if harm:
        return Verdict("silent", "; ".join(harm))
    if error is not None:
        unclear = why_unclear(error, case.words, case.quotes)
        if unclear:
            return Verdict("unclear", f"{'; '.join(unclear)}: {type(error).__name__}: {str(error)[:300]}")
        verdict = "needless refusal" if case.answer else "clear error"
        return Verdict(verdict, f"{type(error).__name__}: {str(error)[:300]}")
    strange = [one for one in caught if not _ours(one)]
    if case.truth is None:
        return Verdict("silent", "accepted what has no answer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = case.truth(answer)
    if wrong:
        return Verdict("silent", "; ".join(wrong)[:500])
    if strange:
        return Verdict("unclear", f"warned from below: {strange[0].category.__name__}: {strange[0].message}")
    return Verdict("right answer", "")


def why_unclear(error: BaseException, words: tuple[str, ...], quotes: bool = False) -> Complaints:
    """What is not clear about an error, which may quote one of the user's own functions."""
    kind, message, found = type(error), str(error), list[str]()
    if isinstance(error, CommandError):
        return _words(message, words) + ([] if error.code in (1, 2) else [f"exit code {error.code}"])
    if kind not in EXPECTED and not kind.__module__.startswith("tallbayes"):
        found.append(f"{kind.__name__} is no class that callers expect")
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    if not last.filename.startswith(PACKAGE):
        found.append(f"raised in {Path(last.filename).name}:{last.lineno}")
    elif not line.startswith("raise ") and not (isinstance(error, OSError) and error.filename):
        found.append(f"not raised on purpose in {Path(last.filename).name}:{last.lineno}")
    return found + _words(message, words, quotes)


def _words(message: str, words: tuple[str, ...], quotes: bool = False) -> Complaints:
    found = []
    if not quotes and (told := FROM_BELOW.search(message)):
        found.append(f"speaks of {told[0]!r}")
    if not message.strip() or len(message) > LONGEST:
        found.append(f"a message of {len(message)} characters")
    return found + [f"has not {word!r}" for word in words if not any(_has(message, one) for one in word.split("|"))]


def _has(message: str, word: str) -> bool:
    """Whether a word is there by itself: an x is not in 'explain'."""
    before, after = (
        r"(?<!\w)" if word[:1].isalnum() else "",
        r"(?!\w)" if word[-1:].isalnum() and len(word) < 3 else "",
    )
    return re.search(before + re.escape(word) + after, message, re.IGNORECASE) is not None


def _ours(warning: warnings.WarningMessage) -> bool:
    return warning.category.__module__.startswith("tallbayes")
