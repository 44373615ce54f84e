"""`CuveeClassifier`, `CuveeRegressor`: a table with a domain per row in, a model per target out,
for scikit-learn.
"""

from cuvee.sklearn.any_estimator import FLOATS
from cuvee.sklearn.linear import seed_of
from cuvee.sklearn.models import CuveeClassifier, CuveeRegressor

__all__ = ["FLOATS", "CuveeClassifier", "CuveeRegressor", "seed_of"]
