"""Compute the theorems' numbers from measured constants, for the data in hand.

One file per theorem. Every function says which theorem it is, takes plain numbers and returns a
small result whose fields are the terms of the formula, so that they can be printed. The constants
that the formulas need (G_f, L_f, μ_f, κ*, Rademacher complexities) are measured from sources and a
hypothesis. docs/theory.md shows them at work.

O(·), Ω(·) and Θ(·) are read with the constant 1 where neither the paper nor its proof has another
one: such numbers say how something grows; they do not guarantee anything.
"""

from cuvee.components import RowConstants
from cuvee.theory.multi_source import LearningBound, multi_source_bound, sample_bound
from cuvee.theory.offline import (
    OfflineNeeds,
    labels_exponent,
    learning_pays_from,
    lipschitz_constant,
    offline_exponent,
    offline_needs,
    offline_risk,
)
from cuvee.theory.online import (
    LabelNeeds,
    RegretBound,
    label_needs,
    online_exponent,
    packing_constant,
    printed_label_complexity,
    regret_bound,
)
from cuvee.theory.risk_constants import RiskConstants, risk_constants
from cuvee.theory.row_constants import minimax_constants, rademacher, row_constants
from cuvee.theory.stationarity import (
    Constants,
    StationarityBound,
    StationarityNeeds,
    TheorySteps,
    stationarity_bound,
    stationarity_needs,
    theory_steps,
)

__all__ = [
    "Constants",
    "LabelNeeds",
    "LearningBound",
    "OfflineNeeds",
    "RegretBound",
    "RiskConstants",
    "RowConstants",
    "StationarityBound",
    "StationarityNeeds",
    "TheorySteps",
    "label_needs",
    "labels_exponent",
    "learning_pays_from",
    "lipschitz_constant",
    "minimax_constants",
    "multi_source_bound",
    "offline_exponent",
    "offline_needs",
    "offline_risk",
    "online_exponent",
    "packing_constant",
    "printed_label_complexity",
    "rademacher",
    "regret_bound",
    "risk_constants",
    "row_constants",
    "sample_bound",
    "stationarity_bound",
    "stationarity_needs",
    "theory_steps",
]
