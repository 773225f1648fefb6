"""Exact Bayesian posteriors from millions of rows."""

from typing import Any

from tallbayes import starting  # noqa: F401  # isort: skip  # first: Ctrl-C may come while others are imported
from tallbayes import estimators, mpi, plots
from tallbayes.data import datasets
from tallbayes.data.scan import scan
from tallbayes.engines.packed import DamagedError
from tallbayes.families import Bernoulli, Binomial, Poisson
from tallbayes.families.gamma import Gamma
from tallbayes.families.gaussian import Gaussian
from tallbayes.families.negative_binomial import NegativeBinomial
from tallbayes.families.own import family
from tallbayes.fit import fit, resume
from tallbayes.gaussian.fit import GaussianFit
from tallbayes.gaussian.group_fit import GaussianGroupsFit
from tallbayes.gaussian.group_model import GaussianGroups
from tallbayes.gaussian.model import GaussianModel
from tallbayes.groups.fit import HierarchicalFit
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.scale import HalfCauchy, HalfNormal, InverseSquare
from tallbayes.models.cautions import PriorWarning, SeparationWarning, TailWarning
from tallbayes.models.glm import GLM
from tallbayes.models.mode import find_mode
from tallbayes.models.priors import Normal, StudentT
from tallbayes.own.fit import ModelFit
from tallbayes.own.model import Model
from tallbayes.own.priors import LogNormal, Uniform
from tallbayes.results.compare import compare, compare_parameters
from tallbayes.results.compare_models import compare_models
from tallbayes.results.elpd import Elpd
from tallbayes.results.file import load
from tallbayes.results.fit import Fit
from tallbayes.results.sample import sample
from tallbayes.sampling.consensus import ShardError
from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
from tallbayes.sampling.methods import MH, Auto, Consensus, Subsampling, Thinned, TwoStage
from tallbayes.sampling.past import CheckpointError
from tallbayes.sampling.subsample import CaseControl, Stratified, Subsample
from tallbayes.sampling.taylor import Taylor
from tallbayes.splines.cells import Cells
from tallbayes.splines.fit import MARSFit
from tallbayes.splines.model import MARS

__version__ = "0.1.0"

__all__ = [
    "GLM",
    "MARS",
    "MH",
    "Auto",
    "Bernoulli",
    "Binomial",
    "CaseControl",
    "Cells",
    "CheckpointError",
    "Consensus",
    "DamagedError",
    "Elpd",
    "Fit",
    "Gamma",
    "Gaussian",
    "GaussianFit",
    "GaussianGroups",
    "GaussianGroupsFit",
    "GaussianModel",
    "HalfCauchy",
    "HalfNormal",
    "Hierarchical",
    "HierarchicalFit",
    "InverseSquare",
    "LogNormal",
    "MARSFit",
    "Model",
    "ModelFit",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "PriorWarning",
    "SeparationWarning",
    "ShardError",
    "SplineProxy",
    "Stratified",
    "StudentT",
    "Subsample",
    "Subsampling",
    "TailWarning",
    "Taylor",
    "TaylorProxy",
    "Thinned",
    "TwoStage",
    "Uniform",
    "compare",
    "compare_models",
    "compare_parameters",
    "datasets",
    "family",
    "find_mode",
    "fit",
    "load",
    "mpi",
    "plots",
    "resume",
    "sample",
    "scan",
]


GONE = {
    "make_kernel": "method.kernel(model, seed=1), such as tb.TwoStage(tb.Taylor()).kernel(model, seed=1)",
    "Metropolis": "tb.MH(), a method, and its kernel tb.MH().kernel(model)",
    "Grouped": "tb.Thinned(), a method, and its kernel tb.Thinned().kernel(model)",
    "ReversibleJump": "tb.MH() or tb.TwoStage(), methods, and their kernels tb.MH().kernel(model)",
}


def __getattr__(name: str) -> Any:
    """Estimators are imported when they are asked for: they need scikit-learn."""
    if name in GONE:
        raise AttributeError(f"tb.{name} is gone; there is {GONE[name]}")
    if name in estimators.FILES:
        return estimators.estimator(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names alone."""
    return sorted([*__all__, *estimators.FILES, "__version__"])
