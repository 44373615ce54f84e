"""A table of hospitals: from one file to a model for each new hospital.

After this page you can turn one table with a column that names the site into a model for every
site that you care about, and see what each model learnt from.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cuvee
from cuvee.data.synthetic import visits

# %% The table
# Eight hospitals keep one row for each visit. The table is made up, so that the truth is known:
# in half of the hospitals a long stay means trouble, in the others it means good care. Nobody
# tells cuvee which hospital is which.
frame = visits()
print(frame.drop(columns=[f"lab {i}" for i in range(2, 8)]).groupby("hospital").head(1))

# %% Models for four new hospitals
# Four hospitals have known outcomes for all their visits. The other four are new: of each, 20
# visits have a known outcome, and the other 300 are kept for the scores.
new = ("fir", "oak", "pine", "yew")
folder = Path(tempfile.mkdtemp()) / "run"
options = cuvee.Options(
    label="readmitted", domain="hospital", targets=new, drop=("visit",), labelled=20
)
run = cuvee.adapt(frame, folder, options=options)
print(run.summary())

# %% What each hospital learns from
# A row of the left picture is the recipe of one new hospital. The right picture compares its
# model with two simple ones on the same 300 visits: one learnt from all rows together, the other
# learnt from its own 20 rows.
found = run.findings
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.imshow(run.alpha, cmap="Purples", vmin=0, vmax=0.6, aspect="auto")
left.set_xticks(range(len(run.columns)), run.columns, rotation=20)
left.set_yticks(range(len(new)), new)
left.set_title("weight of each source")
for (i, j), weight in np.ndenumerate(run.alpha):
    left.text(j, i, f"{weight:.2f}", ha="center", va="center", color="w" if weight > 0.3 else "k")
shown = {"pooled_own": "#b8c4ce", "target_only": "#7d93a6", "cuvee": "#4527a0"}
for k, (method, colour) in enumerate(shown.items()):
    scores = 100 * found.scores[:, found.methods.index(method), 0]
    right.bar(np.arange(len(new)) + 0.27 * (k - 1), scores, 0.25, color=colour, label=method)
right.set_xticks(range(len(new)), new)
right.set_ylim(50, 100)
right.set_ylabel("right, % of 300 visits")
right.legend(loc="upper center", ncols=3, frameon=False)
figure.savefig("hospitals.png", dpi=110)

# %% Predictions for new visits
# The run folder holds everything, also the way in which columns were encoded. So raw rows are
# enough to ask for predictions, in this process or in another one.
rows = frame[frame["hospital"].isin(new)].groupby("hospital").head(1)
print(cuvee.open_run(folder).predict(rows, keep=["days", "ward"]).round(2).to_string(index=False))
