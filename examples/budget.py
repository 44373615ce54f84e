"""A data mixture for a fixed budget: 600 rows may be bought from twelve vendors, and 30 rows say
what they are for.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import cuvee

VENDORS, BUDGET, TARGETS, FEATURES = 12, 600, 6, 10


def rows(rng: np.random.Generator, rule: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, FEATURES))
    return X, rng.random(n) < 1 / (1 + np.exp(-X @ rule))


def bought(share: np.ndarray) -> np.ndarray:
    """(vendors,) whole rows that add up to the budget."""
    cut = np.round(BUDGET * np.cumsum(share / share.sum())).astype(int)
    return np.diff(cut, prepend=0)


def market(seed: int, spread: float) -> dict[str, list[float]]:
    """Accuracies of the ways to spend the budget, for targets each of which follows two of the
    vendors.
    """
    rng = np.random.default_rng(seed)
    rules = (rng.normal(size=FEATURES) + spread * rng.normal(size=(VENDORS, FEATURES))) / 2
    stock = rng.integers(1_000, 20_000, VENDORS)
    wanted = np.stack(
        [rules[rng.choice(VENDORS, 2, replace=False)].mean(0) for _ in range(TARGETS)]
    )
    # free of charge
    samples = [cuvee.Domain(f"vendor {j}", *rows(rng, rule, 50)) for j, rule in enumerate(rules)]
    targets = [cuvee.Domain(f"target {i}", *rows(rng, rule, 30)) for i, rule in enumerate(wanted)]
    mix = cuvee.estimate(
        cuvee.Problem(samples, targets), cuvee.Logistic(l2=1e-2), steps=100, adversaries=4
    )
    scores: dict[str, list[float]] = {
        "own rows only": [],
        "uniform": [],
        "by stock": [],
        "by α": [],
    }
    for target, alpha, rule in zip(targets, mix.alpha[:, :VENDORS], wanted, strict=True):
        X, y = rows(rng, rule, 5_000)  # held out
        shares = [np.zeros(VENDORS), np.ones(VENDORS), stock, alpha + 1e-12]
        for name, share in zip(scores, shares, strict=True):
            counts = bought(share) if share.any() else np.zeros(VENDORS, int)
            parts = [rows(rng, r, n) for r, n in zip(rules, counts, strict=True)] + [
                (target.X, target.y)
            ]
            model = LogisticRegression().fit(
                *(np.concatenate(part) for part in zip(*parts, strict=True))
            )
            scores[name].append(model.score(X, y))
    return scores


for what, spread in (("differ much", 2.0), ("differ", 1.0), ("are alike", 0.0)):
    markets = [market(seed, spread) for seed in range(4)]
    found = {name: np.concatenate([m[name] for m in markets]) for name in markets[0]}
    gain = found["by α"] - found["uniform"]
    print(f"vendors {what}: " + ", ".join(f"{name} {a.mean():.1%}" for name, a in found.items()))
    print(
        f"  α − uniform: {100 * gain.mean():+.1f} points, ahead on {np.sum(gain > 0)} of "
        f"{len(gain)} targets"
    )
