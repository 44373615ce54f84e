"""How much should a new clinic learn from three others, and what does its model say? The example
of docs/idea.md.
"""

import numpy as np

import cuvee

rng = np.random.default_rng(0)


def clinic(name: str, effect: float, rows: int) -> cuvee.Domain:
    X = rng.normal(size=(rows, 4))
    return cuvee.Domain(name, X, X @ [1.0, -1.0, 0.5, effect] + 0.5 * rng.normal(size=rows) > 0)


problem = cuvee.Problem(
    sources=[clinic("north", 2.0, 200), clinic("east", 1.5, 200), clinic("south", -3.0, 200)],
    targets=[clinic("new", 2.0, 20)],
)
logistic = cuvee.Logistic(l2=1e-2)
mix = cuvee.estimate(problem, logistic)
print(mix)

sol = cuvee.solve(problem, logistic, mix)
print(sol)
unseen = clinic("new", 2.0, 1000)
print(f"right on {np.mean(sol.models[0].predict(unseen.X) == unseen.y):.1%} of 1,000 new patients")
