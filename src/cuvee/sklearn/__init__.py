"""`CuveeClassifier`, `CuveeRegressor`: a table with a domain per row in, a model per target out,
for scikit-learn; `TargetSplit`, `TargetScorer`: what is held out of targets, and their scores.
"""

from cuvee.sklearn.any_estimator import FLOATS
from cuvee.sklearn.linear import seed_of
from cuvee.sklearn.models import CuveeClassifier, CuveeRegressor
from cuvee.sklearn.targets import TargetScorer, TargetSplit

__all__ = [
    "FLOATS",
    "CuveeClassifier",
    "CuveeRegressor",
    "TargetScorer",
    "TargetSplit",
    "seed_of",
]
