"""Rows: the one door to the data.

Samplers hold no arrays. All that anybody asks of the data is one of three verbs:

    reduce   one pass: a task's question to every block, and the blocks' answers joined in their order;
    draw     rows drawn with replacement, in proportion to a measure of each row;
    sample   a fixed subsample without replacement, with its weights: small rows in memory.

Tasks and measures are small frozen values. They are given the arrays, and what they make of each row does not leave the
door. Rows that are at hand also `keep` things that live with them and need random access: linear predictors that move
one column at a time, what an expansion leaves out of each row.

Rows count what they are asked: `touched` is the number of (row, parameter vector) pairs that passed the door, and
`passes` how often all of them did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes.rows.arrays import Arrays, Outcomes

if TYPE_CHECKING:
    from tallbayes.rows.memory import MemoryRows
    from tallbayes.rows.urn import Urn

Array = NDArray[np.float64]
Found = TypeVar("Found")
Answer = TypeVar("Answer", covariant=True)
Given = ParamSpec("Given")


class Count(Protocol):
    """Is told how many rows pass the door, and how often all of them do."""

    def __call__(self, rows: int, passes: int = 0) -> None:
        """Rows may be counted from several threads."""


class Task(Protocol[Answer]):
    """A question to all rows."""

    def looks(self, params: Array) -> int:
        """How often each row is looked at."""

    def over(self, arrays: Arrays, params: Array) -> tuple[NDArray[Any], ...]:
        """What the blocks answer, in arrays that are joined along their first axis."""

    def answer(self, parts: tuple[NDArray[Any], ...], params: Array, rows: Rows) -> Answer:
        """What all blocks together say, added up in their order."""


@runtime_checkable
class Sums(Protocol):
    """A task whose parts are large and may be added up before they are joined."""

    adds_up: bool


class Measure(Protocol):
    """A number for each row, that rows are drawn in proportion to; infinite for rows that are wanted in any case."""

    @property
    def looks(self) -> int:
        """How often it looks at a row."""

    def of(self, arrays: Arrays) -> Array:
        """The measure of each row, were its weight one."""


class Rows(Protocol):
    """Rows, wherever they are."""

    touched: int
    passes: int

    @property
    def size(self) -> int:
        """Number of rows; after merging duplicates, of distinct ones."""

    @property
    def columns(self) -> int:
        """Number of columns of the design."""

    @property
    def groups(self) -> int:
        """Number of groups that rows come in, or 0."""

    @property
    def width(self) -> int:
        """Entries of a parameter vector."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the number of rows that the data had, where no weights were given."""

    @property
    def outcomes(self) -> Outcomes:
        """What a canonical family needs of the outcomes; like the size it is a fact of the rows, and not counted."""

    @property
    def mean_outcome(self) -> float:
        """Mean of the outcomes, with the rows' weights."""

    @property
    def strata(self) -> tuple[str, ...]:
        """Names of the columns of levels that are kept with the rows."""

    @property
    def told(self) -> dict[str, Any]:
        """What a fit tells of where they are, if that is not this machine."""

    def count(self, rows: int, passes: int = 0) -> None:
        """So many rows have passed the door, by what was kept with them or drawn from them."""

    def reduce(self, task: Task[Found], params: ArrayLike | None = None) -> Found:
        """The answer of all rows to a task, for each parameter vector, in one pass."""

    def reduce_all(self, *questions: tuple[Task[Any], ArrayLike | None]) -> tuple[Any, ...]:
        """The answers to several tasks, each with its parameter vectors, in one pass."""

    def aside(self, task: Task[Found]) -> Callable[[], Found]:
        """What makes a pass in another thread, if rows can be asked by several at once; else it is made now.

        It is counted now, so that counts do not hang on a clock.
        """

    def draw(self, measure: Measure, theta: Array, expected: float, seen: int, seed: int, ahead: int = 0) -> Urn:
        """Rows to be drawn in proportion to their weight times a measure, with linear predictors at theta.

        The total of that is known about (`expected`); `seen` rows are for looking at, and `ahead` are the first pool.
        """

    def sample(
        self,
        size: int | Mapping[int, int],
        rng: np.random.Generator,
        by: str | None = None,
        measure: Measure | None = None,
        cases: bool = False,
    ) -> MemoryRows:
        """A fixed subsample without replacement, weighted so that its sums estimate the sums over all rows."""


class Split(Protocol):
    """A way to deal rows to parts."""

    def __call__(self, arrays: Arrays, numbers: range) -> Sequence[Arrays]:
        """What the parts with these numbers get of some blocks; they have weights if the rows have."""


class RowsAtHand(Rows, Protocol):
    """Rows in this machine's memory, or mapped into it."""

    @property
    def resident(self) -> bool:
        """Whether they are in memory, where looking at a row here and there costs nothing."""

    @property
    def hands(self) -> int:
        """How many may work on parts of them at a time."""

    def run(self, start: int, stop: int) -> Arrays:
        """The rows start..stop, which nobody else changes."""

    def parted(self, parts: int, split: Split) -> Sequence[RowsAtHand]:
        """So many parts of the rows, each in the order of the rows, in one pass."""

    def keep(
        self, make: Callable[Concatenate[Arrays, Count, Given], Found], *given: Given.args, **named: Given.kwargs
    ) -> Found:
        """Something that lives with the rows and is made from their arrays."""

    def without(self, columns: Sequence[int]) -> RowsAtHand:
        """The rows without some columns of the design."""
