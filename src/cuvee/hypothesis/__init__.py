"""Hypotheses: what users write (`Ridge`, `Logistic`, `Poisson`, `Network`) and the `Space` each
becomes.
"""

from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.hypothesis.logistic import Logistic
from cuvee.hypothesis.network import Network
from cuvee.hypothesis.poisson import Poisson
from cuvee.hypothesis.ridge import Ridge

__all__ = ["Hypothesis", "Logistic", "Network", "Poisson", "Ridge", "Space"]
