"""How much should a new clinic learn from three others? The README's example."""

import numpy as np

import cuvee

rng = np.random.default_rng(0)


def clinic(name: str, drift: float, rows: int) -> cuvee.Domain:
    X = rng.normal(size=(rows, 4))
    return cuvee.Domain(name, X, X @ [1.0, -1.0, 0.5, drift] + rng.normal(size=rows) > 0)


problem = cuvee.Problem(
    sources=[clinic("north", 0.1, 200), clinic("east", 0.2, 200), clinic("south", -3.0, 200)],
    targets=[clinic("new", 0.0, 20)],
)
mix = cuvee.estimate(problem, cuvee.Logistic(l2=1e-2))
print(mix)
