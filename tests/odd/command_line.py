"""The command line: what people mistype, files that are in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import tallbayes as tb
from odd.case import Answered, Case, Complaints, Table, refused
from odd.formulas import CODE, unmarked
from odd.judge import CommandError, right
from odd.saved import content
from tallbayes.cli import main

KIND = "command line"
DATA = "data.csv"


def typed(folder: Path, *arguments: str) -> str:
    """What a command prints; what it refuses is raised."""
    done = CliRunner().invoke(main, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code not in (0, 3):
        raise CommandError(done.exit_code, done.stderr)
    return done.stdout


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Commands in a folder with data.csv and fit.nc."""
    table = Table(rng)

    def prepared(*arguments: str, **files: str | bytes) -> Callable[[Path], str]:
        def call(folder: Path) -> str:
            table.frame().to_csv(folder / DATA, index=False)
            (folder / "fit.nc").write_bytes(content("plain"))
            for name, inside in files.items():
                (folder / name.replace("_", ".")).write_bytes(inside.encode() if isinstance(inside, str) else inside)
            return typed(folder, *arguments)

        return call

    def untouched(folder: Path) -> Complaints:
        right = table.frame().to_csv(index=False)
        found = (folder / DATA).read_text() if (folder / DATA).exists() else ""
        kept = (folder / "fit.nc").exists() and (folder / "fit.nc").read_bytes() == content("plain")
        return ([] if found == right else ["the data were overwritten"]) + ([] if kept else ["the fit was overwritten"])

    quick = ("--draws", "40", "--warmup", "20", "--chains", "2", "--seed", "1", "--quiet")
    for name, arguments, word in _mistyped(rng):
        yield refused(KIND, name, prepared(*arguments), word, after=untouched)
    for option, values in OPTIONS.items():
        for value in values:
            yield refused(
                KIND,
                f"fit --{option} {value!r}",
                prepared("fit", DATA, "y ~ x", *_without(quick, option), f"--{option}", value),
                _words(option),
                alone=option == "engine",
                after=untouched,
            )
    for code in [CODE[int(place)] for place in rng.permutation(len(CODE))[:20]]:
        yield refused(
            KIND,
            f"formula {code}",
            prepared("fit", DATA, "y ~ " + code.format(mark="mark"), *quick),
            "formula|column",
            after=lambda folder: [*unmarked(folder), *untouched(folder)],
        )
    for outputs, word in (
        (("--out", DATA), "data.csv"), (("--out", DATA, "--force"), "data.csv"),
        (("--report", DATA, "--force"), "html|data.csv"), (("--out", "a.html", "--report", "a.html"), "a.html"),
        (("--out", "./" + DATA, "--force"), "data.csv"), (("--out", "fit.nc"), "fit.nc"),
        (("--report", "a.txt"), "html"), (("--out", "no/such/fit.nc"), "no/such"),
        (("--out", "."), "."), (("--report", "no/a.html"), "no"), (("--out", ""), "out|''|file"),
        (("--out", "x" * 300), "xxx"), (("--out", "s3://b/fit.nc"), "s3://b"),
        (("--report", "http://a/b.html"), "http"), (("--out", "/dev/null"), "null"),
        (("--out", DATA + "/fit.nc"), "data.csv"), (("--out", "~no/fit.nc"), "~no|folder"),
    ):  # fmt: skip
        yield refused(
            KIND, f"fit {' '.join(outputs)}", prepared("fit", DATA, "y ~ x", *quick, *outputs), word, after=untouched
        )
    families = {
        "bernoulli": ("y", "logit"),
        "bernoulli(probit)": ("y", "probit"),
        "bernoulli(cloglog)": ("y", "cloglog"),
        "poisson": ("k", "poisson"),
        "gaussian": ("v", "gaussian"),
        "Poisson": ("k", "poisson"),
    }
    for text, (outcome, family) in families.items():
        for name, extra in {"plain": (), "weights": ("--weights", "w"), "offset": ("--offset", "o")}.items():
            given = {"weights": {"weights": table["w"]}, "offset": {"offset": table["o"]}}.get(name, {})
            call = _saved(
                prepared(
                    "fit",
                    DATA,
                    f"{outcome} ~ x",
                    "--family",
                    text,
                    "--draws",
                    "1500",
                    "--warmup",
                    "100",
                    "--chains",
                    "2",
                    "--seed",
                    "1",
                    "--quiet",
                    "--out",
                    "out.nc",
                    *extra,
                )
            )
            yield Case(KIND, f"fit --family {text}, {name}", call, right(table.problem(family, **given)), answer=True)


def _words(option: str) -> str:
    """How a refusal may call an option: by its name, or by what it is."""
    others = {"weights": "column", "offset": "column", "surrogate": "column", "engine": "scheduler"}
    return f"{option}|{option.replace('-', '_')}|{others.get(option, option)}"


def _saved(call: Callable[[Path], str]) -> Callable[[Path], Answered]:
    def both(folder: Path) -> Answered:
        call(folder)
        return Answered(tb.load(folder / "out.nc"), None)

    return both


def _without(options: tuple[str, ...], name: str) -> list[str]:
    pairs = zip(options[:-1:2], options[1::2], strict=True)
    return [part for pair in pairs if pair[0] != f"--{name}" for part in pair] + ["--quiet"]


def _mistyped(rng: np.random.Generator) -> Iterator[tuple[str, tuple[str, ...], str]]:
    lines: tuple[tuple[tuple[str, ...], str], ...] = (
        (("fit",), "data"), (("fit", DATA), "formula"), (("fit", "y ~ x", DATA), "data.csv"),
        (("fit", DATA, "y", "~", "x"), "~"), (("fit", DATA, "y ~ x", "extra"), "extra"),
        (("fit", "nothing.csv", "y ~ x"), "nothing.csv"), (("fit", DATA, "y ~ nothing"), "nothing"),
        (("fit", DATA, ""), "formula"), (("fit", "", "y ~ x"), "data|file|''"),
        (("fit", DATA, "y ~ x", "--unknown"), "unknown"), (("fit", DATA, "y ~ x", "--draw", "5", "5"), "draw|5"),
        (("fit", DATA, "y ~ x", "-z"), "-z"), (("fit", "fit.nc", "y ~ x"), "fit.nc"),
        (("fit", ".", "y ~ x"), "fit.nc|.|csv"), (("fit", "-", "y ~ x"), "standard input"),
        (("fit", "*.nothing", "y ~ x"), "nothing"), (("fit", DATA, "y ~ x", "--draws"), "draws"),
        (("predict",), "fit"), (("predict", "fit.nc"), "data"), (("predict", DATA, "fit.nc"), "data.csv"),
        (("predict", "nothing.nc", DATA), "nothing.nc"), (("predict", "fit.nc", "nothing.csv"), "nothing.csv"),
        (("predict", "fit.nc", DATA, "--out", "a.txt"), "a.txt"),
        (("predict", "fit.nc", DATA, "--out", DATA, "--force"), "data.csv"),
        (("predict", "fit.nc", DATA, "--keep", "nothing", "--out", "p.csv"), "nothing"),
        (("predict", "fit.nc", DATA, "--interval", "2"), "interval"),
        (("predict", "fit.nc", DATA, "--interval", "a"), "interval"),
        (("predict", "fit.nc", DATA, "--draws", "0"), "draws"), (("predict", "fit.nc", DATA, "--seed", "-1"), "seed"),
        (("predict", "fit.nc", DATA, "--noise"), "noise"),
        (("predict", "fit.nc", DATA, "--keep", "x", "--keep-all"), "keep"),
        (("predict", "fit.nc", DATA, "--out", "fit.nc", "--force"), "fit.nc"),
        (("summary",), "fit"), (("summary", "nothing.nc"), "nothing.nc"), (("summary", DATA), "data.csv"),
        (("summary", "."), "."), (("report", "fit.nc"), "out"), (("report", "fit.nc", "a.txt"), "html"),
        (("report", "nothing.nc", "a.html"), "nothing.nc"), (("report", DATA, "a.html"), "data.csv"),
        (("report", "fit.nc", "fit.nc"), "fit.nc|html"), (("report", "fit.nc", "no/such/a.html"), "no/such"),
        (("compare-speed",), "fits|file"), (("compare-speed", "nothing.nc"), "nothing.nc"),
        (("compare-speed", DATA), "data.csv"), (("compare-speed", "a=fit.nc", "a=fit.nc"), "a"),
        (("compare-speed", "=fit.nc"), "name|fit.nc"), (("resume",), "checkpoint"),
        (("resume", "nothing.tb"), "nothing.tb"), (("resume", DATA), "data.csv"), (("resume", "."), "."),
        (("status", "nothing.tb"), "nothing.tb"), (("status", "."), "."), (("status", DATA), "data.csv"),
        (("simulate",), "dataset|loans"), (("simulate", "cars", "--out", "a.csv"), "cars|loans"),
        (("simulate", "loans"), "out"), (("simulate", "loans", "--rows", "0", "--out", "a.csv"), "rows"),
        (("simulate", "loans", "--rows", "-5", "--out", "a.csv"), "rows"),
        (("simulate", "loans", "--rows", "many", "--out", "a.csv"), "rows"),
        (("simulate", "loans", "--rows", "10", "--out", "a.txt"), "a.txt"),
        (("simulate", "loans", "--rows", "10", "--out", DATA), "data.csv"),
        (("simulate", "loans", "--rows", "10", "--out", "no/such/a.csv"), "no/such"), (("nothing",), "nothing"),
        (("fti", DATA, "y ~ x"), "fti"), (("--nothing",), "nothing"),
    )  # fmt: skip
    for arguments, word in lines:
        yield " ".join(arguments), arguments, word


OPTIONS: dict[str, tuple[str, ...]] = {
    "draws": ("0", "-1", "1.5", "many", "", "1e3", "1000000000000", "9" * 30),
    "chains": ("0", "-1", "1.5", "many", "1000000"), "warmup": ("-1", "1.5", "many", "1000000000000"),
    "seed": ("-1", "1.5", "many"), "target-ess": ("0", "-1", "many", "nan"),
    "family": ("", "no", "gauss", "poisson(", "bernoulli(log)", "negative_binomial", "gamma(-1)", "gamma(a)",
    "y * eta +", "__import__('os')"),
    "prior": ("", "no", "normal(0)", "normal(0, -1)", "nothing=normal(0, 1)", "=normal(0, 1)", "x=", "x=normal(0, 1",
    "normal(0, nan)"),
    "group-prior": ("", "no", "half_normal(-1)", "half_normal(1)"), "method": ("", "no", "MH", "nuts"),
    "surrogate": ("", "no", "taylor(a)", "subsample", "subsample(0)", "stratified(10)", "stratified(10, nothing)",
    "case-control(-5)"),
    "proposal": ("", "no"), "subchain": ("-1", "a", "1.5"),
    "shards": ("0", "-1", "a"), "inner": ("no", "consensus"), "sharding": ("no",), "combine": ("no",),
    "workers": ("0", "a"), "estimator": ("", "no", "taylor(0)"), "missing": ("", "no", "Drop!"),
    "collinear": ("", "no"), "weights": ("", "nothing", "c"), "offset": ("", "nothing", "c"),
    "outcome": ("never", "", "7"), "memory": ("", "lots", "-1GB", "0"), "engine": ("nowhere", "tcp://"),
    "cache": (DATA,), "checkpoint": (DATA,),
}  # fmt: skip
