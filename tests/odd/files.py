"""Files as other programs leave them: spreadsheets' CSV, broken Parquet, paths that are none."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from odd.case import FEW, Case, Table, fits, on_disk, pick, refused
from odd.judge import right

KIND = "files"


def _lines(table: Table, separator: str = ",", end: str = "\n", quote: str = "") -> list[str]:
    q = quote
    return [
        f"{q}x{q}{separator}{q}y{q}{end}",
        *(f"{q}{x}{q}{separator}{q}{y}{q}{end}" for x, y in zip(table["x"], table["y"], strict=True)),
    ]


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """CSV, Parquet, and paths."""
    table = Table(rng)
    yield from _readable(table)
    yield from _broken(rng, table)
    yield from _binary(rng, table)
    yield from _paths(table)


def _readable(table: Table) -> Iterator[Case]:
    """CSV files that say what they mean."""
    plain = "".join(_lines(table))
    good: dict[str, str | bytes] = {
        "byte order mark": b"\xef\xbb\xbf" + plain.encode(), "carriage returns": "".join(_lines(table, end="\r\n")),
        "no last newline": plain.removesuffix("\n"), "quotes": "".join(_lines(table, quote='"')),
        "semicolons": "".join(_lines(table, ";")), "tabs": "".join(_lines(table, "\t")),
        "quoted semicolons": "".join(_lines(table, ";", "\r\n", '"')), "blank lines at the end": plain + "\n\n\n",
        "CRLF and a mark": b"\xef\xbb\xbf" + "".join(_lines(table, end="\r\n")).encode(),
        "a column more, unused": "".join(line.strip() + (",note\n" if place == 0 else ',"a, ""b"""\n') for place,
        line in enumerate(_lines(table))),
        "newlines in quotes": "".join(line.strip() + (",note\n" if place == 0 else ',"a\nb"\n') for place,
        line in enumerate(_lines(table))),
    }  # fmt: skip
    for name, content in good.items():
        yield Case(
            KIND, f"csv with {name}", fits("y ~ x", on_disk("data.csv", content)), right(table.problem()), answer=True
        )
    lines = _lines(table)
    doubtful: dict[str, str | bytes] = {
        "old Mac line ends": "".join(_lines(table, end="\r")),
        "a trailing comma everywhere": "".join(line.strip() + ",\n" for line in lines),
        "blanks after commas": "".join(line.replace(",", ", ") for line in lines),
        "blank lines inside": "".join(lines[:9]) + "\n\n" + "".join(lines[9:]),
        "a separator line": "sep=,\n" + plain, "comments": "# from the lab\n" + plain,
        "a title line": "Results\n" + plain, "blank lines first": "\n\n" + plain, "bars": "".join(_lines(table, "|")),
        "blanks": "".join(_lines(table, " ")),
        "UTF-16": plain.encode("utf-16"), "UTF-16 without a mark": plain.encode("utf-16-le"),
        "UTF-32": plain.encode("utf-32"), "names in blanks": "".join([" x , y \n", *lines[1:]]),
        "a row of units": "".join([lines[0], "m,kg\n", *lines[1:]]),
        "single quotes": "".join(_lines(table, quote="'")),
        "spaces at line ends": "".join(line.strip() + "  \n" for line in lines),
        "a form feed at the end": plain + "\x0c", "a Ctrl-Z at the end": plain + "\x1a",
    }  # fmt: skip
    for name, content in doubtful.items():
        yield Case(
            KIND,
            f"csv with {name}",
            fits("y ~ x", on_disk("data.csv", content)),
            right(table.problem()),
            ("data.csv|x|y",),
        )


def _broken(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    """CSV files that do not."""
    lines = _lines(table)
    place = int(rng.integers(2, 40))
    body = "".join(lines)

    def with_line(line: str) -> str:
        return "".join(lines[:place]) + line + "\n" + "".join(lines[place:])

    bad: dict[str, str | bytes] = {
        "nothing": "", "only newlines": "\n\n\n", "only a header": lines[0], "a line too long": with_line("1,0,5"),
        "a line too short": with_line("1"), "an empty value": with_line(",1"), "an empty outcome": with_line("1,"),
        "two headers": with_line("x,y"), "names twice": "".join(["x,x\n", *lines[1:]]),
        "no header": "".join(lines[1:]), "an empty name": "".join(["x,\n", *lines[1:]]),
        "a total": body + "Total," + str(int(table["y"].sum())) + "\n", "a footer": body + "\nSource: the lab\n",
        "only a comma": ",\n", "no rows but commas": "x,y\n,\n,\n", "binary": bytes(range(256)) * 20,
        "zeros": bytes(5_000),
        "Latin-1": with_line("\u00e9,1").encode("latin-1"), "a broken letter": body.encode() + b"\xff\xfe,1\n",
        "HTML": "<html><body>Not found</body></html>\n" * 5, "JSON": '[{"x": 1, "y": 0}]\n',
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9,
        "a workbook": b"PK\x03\x04" + bytes(range(256)) * 9,
        "an old workbook": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000),
        "PDF": b"%PDF-1.4\n" + bytes(range(256)), "Excel's #N/A": with_line("#N/A,1"),
        "Excel's error": with_line("#REF!,1"), "NA": with_line("NA,1"), "a dot of SAS": with_line(".,1"),
        "-inf": with_line("-inf,1"), "NaN": with_line("nan,1"), "a formula": with_line("=1+1,1"),
        "decimal commas": "".join(["x;y\n", *(line.replace(",", ";").replace(".", ",") for line in lines[1:])]),
        "thousands": with_line('"1,234",1'), "a percent sign": with_line("5%,1"),
        "yes among numbers": with_line("yes,1"), "an infinite exponent": with_line("1e999,1"),
        "a quote that is open": with_line('"1,1'), "true": with_line("true,1"),
    }  # fmt: skip
    for name, content in bad.items():
        for formula in ("y ~ x", pick(rng, ["y ~ .", "y ~ log(abs(x) + 1)", "y ~ x + (1 | x)"])):
            yield refused(
                KIND,
                f"csv: {name}, {formula}",
                fits(formula, on_disk("data.csv", content), **FEW),
                "data.csv|x|y|column|rows",
            )
    for name in ("nothing", "a line too long", "binary", "Latin-1", "a dot of SAS"):
        content = bad[name]
        packed = gzip.compress(content if isinstance(content, bytes) else content.encode())
        yield refused(KIND, f"csv.gz: {name}", fits("y ~ x", on_disk("data.csv.gz", packed), **FEW), "data.csv|x|y")


def _parquet_bytes(frame: pd.DataFrame) -> bytes:
    held = io.BytesIO()
    frame.to_parquet(held, index=False)
    return held.getvalue()


def _binary(rng: np.random.Generator, table: Table) -> Iterator[Case]:
    """Parquet, Arrow and packed files, cut, flipped and misnamed."""
    frame = table.frame()[["x", "y", "c"]]
    whole = _parquet_bytes(frame)
    held = io.BytesIO()
    frame.to_feather(held)
    arrow = held.getvalue()
    packed = gzip.compress("".join(_lines(table)).encode())
    text = "".join(_lines(table)).encode()

    def flipped(content: bytes, places: list[int]) -> bytes:
        broken = bytearray(content)
        for one in places:
            broken[one % len(broken)] ^= 0xFF
        return bytes(broken)

    cut = int(rng.integers(10, len(whole) - 10))
    bad = {
        "empty.parquet": b"", "cut.parquet": whole[:cut], "short.parquet": whole[:8], "text.parquet": text,
        "arrow.parquet": arrow, "zeros.parquet": bytes(500), "footer.parquet": flipped(whole, [-6, -7]),
        "end.parquet": whole[:-4] + b"PAR0", "empty.feather": b"", "cut.feather": arrow[: len(arrow) // 2],
        "text.feather": text, "parquet.feather": whole, "zeros.feather": bytes(500),
        "cut.csv.gz": packed[: len(packed) // 2], "text.csv.gz": text,
        "zeros.csv.gz": bytes(500), "empty.csv.gz": b"", "parquet.csv": whole, "arrow.csv": arrow, "packed.csv": packed,
    }  # fmt: skip
    for name, content in bad.items():
        yield refused(KIND, f"file {name}", fits("y ~ x", on_disk(name, content), **FEW), name)
    for _ in range(12):  # whatever is hit: what is read must be right, or not be read
        places = [int(one) for one in rng.integers(0, len(whole), 3)]
        yield Case(
            KIND,
            f"parquet, flipped at {places}",
            fits("y ~ x", on_disk("data.parquet", flipped(whole, places))),
            _same_or(table),
            ("data.parquet|x|y",),
        )
        places = [int(one) for one in rng.integers(0, len(packed), 2)]
        yield Case(
            KIND,
            f"csv.gz, flipped at {places}",
            fits("y ~ x", on_disk("data.csv.gz", flipped(packed, places))),
            right(table.problem()),
            ("data.csv.gz|x|y",),
        )
    for name in (
        "data.xlsx",
        "data.xls",
        "data.json",
        "data.txt",
        "data",
        "data.sav",
        "data.dta",
        "data.sas7bdat",
        "data.rds",
        "data.zip",
        "data.tar.gz",
        "data.parquet.gz",
        "data.h5",
        "data.db",
        ".csv",
        "data.CSV",
        "data.Parquet",
    ):
        content: bytes = whole if "arquet" in name else text
        if name == "data.zip":
            inside = io.BytesIO()
            with zipfile.ZipFile(inside, "w") as archive:
                archive.writestr("data.csv", text)
            content = inside.getvalue()
        yield Case(
            KIND,
            f"ending of {name}",
            fits("y ~ x", on_disk(name, content)),
            right(table.problem()),
            (name.split(".")[-1],),
        )


def _same_or(table: Table) -> Callable[[Any], list[str]]:
    """Parquet files have no checksum of values: a value that was hit may be read as another."""

    def truth(answered: Any) -> list[str]:
        return [] if np.isfinite(answered.fit.draws).all() else ["draws are not finite"]

    return truth


def _paths(table: Table) -> Iterator[Case]:
    frame = table.frame()

    def folder_of(*parts: tuple[str, pd.DataFrame]) -> Callable[[Path], str]:
        def make(folder: Path) -> str:
            place = folder / "parts"
            place.mkdir()
            for name, content in parts:
                (place / name).parent.mkdir(exist_ok=True, parents=True)
                content.to_csv(place / name, index=False) if name.endswith("csv") else content.to_parquet(
                    place / name, index=False
                )
            return str(place)

        return make

    def unreadable(folder: Path) -> str:
        path = folder / "data.csv"
        frame.to_csv(path, index=False)
        path.chmod(0)
        return str(path)

    def looped(folder: Path) -> str:
        os.symlink(folder / "loop.csv", folder / "loop.csv")
        return str(folder / "loop.csv")

    def dangling(folder: Path) -> str:
        os.symlink(folder / "gone.csv", folder / "link.csv")
        return str(folder / "link.csv")

    half = len(frame) // 2
    top, rest = frame.iloc[:half], frame.iloc[half:]
    bad: dict[str, tuple[Any, str]] = {
        "no such file": ("nothing.csv", "nothing.csv"), "no such folder": ("no/such/folder/", "folder"),
        "no match": ("nothing*.csv", "nothing"), "an empty folder": (folder_of(), "parts"),
        "a folder of other files": (folder_of(("a.csv", top), ("b.parquet", rest)), "parts|csv|parquet"),
        "other columns": (folder_of(("a.csv", top), ("b.csv", rest.rename(columns={"x": "u"}))), "x"),
        "other types": (folder_of(("a.csv", top), ("b.csv", rest.assign(x="a"))), "x"),
        "a column less": (folder_of(("a.parquet", top), ("b.parquet", rest.drop(columns="y"))), "y"),
        "a link to nothing": (dangling, "link.csv"), "a link to itself": (looped, "loop.csv"),
        "an address without a host": ("http://", "http"),
        "an address of nothing known": ("foo://bar/data.csv", "foo"),
        "a NUL in the name": ("da\0ta.csv", "da|name|path"), "a name too long": ("a" * 900 + ".csv", "aaa"),
        "a folder named .csv": (lambda folder: str((folder / "a.csv").mkdir() or folder / "a.csv"), "a.csv"),
        "two kinds of the column x": (folder_of(("a.parquet", top.assign(x=top["c"])), ("b.parquet", rest)), "x"),
        "standard input without any": ("-", "standard input"), "a device": ("/dev/null", "null"),
    }  # fmt: skip
    for name, (data, word) in bad.items():
        yield refused(KIND, f"path: {name}", fits("y ~ x", data, **FEW), word)
    if os.geteuid():
        yield refused(KIND, "path: not readable", fits("y ~ x", unreadable, **FEW), "data.csv")
    whole = right(table.problem())
    good: dict[str, Any] = {
        "a folder of two": folder_of(("a.csv", top), ("b.csv", rest)),
        "columns in another order": folder_of(("a.csv", top), ("b.csv", rest[sorted(rest)[::-1]])),
        "an empty part": folder_of(("a.parquet", top), ("b.parquet", top.iloc[:0]), ("c.parquet", rest)),
        "whole numbers and others": folder_of(("a.parquet", top.astype({"y": "int8"})),
        ("b.parquet", rest.astype({"y": "float64"}))),
        "keys in folders": folder_of(("u=1/a.parquet", top), ("u=2/b.parquet", rest)),
        "a name with blanks": lambda folder: str(frame.to_csv(folder / "my data.csv",
        index=False) or folder / "my data.csv"),
        "a name with brackets": lambda folder: str(frame.to_csv(folder / "data[1].csv",
        index=False) or folder / "data[1].csv"),
        "a name in unicode": lambda folder: str(frame.to_csv(folder / "d\u00e4ten.csv",
        index=False) or folder / "d\u00e4ten.csv"),
    }  # fmt: skip
    for name, data in good.items():
        yield Case(KIND, f"path: {name}", fits("y ~ x", data), whole, answer=True)
