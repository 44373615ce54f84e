"""A Parquet table whose rows stay on Ray workers: the same run as in this process."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.data.column_fit import ColumnFit, joined
from cuvee.data.files import files
from cuvee.data.frame import spec_of
from cuvee.data.label_summary import Summary, together
from cuvee.data.synthetic import visits
from cuvee.errors import DomainError, InputError, OptionError
from cuvee.scale.parquet import parquet_files, row_groups, stretches
from cuvee.scale.ray_reader import TableReader

ASKED = {"domain": "hospital", "drop": ["visit"], "targets": ["alder", "birch"]}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "visits.parquet"
    visits(0).to_parquet(path, row_group_size=300)
    return path


def same_numbers(one, other, tolerance=1e-8):
    np.testing.assert_allclose(one.alpha, other.alpha, atol=tolerance)
    np.testing.assert_allclose(one.w, other.w, rtol=tolerance, atol=tolerance)
    for run in (one, other):
        assert (run.path / "report.html").exists()
    scores = [json.loads((run.path / "metrics.json").read_text())["scores"] for run in (one, other)]
    np.testing.assert_allclose(*(np.array(s, float) for s in scores), atol=1e-6)
    assert one.notes == other.notes


def run_both(table, folder, **asked):
    return [
        cuvee.adapt(table, folder / f"{on}", on=on, **{**ASKED, **asked}) for on in (None, "ray")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("label", ["days", "readmitted"])
def test_a_run_on_four_workers_is_the_run_in_this_process(ray, table, tmp_path, label):
    same_numbers(*run_both(table, tmp_path, label=label))


@pytest.mark.slow
def test_gaps_and_small_domains_on_ray_are_treated_as_in_this_process(ray, tmp_path):
    rng, frame = np.random.default_rng(0), visits(0)
    frame["far"] = 1e15 + rng.integers(0, 5, len(frame))  # varies beside its size
    # a target's rows without a label count in this process, and on Ray they are not kept
    sources = ~frame["hospital"].isin(ASKED["targets"])
    for name in ("lab 0", "lab 3", "ward", "days"):
        gap = (rng.random(len(frame)) < 0.1) & (sources if name == "days" else True)
        frame.loc[gap, name] = None
    frame.loc[[5, 900, 1800], "hospital"] = ["hut", "ferry", "buoy"]
    frame.to_parquet(tmp_path / "gappy.parquet", row_group_size=400)
    asked = {"label": "days", "impute": True, "exclude": ["yew"]}
    same_numbers(*run_both(tmp_path / "gappy.parquet", tmp_path, **asked))
    with pytest.raises(DomainError, match="have missing values, in 3 columns"):
        cuvee.adapt(tmp_path / "gappy.parquet", tmp_path / "no", on="ray", **ASKED, label="days")


@pytest.mark.slow
def test_a_folder_per_source_is_a_table(ray, table, tmp_path):
    for name, rows in visits(0).groupby("hospital"):
        (tmp_path / "table" / name).mkdir(parents=True)
        for i, part in enumerate(np.array_split(np.arange(len(rows)), 2)):
            path = tmp_path / "table" / name / f"{i}.parquet"
            rows.iloc[part].drop(columns="hospital").to_parquet(path)
    by_folder = cuvee.adapt(
        tmp_path / "table", tmp_path / "far", on="ray", label="days", **{**ASKED, "domain": None}
    )
    by_file = cuvee.adapt(table, tmp_path / "near", label="days", **ASKED)
    assert by_folder.targets == by_file.targets
    np.testing.assert_allclose(by_folder.w, by_file.w, rtol=1e-8, atol=1e-8)


def test_stretches_have_every_row_once(tmp_path):
    frame = pd.DataFrame({"x": np.arange(90.0), "domain": "a", "label": 1.0})
    for i in range(3):
        path = tmp_path / f"{i}.parquet"
        frame[30 * i : 30 * i + 30].to_parquet(path, row_group_size=7)
    named_files = parquet_files(tmp_path)
    spec, groups = spec_of(named_files), row_groups(named_files)
    assert len(groups) == 15
    for count in (1, 2, 4, 15, 40):
        runs = stretches(groups, spec, count)
        assert min(count, 10) <= len(runs) <= count
        rows = pd.concat([TableReader(run)._rows for run in runs])
        assert rows.index.tolist() == rows.x.tolist() == list(range(90))


def test_what_ray_cannot_read_is_said(tmp_path):
    (tmp_path / "t.csv").write_text("x,domain,label\n1,a,2\n")
    with pytest.raises(InputError, match="is not a Parquet file, and Ray workers read no others"):
        parquet_files(tmp_path / "t.csv")
    frame = pd.DataFrame({"x": [1.0], "domain": "a", "label": 1.0})
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="folders and Parquet files side by side"):
        parquet_files(tmp_path)
    out = tmp_path / "run"
    with pytest.raises(OptionError, match="cannot have every domain in turn as target"):
        cuvee.adapt(tmp_path / "t.parquet", out, on="ray", targets="each")
    with pytest.raises(OptionError, match="a path that every node sees"):
        cuvee.adapt(frame, out, on="ray", targets="a")
    with pytest.raises(OptionError, match="leave it out, or leave out on"):
        cuvee.adapt(tmp_path / "t.parquet", out, on="ray", targets="a", stream=True)
    with pytest.raises(OptionError, match="on must be a text"):
        cuvee.adapt(tmp_path / "t.parquet", out, on=7, targets="a")
    assert not out.exists()


def test_a_file_that_a_node_does_not_see_is_said(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": [1.0], "domain": "a", "label": 1.0}).to_parquet(path)
    reader = TableReader(spec_of(files(path)))
    path.unlink()
    with pytest.raises(InputError, match=r"is not there on the node .* every node .* must see"):
        reader.counted()


def test_scalers_of_parts_are_joined():
    rng = np.random.default_rng(0)
    values = pd.Series(np.r_[rng.normal(3.0, 2.0, 50), rng.normal(-1.0, 0.1, 20)], name="x")
    whole, parts = ColumnFit("x"), ColumnFit("x")
    whole.add(values, "")
    for low, high in ((0, 13), (13, 60), (60, 70)):
        one = ColumnFit("x")
        one.add(values[low:high], "")
        parts.join(one, "")
    assert parts.rows == whole.rows
    rules = [fit.rule(0.5, True, "") for fit in (parts, whole)]
    np.testing.assert_allclose(
        [rules[0].mean, rules[0].scale], [rules[1].mean, rules[1].scale], rtol=1e-13
    )
    never = ColumnFit("x")
    never.add(pd.Series(np.full(10, 0.1)), "")
    assert joined(never.scaler, never.scaler).scale_.tolist() == [1.0]
    text = ColumnFit("x")
    text.add(pd.Series(["a", "b"], dtype=object), "")
    with pytest.raises(DomainError, match="holds text in one file and numbers in another"):
        text.join(whole, "")


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 1, 0, 2, 5, 0, 0, 9], [True, False, True, True], [0.5, -1.0, 2.25, 7.0], list("abbac")],
)
def test_summaries_of_labels_are_merged(labels):
    column = pd.Series(labels, dtype=object if isinstance(labels[0], str) else None)
    column = column if column.dtype == bool or column.dtype == object else column.astype(float)
    whole = Summary.of(column)
    parts = together([Summary.of(column[:2], to_merge=True), Summary.of(column[2:], to_merge=True)])
    for name in ("kind", "rows", "different", "first", "lowest", "broken"):
        assert getattr(parts, name) == getattr(whole, name), name
    for name in ("low", "high", "mean", "share_of_highest"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), err_msg=name)
