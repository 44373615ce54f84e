"""Hypotheses: what the user writes (`Ridge`, `Logistic`, `Network`) and the `Space` it becomes on a problem."""

from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.hypothesis.logistic import Logistic
from cuvee.hypothesis.network import Network
from cuvee.hypothesis.ridge import Ridge

__all__ = ["Hypothesis", "Logistic", "Network", "Ridge", "Space"]
