"""Find the best data mixture for a training run from a few small ones."""

from cuvee.mix.constraints import Constraints, InfeasibleError
from cuvee.mix.design import Plan, first_runs
from cuvee.mix.files import load_surface
from cuvee.mix.fit import fit_surface
from cuvee.mix.front import Front
from cuvee.mix.prediction import Prediction, Sensitivity
from cuvee.mix.proposal import Proposal
from cuvee.mix.surface import Surface

__all__ = [
    "Constraints",
    "Front",
    "InfeasibleError",
    "Plan",
    "Prediction",
    "Proposal",
    "Sensitivity",
    "Surface",
    "first_runs",
    "fit_surface",
    "load_surface",
]
