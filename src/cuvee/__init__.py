"""cuvee: multi-source, multi-target domain adaptation.

How much should each target learn from each source? `cuvee.estimate` answers for all targets at
once, and `cuvee.solve` delivers their models, certified.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cuvee.errors import (
    CuveeError,
    CuveeWarning,
    DomainError,
    InputError,
    MixtureError,
    OptionError,
    StatusError,
)

if TYPE_CHECKING:
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
    from cuvee.hypothesis import Logistic, Network, Poisson, Ridge
    from cuvee.learn.planner import Plan
    from cuvee.online.ledger import Ledger
    from cuvee.problem import Domain, Problem
    from cuvee.results import Candidate, Mixtures, Status, Trace
    from cuvee.solution import Certificate, Model, Solution
    from cuvee.theory import Constants, theory_steps

__version__ = "0.1.0"

_NAMES = {
    "api": "OWN ModelMap OnlineMap OnlineMixtures RiskBound certify estimate learn load_map plan "
    "risk_bound run_online sensitivity solve",
    "hypothesis": "Logistic Network Poisson Ridge",
    "learn.planner": "Plan",
    "mix": "Constraints Surface first_runs fit_surface load_surface",
    "online.ledger": "Ledger",
    "problem": "Domain Problem",
    "results": "Candidate Mixtures Status Trace",
    "run": "Options Run SavedModels adapt load_models open_run resume",
    "scale.ray": "on_ray",
    "scale.ray_targets": "estimate_on_ray solve_on_ray",
    "sklearn": "CuveeClassifier CuveeRegressor",
    "solution": "Certificate Model Solution",
    "theory": "Constants theory_steps",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Return a public name, or a module of cuvee, which is loaded when it is first asked for.

    `cuvee --help` needs no torch, and who solves needs no scikit-learn.
    """
    if name.startswith("_"):
        raise AttributeError(f"module 'cuvee' has no attribute {name!r}")
    try:
        if name not in _MODULE_OF:
            return import_module(f"cuvee.{name}")
        value = getattr(import_module(f"cuvee.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != f"cuvee.{name}":
            raise
        raise AttributeError(f"module 'cuvee' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keep `cuvee.learn` the function: loading the subpackage of that name would replace it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

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
