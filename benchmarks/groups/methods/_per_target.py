"""For methods that know one target at a time: a fit for each, and answers put together."""

from __future__ import annotations

import numpy as np


def each_target(task, fit_one):
    """Return answers where `fit_one(own rows?)` gives a target's function: frame -> answers."""
    domain = task.rows[task.domain].to_numpy()
    bare = [t for t in task.targets if not (domain == t).any()]
    if bare:
        raise ValueError(f"this method needs labelled rows of each target; {bare[0]} has none")
    models = {t: fit_one(domain == t) for t in task.targets}

    def answer(frame):
        asked = frame[task.domain].to_numpy()
        out = np.zeros((len(frame), len(task.classes)) if task.classes else len(frame))
        for target, model in models.items():
            out[asked == target] = model(frame[asked == target])
        return out

    return answer
