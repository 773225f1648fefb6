"""Formula: learn once from the data, apply to any chunk of it.

Built on formulaic, which turns "y ~ x + g" into columns of numbers. Around it we put what it leaves open: no
row is dropped, no level unseen, no value infinite, the design has the same columns whatever rows it is given,
and what was learned (levels, means, knots) is written as JSON and read back to the last bit. It can call nothing
outside the list of `functions`, wherever it comes from. A group term (1 | g) is not formulaic's: it adds no columns to
the design, but an index of the group of each row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallbayes.data import formula_file, group_term, wildcard
from tallbayes.data.cleaning import Cleaning
from tallbayes.data.design import materialise, one_column, refuse_unseen, require_finite
from tallbayes.data.frames import check, read
from tallbayes.data.kinds import Levels
from tallbayes.data.nearly import first_odd, remedy
from tallbayes.data.parsed import Parsed, parse
from tallbayes.data.tally import Where, row
from tallbayes.data.texts import USUAL, Texts
from tallbayes.data.uses import declared

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Formula:
    """What a formula learned from data: enough to build the same design from other rows.

    >>> data = {"y": [0, 1, 1], "fico": [700, 650, 600], "first_time": ["no", "yes", "no"]}
    >>> formula, X, y = Formula.learn("y ~ center(fico) + first_time", data)
    >>> formula.coefficients
    ('Intercept', 'center(fico)', 'first_time[T.yes]')
    >>> X
    array([[  1.,   1.,   1.],
           [ 50.,   0., -50.],
           [  0.,   1.,   0.]])
    """

    parsed: Parsed
    coefficients: tuple[str, ...]
    levels: dict[str, Levels]
    transforms: dict[str, Any]
    categories: dict[str, list[Any]]
    group_levels: tuple[Any, ...]
    event: Any = None  # what of the outcome's column counts as 1; None where it holds numbers as they are
    offset_transforms: dict[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # columns that the terms give besides `coefficients`
    texts: Texts = USUAL  # how the data wrote numbers and missing values; new rows are read in the same way
    flags: tuple[str, ...] = ()  # columns that held True and False
    zones: dict[str, str] = field(default_factory=dict)  # time zones of columns of dates, "" for none

    @property
    def text(self) -> str:
        """The formula as it was written."""
        return self.parsed.text

    @property
    def outcome(self) -> str:
        """The left side, as text.

        >>> Formula.learn("log(price) ~ 1", {"price": [1.0, 2.0]})[0].outcome
        'log(price)'
        """
        return self.parsed.outcome

    @property
    def group(self) -> str | None:
        """The column g of the group term (1 | g), None without one.

        >>> Formula.learn("y ~ 1 + (1 | bank)", {"y": [0, 1], "bank": ["b", "a"]})[0].group
        'bank'
        """
        return self.parsed.group

    @property
    def clean(self) -> Cleaning:
        """How columns of new rows become numbers, text or dates."""
        named = {*self.levels, *([self.group] if self.group else []), *declared([self.parsed.right])}
        return Cleaning(self.texts, self.parsed.dates, frozenset(named))

    @property
    def clean_raw(self) -> Cleaning:
        """The same for rows as they come from outside, whose times may be in another time zone, which is refused."""
        return self.clean._replace(zones=self.zones)

    @staticmethod
    def parse(text: str) -> Parsed:
        """Find the outcome and the data columns that a formula needs, before any data is read or anything evaluated.

        >>> Formula.parse("y ~ log(income) + (1 | bank)").columns
        ('y', 'income', 'bank')
        """
        return parse(text)

    @classmethod
    def parse_for(cls, text: str, data: Any, others: Iterable[str] = ()) -> tuple[Parsed, Any]:
        """Parse a formula for data, whose columns its '.' stands for, except `others` that have a part already.

        Gives the data back too: opened, where that was needed to know the columns.

        >>> Formula.parse_for("y ~ .", {"y": [0, 1], "x": [2, 3], "days": [1, 9]}, others=["days"])[0].text
        'y ~ x'
        """
        text, data = wildcard.expand(text, data, others)
        return cls.parse(text), data

    @classmethod
    def learn(
        cls, text: str, data: Any, outcome: Any = None
    ) -> tuple[Formula, NDArray[np.float64], NDArray[np.float64]]:
        """Learn a formula from data and return it with its design X, of shape (p, n), and the outcome y.

        `data` is anything that `tallbayes.data.sources` can open; `outcome` is what counts as 1, if 0 and 1 are not
        what the outcome's column holds.

        >>> formula, X, y = Formula.learn("y ~ 0 + x", {"y": ["yes", "no"], "x": [2, 3]})
        >>> X, y, formula.event
        (array([[2., 3.]]), array([1., 0.]), 'yes')
        """
        from tallbayes.data.learning import Asked, learn  # here, since learning makes formulas

        parsed, data = cls.parse_for(text, data)
        learned = learn(parsed, data, Asked(outcome))
        return learned.formula, *learned.arrays()

    def without(self, names: Iterable[str]) -> Formula:
        """The formula that leaves some columns out of its design.

        >>> formula, X, y = Formula.learn("y ~ x + z", {"y": [0, 1], "x": [1, 3], "z": [2, 6]})
        >>> formula.without(["z"]).apply({"x": [5], "z": [7]})
        array([[1.],
               [5.]])
        """
        gone = tuple(names)
        kept = tuple(name for name in self.coefficients if name not in gone)
        return replace(self, coefficients=kept, left_out=(*self.left_out, *gone))

    def apply(self, data: Any, where: Where = row) -> NDArray[np.float64]:
        """Build the design of new rows; the outcome and the groups are not needed. Messages name rows by `where`.

        >>> formula, X, y = Formula.learn("y ~ center(x)", {"y": [0, 1], "x": [1, 3]})
        >>> formula.apply({"x": [10]})
        array([[1.],
               [8.]])
        """
        import pandas as pd

        frame = check(read(data, self.parsed.predictors, self.clean))
        for name, column in frame.items():
            if str(name) in self.levels:
                known, ordered = self.levels[str(name)]
                if column.dtype != "category" and isinstance(known[0], str):
                    raise ValueError(
                        f"column {name!r} does not hold text, but did when the formula was learned, such as "
                        f"{known[0]!r}; make it text first"
                    )
                refuse_unseen(f"column {name!r}", column, known, where)
                if isinstance(known[0], bool) and column.dtype != "category":
                    column = column == 1  # pandas finds no 1 among True and False
                frame[name] = pd.Categorical(column, categories=known, ordered=ordered)
            elif column.dtype == "category" and str(name) in self.flags:
                first = column.iloc[:1].tolist()[0]
                raise ValueError(
                    f"column {name!r} is {_category(column)}, such as {first!r} at {where(0)}, but held True and False "
                    "when the formula was learned; make it True and False first"
                )
            elif column.dtype == "category":
                odd = first_odd(column.array, where) if column.cat.categories.inferred_type == "string" else None
                told = "" if odd is None else f": it is {odd.value!r} at {odd.where}; {remedy(odd.value)}"
                if odd is None and self.texts.decimal != ".":
                    told = f", which had decimal={self.texts.decimal!r}; make it numbers first"
                raise ValueError(
                    f"column {name!r} is {_category(column)}, but held numbers when the formula was learned{told}"
                )
            elif str(name) in self.flags and not (usual := column.isin((0, 1))).all():
                place = int(usual.argmin())
                raise ValueError(
                    f"column {name!r} held True and False when the formula was learned, but is {column.iloc[place]:g} "
                    f"at {where(place)}"
                )
        refuse = partial(refuse_unseen, where=where)
        design = materialise(self.parsed.right, frame, self.transforms, self.categories, refuse)
        kept = [place for place, name in enumerate(design.names) if name not in self.left_out]
        names = tuple(design.names[place] for place in kept)
        if names != self.coefficients:
            raise ValueError(f"the design has columns {names}, but learned were {self.coefficients}")
        X = design.array[kept] if self.left_out else design.array
        require_finite(X, names, where)
        return X

    def offset(self, data: Any, where: Where = row) -> NDArray[np.float64]:
        """What the offset() terms add to the linear predictor of each new row, an array without axes if there are none.

        >>> formula, X, y = Formula.learn("y ~ 1 + offset(2 * x)", {"y": [0, 1], "x": [1, 3]})
        >>> formula.offset({"x": [10, 20]})
        array([20., 40.])
        """
        if self.parsed.offset is None:
            return np.array(0.0)
        frame = check(read(data, self.parsed.offset.columns, self.clean))
        design = one_column("offset", self.parsed.offset.text, self.parsed.offset.side, frame, self.offset_transforms)
        require_finite(design.array, design.names, where)
        values: NDArray[np.float64] = design.array[0]
        return values

    def trials(self, data: Any, where: Where = row) -> NDArray[np.float64] | None:
        """The number of trials of each new row, None if the formula does not count successes.

        >>> formula, X, y = Formula.learn("p(paid, loans) ~ 1", {"paid": [0, 1], "loans": [1, 3]})
        >>> formula.trials({"loans": [10, 20]})
        array([10., 20.])
        """
        if self.parsed.trials is None:
            return None
        frame = check(read(data, self.parsed.trials.columns, self.clean))
        design = one_column("number of trials", self.parsed.trials.text, self.parsed.trials.side, frame, {})
        require_finite(design.array, design.names, where)
        values: NDArray[np.float64] = design.array[0]
        return values

    def group_codes(self, data: Any) -> NDArray[np.intp]:
        """Index of each row's group in `group_levels`, -1 for a group never seen.

        >>> formula, X, y = Formula.learn("y ~ 1 + (1 | bank)", {"y": [0, 1], "bank": ["b", "a"]})
        >>> formula.group_levels, formula.group_codes({"bank": ["a", "b", "new"]})
        (('a', 'b'), array([ 0,  1, -1]))
        """
        if self.group is None:
            raise ValueError(f"the formula {self.text!r} has no group term such as (1 | g)")
        frame = check(read(data, [self.group], self.clean))
        return group_term.match_levels(self.group, frame[self.group], self.group_levels)

    def to_json(self) -> str:
        """Write all that was learned as JSON text.

        >>> formula, X, y = Formula.learn("y ~ scale(x)", {"y": [0, 1], "x": [1.0, 3.5]})
        >>> bool((Formula.from_json(formula.to_json()).apply({"x": [1.0, 3.5]}) == X).all())
        True
        """
        learned = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "parsed"}
        return formula_file.to_json({"text": self.text, **learned})

    @classmethod
    def from_json(cls, text: str) -> Formula:
        """Read back what `to_json` wrote; ValueError says what is wrong with other texts.

        >>> formula, X, y = Formula.learn("y ~ x", {"y": [0, 1], "x": [1.0, 3.5]})
        >>> Formula.from_json(formula.to_json()).coefficients
        ('Intercept', 'x')
        """
        return cls(**formula_file.from_json(text))


def _category(column: pd.Series[Any]) -> str:
    """What messages call a column of categories."""
    return "text" if column.cat.categories.inferred_type == "string" else "a category"
