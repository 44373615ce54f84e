"""Targets of few rows: their halves and folds could differ by single rows, so none are halved."""

import numpy as np
import pytest
import torch

from cuvee.components import rows
from cuvee.components.protocol import Batch, Half
from cuvee.problem import Domain
from cuvee.scale import flower_guard as guard
from cuvee.scale.flower_wire import fingerprint, unpacked
from flower_builders import pooled, run, tables, written

W = torch.zeros(1, 1, 3)
AT = {"elm": "node 2", "fig": "node 3"}


def with_few(kind, name, n):
    """Return tables of which one has n rows, with both classes where there are any."""
    frames = tables(kind)
    frames[name] = frames[name].head(n).copy()
    if kind == "logistic":
        frames[name]["cost"] = np.where(np.arange(n) % 2, "yes", "no")
    return frames


def halves_asked(transport, node):
    """Return whether a node was asked about half of its rows."""
    return any('"is":"Half"' in sent.text for at, sent, _ in transport.messages if at == node)


@pytest.mark.parametrize("kind", ["ridge", pytest.param("logistic", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "n"), [("fig", 12), ("elm", 16)])
def test_small_targets_are_not_halved(tmp_path, monkeypatch, kind, name, n):
    frames = with_few(kind, name, n)
    federation, transport = run(written(tmp_path, frames))
    assert federation.left_out == {}
    for other, node in {**AT, "ash": "node 0"}.items():
        assert halves_asked(transport, node) == (other != name)
    monkeypatch.setattr(rows, "LEAST_TARGET", 20)  # domains of fewer rows are whole in both halves
    monkeypatch.setattr(rows, "LEAST_SOURCE", 20)
    alpha, w = pooled(frames, kind, n // 5)
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(federation.solution.w, w, rtol=0, atol=1e-8)


def test_both_halves_being_all_rows_are_asked_once(tmp_path):
    """Jobs side by side may ask for the same in their first round; no later message does."""
    _, transport = run(written(tmp_path, with_few("logistic", "fig", 12)))
    twice = 0
    for node, sent, _ in transport.messages:
        calls = [fingerprint(call) for call in unpacked(sent)["calls"]]
        twice += node == AT["fig"] and len(set(calls)) < len(calls)
    assert twice <= 1


def of(n):
    return Domain("fig", np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % 2)


@pytest.mark.parametrize(
    ("role", "site"), [("target", "target"), ("target", "both"), ("source", "both")]
)
@pytest.mark.parametrize("question", ["values", "grams"])
def test_a_site_refuses_halves_of_few_rows(role, site, question):
    half = Half(0, 1)
    inputs = (W, Batch(part=half))
    if question == "grams":
        question, inputs = "own_grams_of", (half,)
        if role == "source":
            question, inputs = "source_grams", (None, half)
    with pytest.raises(guard.Refused, match="halves of fewer than 20 rows"):
        guard.check(of(19), role, 0, 5, question, inputs, site)
    guard.check(of(20), role, 0, 5, question, inputs, site)


def test_sources_that_are_no_targets_are_halved():
    guard.check(of(10), "source", 0, 5, "values", (W, Batch(part=Half(0, 0))), "source")
