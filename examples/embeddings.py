"""Scanned digits from sites that hold the page differently: a table of embeddings with a column
`site`, and a head for each of three new sites on top of one frozen backbone.
"""

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn

import cuvee

FLIPS = {"upright": np.s_[:], "turned": np.s_[:, ::-1, ::-1], "mirrored": np.s_[:, :, ::-1]}
SITES = [*("upright",) * 3, *("turned",) * 3, *("mirrored",) * 2]  # of the sources, 100 scans each
LABELLED = 30  # scans of each new site

pixels, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(digit))
scans = (pixels[order] / 16).reshape(-1, 8, 8).astype(np.float32)
digit = digit[order]

# A backbone that somebody trained, on upright digits alone: here on the first 500.
torch.manual_seed(0)
backbone = nn.Sequential(
    *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
    *(nn.Flatten(), nn.Linear(128, 48), nn.ReLU()),
)
classifier = nn.Sequential(backbone, nn.Linear(48, 10))
optimiser = torch.optim.Adam(classifier.parameters(), lr=3e-3)
for _ in range(300):
    at = torch.randint(500, (64,))
    scores = classifier(torch.tensor(scans[at][:, None]))
    optimiser.zero_grad()
    nn.functional.cross_entropy(scores, torch.tensor(digit[at])).backward()
    optimiser.step()
backbone.eval().requires_grad_(False)


def embedded(site: str, flip: str, rows: slice) -> pd.DataFrame:
    """Return a row per scan: its embedding, the site that made it, and the digit on it."""
    seen = np.ascontiguousarray(scans[rows][FLIPS[flip]])[:, None]
    frame = pd.DataFrame(backbone(torch.tensor(seen)).numpy()).add_prefix("e")
    return frame.assign(site=site, digit=digit[rows])


first = iter(range(500, len(digit), 100))  # no scan is at two sites
parts = [embedded(f"{f} {j}", f, slice(k := next(first), k + 100)) for j, f in enumerate(SITES)]
last = next(first)
for f in FLIPS:
    parts.append(embedded(f"new {f}", f, slice(last, last + LABELLED)))
    last += LABELLED
table = pd.concat(parts, ignore_index=True)
tests = [embedded(f"new {f}", f, slice(last, None)) for f in FLIPS]


def domain(name: str, rows: pd.DataFrame) -> cuvee.Domain:
    return cuvee.Domain(name, rows.filter(regex=r"^e\d+$").to_numpy(), rows["digit"].to_numpy())


domains = {name: domain(name, rows) for name, rows in table.groupby("site", sort=False)}
problem = cuvee.Problem(
    [d for name, d in domains.items() if not name.startswith("new")],
    [d for name, d in domains.items() if name.startswith("new")],
)
# A linear model finds the weights: on embeddings it is quick, and nearly as good as any head.
linear = cuvee.Logistic(l2=1e-2)
mix = cuvee.estimate(problem, linear)
print(mix)

head = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))
rows = np.array([*(s.n_rows for s in problem.sources), LABELLED])
weights = {
    "own rows only": np.tile(np.eye(len(rows))[-1], (3, 1)),
    "all rows pooled": np.tile(rows / rows.sum(), (3, 1)),
    "weighed by cuvee": mix,
}
accuracy = {}
for kind, hypothesis in (("linear", linear), ("network", cuvee.Network(head))):
    for name, alpha in weights.items():
        # device="cuda" trains there; networks stop when held-out rows no longer improve
        solution = cuvee.solve(problem, hypothesis, alpha)
        accuracy[kind, name] = {
            target.name: np.mean(model.predict(domain("unseen", test).X) == test["digit"])
            for target, model, test in zip(problem.targets, solution.models, tests, strict=True)
        }
print(pd.DataFrame(accuracy).T.assign(mean=lambda one: one.mean(axis=1)).round(3))
