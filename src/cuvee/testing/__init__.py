"""Checks that anybody can run on their own hypothesis, α method or map.

They are like `check_estimator` of scikit-learn.

Each check is a small function named for what it holds; a failed one raises `AssertionError` with a
sentence that says what is wrong and what to do.
"""

from cuvee.testing.alpha_methods import check_alpha_method
from cuvee.testing.hypotheses import check_hypothesis
from cuvee.testing.maps import check_map

__all__ = ["check_alpha_method", "check_hypothesis", "check_map"]
