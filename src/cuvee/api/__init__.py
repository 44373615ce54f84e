"""The public functions, thin: validate once, put the pieces together, hand back one result type."""

from cuvee.api.maps import learn, load_map
from cuvee.api.mixtures import estimate
from cuvee.api.model_map import ModelMap
from cuvee.api.models import certify, sensitivity, solve
from cuvee.api.online import OnlineMap
from cuvee.api.online_mixtures import OnlineMixtures
from cuvee.api.planning import plan
from cuvee.api.risk import RiskBound, risk_bound
from cuvee.api.streams import run_online
from cuvee.results import OWN

__all__ = [
    "OWN",
    "ModelMap",
    "OnlineMap",
    "OnlineMixtures",
    "RiskBound",
    "certify",
    "estimate",
    "learn",
    "load_map",
    "plan",
    "risk_bound",
    "run_online",
    "sensitivity",
    "solve",
]
