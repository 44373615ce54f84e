"""Choosing a data mixture: how much of each domain a large model should see.

After this page you can turn a few dozen small training runs into a proposal for a large one, with
its uncertainty and with limits that it keeps.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import BoundaryNorm

import cuvee

# %% Thirty small runs
# Three domains of text: web, code and books. Each small run trains on another mixture of them and
# reports a loss. Here the runs are made up by a known law with noise, so that the best mixture is
# known too. Real texts are in `examples/mixture_of_texts.py`.
DOMAINS = ["web", "code", "books"]
rng = np.random.default_rng(0)


def true_loss(alpha: np.ndarray) -> np.ndarray:
    """Return the loss of mixtures (n, 3): each domain helps, and less so the more there is."""
    return np.asarray(1.5 + 3.0 * np.exp(-np.sqrt(alpha) @ np.array([1.0, 0.5, 1.4])))


runs = rng.dirichlet(np.ones(3), 30)
loss = true_loss(runs) + 0.01 * rng.normal(size=30)
surface = cuvee.fit_surface(
    pd.DataFrame(runs, columns=DOMAINS), pd.DataFrame(loss, columns=["loss"])
)
print(surface)

# %% The proposal
# The budget is 100 billion tokens, and there are only 20 billion tokens of books, each of which
# may be read twice. So at most 40 % can be books, and the proposal keeps to that.
limits = cuvee.Constraints(
    tokens={"web": 500e9, "code": 100e9, "books": 20e9}, budget=100e9, repeat=2
)
free, proposal = surface.best(), surface.best(constraints=limits)
print("without limits", {name: round(share, 2) for name, share in free.weights.items()})
print(proposal)

# %% The surface
# Every point of the triangle is a mixture; a corner is one domain alone. Colour is the loss, as
# predicted from the thirty runs on the left, and as it truly is on the right. The dots are the
# runs, the cross is the best mixture, and the star is the proposal within the limits.
steps = np.linspace(0.0, 1.0, 61)
grid = np.array([(a, b, 1.0 - a - b) for a in steps for b in steps if a + b <= 1.0 + 1e-9])
grid = grid.clip(0.0)
losses = {"predicted": surface.predict(grid).mean[:, 0], "true": true_loss(grid)}
best = {"predicted": free.alpha, "true": grid[np.argmin(losses["true"])]}


def place(alpha: np.ndarray) -> np.ndarray:
    """Return where mixtures (..., 3) lie in the triangle (..., 2)."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.866]])
    return np.asarray(alpha @ corners)


figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
levels = np.quantile(losses["true"], np.linspace(0.0, 1.0, 16))  # as much area for each colour
shades = BoundaryNorm(levels, 256, extend="both")
for axes, (name, values) in zip(panels, losses.items(), strict=True):
    x, height = place(grid).T
    drawn = axes.tricontourf(x, height, values, levels, cmap="Purples", norm=shades, extend="both")
    axes.plot(*place(runs).T, ".", color="0.25", markersize=4)
    axes.plot(*place(best[name]), "x", color="#d84315", markersize=10, markeredgewidth=3)
    axes.plot(*place(proposal.alpha), "*", color="#ffb300", markersize=16, markeredgecolor="k")
    for corner, label in zip(np.eye(3), DOMAINS, strict=True):
        x, height = place(corner)
        axes.text(x, height + (0.04 if height else -0.08), label, ha="center")
    axes.set_title(f"{name} loss", loc="left")
    axes.set(aspect="equal", xlim=(-0.1, 1.1), ylim=(-0.12, 0.98))
    axes.axis("off")
figure.colorbar(drawn, ax=panels, shrink=0.8, label="loss", format="%.2f")
figure.savefig("mixture.png", dpi=110)
reached = true_loss(np.stack([proposal.alpha, free.alpha, np.full(3, 1 / 3)]))
for name, value in zip(("proposal", "without limits", "equal shares"), reached, strict=True):
    print(f"{name}: true loss {value:.3f}; that of the best mixture is {losses['true'].min():.3f}")
