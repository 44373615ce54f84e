"""LibMOON's map from preferences to models, in its own environment: arrays in, arrays out.

    python worker.py TASK.npz FOUND.npz

This is `libmoon/solver/psl/run_simple_psl.py` with --agg ls: its SimplePSLModel, its linear
scalarisation, its Dirichlet preferences, batch of 128, Adam with a step of 1e-3. Only the problem
is ours, one objective per domain: the mean loss of a linear model and λ/2 of its squared length.
One thread; an epoch is done before the clock starts, as torch loads parts of itself with the first.

TASK: kind ("ridge" or "logistic"), X (rows, d) with y (rows,) and domain (rows,) from 0, l2,
intercept, alpha (K, domains) to make models for, epochs (checkpoints,) rising, seed. FOUND: w
(checkpoints, K, P), seconds (checkpoints,) of training, predict_s of all K models.
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from libmoon.solver.psl.model.simple import SimplePSLModel  # type: ignore[import-not-found,unused-ignore]
from libmoon.util_global.scalarization import ls  # type: ignore[import-not-found,unused-ignore]

BATCH, STEP = 128, 1e-3  # its defaults


class Domains:
    """Objectives as LibMOON asks for them: n_obj, and evaluate (models, P) -> (models, n_obj)."""

    def __init__(self, task: dict[str, Any]) -> None:
        X = torch.as_tensor(task["X"], dtype=torch.float32)
        self.domain = torch.as_tensor(task["domain"], dtype=torch.long)
        self.kind, self.l2, self.intercept = (
            str(task["kind"]),
            float(task["l2"]),
            bool(task["intercept"]),
        )
        self.X = torch.cat([X, torch.ones(len(X), 1)], 1) if self.intercept else X
        self.n_obj = int(self.domain.max()) + 1
        self.n_var = self.X.shape[1]
        share = torch.zeros(len(X), self.n_obj)
        share[torch.arange(len(X)), self.domain] = 1.0
        self.share = share / share.sum(0)  # (rows, n_obj): a mean over the rows of each
        self.y = torch.as_tensor(task["y"], dtype=torch.float32)
        if self.kind == "ridge":  # means of xx', xy, y²: no pass over rows
            self.xx = torch.stack([(self.X.T * s) @ self.X for s in self.share.T])
            self.xy, self.yy = self.share.T @ (self.X * self.y[:, None]), self.share.T @ self.y**2

    def evaluate(self, w: torch.Tensor) -> torch.Tensor:
        penalty = 0.5 * self.l2 * ((w[:, :-1] if self.intercept else w) ** 2).sum(1, keepdim=True)
        if self.kind == "ridge":
            quadratic = torch.einsum("bp,npq,bq->bn", w, self.xx, w)
            return 0.5 * (quadratic - 2.0 * w @ self.xy.T + self.yy) + penalty
        scores = w @ self.X.T
        return (torch.nn.functional.softplus(scores) - scores * self.y) @ self.share + penalty


def train(task: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(int(task["seed"]))
    rng = np.random.default_rng(int(task["seed"]))
    began = time.perf_counter()
    problem = Domains(task)
    model = SimplePSLModel(problem, SimpleNamespace(n_var=problem.n_var))
    optimiser = torch.optim.Adam(model.parameters(), lr=STEP)
    alpha = torch.as_tensor(task["alpha"], dtype=torch.float32)
    w, seconds, predicting, spent = [], [], 0.0, time.perf_counter() - began
    for epochs in np.diff(task["epochs"], prepend=0):
        began = time.perf_counter()
        for _ in range(epochs):
            prefs = torch.as_tensor(
                rng.dirichlet(np.ones(problem.n_obj), BATCH), dtype=torch.float32
            )
            loss = ls(problem.evaluate(model(prefs)), prefs).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        spent += time.perf_counter() - began
        with torch.no_grad():
            began = time.perf_counter()
            w.append(model(alpha).double().numpy())
            predicting = time.perf_counter() - began
        seconds.append(spent)
    return {"w": np.stack(w), "seconds": np.array(seconds), "predict_s": np.array(predicting)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--check"]:
        print("LibMOON is there")
    else:
        with np.load(sys.argv[1], allow_pickle=False) as stored:
            task = {name: stored[name] for name in stored.files}
        train({**task, "epochs": np.array([1])})
        found = train(task)
        np.savez(sys.argv[2], **found)
