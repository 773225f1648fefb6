"""Questions to the rows of a source as it has them: asked piece by piece, here or by the workers of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

from tallbayes.data.pieces import Source


class Seen(Protocol):
    """What a question has seen of some rows."""

    def then(self, later: Any) -> Self:
        """That, and what it has seen of later rows."""


Answer = TypeVar("Answer", bound=Seen)
Answers = TypeVar("Answers", bound=Seen, covariant=True)


class Question(Protocol[Answers]):
    """A small frozen value, which can travel to workers."""

    @property
    def wanted(self) -> Sequence[str]:
        """The columns that it needs."""

    def look(self, source: Source) -> Answers:
        """What it sees of the rows of a source, which are some pieces of all rows."""


def ask(source: Source, question: Question[Answer]) -> Answer:
    """What a question sees of all rows."""
    if source.elsewhere is None:
        return question.look(source)
    seen: list[Answer] = source.elsewhere.look(question)
    return reduce(lambda before, later: before.then(later), seen)
