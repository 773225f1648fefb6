"""What a case is: an odd call, and what may come of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tallbayes as tb
from odd.problem import Problem

DRAWS = 1_500
FEW = {"draws": 40, "warmup": 20, "chains": 2, "seed": 1, "progress": False}  # where nothing should be drawn at all
QUICK = {"draws": DRAWS, "warmup": 100, "chains": 2, "seed": 1, "progress": False}
MODEL = set(inspect.signature(tb.GLM.__init__).parameters) - {"self", "formula", "data"}

Complaints = list[str]


class Answered(NamedTuple):
    """A fit, and its model made once more, whose log posterior can be asked for anywhere."""

    fit: Any
    model: Any


@dataclass(frozen=True)
class Case:
    """A call in a folder of its own, and what may come of it.

    `truth` says what is wrong with an answer; without one there is no right answer, and the call must be refused. It
    must not be if `answer` is set. Each of the `words` must be in a refusal, of "a|b" one; it may quote what a function
    of the user's has raised if `quotes` is set. `after` says what is wrong with the folder after the call, however it
    has ended. The process of a case that is `alone` runs no others after it.
    """

    kind: str
    name: str
    call: Callable[[Path], Any]
    truth: Callable[[Any], Complaints] | None = None
    words: tuple[str, ...] = ()
    answer: bool = False
    quotes: bool = False
    alone: bool = False
    after: Callable[[Path], Complaints] | None = None


class Table:
    """A small data set with a column for everything that cases need."""

    def __init__(self, rng: np.random.Generator, rows: int = 48) -> None:
        self.rows = rows
        x = rng.normal(size=rows)
        self.columns: dict[str, np.ndarray] = {
            "x": x.round(3),
            "z": rng.uniform(1, 9, rows).round(2),
            "i": rng.integers(-3, 4, rows),
            "c": rng.permutation(np.resize(np.array(["a", "b", "c"]), rows)),
            "g": rng.permutation(np.resize(np.array(["p", "q", "r", "s"]), rows)),
            "w": rng.integers(1, 4, rows),
            "o": rng.normal(size=rows).round(2) / 2,
            "t": rng.integers(3, 9, rows),
        }
        chance = 1 / (1 + np.exp(0.3 - 0.8 * x))
        y = (rng.random(rows) < chance) * 1
        y[:4] = [0, 1, 1, 0]  # both kinds, and no separation
        self.columns |= {
            "y": y,
            "k": rng.poisson(np.exp(0.5 + 0.3 * x)),
            "s": rng.binomial(self.columns["t"], chance),
            "v": (2 + x + rng.normal(size=rows)).round(3),
            "q": (rng.gamma(2.0, np.exp(0.3 * x) / 2) + 0.01).round(3),
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def frame(self, **changed: Any) -> pd.DataFrame:
        return pd.DataFrame({**self.columns, **changed})

    def dict(self, **changed: Any) -> dict[str, Any]:
        return {**self.columns, **changed}

    def problem(self, family: str = "logit", columns: Mapping[str, Any] | None = None, **given: Any) -> Problem:
        """The right posterior of the outcomes of a family, on an intercept and columns of the design."""
        outcome = given.pop("y", None)
        outcome = self[OUTCOMES[family]] if outcome is None else outcome
        design = {"Intercept": np.ones(len(outcome)), **({"x": self["x"]} if columns is None else columns)}
        return Problem(design, outcome, family, **given)


OUTCOMES = {
    "logit": "y", "probit": "y", "cloglog": "y", "poisson": "k", "negative_binomial": "k", "gamma": "q",
    "gaussian": "v",
}  # fmt: skip
FAMILIES: dict[str, Any] = {
    "logit": "bernoulli",
    "probit": tb.Bernoulli("probit"),
    "cloglog": tb.Bernoulli("cloglog"),
    "poisson": "poisson",
    "negative_binomial": tb.NegativeBinomial(2.0),
    "gamma": tb.Gamma(2.0),
    "gaussian": "gaussian",
}
SHAPES = {"negative_binomial": 2.0, "gamma": 2.0}


def _made(value: Any) -> Any:
    """With partial calls called: what is wrong may be refused there."""
    if isinstance(value, dict):
        return {name: _made(one) for name, one in value.items()}
    return value() if isinstance(value, partial) else value


def fits(formula: str, data: Any, **options: Any) -> Callable[[Path], Answered]:
    """A call of `tb.fit`; data may be a function of the case's folder, and options partial calls that make them."""

    def call(folder: Path) -> Answered:
        given = data(folder) if callable(data) else data
        how = QUICK | _made(options)
        fit = tb.fit(formula, given, **how)
        plain = isinstance(fit, tb.Fit) and type(fit) is tb.Fit
        own = {name: value for name, value in how.items() if name in MODEL}
        return Answered(fit, tb.GLM(formula, given, **own) if plain else None)

    return call


def refused(kind: str, name: str, call: Callable[[Path], Any], *words: str, **more: Any) -> Case:
    """A case that has no answer."""
    return Case(kind, name, call, words=words, **more)


def pick(rng: np.random.Generator, among: Sequence[Any]) -> Any:
    """One of several things, whatever they are."""
    return among[int(rng.integers(len(among)))]


def on_disk(name: str, content: str | bytes) -> Callable[[Path], str]:
    """A file of this content in the case's folder."""

    def write(folder: Path) -> str:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write
