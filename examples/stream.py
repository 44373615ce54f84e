"""Targets that arrive one by one: a model for each at once, a solve for few of them, and a run that
can be cut.
"""

import tempfile
from pathlib import Path

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample

sources = shifted_sources(n_sources=5, rows=300, features=8)  # or your own cuvee.Domain(name, X, y)
logistic = cuvee.Logistic(l2=1e-2)
online = cuvee.OnlineMap(
    sources, logistic, label_budget=0.1, evaluate=True
)  # evaluate: for studies, not for production

for alpha in sample(100, 5, seed=1):  # whatever tells you the next target's mixture
    w = online.predict_one(alpha)  # always answers
    if online.wants_label(alpha):  # one pass over the data says that the answer is not good enough
        online.learn_one(alpha)  # pays for one solve
print(online.ledger)

folder = Path(tempfile.mkdtemp())
online.save(folder / "map.safetensors")
print(cuvee.OnlineMap.load(folder / "map.safetensors", sources, logistic))

# the same loop, for a whole stream; after a crash it goes on from the checkpoint
ledger = cuvee.run_online(
    sample(2_000, 5, seed=2),
    online,
    checkpoint=folder / "stream.safetensors",
    picture=folder / "stream.png",
)
print(ledger)
print(online([[0.1, 0.1, 0.2, 0.2, 0.4]], trust="corrected"))  # it is a model map like any other
