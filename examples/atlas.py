"""Twenty thousand models from one learnt map, each as far to be trusted as is asked for."""

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample

sources = shifted_sources(n_sources=5, rows=300, features=8)  # or your own cuvee.Domain(name, X, y)
logistic = cuvee.Logistic(l2=1e-2)
alpha = sample(20_000, 5, seed=1)  # one mixture per customer, say

print(cuvee.plan(sources, logistic, n_targets=len(alpha), tol=1e-3))

atlas = cuvee.learn(sources, logistic, n_labels=256, tol=1e-3)
print(atlas.plan)

# predicted where the calibrated bound allows it, corrected on the data elsewhere
print(atlas(alpha))
print(atlas(alpha, trust="predicted"))  # not a single look at the data
print(atlas(alpha[:500], trust="corrected", tol=1e-6))  # proven, row by row
