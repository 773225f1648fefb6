"""Fit: what sampling leaves behind, and all that can be asked of it.

`posterior.py` has what it is made of, `of_parameters.py` and `of_rows.py` what is asked of parameters and of rows.
`file.py` says how one is saved, `story.py` how the run is told, `example.py` has one to try things with.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from tallbayes.data.options import check_kind
from tallbayes.models.priors import rounded
from tallbayes.results.of_parameters import OfParameters
from tallbayes.results.of_rows import OfRows
from tallbayes.results.story import enumerated, facts, story
from tallbayes.sampling import diagnostics

if TYPE_CHECKING:
    import pandas as pd


class Fit(OfParameters, OfRows):
    """A posterior sample of one model.

    `posterior` holds `beta` (chain, draw, coefficient), `sample_stats` the log posterior `lp` (chain, draw) where the
    sampler knows it. `stats` says how the run went: seconds by phase, acceptance by stage, rows touched per draw,
    exact or not. `prior` has the prior of each parameter in words, by name. `fit["fico"]` are the draws (chain, draw)
    of one parameter.

    Fits with a group term (`tb.HierarchicalFit`) and of splines (`tb.MARSFit`) have more.

    >>> from tallbayes.results.example import example
    >>> fit = example()
    >>> fit.posterior["beta"].dims
    ('chain', 'draw', 'coefficient')
    >>> fit.summary()["mean"].round(1).to_dict()
    {'Intercept': -1.0, 'fico': 0.5}
    """

    kinds: ClassVar[dict[str, type[Fit]]] = {}  # of fits, by the name that a file has for them

    def __init_subclass__(cls) -> None:
        Fit.kinds[cls.kind] = cls

    @property
    def _model(self) -> str:
        """What was fitted, in two words."""
        return f"{self.family.title[:1].upper()}{self.family.title[1:]} regression"

    @property
    def _title(self) -> str:
        """The formula, or what the outcome was regressed on."""
        return self.formula.text if self.formula is not None else f"Regression on {enumerated(self.coefficients)}"

    def problems(self) -> list[str]:
        """Problems with the draws and priors that conflict with the data, one sentence each; empty if all is well.

        A prior is named if it moves a coefficient by more than half a standard error from what the data alone say. The
        draws are still right for that prior.

        >>> from tallbayes.results.example import example
        >>> example().problems()
        []
        """
        return [*self._problems(), *self.stats["pulled"]]

    def _problems(self) -> list[str]:
        """What is wrong with the draws."""
        found = self._diagnostics
        said = diagnostics.problems(self._draws, self.parameters, found)
        if said and (budget := self.stats.get("budget")):
            made = self.posterior.sizes["draw"], self.posterior.sizes["chain"]
            said.append(diagnostics.cut_short(found, self.parameters, *made, budget))
        return [*self.stats["doubts"], *said]

    @property
    def converged(self) -> bool:
        """Whether no diagnostic finds a problem with the draws.

        Diagnostics compare chains with each other. With an approximate method (`stats["exact"]` is False) they may
        agree and still all be off. There this means "mixed", which is what printed fits and reports say.

        >>> from tallbayes.results.example import example
        >>> fit = example()
        >>> fit.stats["exact"], fit.converged
        (True, True)
        """
        return not self._problems()

    def more(
        self, draws: int | None = None, target_ess: float | None = None, *, progress: bool = True, **again: Any
    ) -> Fit:
        """Another fit that continues this one: with so many more `draws` per chain, or until all have `target_ess`.

        The draws are those of one longer run, bit for bit. The data are read once more, and set-up and warm-up are done
        again; with a checkpoint they go on in its folder, and warm-up is not done again. A fit that was loaded needs
        whatever its file does not hold: data that were not a file, as in `more(draws=1_000, data=frame)`; weights and
        offsets that were arrays; functions of yours; an `engine`; the `model` of `tb.sample`.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=100, seed=1, progress=False)
        >>> longer = fit.more(draws=50, progress=False)
        >>> longer.draws.shape, bool((longer.draws[:, :100] == fit.draws).all())
        ((4, 150, 2), True)
        """
        from tallbayes.results.more import go_on

        return go_on(self, draws, target_ess, again, progress)

    def update(self, formula: str = "~ .", **changes: Any) -> Fit:
        """Another fit, made like this one except for its formula and the arguments that are given.

        A '.' stands for the old left or right side, `- x` takes a term away, and the left side may be omitted. A group
        term or offset() is removed as a whole, as in "~ . - (1 | bank)"; a spline s(...) can only be replaced. All
        other arguments of `tb.fit`, the seed included, are those of this fit, except `checkpoint`: the new fit has none
        unless one is given. A fit that was loaded or copied needs whatever its file does not hold, such as `data` that
        were not a file.

        >>> import tallbayes as tb
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "z": [1.0, 0.0, 0.0, 1.0], "y": [0, 1, 0, 1]}
        >>> fit = tb.fit("y ~ x", data, draws=100, seed=1, progress=False)
        >>> fit.update("~ . + z", prior=tb.Normal(0, 1), progress=False).parameters
        ('Intercept', 'x', 'z')
        """
        from tallbayes.results.update import update

        return update(self, formula, changes)

    def calibration(self) -> pd.DataFrame:
        """Predictions against outcomes: the rows that were fitted, sorted by their prediction into bins, one line each.

        `predicted` is at the posterior mean of the parameters. If the model holds, 94% of the bins have `observed`
        between `lower` and `upper`.

        >>> from tallbayes.results.example import example
        >>> list(example().calibration())
        ['rows', 'predicted', 'observed', 'lower', 'upper']
        """
        import pandas as pd

        if self._calibration is None:
            raise ValueError("this fit was saved by a version that did not look at outcomes; fit again to see them")
        return pd.DataFrame(self._calibration._asdict()).rename_axis("bin")

    def to_arviz(self) -> Any:
        """The draws for ArviZ: posterior, sample_stats and whatever else this kind of fit has.

        That is an xarray DataTree, which ArviZ reads from version 1 on, or an InferenceData if the ArviZ that is
        installed is older.

        >>> from tallbayes.results.example import example
        >>> "posterior" in example().to_arviz()
        True
        """
        from tallbayes.results.arviz import to_arviz

        return to_arviz(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one netCDF file, replacing an older one only when the new one is complete.

        >>> import tallbayes as tb
        >>> from tallbayes.results.example import example
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     example().save(f"{folder}/fit.nc")
        ...     tb.load(f"{folder}/fit.nc").coefficients
        ('Intercept', 'fico')
        """
        from tallbayes.results.file import save

        save(self, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one page of HTML that needs nothing else: what was fitted, whether to trust it, and what came out.

        >>> from tallbayes.results.example import example
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     example().report(f"{folder}/fit.html")
        ...     "Did it converge?" in Path(folder, "fit.html").read_text()
        True
        """
        from tallbayes.results.report import report

        report(self, path)

    def _check(self) -> None:
        """Raise ValueError if what a file has of it does not fit together."""

    def _effects(self) -> list[str]:
        """Sections of the report on what was fitted besides coefficients."""
        return []

    def _explained(self) -> dict[str, str]:
        """What parameters are, by name, where their names do not say it."""
        return {}

    def _told(self) -> dict[str, str]:
        """What rows say, for the report: the family and its options, and what counts as 1."""
        given = [f"{key} {value}" for key, value in self.family.described().items() if value is not None]
        family = self.family.title + (f" ({', '.join(given)})" if given else "")
        return {"outcome": "; ".join(filter(None, [family, self.stats.get("outcome", "")]))}

    @property
    def calibrated(self) -> bool:
        """Whether predictions were compared with outcomes."""
        return self._calibration is not None

    def _advice(self) -> list[str]:
        """What may help chains of this kind to converge."""
        if self.stats["method"] not in ("mh", "two-stage"):
            return []
        return ['Let the package choose: method="auto" proposes moves that fit the shape of the posterior.']

    def __repr__(self) -> str:
        return "\n".join([f"{self._story()}\n", self._rounded().to_string(), *self._left_out()])

    def _repr_html_(self) -> str:
        from tallbayes.results.notebook import block

        return block(self)

    @property
    def _shown(self) -> int:
        """Lines of the summary in a printed fit."""
        return len(self.parameters)

    def _rounded(self) -> pd.DataFrame:
        """The summary as text."""
        table = self.summary().iloc[: self._shown].map(rounded)
        if self.prior:
            table["prior"] = [self.prior.get(str(name), "") for name in table.index]
        return table

    def _left_out(self) -> list[str]:
        """A line about what `_rounded` does not show; none if it shows all."""
        return []

    def _story(self) -> str:
        """How the run went, in a few lines."""
        return story(self._facts())

    def _facts(self) -> dict[str, list[str]]:
        """How the run went: titles, and sentences to each."""
        return facts(self.stats, self.posterior.sizes["chain"], self.posterior.sizes["draw"], self._problems())


def check_fit(name: str, fit: object) -> None:
    """Refuse what is not a fit."""
    check_kind(name, fit, Fit, "a fit, as tb.fit, tb.sample and tb.load return them")


Fit.kinds[Fit.kind] = Fit
