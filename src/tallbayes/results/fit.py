"""Fit: what sampling leaves behind. Draws, the story of the run, and enough of the model to predict; no rows.

A saved fit is one netCDF file: the datasets posterior and sample_stats, constant_data where the model has groups of
rows, and all the rest as JSON in an attribute.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import textwrap
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import families
from tallbayes.data.formula import Formula
from tallbayes.families import Bernoulli, Family
from tallbayes.models.model import Result
from tallbayes.results.predict import GroupEffects, as_table, check_interval, evenly_spaced, offsets, predict
from tallbayes.rows.calibration import Calibration, calibrate, sums
from tallbayes.sampling import diagnostics
from tallbayes.sampling.diagnostics import Diagnostics
from tallbayes.sampling.words import few

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Array = NDArray[np.float64]

FORMAT_VERSION = 1
ATTRIBUTE = "tallbayes"
INDENT, WIDTH = 13, 110  # of the story that a printed fit tells
GROUPS_SHOWN = 20  # in a printed fit
BERNOULLI = Bernoulli()
METHODS = {
    "mh": "Metropolis-Hastings",
    "two-stage": "two-stage Metropolis-Hastings",
    "thinned": "two-stage Metropolis-Hastings with a thinned second stage",
    "consensus": "consensus Monte Carlo",
    "subsampling": "subsampling Metropolis-Hastings",
}

MIXED = "mixed, approximate"  # what is said instead of "converged" where the method is not exact


class Fit:
    """A posterior sample of one model.

    `posterior` holds `beta` (chain, draw, coefficient), `sample_stats` the log posterior `lp` (chain, draw) where the
    sampler knows it. `stats` says how the run went: seconds by phase, acceptance by stage, rows touched per draw,
    exact or not.

    With a group term (1 | bank) the posterior also holds the effects `1|bank` (chain, draw, bank) and their standard
    deviation `1|bank_sigma` (chain, draw), and `groups` says of each bank its number of `rows`, the mean `outcome`, and
    the effect that its rows `alone` would give (NaN or infinite where they give none). Otherwise `groups` is None.

    >>> fit = example()
    >>> fit.posterior["beta"].dims
    ('chain', 'draw', 'coefficient')
    >>> fit.summary()["mean"].round(1).to_dict()
    {'Intercept': -1.0, 'fico': 0.5}
    >>> list(example(groups=3).posterior)
    ['beta', '1|bank', '1|bank_sigma']
    """

    kinds: ClassVar[dict[str, type[Fit]]] = {}  # of fits, by the name that a file has for them
    kind: ClassVar[str] = "regression"
    datasets: ClassVar[dict[str, str]] = {"groups": "constant_data"}  # besides the draws: argument, and name in a file

    def __init_subclass__(cls) -> None:
        Fit.kinds[cls.kind] = cls

    def __init__(
        self,
        *,
        posterior: xr.Dataset,
        sample_stats: xr.Dataset,
        stats: dict[str, Any],
        formula: Formula | None = None,
        family: Family = BERNOULLI,
        offset: str | None = None,
        has_offset: bool = False,
        groups: xr.Dataset | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        if posterior.sizes["chain"] * posterior.sizes["draw"] == 0:
            raise ValueError("a fit needs at least one draw, but the posterior has none")
        made_by = {"inference_library": "tallbayes", "inference_library_version": version("tallbayes")}
        self.posterior = posterior.assign_attrs({**made_by, **posterior.attrs})
        self.sample_stats = sample_stats.assign_attrs({**made_by, **sample_stats.attrs})
        self.stats = stats
        self.formula = formula
        self.family = family
        self.offset = offset
        self.has_offset = has_offset or offset is not None
        self.groups = None if groups is None else groups.assign_attrs({**made_by, **groups.attrs})
        self._calibration = calibration

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(str(name) for name in self.posterior["coefficient"].values)

    @property
    def group(self) -> str | None:
        """The column g of the group term (1 | g), None without one.

        >>> example(groups=3).group
        'bank'
        """
        return next((str(axis) for axis in self.posterior.dims if f"1|{axis}" in self.posterior), None)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters: the coefficients, then sd and effects of the groups.

        >>> example(groups=3).parameters
        ('Intercept', 'fico', '1|bank_sigma', '1|bank[b01]', '1|bank[b02]', '1|bank[b03]')
        """
        if self.group is None:
            return self.coefficients
        levels = self.posterior[self.group].values.tolist()
        return (*self.coefficients, f"1|{self.group}_sigma", *(f"1|{self.group}[{level}]" for level in levels))

    @property
    def _model(self) -> str:
        """What was fitted, in two words."""
        return f"{self.family.name.capitalize()} regression"

    @property
    def _title(self) -> str:
        """The formula, or what the outcome was regressed on."""
        return self.formula.text if self.formula is not None else f"Regression on {enumerated(self.coefficients)}"

    @property
    def draws(self) -> Array:
        """All parameters as an array of shape (chain, draw, parameter)."""
        beta = self._values("beta", "coefficient")
        if self.group is None:
            return beta
        sigma, effects = self._values(f"1|{self.group}_sigma"), self._values(f"1|{self.group}", self.group)
        return np.concatenate([beta, sigma[..., None], effects], axis=2)

    def _values(self, name: str, *axis: str) -> Array:
        return np.asarray(self.posterior[name].transpose("chain", "draw", *axis).values)

    @property
    def minutes(self) -> float:
        """Minutes of sampling, without set-up and warm-up."""
        return float(self.stats["seconds"]["sampling"]) / 60

    @functools.cached_property
    def _diagnostics(self) -> Diagnostics:
        return diagnostics.diagnose(self.draws)

    def summary(self) -> pd.DataFrame:
        """One line per parameter: posterior mean, sd and 94% interval, and how far to trust them.

        >>> example().summary()[["mean", "sd", "r_hat"]].round(2)
                   mean    sd  r_hat
        Intercept  -1.0  0.05    1.0
        fico        0.5  0.05    1.0
        """
        import pandas as pd

        draws, found = self.draws, self._diagnostics
        low, high = np.quantile(draws, [0.03, 0.97], axis=(0, 1))
        columns = {
            "mean": draws.mean(axis=(0, 1)),
            "sd": draws.std(axis=(0, 1), ddof=min(1, draws[..., 0].size - 1)),
            "eti94_lb": low,
            "eti94_ub": high,
            **found._asdict(),
            "edpm": found.ess_bulk / self.minutes,
        }
        return pd.DataFrame(columns, index=pd.Index(self.parameters))

    def edpm(self, thin: int = 1, setup: bool = False) -> pd.Series[float]:
        """Effective draws per minute of sampling; with `setup`, of everything before it as well.

        >>> fit = example()
        >>> bool((fit.edpm() > fit.edpm(setup=True)).all())
        True
        """
        import pandas as pd

        minutes = sum(self.stats["seconds"].values()) / 60 if setup else self.minutes
        values = diagnostics.edpm(self.draws, minutes, thin)
        return pd.Series(values, index=pd.Index(self.parameters), name="edpm")

    def problems(self) -> list[str]:
        """What speaks against the draws, a sentence each; nothing if all is well.

        >>> example().problems()
        []
        """
        return [*self.stats.get("doubts", []), *diagnostics.problems(self.draws, self.parameters, self._diagnostics)]

    @property
    def converged(self) -> bool:
        """Whether no diagnostic speaks against the draws.

        Diagnostics compare chains with each other. Those of an approximate method (`stats["exact"]` is False) may agree
        and still be off together, so there this means "mixed", and that is what printed fits and reports say.

        >>> fit = example()
        >>> fit.stats["exact"], fit.converged
        (True, True)
        """
        return not self.problems()

    def predict(
        self,
        new_data: Any,
        offset: ArrayLike | None = None,
        draws: int = 300,
        interval: float = 0.94,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Posterior mean and interval of each row's expected outcome, from evenly spaced draws.

        That is a probability, for counts of successes their expected share, and for Poisson counts the expected count
        at the exposure that `new_data` has.
        An offset that was a column of the data is read from `new_data`. Where the model was fitted with an
        array of offsets, give `offset`: one number per row, or one for all.

        Rows of a group that the model was fitted to get the draws of its effect. Each other group gets effects drawn
        from N(0, sigma^2), one for each draw of sigma, shared by all its rows. They depend on `seed` and on the name
        of the group alone, so that the same seed gives the same prediction, whatever other rows there are.

        >>> example().predict({"fico": [-1.0, 1.0]}).round(1)
           mean  eti94_lb  eti94_ub
        0   0.2       0.2       0.2
        1   0.4       0.3       0.4
        >>> example(groups=3).predict({"fico": [0.0, 0.0], "bank": ["b01", "never seen"]}).round(1)
           mean  eti94_lb  eti94_ub
        0   0.4       0.3       0.4
        1   0.3       0.1       0.7
        """
        if self.formula is None:
            raise ValueError("this fit has no formula, so it cannot predict; use fit.posterior['beta'] yourself")
        every = self.posterior.sizes["chain"] * self.posterior.sizes["draw"]
        kept = evenly_spaced(draws, every)
        check_interval(interval)
        if seed < 0:
            raise ValueError(f"seed must be 0 or more, got {seed}")
        X = self.formula.apply(new_data)
        added = offsets(new_data, X.shape[1], offset, self.offset, self.has_offset, self.family)
        effects = None
        if self.group is not None:
            theta = self._values(f"1|{self.group}", self.group).reshape(every, -1)[kept]
            sigma = self._values(f"1|{self.group}_sigma").reshape(every)[kept]
            effects = GroupEffects(self.formula, new_data, theta, sigma, seed)
        beta = self._values("beta", "coefficient").reshape(every, -1)[kept]
        result = predict(X, beta, added, effects, self.family.mean, interval)
        return as_table(result, interval, new_data)

    def calibration(self) -> pd.DataFrame:
        """Predictions against outcomes of the rows that were fitted, sorted by their prediction into bins, a line each.

        `predicted` is at the posterior mean of the parameters. If the model holds, 94% of the bins have `observed`
        between `lower` and `upper`.

        >>> list(example().calibration())
        ['rows', 'predicted', 'observed', 'lower', 'upper']
        """
        import pandas as pd

        if self._calibration is None:
            raise ValueError("this fit was saved by a version that did not look at outcomes; fit again to see them")
        return pd.DataFrame(self._calibration._asdict()).rename_axis("bin")

    def to_arviz(self) -> xr.DataTree:
        """The draws as arviz wants them: a DataTree of posterior, sample_stats and, if there are groups, constant_data.

        >>> list(example(groups=3).to_arviz().children)
        ['posterior', 'sample_stats', 'constant_data']
        """
        import xarray as xr

        parts = {
            "/": xr.Dataset(attrs=self.posterior.attrs),
            "posterior": self.posterior,
            "sample_stats": self.sample_stats,
        }
        return xr.DataTree.from_dict(parts | self._others())

    def _others(self) -> dict[str, xr.Dataset]:
        """What else there is, by the name of its group."""
        found = {name: getattr(self, argument) for argument, name in self.datasets.items()}
        return {name: dataset for name, dataset in found.items() if dataset is not None}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one netCDF file, replacing an older one only when the new one is complete.

        >>> with tempfile.TemporaryDirectory() as folder:
        ...     example().save(f"{folder}/fit.nc")
        ...     load(f"{folder}/fit.nc").coefficients
        ('Intercept', 'fico')
        """
        check_writable(path)
        tree, path = self.to_arviz(), Path(path)
        tree.attrs[ATTRIBUTE] = json.dumps(self._state(), default=lambda number: number.item())
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            tree.to_netcdf(partial, engine="h5netcdf")
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one page of HTML that needs nothing else: what was fitted, whether to trust it, and what came out.

        >>> with tempfile.TemporaryDirectory() as folder:
        ...     example().report(f"{folder}/fit.html")
        ...     "Did it converge?" in Path(folder, "fit.html").read_text()
        True
        """
        from tallbayes.results.report import report

        report(self, path)

    def _effects(self) -> list[str]:
        """Sections of the report on what was fitted besides coefficients."""
        from tallbayes.results.report import group_section

        return [] if self.group is None else [group_section(self)]

    def _advice(self) -> list[str]:
        """What may help chains of this kind to converge."""
        if self.stats["method"] not in ("mh", "two-stage"):
            return []
        return ['Let the package choose: method="auto" proposes moves that fit the shape of the posterior.']

    def _state(self) -> dict[str, Any]:
        """What is saved besides the draws."""
        return {
            "format": FORMAT_VERSION,
            "kind": self.kind,
            "stats": self.stats,
            "formula": None if self.formula is None else self.formula.to_json(),
            "family": families.to_json(self.family),
            "offset": self.offset,
            "has_offset": self.has_offset,
            "calibration": None if self._calibration is None else [part.tolist() for part in self._calibration],
        }

    def __repr__(self) -> str:
        return "\n".join([f"{self._story()}\n", self._rounded().to_string(), *self._left_out()])

    def _repr_html_(self) -> str:
        story, left_out = f"<pre>{escape(self._story())}</pre>", [f"<p>{escape(line)}</p>" for line in self._left_out()]
        return "\n".join([story, self._rounded().to_html(), *left_out])

    @property
    def _shown(self) -> int:
        """Lines of the summary in a printed fit: without the groups that would make it too long to read."""
        return len(self.coefficients) + 1 + GROUPS_SHOWN

    def _rounded(self) -> pd.DataFrame:
        """The summary as text."""
        table = self.summary().iloc[: self._shown]
        return table.map(lambda value: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")

    def _left_out(self) -> list[str]:
        """A line about the groups that `_rounded` does not show; none if it shows all."""
        more = 0 if self.group is None else self.posterior.sizes[self.group] - GROUPS_SHOWN
        return [f"... and {more:,} more of 1|{self.group}; fit.summary() has them all"] if more > 0 else []

    def _story(self) -> str:
        """How the run went, in a few lines."""
        stats, chains, draws = self.stats, self.posterior.sizes["chain"], self.posterior.sizes["draw"]
        rows = f"{few(stats['rows_per_draw'])} touched per draw, of {stats['rows']:,}"
        if stats["distinct_rows"] != stats["rows"]:
            rows += f" ({stats['distinct_rows']:,} distinct)"
        if stats["surrogate_rows_per_draw"]:
            rows += f", and {few(stats['surrogate_rows_per_draw'])} of the surrogate"
        method = METHODS.get(stats["method"], stats["method"])
        groups = stats.get("groups")
        said = [f"{groups['count']:,} of {groups['term']}", groups["said"]] if groups else []
        met, well = "convergence", "nothing speaks against it"
        if not stats["exact"]:
            met, well = "mixing", f"{MIXED}: the chains agree, but may be off together"
        story = {
            "method": [f"{method}, {'exact' if stats['exact'] else 'approximate'}"],
            "approximate": stats["approximation"].get("said", []),
            "chosen": [f"because {stats['why']}"] if stats["why"] else [],
            "draws": [
                f"{chains} chain{'s' if chains > 1 else ''} x {draws:,}"
                + (", interrupted" if stats["interrupted"] else "")
            ],
            "acceptance": [", ".join(f"{stage} {share:.3f}" for stage, share in stats["acceptance"].items())],
            "rows": [rows],
            "groups": [", ".join(filter(None, said))],
            "seconds": [", ".join(f"{phase} {time:.2f}" for phase, time in stats["seconds"].items())],
            met: self.problems() or [well],
            "warnings": stats["warnings"],
        }
        return "\n".join(_entry(title, sentences) for title, sentences in story.items() if any(sentences))


Fit.kinds[Fit.kind] = Fit


def fit_of(result: Result) -> Fit:
    """The fit that a model's result is made into."""
    import xarray as xr

    kind, (variables, coordinates) = Fit.kinds[result.kind], result.posterior
    axes = ("chain", "draw")
    shape = np.shape(next(iter(variables.values()))[1])
    index = {axis: np.arange(size) for axis, size in zip(axes, shape, strict=False)}
    parts: dict[str, Any] = {
        name: xr.Dataset(*value) if name in kind.datasets else value for name, value in result.others.items()
    }
    return kind(
        posterior=xr.Dataset(variables, index | coordinates),
        sample_stats=xr.Dataset({name: (axes, values) for name, values in result.sample_stats.items()}, index),
        stats=result.stats,
        **parts,
    )


def enumerated(names: tuple[str, ...], most: int = 6) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _entry(title: str, sentences: list[str]) -> str:
    """A title and what there is to say about it, each sentence on lines of its own."""
    wrap = textwrap.TextWrapper(WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    lines = [line for sentence in sentences for line in wrap.wrap(sentence)]
    return f"{title:<{INDENT}}" + ("\n" + " " * INDENT).join(lines)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if no file can be written at `path`: better before sampling than after.

    >>> check_writable("nowhere/fit.nc")
    Traceback (most recent call last):
    FileNotFoundError: cannot write 'nowhere/fit.nc': there is no folder 'nowhere'; create it first
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"cannot write '{path}': it is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write '{path}': there is no folder '{path.parent}'; create it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise PermissionError(
            f"cannot write '{path}': the folder '{path.parent}' takes no new files ({error.strerror})"
        ) from error


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fit that `Fit.save` wrote.

    >>> load("no_such_file.nc")
    Traceback (most recent call last):
    FileNotFoundError: no such file: 'no_such_file.nc'
    """
    import h5netcdf
    import xarray as xr

    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {path!r}")
    try:
        with h5netcdf.File(path, "r") as file:
            saved = file.attrs.get(ATTRIBUTE)
    except PermissionError:
        raise
    except OSError as error:
        raise ValueError(f"{path!r} is not a netCDF file in HDF5 format: {error}") from error
    if saved is None:
        raise ValueError(f"{path!r} was not written by tallbayes; load takes what fit.save wrote")
    state = json.loads(saved)
    if state["format"] != FORMAT_VERSION:
        raise ValueError(
            f"{path!r} has format {state['format']}, but this version of tallbayes reads {FORMAT_VERSION}; "
            "load it with the version that wrote it"
        )
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        tree = opened.load()
    kind = Fit.kinds.get(state.get("kind", Fit.kind))  # files of regressions had no kind at first
    if kind is None:
        raise ValueError(f"{path!r} holds a fit of kind {state['kind']!r}; load it with the version that wrote it")
    datasets = {"posterior": "posterior", "sample_stats": "sample_stats"} | kind.datasets
    parts: dict[str, Any] = {
        argument: tree[name].to_dataset() for argument, name in datasets.items() if name in tree.children
    }
    parts |= {name: state[name] for name in ("stats", "offset", "has_offset")}
    parts["formula"] = None if state["formula"] is None else Formula.from_json(state["formula"])
    parts["family"] = families.resolve(state["family"])
    if state.get("calibration") is not None:
        parts["calibration"] = Calibration(*map(np.array, state["calibration"]))
    return kind(**parts)


def example(seed: int = 0, seconds: float = 60.0, chains: int = 4, draws: int = 500, groups: int = 0) -> Fit:
    """A small fit made of random numbers, to try things with; with `groups`, of a model with that many of them.

    >>> example().coefficients
    ('Intercept', 'fico')
    """
    import xarray as xr

    formula, _, _ = Formula.learn("y ~ fico", {"y": [0, 1], "fico": [-1.0, 1.0]})
    rng = np.random.default_rng(seed)
    beta = rng.normal([-1.0, 0.5], 0.05, (chains, draws, 2))
    axes = {"chain": np.arange(chains), "draw": np.arange(draws)}
    stats = {
        "exact": True,
        "approximation": {},
        "method": "two-stage",
        "why": "",
        "acceptance": {"stage 1": 0.41, "stage 2": 0.93},
        "rows_per_draw": 410.0,
        "surrogate_rows_per_draw": 50.0,
        "seconds": {"compile": 0.0, "design": 0.1, "mode": 0.2, "warmup": 5.0, "sampling": seconds},
        "rows": 1_000,
        "distinct_rows": 1_000,
        "surrogate": "CaseControl(50)",
        "proposal": "random walk",
        "subchain": None,
        "seed": seed,
        "interrupted": False,
        "warnings": [],
        "doubts": [],
    }
    fit = Fit(
        posterior=xr.Dataset(
            {"beta": (("chain", "draw", "coefficient"), beta)},
            {**axes, "coefficient": list(formula.coefficients)},
        ),
        sample_stats=xr.Dataset({"lp": (("chain", "draw"), -(beta**2).sum(axis=2))}, axes),
        stats=stats,
        formula=formula,
        calibration=_calibrated(BERNOULLI.mean(np.linspace(-2.0, 0.0, 1_000)), seed),
    )
    return _with_groups(fit, rng, groups, seed) if groups else fit


def _with_groups(fit: Fit, rng: np.random.Generator, count: int, seed: int) -> Fit:
    """The example with groups of many and of few rows, whose effects shrink towards zero the more."""
    import xarray as xr

    names, sigma = [f"b{i:0{max(2, len(str(count)))}}" for i in range(1, count + 1)], 0.6
    rows = np.exp(rng.normal(4.0, 1.5, count)).astype(int) + 1
    ones = rng.binomial(rows, 1 / (1 + np.exp(1 - rng.normal(0, sigma, count))))
    with np.errstate(divide="ignore"):  # without a 1, or without a 0, a group gives no effect of its own
        alone = 1 + np.log(ones) - np.log(rows - ones)
    share = (ones + 0.5) / (rows + 1)
    variance = 1 / (rows * share * (1 - share) + sigma**-2)
    center = (1 - variance / sigma**2) * (1 + np.log(share / (1 - share)))
    chains, draws = fit.sample_stats["lp"].shape
    effects = rng.normal(center, np.sqrt(variance), (chains, draws, count))
    spread = sigma * np.exp(rng.normal(0, 0.7 / np.sqrt(count), (chains, draws)))
    drawn = {"1|bank": (("chain", "draw", "bank"), effects), "1|bank_sigma": (("chain", "draw"), spread)}
    facts = {"rows": ("bank", rows), "outcome": ("bank", ones / rows), "alone": ("bank", alone)}
    said = {"term": "1|bank", "count": count, "prior": "HalfCauchy(scale=2.5)", "said": ""}
    data = {"y": [0, 1] * count, "fico": [-1.0, 1.0] * count, "bank": np.repeat(names, 2)}
    return Fit(
        posterior=fit.posterior.assign(drawn).assign_coords(bank=names),
        sample_stats=fit.sample_stats,
        stats=fit.stats | {"rows": int(rows.sum()), "distinct_rows": int(rows.sum()), "groups": said},
        formula=Formula.learn("y ~ fico + (1 | bank)", data)[0],
        groups=xr.Dataset(facts, {"bank": names}),
        calibration=_calibrated(np.repeat(share, rows), seed),
    )


def _calibrated(chance: Array, seed: int) -> Calibration:
    """What would be seen of rows with these probabilities."""
    eta = np.log(chance / (1 - chance))
    return calibrate(sums(eta, BERNOULLI.simulate(np.random.default_rng(seed), eta), np.empty(0)), BERNOULLI)
