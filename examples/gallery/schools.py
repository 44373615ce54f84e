"""Schools: exam scores of pupils, for schools with few pupils.

After this page you can predict a quantity for domains that differ in level, and you know when a
blend of other domains helps and when it does not.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import cuvee


# %% The data
# The London school table (15,362 pupils of 139 schools) is read from the folder that the
# environment variable `CUVEE_DATA` names. Where it is not there, a made-up stand-in of the same
# shape takes its place, and the first line of the output says so.
def stand_in(n_schools: int = 139, n_columns: int = 8) -> pd.DataFrame:
    """Return made-up pupils: schools differ in level, and a little in what the columns mean."""
    rng = np.random.default_rng(0)
    common, parts = rng.normal(0.0, 3.0, n_columns), []
    for school in range(n_schools):
        X = rng.normal(size=(rng.integers(30, 200), n_columns))
        rule = common + rng.normal(0.0, 1.0, n_columns)
        score = 30.0 + rng.normal(0.0, 5.0) + X @ rule + rng.normal(0.0, 9.0, len(X))
        columns = {f"x{k}": X[:, k] for k in range(n_columns)}
        parts.append(pd.DataFrame({"domain": f"school {school}", "label": score, **columns}))
    return pd.concat(parts, ignore_index=True)


file = Path(os.environ.get("CUVEE_DATA", "data")) / "school.parquet"
frame = pd.read_parquet(file) if file.is_file() else stand_in()
print("the London schools" if file.is_file() else "a made-up stand-in for the London schools")
print(f"{len(frame):,} pupils, {frame['domain'].nunique()} schools, {frame.shape[1] - 2} columns")

# %% Ten schools with 20 known scores each
# Ten schools are drawn. Of each, 20 pupils are learnt from and all others are kept for the
# scores. The other 129 schools are sources. The labels are a quantity, so `cuvee.adapt` takes
# each school's own level out of them first: a school may be 10 points above another without any
# pupil being different.
rng = np.random.default_rng(7)
sizes = frame["domain"].value_counts()
drawn = rng.choice(sorted(sizes[sizes >= 60].index), 10, replace=False)
targets = tuple(str(name) for name in drawn)
options = cuvee.Options(label="label", domain="domain", targets=targets, labelled=20)
run = cuvee.adapt(frame, Path(tempfile.mkdtemp()) / "run", options=options)
print(run.summary())

# %% Where the blend helps
# A line is one school: its error with a model of its own 20 pupils (left end), with all pupils
# pooled (middle), and with cuvee's blend (right end). Own rows alone are the worst. Much of the
# lead over pooling comes from the levels; a pooled model that is given them as well is hard to
# beat on the London schools ([figures](../../docs/results.md)).
found = run.findings
shown = ["target_only", "pooled", "cuvee"]
errors = np.stack([found.scores[:, found.methods.index(m), 0] for m in shown], axis=1)  # (M, 3)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(shown, errors.T, color="0.75", marker="o", markersize=4)
axes.plot(shown, errors.mean(0), color="#4527a0", marker="o", linewidth=3, label="mean of ten")
axes.set_ylabel("root mean squared error, points")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("schools.png", dpi=110)
for method, error in zip(shown, errors.mean(0), strict=True):
    print(f"{method}: {error:.2f} points")
