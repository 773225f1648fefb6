"""Estimators of scikit-learn, which is optional and slow to import: it is only needed once one is asked for."""

from importlib import import_module
from typing import Any

FILES = {"BayesLinear": "linear", "BayesLogistic": "logistic", "BayesPoisson": "poisson", "MARSClassifier": "mars"}


def estimator(name: str) -> Any:
    """The class of this name.

    >>> estimator("BayesLogistic")()
    BayesLogistic()
    """
    try:
        return getattr(import_module(f"{__name__}.{FILES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"tb.{name} needs scikit-learn: pip install scikit-learn") from error
