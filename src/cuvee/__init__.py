"""cuvee: multi-source, multi-target domain adaptation.

How much should each target learn from each source? `cuvee.estimate` answers for all targets at once, and
`cuvee.solve` delivers their models, certified.
"""

from typing import Any

from cuvee.api import (
    OWN,
    ModelMap,
    OnlineMap,
    OnlineMixtures,
    certify,
    estimate,
    learn,
    load_map,
    plan,
    run_online,
    sensitivity,
    solve,
)
from cuvee.errors import (
    CuveeError,
    CuveeWarning,
    DomainError,
    InputError,
    MixtureError,
    OptionError,
    StatusError,
)
from cuvee.hypothesis import Logistic, Network, Ridge
from cuvee.learn.planner import Plan
from cuvee.mixture.theory import Constants, theory_steps
from cuvee.online.ledger import Ledger
from cuvee.problem import Domain, Problem
from cuvee.results import Candidate, Mixtures, Status, Trace
from cuvee.solution import Certificate, Model, Solution

__version__ = "0.1.0"

_ESTIMATORS = ("CuveeClassifier", "CuveeRegressor")


def __getattr__(name: str) -> Any:
    """scikit-learn is loaded by those who ask for its estimators."""
    if name in _ESTIMATORS:
        from cuvee import sklearn

        return getattr(sklearn, name)
    raise AttributeError(f"module 'cuvee' has no attribute {name!r}")


__all__ = [
    "OWN",
    "Candidate",
    "Certificate",
    "Constants",
    "CuveeClassifier",
    "CuveeError",
    "CuveeRegressor",
    "CuveeWarning",
    "Domain",
    "DomainError",
    "InputError",
    "Ledger",
    "Logistic",
    "MixtureError",
    "Mixtures",
    "Model",
    "ModelMap",
    "Network",
    "OnlineMap",
    "OnlineMixtures",
    "OptionError",
    "Plan",
    "Problem",
    "Ridge",
    "Solution",
    "Status",
    "StatusError",
    "Trace",
    "certify",
    "estimate",
    "learn",
    "load_map",
    "plan",
    "run_online",
    "sensitivity",
    "solve",
    "theory_steps",
]
