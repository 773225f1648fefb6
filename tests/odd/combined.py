"""Several oddities at once, drawn at random: each harmless by itself, and in some cases one that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

import tallbayes as tb
from odd.case import FAMILIES, OUTCOMES, SHAPES, Case, Table, fits, pick, refused
from odd.containers import GOOD
from odd.priors import with_prior
from odd.problem import Problem

KIND = "several at once"
NAMES = ("x", "x", "my x", "x.1", "\u00e4\u00df", "x (in %)", "1st", "x:z", "log", "x'")
HOLDERS = [
    name
    for name in GOOD
    if not name.startswith(("polars", "narwhals", "dict of array.array", "dict of big", "scan with"))
]


class Recipe:
    """Data, and the call for them, that change together with what is right."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        table = Table(rng, rows=int(rng.integers(40, 60)))
        self.family = pick(rng, list(FAMILIES))
        self.frame, self.outcome = table.frame(), OUTCOMES[self.family]
        self.terms, self.options, self.said = ["x"], {"family": FAMILIES[self.family]}, [self.family]
        self.y, self.given = table[self.outcome].astype(float), dict[str, Any]()
        self.columns: dict[str, Any] = {"x": table["x"]}
        self.sd: float | None = None  # of the prior that was asked for

    def shuffled(self) -> None:
        order = self.rng.permutation(len(self.frame))
        self.frame = self.frame.iloc[order]
        self.columns = {name: values[order] for name, values in self.columns.items()}
        self.given = {name: values[order] for name, values in self.given.items()}
        self.y = self.y[order]

    def levels(self) -> None:
        if "c" not in self.terms:
            self.terms.append("c")
            values = self.frame["c"].to_numpy()
            self.columns |= {f"c[T.{level}]": values == level for level in "bc"}
            if self.rng.random() < 0.5:
                self.frame["c"] = pd.Categorical(values, ["c", "zz", "b", "a"])

    def weighted(self) -> None:
        self.given["weights"] = self.frame["w"].to_numpy(float)
        self.options["weights"] = "w"

    def offset(self) -> None:
        if "offset" not in self.given:
            self.given["offset"] = self.frame["o"].to_numpy(float)
            if self.rng.random() < 0.5:
                self.options["offset"] = "o"
            else:
                self.terms.append("offset(o)")

    def coded(self) -> None:
        if OUTCOMES[self.family] != "y" or self.frame["y"].dtype == object or "outcome" in self.options:
            return
        how, one = pick(self.rng, ["bool", "words", "numbers", "float"]), self.y == 1
        self.said.append(how)
        if how == "words":
            self.frame["y"] = np.where(one, "yes", "no").astype(object)
        elif how == "numbers":
            self.frame["y"] = np.where(one, 2, 1)
            self.options["outcome"] = 2
        else:
            self.frame["y"] = one if how == "bool" else self.y

    def narrow(self) -> None:
        kind = pick(self.rng, ["f4", "Float64", "object"])
        name = next(iter(self.columns))
        self.columns[name] = self.columns[name].astype("f4").astype(float) if kind == "f4" else self.columns[name]
        self.frame[self.terms[0].strip("`")] = pd.Series(self.columns[name], index=self.frame.index).astype(kind)

    def gaps(self) -> None:
        kept = self.rng.random(len(self.frame)) > 0.15
        self.frame = self.frame.copy()
        self.frame.loc[self.frame.index[~kept], self.terms[0].strip("`")] = np.nan
        self.columns = {name: values[kept] for name, values in self.columns.items()}
        self.given = {name: values[kept] for name, values in self.given.items()}
        self.y, self.options["missing"] = self.y[kept], "drop"

    def renamed(self) -> None:
        name = pick(self.rng, NAMES)
        if self.terms[0] == "x" and name not in self.frame:
            self.frame = self.frame.rename(columns={"x": name})
            self.terms[0] = f"`{name}`"
            self.columns = {name if one == "x" else one: values for one, values in self.columns.items()}

    def prior(self) -> None:
        self.sd = float(pick(self.rng, [0.3, 1.0, 4.0]))
        self.options["prior"] = pick(self.rng, [tb.Normal(0, self.sd), f"normal(0, {self.sd})"])

    def unused(self) -> None:
        self.frame = self.frame.assign(unused=np.full(len(self.frame), np.nan), note="a, 'b' \"c\"")

    def case(self, number: int) -> Case:
        """The case that has come of all steps."""
        holder, shape = pick(self.rng, HOLDERS), SHAPES.get(self.family, 1.0)
        problem = Problem({"Intercept": np.ones(len(self.y)), **self.columns}, self.y, self.family, shape, **self.given)
        asked = {} if self.sd is None else dict.fromkeys(problem.columns, ("Normal", (0.0, self.sd)))
        name = f"{number}: {', '.join([holder, *self.said])}"
        return Case(KIND, name, self.call(holder), with_prior(problem, asked), answer=True)

    def call(self, holder: str) -> Callable[..., Any]:
        formula = f"{self.outcome} ~ {' + '.join(self.terms)}"
        frame = self.frame
        return fits(formula, lambda folder: GOOD[holder](frame, folder), **self.options)


HARMLESS = ("shuffled", "levels", "weighted", "offset", "coded", "narrow", "renamed", "prior", "unused")
FATAL: dict[str, tuple[Callable[[Recipe], None], str]] = {
    "inf in x": (lambda recipe: _put(recipe, recipe.terms[0].strip("`"), np.inf), "infinite"),
    "NaN in the outcome": (lambda recipe: _put(recipe, recipe.outcome, None), "missing"),
    "a negative weight": (lambda recipe: _put(recipe, "w", -1) or recipe.options.update(weights="w"), "w|weights"),
    "no such column": (lambda recipe: recipe.terms.append("nothing"), "nothing"),
    "no such weights": (lambda recipe: recipe.options.update(weights="nothing"), "nothing"),
    "a column twice": (lambda recipe: recipe.terms.append("I(2 * z)") or recipe.terms.append("z"), "z"),
    "a function of nothing": (lambda recipe: recipe.terms.append("log(-z)"), "z|log"),  # a column may be called log
    "a call": (lambda recipe: recipe.terms.append("open('mark', 'w')"), "open"),
    "a prior of nothing": (lambda recipe: recipe.options.update(prior={"nothing": tb.Normal()}), "nothing"),
    "no chains": (lambda recipe: recipe.options.update(chains=0), "chains"),
    "an unknown method": (lambda recipe: recipe.options.update(method="nuts"), "nuts"),
}


def _put(recipe: Recipe, column: str, value: Any) -> None:
    place = recipe.rng.integers(len(recipe.frame))
    values = recipe.frame[column].astype(object).to_numpy(copy=True)
    values[place] = value
    recipe.frame = recipe.frame.assign(**{column: pd.Series(values, index=recipe.frame.index).infer_objects()})


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Answers, and refusals for one thing among several."""
    for number in range(90):
        recipe = _drawn(rng)
        if rng.random() < 0.3:
            recipe.gaps()
            recipe.said.append("gaps")
        yield recipe.case(number)
    for number in range(66):
        recipe, name = _drawn(rng), list(FATAL)[number % len(FATAL)]
        change, word = FATAL[name]
        change(recipe)
        holder = pick(rng, HOLDERS)
        said = ", ".join([name, holder, *recipe.said])
        yield refused(KIND, f"{number}: {said}", recipe.call(holder), word)


def _drawn(rng: np.random.Generator) -> Recipe:
    recipe = Recipe(rng)
    for step in rng.permutation(len(HARMLESS))[: int(rng.integers(2, 6))]:
        getattr(recipe, HARMLESS[step])()
        recipe.said.append(HARMLESS[step])
    return recipe
