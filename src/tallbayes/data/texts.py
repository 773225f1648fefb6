"""How data write numbers and missing values as text: the decimal sign, and texts such as '?' that mark missing values.

In CSV files Arrow reads numbers and missing values so. In all other data, columns of text are read here: where
something was said about texts, a column of which all texts are numbers is one of numbers, as it is in a CSV file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

ENCODING = "save it as such, or read it with pandas.read_csv(..., encoding='latin-1') if it is in Latin-1"
DECIMALS = (".", ",")


class Texts(NamedTuple):
    """What was said about texts: `decimal=","`, and `na_values` that mark missing values."""

    decimal: str = "."
    na_values: tuple[str, ...] = ()

    @classmethod
    def of(cls, decimal: Any, na_values: Any) -> Texts:
        """From what a user gives: `na_values` may be one or several.

        >>> Texts.of(",", "?"), Texts.of(".", [-9, "none"]).na_values
        (Texts(decimal=',', na_values=('?',)), ('-9', 'none'))
        >>> Texts.of(";", ())
        Traceback (most recent call last):
        ValueError: decimal=';' is not known; choose one of ., ,
        """
        if decimal not in DECIMALS:
            raise ValueError(f"decimal={decimal!r} is not known; choose one of {', '.join(DECIMALS)}")
        if na_values is None:
            return cls(decimal)
        several = isinstance(na_values, Iterable) and not isinstance(na_values, str | bytes | dict)
        given = list(na_values) if several else [na_values]
        for one in given:
            if isinstance(one, bool | np.bool_) or not isinstance(one, str | int | float | np.integer | np.floating):
                raise ValueError(
                    f"na_values={na_values!r} must be a text that marks missing values, such as '?', or a list of them"
                )
        return cls(decimal, tuple(dict.fromkeys(str(one).strip() for one in given)))

    @property
    def numbers(self) -> list[float]:
        """Those of the texts for missing values that are numbers, such as -999.

        >>> Texts(na_values=("-999", "?")).numbers
        [-999.0]
        """
        return [float(self.plain(text)) for text in self.na_values if re.match(number(self.decimal), text)]

    def held(self, size: int) -> list[float]:
        """These numbers as they are in a column of floating-point numbers of so many bytes.

        >>> Texts(na_values=("-99.9",)).held(4)
        [-99.9000015258789]
        """
        with np.errstate(over="ignore"):
            found: list[float] = np.array(self.numbers).astype(f"f{size}").astype(float).tolist()
        return found

    def without_dates(self, values: Any) -> Any:
        """An array of dates without those that mark missing values.

        >>> Texts(na_values=("1900-01-01",)).without_dates(np.array(["1900-01-01", "2026-11-19"], "M8[s]"))
        array([                'NaT', '2026-11-19T00:00:00'], dtype='datetime64[s]')
        """
        if values.dtype.kind == "M":
            for text in filter(DATE.fullmatch, self.na_values):
                with suppress(ValueError):  # of a month 13
                    values = np.where(values == np.datetime64(text), np.datetime64("NaT"), values)
        return values

    def plain(self, text: str) -> str:
        """A number as Python writes it."""
        return text.strip().replace(self.decimal, ".")

    def read(self, values: Any, numbers: bool = True) -> Any:
        """A pandas or pyarrow column without the texts for missing values, as numbers if all others are some.

        >>> import pandas as pd
        >>> Texts(",", ("?",)).read(pd.Series(["1,5", "?"])).to_pylist()
        [1.5, None]
        >>> Texts(",", ("?",)).read(pd.Series(["1,5", "?"]), numbers=False).to_pylist()
        ['1,5', None]
        """
        import pandas as pd
        import pyarrow as pa

        if self == USUAL:
            return values
        if isinstance(values, pd.Series):
            if isinstance(values.dtype, pd.CategoricalDtype):
                return self._of_levels(values, numbers)
            if values.dtype.kind in "iuf":
                if not self.numbers:
                    return values
                size = getattr(values.dtype, "itemsize", 0) or np.dtype(values.dtype.type).itemsize
                return values.mask(values.isin(self.held(min(size, 8) if values.dtype.kind == "f" else 8)))
            if values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=True).startswith("mixed"):
                values = values.mask(values.isin(self.na_values))  # all others may be of one kind
            try:
                values = pa.table({"": values}).column(0)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                return values  # which will be refused
        types, kind = pa.types, values.type
        if types.is_dictionary(kind):
            return self._of_levels(values.to_pandas(), numbers)
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            return self._of_text(values.cast(pa.large_string()), numbers)
        if self.numbers and types.is_integer(kind):
            ends = np.iinfo(kind.to_pandas_dtype())
            return _without(values, [int(one) for one in self.numbers if ends.min <= one <= ends.max and one % 1 == 0])
        if self.numbers and (types.is_floating(kind) or types.is_decimal(kind)):
            size = kind.bit_width // 8 if types.is_floating(kind) else 8
            return _without(values.cast(pa.float64(), safe=False), self.held(size))
        return values

    def _of_levels(self, values: Any, numbers: bool) -> Any:
        """A pandas Series of categories."""
        import pandas as pd
        import pyarrow as pa

        levels = values.cat.categories
        if pd.api.types.infer_dtype(levels) != "string":
            gone = [level for level in levels.tolist() if level in self.numbers and not isinstance(level, bool)]
            return values.cat.remove_categories(gone)
        gone = [level for level in levels if level.strip() in self.na_values]
        values = values.cat.remove_categories(gone)
        if not numbers or values.cat.ordered:
            return values
        read = self._of_text(pa.chunked_array([pa.array(values.astype(object), pa.large_string())]), numbers)
        return values if pa.types.is_large_string(read.type) else read

    def _of_text(self, values: Any, numbers: bool) -> Any:
        """A pyarrow column of text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        trimmed = pc.utf8_trim_whitespace(values)
        if self.na_values:
            marks = pc.is_in(trimmed, value_set=pa.array(self.na_values, pa.large_string()))
            values, trimmed = (pc.if_else(marks, pa.scalar(None, values.type), one) for one in (values, trimmed))
        if not numbers or not pc.all(pc.match_substring_regex(trimmed, number(self.decimal)), min_count=0).as_py():
            return values
        plain = pc.replace_substring(pc.replace_substring_regex(trimmed, r"^\+", ""), self.decimal, ".")
        return _without(plain.cast(pa.float64()), self.numbers)


def _without(values: Any, missing: Iterable[float]) -> Any:
    """A pyarrow column of numbers, without some of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for one in missing:
        values = pc.if_else(pc.equal(values, pa.scalar(one, values.type)), pa.scalar(None, values.type), values)
    return values


USUAL = Texts()
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?")


def number(decimal: str = ".") -> str:
    """What numbers look like, as a regular expression.

    >>> [bool(re.match(number(), text)) for text in ("-1.5e3", " 12 ", "inf", "1,5", "1_000", "")]
    [True, True, True, False, False, False]
    """
    point = re.escape(decimal)
    return rf"^\s*[+-]?(?:(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity))\s*$"
