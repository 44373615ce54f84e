"""`cuvee adapt` with a head on a frozen start: the files hold the head, and the factory the start."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import cuvee

SITES = {"east": 40, "west": 40, "new": 20}


def with_start(n_inputs, n_outputs):
    """Return what nobody trains, seeded as runs seed it, and a head."""
    start = torch.nn.Sequential(torch.nn.Linear(n_inputs, 6), torch.nn.Tanh())
    head = torch.nn.Linear(6, n_outputs)
    return torch.nn.Sequential(start.requires_grad_(False), head)


@pytest.mark.slow
def test_a_run_keeps_the_head_and_predicts_through_the_start(tmp_path):
    rng = np.random.default_rng(0)
    site = np.repeat(list(SITES), list(SITES.values()))
    frame = pd.DataFrame(rng.normal(size=(len(site), 3)), columns=["a", "b", "c"])
    frame = frame.assign(site=site, y=np.where(frame.a + frame.b > 0, "yes", "no"))
    asked = {"domain": "site", "label": "y", "targets": "new", "standardise": False, "l2": 0.3}
    run = cuvee.adapt(
        frame,
        tmp_path / "run",
        hypothesis="test_frozen_backbones:with_start",
        method="uniform",
        **asked,
    )
    assert run.w.shape == (1, 6 * 2 + 2)
    again = cuvee.open_run(run.path, hypothesis="test_frozen_backbones:with_start")
    said = again.predict(frame, target="new")[["p(no)", "p(yes)"]]
    torch.manual_seed(0)
    start, head = with_start(3, 2).double()
    w = torch.as_tensor(run.w[0], dtype=torch.float64)
    torch.nn.utils.vector_to_parameters(w, head.parameters())
    rows = torch.as_tensor(frame[["a", "b", "c"]].to_numpy(copy=True))
    np.testing.assert_allclose(head(start(rows)).softmax(1).detach(), said, atol=1e-5)
    np.testing.assert_array_less(0.5, np.mean((said["p(yes)"] > 0.5) == (frame.y == "yes")))
