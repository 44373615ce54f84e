"""Rows of a target whose label is empty: their inputs count in its weights, in nothing else."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cuvee.data import unlabelled
from cuvee.data.prepare import prepare
from cuvee.run import Options, adapt, resume
from cuvee.run.folder import ALPHA, CANDIDATES, PREPARED

OPTIONS = Options(label="cost", domain="site", targets="new", levels=False)


def table(empty=40):
    """Return three sites apart in age, and a new one like the first: 12 labels, other rows empty."""
    rng = np.random.default_rng(0)
    site = np.repeat(["north", "south", "east", "new"], [60, 60, 60, 12 + empty])
    middle = np.repeat([20.0, 50.0, 80.0, 20.0], [60, 60, 60, 12 + empty])
    age = middle + 5.0 * rng.normal(size=len(site))
    frame = pd.DataFrame({"age": age, "ward": np.where(rng.random(len(site)) < 0.5, "a", "b")})
    frame["site"], frame["cost"] = site, 0.1 * age + rng.normal(size=len(site))
    frame.loc[frame.index[192:], "cost"] = np.nan
    return frame


def target_of(frame, options=OPTIONS):
    prepared = prepare(frame, options)
    return prepared, prepared.group(prepared.members[0]).whole.targets[0]


def test_empty_labels_are_kept_as_inputs_and_said():
    prepared, target = target_of(table())
    assert target.n_rows == 12 and len(target.unlabelled) == 40
    assert any("40 rows of target 'new' without a label: their inputs" in n for n in prepared.notes)
    # encoded like all other rows
    np.testing.assert_allclose(target.unlabelled[:, 0].mean(), target.X[:, 0].mean(), atol=0.3)
    assert target_of(table(empty=0))[1].unlabelled is None


def test_of_very_many_some_are_drawn(monkeypatch):
    monkeypatch.setattr(unlabelled, "MOST", 10)
    prepared, target = target_of(table())
    assert len(target.unlabelled) == 10
    assert any("10 such rows each are drawn" in n for n in prepared.notes)
    assert np.array_equal(target.unlabelled, target_of(table())[1].unlabelled)


def test_a_row_with_a_gap_is_left_out_and_counted():
    frame = table()
    frame.loc[200, "ward"] = "never seen"
    frame.loc[201, "age"] = np.nan
    prepared, target = target_of(frame)
    assert len(target.unlabelled) == 39
    assert (
        "1 row of targets without a label left out, for gaps (--impute fills them)"
        in prepared.notes
    )
    note = "count as 'other': 'ward' (1 unlabelled row, like 'never seen')"
    assert any(note in one for one in prepared.notes)
    filled = replace(OPTIONS, impute=True)
    assert len(target_of(frame, filled)[1].unlabelled) == 40


def test_a_run_tries_the_matched_blend_and_goes_on_after_a_kill(tmp_path, monkeypatch):
    frame = table()
    run = adapt(frame, tmp_path / "run", options=OPTIONS)
    tried = pd.read_parquet(tmp_path / "run" / CANDIDATES)
    assert tried.share[tried.candidate == "matched inputs"].item() > 0
    assert "without a label" in (tmp_path / "run" / PREPARED).read_text()

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(sys.modules["cuvee.run.adapt"], "_deliver", killed)
        with pytest.raises(KeyboardInterrupt):
            adapt(frame, tmp_path / "cut", options=OPTIONS)
    again = resume(tmp_path / "cut", source=frame)
    assert (tmp_path / "cut" / ALPHA).read_bytes() == (tmp_path / "run" / ALPHA).read_bytes()
    np.testing.assert_allclose(
        again.predict(frame[:5], target="new"), run.predict(frame[:5], target="new"), rtol=1e-9
    )
