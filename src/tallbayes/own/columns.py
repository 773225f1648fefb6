"""Columns of a user's own model: which of the data it needs, and where rows keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallbayes.data.names import require, require_distinct
from tallbayes.data.options import check_texts
from tallbayes.families.checks import Anything, Check
from tallbayes.families.gaussian import Gaussian
from tallbayes.own.function import Field
from tallbayes.own.parameters import check_names


class NoFamily(Gaussian):
    """Stands for a family where rows are built: the outcome is a column like any other."""

    def checking(self, name: str) -> Check:
        """Any numbers will do."""
        return Anything(name)


def names(what: str, given: Sequence[str]) -> list[str]:
    """A list of names, which one text is not."""
    check_texts(what, given, "a list of names")
    return list(given)


def chosen(columns: Any, there: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Columns of the data by the names that the function has for them."""
    if isinstance(columns, Mapping):
        check_texts("columns", [*columns, *columns.values()], "a dict of columns' names by other names")
        found = dict(columns)
    elif columns is None:
        found = {name: name for name in there if name not in others}
    else:
        found = {name: name for name in names("columns", columns)}
    require(list(found.values()), there)
    require_distinct(list(found.values()))
    hint = "; rename it by columns={'dose': %r}"
    for name, column in found.items():
        check_names("the column", [name], hint % column)
    if not found:
        raise ValueError("the model has no columns; the data must have one at least")
    return found


def layout(
    named: dict[str, str], levelled: Sequence[str], outcome: str | None, there: Sequence[str]
) -> tuple[tuple[Field, ...], str]:
    """Where each column is found among the rows, and the formula that puts it there."""
    for name in levelled:
        require([named.get(name, name)], there)
        named.setdefault(name, name)
        check_names("the column", [name])
    if outcome is not None:
        require([outcome], list(named), "the model's columns")
    if outcome in levelled:
        raise ValueError(f"the outcome {outcome!r} must be numbers, not levels")
    plain = [name for name in named if name not in levelled]
    if not plain:
        raise ValueError("one column at least must hold numbers; all are in levels=")
    left = outcome or plain[0]
    right = [name for name in plain if name != left]
    fields = [
        Field(name, "outcome")
        if name == left
        else Field(name, "level", named[name])
        if name in levelled
        else Field(name, "column", right.index(name))
        for name in named
    ]
    design = "0 + " + " + ".join(f"`{named[name]}`" for name in right) if right else "1"
    return tuple(fields), f"`{named[left]}` ~ {design}"


def refuse_text(found: Sequence[str], fields: Sequence[Field]) -> None:
    """Columns of text would have become several."""
    columns = [field.name for field in fields if field.kind == "column"]
    if columns and len(found) != len(columns):
        odd = next(name for name in found if "[" in name)
        raise ValueError(
            f"column {odd.partition('[')[0]!r} holds text; name it in levels=, and rows have the number of their "
            "level, or leave it out by columns="
        )
