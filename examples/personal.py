"""Two thousand personal models: 8 labelled rows per user, 20 groups to learn from, one estimate and
one solve.
"""

import time

import numpy as np
from sklearn.linear_model import Ridge, RidgeCV

import cuvee

rng = np.random.default_rng(0)
# of each group: what they share, and what is its own
taste = rng.normal(size=10) + rng.normal(size=(20, 10))
# a user is much like one group, or between two or three
blend = rng.dirichlet(np.full(20, 0.1), size=2_000)
personal = blend @ taste + 0.1 * rng.normal(size=(2_000, 10))


def rated(taste: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(rows, 10))
    return X, X @ taste + rng.normal(size=rows)


groups = [cuvee.Domain(f"group {j}", *rated(t, 200)) for j, t in enumerate(taste)]
users = [cuvee.Domain(f"user {i}", *rated(t, 8)) for i, t in enumerate(personal)]
problem, ridge = cuvee.Problem(groups, users), cuvee.Ridge(l2=1e-2)

began = time.process_time()
# 2,000 quick answers, not 2,000 exact ones
mix = cuvee.estimate(problem, ridge, steps=2, folds=4)
estimated = time.process_time()
sol = cuvee.solve(problem, ridge, mix)
solved = time.process_time()

even = cuvee.solve(problem, ridge, cuvee.estimate(problem, ridge, method="uniform", own=True))
pooled = Ridge().fit(
    np.vstack([d.X for d in groups + users]), np.concatenate([d.y for d in groups + users])
)
start = time.process_time()
# a loop, each with its own cross-validation
alone = [RidgeCV(np.logspace(-2, 2, 9)).fit(u.X, u.y) for u in users]
looped = time.process_time() - start

# the same 100 new rows for every user; the best possible error is the noise
X, noise = rng.normal(size=(100, 10)), 1.0


def error(w: np.ndarray, b: np.ndarray) -> np.ndarray:  # (users, 10), (users,) -> (users,)
    return ((X @ (w - personal).T + b) ** 2).mean(0) + noise


errors = {
    "one pooled model": error(np.tile(pooled.coef_, (2_000, 1)), np.full(2_000, pooled.intercept_)),
    "each user alone": error(
        np.array([m.coef_ for m in alone]), np.array([m.intercept_ for m in alone])
    ),
    "all groups and own rows, evenly": error(even.w[:, :-1], even.w[:, -1]),
    "weighed by cuvee": error(sol.w[:, :-1], sol.w[:, -1]),
}
ours = errors["weighed by cuvee"]
for name, theirs in errors.items():
    better = (
        "" if theirs is ours else f", {np.mean(ours < theirs):.0%} of users do better with cuvee"
    )
    print(f"{name}: mean squared error {theirs.mean():.2f}{better}")
print(sol.certificate)
print(
    f"CPU: estimate {estimated - began:.1f} s, solve {solved - estimated:.2f} s, loop over users "
    f"{looped:.1f} s"
)
