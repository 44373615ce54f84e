"""cuvee: multi-source, multi-target domain adaptation.

How much should each target learn from each source? `cuvee.estimate` answers for all targets at once.
"""

from cuvee.api import OWN, estimate
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
from cuvee.mixture.theory import Constants, theory_steps
from cuvee.problem import Domain, Problem
from cuvee.results import Candidate, Mixtures, Status, Trace

__version__ = "0.1.0"

__all__ = [
    "OWN",
    "Candidate",
    "Constants",
    "CuveeError",
    "CuveeWarning",
    "Domain",
    "DomainError",
    "InputError",
    "Logistic",
    "MixtureError",
    "Mixtures",
    "Network",
    "OptionError",
    "Problem",
    "Ridge",
    "Status",
    "StatusError",
    "Trace",
    "estimate",
    "theory_steps",
]
