"""cuvee: multi-source, multi-target domain adaptation.

How much should each target learn from each source? `cuvee.estimate` answers for all targets at
once, and `cuvee.solve` delivers their models, certified.
"""

from importlib import import_module
from typing import Any

from cuvee.api import (
    OWN,
    ModelMap,
    OnlineMap,
    OnlineMixtures,
    RiskBound,
    certify,
    estimate,
    learn,
    load_map,
    plan,
    risk_bound,
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
from cuvee.hypothesis import Logistic, Network, Poisson, Ridge
from cuvee.learn.planner import Plan
from cuvee.online.ledger import Ledger
from cuvee.problem import Domain, Problem
from cuvee.results import Candidate, Mixtures, Status, Trace
from cuvee.solution import Certificate, Model, Solution
from cuvee.theory import Constants, theory_steps

__version__ = "0.1.0"

_LATER = {"CuveeClassifier": "sklearn", "CuveeRegressor": "sklearn", "Options": "run", "Run": "run"}
_LATER |= {"adapt": "run", "open_run": "run", "resume": "run"}
_LATER |= {"SavedModels": "run", "load_models": "run"}
_LATER |= {"Constraints": "mix", "Surface": "mix", "first_runs": "mix", "fit_surface": "mix"}
_LATER |= {"load_surface": "mix", "on_ray": "scale.ray"}
_LATER |= {"estimate_on_ray": "scale.ray_targets", "solve_on_ray": "scale.ray_targets"}


def __getattr__(name: str) -> Any:
    """Return a public name whose module is imported only when it is asked for.

    scikit-learn, pandas and the like are loaded by those who ask for what needs them.
    """
    if name in _LATER:
        return getattr(import_module(f"cuvee.{_LATER[name]}"), name)
    raise AttributeError(f"module 'cuvee' has no attribute {name!r}")


__all__ = [
    "OWN",
    "Candidate",
    "Certificate",
    "Constants",
    "Constraints",
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
    "Options",
    "Plan",
    "Poisson",
    "Problem",
    "Ridge",
    "RiskBound",
    "Run",
    "SavedModels",
    "Solution",
    "Status",
    "StatusError",
    "Surface",
    "Trace",
    "adapt",
    "certify",
    "estimate",
    "estimate_on_ray",
    "first_runs",
    "fit_surface",
    "learn",
    "load_map",
    "load_models",
    "load_surface",
    "on_ray",
    "open_run",
    "plan",
    "resume",
    "risk_bound",
    "run_online",
    "sensitivity",
    "solve",
    "solve_on_ray",
    "theory_steps",
]
