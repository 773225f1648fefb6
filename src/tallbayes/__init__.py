"""Exact Bayesian posteriors from millions of rows."""

from typing import Any

from tallbayes import plots
from tallbayes.data import datasets
from tallbayes.families import Bernoulli, Binomial, Poisson
from tallbayes.fit import fit, sample
from tallbayes.groups.model import Hierarchical
from tallbayes.groups.scale import HalfCauchy, HalfNormal, InverseSquare
from tallbayes.groups.thinned import Grouped
from tallbayes.models.glm import GLM
from tallbayes.models.mode import SeparationWarning, TailWarning, find_mode
from tallbayes.models.priors import Normal, StudentT
from tallbayes.results.compare import compare, compare_parameters
from tallbayes.results.fit import Fit, load
from tallbayes.sampling.consensus import Consensus, ShardError
from tallbayes.sampling.estimators import SplineProxy, TaylorProxy
from tallbayes.sampling.methods import make_kernel
from tallbayes.sampling.metropolis import Metropolis
from tallbayes.sampling.subsample import CaseControl, Stratified, Subsample
from tallbayes.sampling.subsampling import Subsampling
from tallbayes.sampling.taylor import Taylor
from tallbayes.sampling.thinned import Thinned
from tallbayes.sampling.two_stage import TwoStage
from tallbayes.splines.cells import Cells
from tallbayes.splines.model import MARS
from tallbayes.splines.result import MARSFit
from tallbayes.splines.reversible_jump import ReversibleJump

__version__ = "0.1.0"

__all__ = [
    "GLM",
    "MARS",
    "Bernoulli",
    "Binomial",
    "CaseControl",
    "Cells",
    "Consensus",
    "Fit",
    "Grouped",
    "HalfCauchy",
    "HalfNormal",
    "Hierarchical",
    "InverseSquare",
    "MARSFit",
    "Metropolis",
    "Normal",
    "Poisson",
    "ReversibleJump",
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
    "compare",
    "compare_parameters",
    "datasets",
    "find_mode",
    "fit",
    "load",
    "make_kernel",
    "plots",
    "sample",
]


def __getattr__(name: str) -> Any:
    """MARSClassifier is imported when it is asked for: it needs scikit-learn, which is optional and slow to import."""
    if name == "MARSClassifier":
        try:
            from tallbayes.splines.classifier import MARSClassifier
        except ModuleNotFoundError as error:
            raise ImportError('tb.MARSClassifier needs scikit-learn: pip install "tallbayes[sklearn]"') from error
        return MARSClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
