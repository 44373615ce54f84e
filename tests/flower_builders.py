"""Small federations in this process: tables, desks, and a transport that keeps every message."""

import numpy as np
import pandas as pd

import cuvee
from cuvee.data.encode import Encoder
from cuvee.data.levels import take_out
from cuvee.scale.flower_run import FederatedOptions, federate
from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig

ROLES = {"ash": "source", "bay": "source", "elm": "both", "fig": "target"}
ROWS = {"ash": 60, "bay": 70, "elm": 40, "fig": 24}
HYPOTHESES = {"ridge": cuvee.Ridge(l2=0.01), "poisson": cuvee.Poisson(l2=0.01)}
FAST = FederatedOptions(tol=1e-10, wait=0.2, pause=0.01)


def tables(kind="ridge", seed=0):
    """Return a frame per site: three numbers, a category and a label."""
    rng = np.random.default_rng(seed)
    frames = {}
    for j, (name, n) in enumerate(ROWS.items()):
        X = rng.normal(size=(n, 3)) * [1.0, 2.0, 0.5] + [0.1 * j, 5.0, 0.0]
        ward = np.array(["heart", "other"])[np.arange(n) % 2]
        score = X @ [1.0, -0.5, 0.3 * j] + 2.5 + (ward == "heart") + 0.5 * rng.normal(size=n)
        frame = pd.DataFrame(X, columns=["x", "y", "z"])
        frame["ward"] = ward
        frame["cost"] = score if kind == "ridge" else np.where(score > 0, "yes", "no")
        if kind == "softmax":
            frame["cost"] = np.array(["low", "middle", "high"])[np.digitize(score, [0.0, 1.5])]
        if kind == "poisson":
            frame["cost"] = rng.poisson(np.exp(0.4 * np.clip(score, -3.0, 3.0)))
        frames[name] = frame
    return frames


def written(folder, frames):
    """Write the frames, and return a desk for each, under an address that says nothing."""
    desks = {}
    for i, (name, frame) in enumerate(frames.items()):
        frame.to_csv(folder / f"{name}.csv", index=False)
        desks[f"node {i}"] = Desk(
            SiteConfig(str(folder / f"{name}.csv"), name, "cost", ROLES[name])
        )
    return desks


class Recorder:
    """Carry packets to desks in this process, and keep all of them."""

    def __init__(self, desks):
        self.desks, self.messages = dict(desks), []

    def nodes(self):
        return list(self.desks)

    def exchange(self, packets, timeout):
        replies = {}
        for node, packet in packets.items():
            if node in self.desks:
                replies[node] = self.desks[node].answer(packet)
                self.messages.append((node, packet, replies[node]))
        return replies


def pooled(frames, kind, folds, roles=ROLES):
    """Return α and w of a run in one process, on all rows in one table."""
    everything = pd.concat(frames.values())
    encoder = Encoder.fit(everything, [c for c in everything.columns if c != "cost"])
    domains = {
        name: cuvee.Domain(name, encoder(f), f["cost"].to_numpy(), features=encoder.names)
        for name, f in sorted(frames.items())
    }
    sources = [d for name, d in domains.items() if roles[name] != "target"]
    problem = cuvee.Problem(sources).with_targets(
        [d for name, d in domains.items() if roles[name] != "source"]
    )
    if kind == "ridge":
        problem = take_out_quietly(problem)
    hypothesis = HYPOTHESES.get(kind, cuvee.Logistic(l2=0.01))
    both = {n: [n] for n in frames if roles[n] == "both"}
    mix = cuvee.estimate(problem, hypothesis, folds=folds, exclude=both or None, passes=60)
    return mix.alpha, cuvee.solve(problem, hypothesis, mix, tol=1e-10).w


def take_out_quietly(problem):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cuvee.CuveeWarning)
        return take_out(problem, 0.01).problem


def run(desks, transport=None, options=FAST, **changed):
    transport = transport or Recorder(desks)
    return federate(transport, options, lambda sentence: None), transport
