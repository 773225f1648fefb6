"""Fit: what sampling leaves behind. Draws, the story of the run, and enough of the model to predict; no rows.

A saved fit is one netCDF file: groups posterior and sample_stats, and all the rest as JSON in an attribute.
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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallbayes import diagnostics, families
from tallbayes.data import check, read
from tallbayes.diagnostics import Diagnostics
from tallbayes.families import Bernoulli, Family, Poisson
from tallbayes.formula import Formula

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Array = NDArray[np.float64]

FORMAT_VERSION = 1
ATTRIBUTE = "tallbayes"
INDENT, WIDTH = 13, 110  # of the story that a printed fit tells
PREDICTED_AT_ONCE = 2**20  # linear predictors held in memory: 8 MB of them
BERNOULLI = Bernoulli()
METHODS = {
    "mh": "Metropolis-Hastings",
    "two-stage": "two-stage Metropolis-Hastings",
    "thinned": "two-stage Metropolis-Hastings with a thinned second stage",
}


class Fit:
    """A posterior sample of one model.

    `posterior` holds `beta` (chain, draw, coefficient), `sample_stats` the log posterior `lp` (chain, draw).
    `stats` says how the run went: seconds by phase, acceptance by stage, rows touched per draw, exact or not.

    >>> fit = example()
    >>> fit.posterior["beta"].dims
    ('chain', 'draw', 'coefficient')
    >>> fit.summary()["mean"].round(1).to_dict()
    {'Intercept': -1.0, 'fico': 0.5}
    """

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

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(str(name) for name in self.posterior["coefficient"].values)

    @property
    def draws(self) -> Array:
        """The coefficients as an array of shape (chain, draw, coefficient)."""
        return np.asarray(self.posterior["beta"].transpose("chain", "draw", "coefficient").values)

    @property
    def minutes(self) -> float:
        """Minutes of sampling, without set-up and warm-up."""
        return float(self.stats["seconds"]["sampling"]) / 60

    @functools.cached_property
    def _diagnostics(self) -> Diagnostics:
        return diagnostics.diagnose(self.draws)

    def summary(self) -> pd.DataFrame:
        """One line per coefficient: posterior mean, sd and 94% interval, and how far to trust them.

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
        return pd.DataFrame(columns, index=pd.Index(self.coefficients))

    def edpm(self, thin: int = 1, setup: bool = False) -> pd.Series[float]:
        """Effective draws per minute of sampling; with `setup`, of everything before it as well.

        >>> fit = example()
        >>> bool((fit.edpm() > fit.edpm(setup=True)).all())
        True
        """
        import pandas as pd

        minutes = sum(self.stats["seconds"].values()) / 60 if setup else self.minutes
        values = diagnostics.edpm(self.draws, minutes, thin)
        return pd.Series(values, index=pd.Index(self.coefficients), name="edpm")

    def problems(self) -> list[str]:
        """What speaks against the draws, a sentence each; nothing if all is well.

        >>> example().problems()
        []
        """
        return diagnostics.problems(self.draws, self.coefficients, self._diagnostics)

    @property
    def converged(self) -> bool:
        """Whether no diagnostic speaks against the draws."""
        return not self.problems()

    def predict(
        self,
        new_data: Any,
        offset: ArrayLike | None = None,
        draws: int = 300,
        interval: float = 0.94,
    ) -> pd.DataFrame:
        """Posterior mean and interval of each row's expected outcome, from evenly spaced draws.

        That is a probability, for counts of successes their expected share, and for Poisson counts the expected count
        at the exposure that `new_data` has.
        An offset that was a column of the data is read from `new_data`. Where the model was fitted with an
        array of offsets, give `offset`: one number per row, or one for all.

        >>> example().predict({"fico": [-1.0, 1.0]}).round(1)
           mean  eti94_lb  eti94_ub
        0   0.2       0.2       0.2
        1   0.4       0.3       0.4
        """
        import pandas as pd

        if self.formula is None:
            raise ValueError("this fit has no formula, so it cannot predict; use fit.posterior['beta'] yourself")
        if draws < 1:
            raise ValueError(f"draws must be 1 or more, got {draws}")
        if not 0 < interval < 1:
            raise ValueError(f"interval must lie between 0 and 1, got {interval}")
        X = self.formula.apply(new_data)
        added = self._offset(new_data, offset, X.shape[1])
        mean = self.family.mean
        every = self.draws.reshape(-1, len(X))
        beta = every[np.linspace(0, len(every) - 1, min(draws, len(every))).round().astype(int)]
        place = np.array([[1 - interval], [1 + interval]]) / 2 * (len(beta) - 1)  # among sorted draws
        below, above, share = np.floor(place[:, 0]).astype(int), np.ceil(place[:, 0]).astype(int), place % 1
        result = np.empty((3, X.shape[1]))
        step = max(1, PREDICTED_AT_ONCE // len(beta))
        for start in range(0, X.shape[1], step):
            rows = slice(start, start + step)
            expected = mean(X[:, rows].T @ beta.T + added[rows, None])
            result[0, rows] = expected.mean(axis=1)
            expected.sort(axis=1)  # vectorised, so twice as fast as the partition inside np.quantile
            result[1:, rows] = (1 - share) * expected.T[below] + share * expected.T[above]
        names = ["mean", f"eti{100 * interval:g}_lb", f"eti{100 * interval:g}_ub"]
        index = new_data.index if isinstance(new_data, pd.DataFrame) else None
        return pd.DataFrame(dict(zip(names, result, strict=True)), index=index)

    def _offset(self, new_data: Any, offset: ArrayLike | None, rows: int) -> Array:
        if offset is None and self.offset is not None:
            frame = read(new_data, [self.offset])
            check(frame)
            offset = frame[self.offset].to_numpy()
        if offset is None and self.has_offset:
            raise ValueError(
                "the model was fitted with an array of offsets, so predict needs one for the new rows: "
                "predict(new_data, offset=...), where offset=0 means none"
            )
        if offset is not None and not self.has_offset:
            raise ValueError("the model was fitted without an offset, so predict takes none")
        try:
            added = np.asarray(0.0 if offset is None else offset, dtype=float)
        except (TypeError, ValueError):
            raise ValueError("offset must be numbers: one per row, or one for all") from None
        if added.ndim and added.shape != (rows,):
            raise ValueError(f"offset has shape {added.shape}, but the data has {rows} rows")
        if not np.isfinite(added).all():
            raise ValueError("offset has missing or infinite values; give a number for every row")
        if isinstance(self.family, Poisson) and self.family.exposure is not None:
            frame = read(new_data, [self.family.exposure])
            check(frame)
            try:
                exposure = frame[self.family.exposure].to_numpy(dtype=float)
            except (TypeError, ValueError):
                raise ValueError(f"exposure {self.family.exposure!r} must be numbers") from None
            added = added + self.family.log_exposure(exposure)
        return np.broadcast_to(added, rows)

    def to_arviz(self) -> xr.DataTree:
        """The draws as arviz wants them: a DataTree of the groups posterior and sample_stats.

        >>> list(example().to_arviz().children)
        ['posterior', 'sample_stats']
        """
        import xarray as xr

        root = xr.Dataset(attrs=self.posterior.attrs)
        return xr.DataTree.from_dict({"/": root, "posterior": self.posterior, "sample_stats": self.sample_stats})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one netCDF file, replacing an older one only when the new one is complete.

        >>> with tempfile.TemporaryDirectory() as folder:
        ...     example().save(f"{folder}/fit.nc")
        ...     load(f"{folder}/fit.nc").coefficients
        ('Intercept', 'fico')
        """
        check_writable(path)
        tree, path = self.to_arviz(), Path(path)
        state = {
            "format": FORMAT_VERSION,
            "stats": self.stats,
            "formula": None if self.formula is None else self.formula.to_json(),
            "family": families.to_json(self.family),
            "offset": self.offset,
            "has_offset": self.has_offset,
        }
        tree.attrs[ATTRIBUTE] = json.dumps(state, default=lambda number: number.item())
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            tree.to_netcdf(partial, engine="h5netcdf")
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"{self._story()}\n\n{self._rounded().to_string()}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._story())}</pre>\n{self._rounded().to_html()}"

    def _rounded(self) -> pd.DataFrame:
        return self.summary().map(lambda value: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")

    def _story(self) -> str:
        """How the run went, in a few lines."""
        stats, (chains, draws, _) = self.stats, self.draws.shape
        rows = f"{few(stats['rows_per_draw'])} touched per draw, of {stats['rows']:,}"
        if stats["distinct_rows"] != stats["rows"]:
            rows += f" ({stats['distinct_rows']:,} distinct)"
        if stats["surrogate_rows_per_draw"]:
            rows += f", and {few(stats['surrogate_rows_per_draw'])} of the surrogate"
        method = METHODS.get(stats["method"], stats["method"])
        story = {
            "method": [f"{method}, {'exact' if stats['exact'] else 'approximate'}"],
            "chosen": [f"because {stats['why']}"] if stats["why"] else [],
            "draws": [
                f"{chains} chain{'s' if chains > 1 else ''} x {draws:,}"
                + (", interrupted" if stats["interrupted"] else "")
            ],
            "acceptance": [", ".join(f"{stage} {share:.3f}" for stage, share in stats["acceptance"].items())],
            "rows": [rows],
            "seconds": [", ".join(f"{phase} {time:.2f}" for phase, time in stats["seconds"].items())],
            "convergence": self.problems() or ["nothing speaks against it"],
            "warnings": stats["warnings"],
        }
        return "\n".join(_entry(title, sentences) for title, sentences in story.items() if any(sentences))


def _entry(title: str, sentences: list[str]) -> str:
    """A title and what there is to say about it, each sentence on lines of its own."""
    wrap = textwrap.TextWrapper(WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    lines = [line for sentence in sentences for line in wrap.wrap(sentence)]
    return f"{title:<{INDENT}}" + ("\n" + " " * INDENT).join(lines)


def few(rows: float) -> str:
    """A number of rows per draw; with thinning it is often below one."""
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"


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
    return Fit(
        posterior=tree["posterior"].to_dataset(),
        sample_stats=tree["sample_stats"].to_dataset(),
        stats=state["stats"],
        formula=None if state["formula"] is None else Formula.from_json(state["formula"]),
        family=families.resolve(state["family"]),
        offset=state["offset"],
        has_offset=state["has_offset"],
    )


def example(seed: int = 0, seconds: float = 60.0, chains: int = 4, draws: int = 500) -> Fit:
    """A small fit made of random numbers, to try things with.

    >>> example().coefficients
    ('Intercept', 'fico')
    """
    import xarray as xr

    formula, _, _ = Formula.learn("y ~ fico", {"y": [0, 1], "fico": [-1.0, 1.0]})
    beta = np.random.default_rng(seed).normal([-1.0, 0.5], 0.05, (chains, draws, 2))
    axes = {"chain": np.arange(chains), "draw": np.arange(draws)}
    stats = {
        "exact": True,
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
    }
    return Fit(
        posterior=xr.Dataset(
            {"beta": (("chain", "draw", "coefficient"), beta)},
            {**axes, "coefficient": list(formula.coefficients)},
        ),
        sample_stats=xr.Dataset({"lp": (("chain", "draw"), -(beta**2).sum(axis=2))}, axes),
        stats=stats,
        formula=formula,
    )
