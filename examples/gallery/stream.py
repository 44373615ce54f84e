"""A stream of targets: a model at once for each one that arrives.

After this page you can answer targets that arrive one by one, and pay for an exact solution only
where the answer would not be good enough.
"""

import matplotlib.pyplot as plt
import numpy as np

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample

# %% Five sources, and a stream of recipes
# A target arrives as a recipe α: one weight for each of five sources. Each wants its model w*(α)
# at once. Solving every one of them is exact, but it is what costs.
sources = shifted_sources(n_sources=5, rows=300, features=8)
logistic = cuvee.Logistic(l2=1e-2)
stream = sample(1_000, 5, seed=2)

# %% Two ways to answer
# The first is Algorithm 4 of the paper, which pays by a coin. The second is cuvee's default,
# which looks at the certificate of its own answer and pays where it fails. `evaluate=True` solves
# every round to know the true loss; it is for studies like this one only.
paper = cuvee.OnlineMap(sources, logistic, variant="paper", label_budget=0.1, evaluate=True)
ours = cuvee.OnlineMap(sources, logistic, label_budget=0.1, evaluate=True)
ledgers = {"Algorithm 4, as printed": paper, "cuvee's default": ours}
for name, online in ledgers.items():
    for alpha in stream:
        online.predict_one(alpha)  # always answers
        if online.wants_label(alpha):
            online.learn_one(alpha)  # pays for one solve
    print(f"{name}: {online.ledger}")

# %% What the stream cost and lost
# Above, the average squared distance between the models given and the best ones. Below, how many
# solutions were paid for. The default pays at the beginning, while everything is new, and rarely
# after that. The printed algorithm counts a round without a solution as a zero vector, so that
# its loss stops falling ([the trial](../../docs/paper.md#theorem-4-online-regret)).
figure, (above, below) = plt.subplots(2, 1, figsize=(7.5, 5.5), layout="constrained", sharex=True)
for (name, online), colour in zip(ledgers.items(), ("#7d93a6", "#4527a0"), strict=True):
    rounds = np.arange(1, online.ledger.rounds + 1)
    above.plot(rounds, online.ledger.average_at, color=colour, label=name)
    below.plot(rounds, online.ledger.labels_at, color=colour, drawstyle="steps-post")
above.set(yscale="log", ylabel="average ‖ŵ − w*‖² so far")
above.legend(frameon=False)
below.set(xlabel="targets so far", ylabel="solutions paid for", ylim=(0, None))
for axes in (above, below):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("stream.png", dpi=110)
