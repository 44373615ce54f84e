"""A hundred personal models: one for each user, from eight rows each.

After this page you can make a model for each of many users with one call, and see which users gain
from it and which do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator
from sklearn.linear_model import Ridge, RidgeCV

import cuvee

# %% Groups and users
# Twenty groups have 200 rated items each. A hundred users have rated eight items each; a user's
# taste is much like that of one group, or between two or three of them. The data are made up.
rng = np.random.default_rng(0)
COLUMNS, GROUPS, USERS = 10, 20, 100
tastes = rng.normal(size=COLUMNS) + rng.normal(size=(GROUPS, COLUMNS))
personal = rng.dirichlet(np.full(GROUPS, 0.1), size=USERS) @ tastes  # (users, columns)
personal += 0.1 * rng.normal(size=personal.shape)


def rated(taste: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return items and their ratings: taste and noise of size 1."""
    X = rng.normal(size=(rows, COLUMNS))
    return X, X @ taste + rng.normal(size=rows)


groups = [cuvee.Domain(f"group {j}", *rated(taste, 200)) for j, taste in enumerate(tastes)]
users = [cuvee.Domain(f"user {i}", *rated(taste, 8)) for i, taste in enumerate(personal)]

# %% One estimate, one solve
# All hundred recipes are found together, and all hundred models are solved together. The last
# line is the certificate: how far the models are from the best ones for their recipes.
problem, ridge = cuvee.Problem(groups, users), cuvee.Ridge(l2=1e-2)
mix = cuvee.estimate(problem, ridge, folds=4)
solution = cuvee.solve(problem, ridge, mix)
print(solution.certificate)

# %% Who gains
# The error of a model on new items is known exactly here, as tastes are known; the noise alone is
# 1. A point is a user. Below the diagonal, the personal blend is better than the other model.
pooled = Ridge().fit(
    np.vstack([d.X for d in groups + users]), np.concatenate([d.y for d in groups + users])
)
alone = [RidgeCV(np.logspace(-2, 2, 9)).fit(user.X, user.y) for user in users]


def error(w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the expected squared error of each user's model (users,)."""
    return ((w - personal) ** 2).sum(1) + b**2 + 1.0


errors = {
    "one pooled model": error(np.tile(pooled.coef_, (USERS, 1)), np.full(USERS, pooled.intercept_)),
    "each user's own rows": error(
        np.array([model.coef_ for model in alone]), np.array([model.intercept_ for model in alone])
    ),
}
ours = error(solution.w[:, :-1], solution.w[:, -1])
figure, panels = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", sharey=True)
for axes, (name, theirs) in zip(panels, errors.items(), strict=True):
    axes.plot([1, 40], [1, 40], color="0.6", linewidth=1)
    axes.plot(theirs, ours, "o", color="#4527a0", alpha=0.6, markersize=5)
    axes.set(xscale="log", yscale="log", xlabel=f"squared error of {name}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 40]))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.set_title(f"{np.mean(ours < theirs):.0%} of users gain", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("squared error of cuvee's blend")
figure.savefig("personal.png", dpi=110)
for name, theirs in {**errors, "cuvee": ours}.items():
    print(f"{name}: mean squared error {theirs.mean():.2f}")
