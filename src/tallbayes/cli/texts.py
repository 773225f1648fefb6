"""Texts that become families, priors, surrogates and estimators."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tallbayes.families import Family
    from tallbayes.groups.scale import ScalePrior
    from tallbayes.models.priors import CoefficientPrior
    from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
    from tallbayes.sampling.surrogate import Description

Kind = TypeVar("Kind")

FAMILY = re.compile(r"\s*([a-z_]+)\s*(?:\((.+)\))?\s*", re.IGNORECASE)
ROWS_OF = re.compile(r"\s*([a-z-]+)\s*(?:\(\s*(\d[\d_]*)\s*(?:,\s*(\S.*?)\s*)?\))?\s*")

ESTIMATORS = "taylor, taylor(ROWS), spline or spline(ROWS)"
SURROGATES = "taylor, taylor(ROWS), case-control(ROWS), subsample(ROWS) or stratified(ROWS, COLUMN)"
FAMILIES = """bernoulli, bernoulli(probit), bernoulli(cloglog), poisson, poisson(EXPOSURE_COLUMN), binomial,
binomial(TRIALS_COLUMN), binomial(TRIALS_COLUMN, probit), negative_binomial(SHAPE), negative_binomial(SHAPE,
EXPOSURE_COLUMN), gamma, gamma(SHAPE), gaussian, or the log-likelihood of a row as an expression of y and eta, such as
"-2.5 * log1p((y - eta)**2 / 4)\"""".replace("\n", " ")
FAMILY_HELP = f"What kind of outcome there is, and its link: {FAMILIES}."
PRIOR_HELP = """"normal(MEAN, SD)" or "student_t(DF, MEAN, SCALE)" for all coefficients, or "NAME=normal(MEAN, SD)" for
one, on the scale of the data; the latter may be repeated.  [default: wide, in the units of each column]"""
OUTCOME_HELP = """The value of the outcome that counts as 1, if it is not 0 and 1 already.  [default: of two levels of
text the obvious one, such as yes, else the second]"""
MISSING_HELP = "What to do about rows with missing values."
DECIMAL_HELP = "The decimal sign of numbers in CSV files and in columns of text."
NA_VALUES_HELP = "A text that marks missing values, such as '?'; may be repeated."
COLLINEAR_HELP = "What to do about columns of the design that are linear combinations of those before them."
GROUP_PRIORS = "half_cauchy(SCALE), half_normal(SCALE) or inverse_square(LOWER)"
GROUP_PRIOR_HELP = f"Prior of the sd of group effects (1 | g): {GROUP_PRIORS}.  [default: half_cauchy(2.5)]"


def _number_or_text(text: str) -> float | str:
    """A number where a text is one."""
    try:
        return float(text)
    except ValueError:
        return text


def _family(ctx: click.Context, param: click.Parameter, text: str) -> Family:
    """The family that the text describes."""
    from tallbayes.families import NAMES
    from tallbayes.families.own import family

    if re.search(r"\beta\b", text):
        try:
            return family(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    name, inside = found.groups() if (found := FAMILY.fullmatch(text)) else ("", None)
    arguments = [_number_or_text(part.strip()) for part in inside.split(",")] if inside else []
    try:
        kind: Any = NAMES["" if "" in arguments else name.lower()]
        made: Family = kind(*arguments)
        return made
    except (KeyError, TypeError) as error:
        raise click.BadParameter(f"{text!r} is not like {FAMILIES}") from error
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error


def _priors(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> CoefficientPrior | dict[str, CoefficientPrior] | None:
    """One prior for all coefficients, or priors by coefficient."""
    from tallbayes.models.priors import prior_from_text

    found: dict[str, CoefficientPrior] = {}
    for text in texts:
        name, _, described = text.rpartition("=")
        name = name.strip()
        if name in found:
            raise click.BadParameter(f"there are two priors for {name or 'all coefficients'}; give one")
        try:
            found[name] = prior_from_text(described if name else text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r}: {error}") from error
    if "" in found and len(found) > 1:
        raise click.BadParameter(
            "give one prior for all coefficients, or priors by name (the others have defaults), not both"
        )
    return found.get("") or found or None


def _group_prior(ctx: click.Context, param: click.Parameter, text: str | None) -> ScalePrior | None:
    """The prior of the groups' standard deviation that the text describes."""
    if text is None:
        return None
    from tallbayes.groups.scale import scale_prior_from_text

    try:
        return scale_prior_from_text(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error


def _surrogate(ctx: click.Context, param: click.Parameter, text: str | None) -> Description | None:
    """The surrogate that the text describes."""
    if text is None:
        return None
    from tallbayes.sampling.subsample import CaseControl, Stratified, Subsample
    from tallbayes.sampling.taylor import Taylor

    kinds: dict[str, Callable[..., Description]] = {"taylor": Taylor, "case-control": CaseControl}
    kinds |= {"subsample": Subsample, "stratified": Stratified}
    return _described(text, kinds, f"{SURROGATES}, such as subsample(50000)")


def _estimator(ctx: click.Context, param: click.Parameter, text: str | None) -> TaylorProxy | SplineProxy | None:
    """The estimator that the text describes."""
    if text is None:
        return None
    from tallbayes.sampling.estimators import SplineProxy, TaylorProxy

    kinds: dict[str, Callable[..., TaylorProxy | SplineProxy]]
    kinds = {"taylor": TaylorProxy, "spline": lambda size=None: SplineProxy(size)}  # its other options have no text
    return _described(text, kinds, f"{ESTIMATORS}, such as spline(7000)")


def _described(text: str, kinds: dict[str, Callable[..., Kind]], like: str) -> Kind:
    """What a text such as stratified(1000, bank) describes."""
    kind, size, by = found.groups() if (found := ROWS_OF.fullmatch(text)) else ("", None, None)
    try:
        return kinds[kind](*([int(size)] if size else []), *([by] if by else []))
    except (KeyError, TypeError, ValueError) as error:
        raise click.BadParameter(f"{text!r} is not like {like}") from error
