"""Exact Bayesian posteriors from millions of rows."""

from typing import Any

from tallbayes import datasets, plots
from tallbayes.compare import compare, compare_parameters
from tallbayes.estimators import SplineProxy, TaylorProxy
from tallbayes.families import Bernoulli, Binomial, Poisson
from tallbayes.fit import fit, sample
from tallbayes.group_scale import HalfCauchy, HalfNormal, InverseSquare
from tallbayes.kernels.consensus import Consensus, ShardError
from tallbayes.kernels.grouped import Grouped
from tallbayes.kernels.metropolis import Metropolis
from tallbayes.kernels.reversible_jump import ReversibleJump
from tallbayes.kernels.subsampling import Subsampling
from tallbayes.kernels.thinned import Thinned
from tallbayes.kernels.two_stage import TwoStage
from tallbayes.methods import make_kernel
from tallbayes.mode import SeparationWarning, TailWarning, find_mode
from tallbayes.models.glm import GLM
from tallbayes.models.hierarchical import Hierarchical
from tallbayes.models.mars import MARS
from tallbayes.priors import Normal, StudentT
from tallbayes.result import Fit, load
from tallbayes.spline_result import MARSFit
from tallbayes.surrogates.cells import Cells
from tallbayes.surrogates.subsample import CaseControl, Stratified, Subsample
from tallbayes.surrogates.taylor import Taylor

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
            from tallbayes.classifier import MARSClassifier
        except ModuleNotFoundError as error:
            raise ImportError('tb.MARSClassifier needs scikit-learn: pip install "tallbayes[sklearn]"') from error
        return MARSClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
