"""What the paper's theorems promise for three sources and a target, in numbers."""

import numpy as np

import cuvee
from cuvee import theory
from cuvee.data.synthetic import shifted_sources

*sources, target = shifted_sources(4, 200, 3, seed=1, quantity=True)
problem = cuvee.Problem(sources, [cuvee.Domain("target", target.X[:60], target.y[:60])])
ridge = cuvee.Ridge(l2=0.1, intercept=False)

bound = cuvee.risk_bound(problem, ridge, [[1 / 3, 1 / 3, 1 / 3]]).printed
terms = [float(term[0]) for term in (bound.discrepancy, bound.complexity, bound.sampling)]
print("Theorem 1: {:.2f} + {:.2f} + {:.2f} more than the best model loses".format(*terms))

k = theory.minimax_constants(problem, ridge, C=10.0, c=1e-3)
B_g, F_max = k.largest_values(theory.row_constants(problem, ridge).largest_loss)
needs = theory.stationarity_needs(k, eps=0.1, B_g=B_g, F_max=F_max)
print(f"Theorem 2: a gap of 0.1 after {needs.T:.0e} steps with {needs.B:.0e} rows each")

alpha = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 1_000))
w = cuvee.solve(sources, ridge, np.concatenate([*alpha, np.eye(3)])).w
f = theory.risk_constants(sources, ridge, w=w)
moved = np.linalg.norm(w[:1_000] - w[1_000:2_000], axis=1)
ratio = (moved / np.linalg.norm(alpha[0] - alpha[1], axis=1)).max()
print(f"Lemma 1: w* moves by {ratio:.1f} for a unit of α, and κ* allows {f.kappa_star:.0f}")

geometry = {"kappa_star": f.kappa_star, "kappa": f.kappa, "D": f.D}
offline = theory.offline_needs(0.01, n_params=3, n_sources=3, **geometry)
print(f"Theorem 3: an error of 0.01 from {offline.n:.0e} labels with {offline.width:.0e} units")

online = theory.label_needs(0.1, n_sources=3, **geometry)
print(f"Theorem 4: an average loss of 0.1 after {online.T:.0e} rounds, {online.p:.1%} labelled")
