"""The rivals of the benchmark of groups that need scikit-learn and LightGBM alone."""

import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from benchmarks.groups import command, losses, runner
from benchmarks.groups.environments import declared
from benchmarks.groups.methods import _frames, hist_target_encoder, lightgbm_cv, lightgbm_deviations
from benchmarks.groups.tables import Table
from benchmarks.groups.task import BLOCK, Task

HERE = ("lightgbm", "scikit-learn")
METHODS = [
    path.stem
    for path in sorted(command.METHODS.glob("[a-z]*.py"))
    if all(pin.startswith(HERE) for pin in declared(path)[0])
]
OWN_ROWS = ("own_linear", "source_stack")  # of what is tried here
KINDS = ("quantity", "count", "two", "four")


def rows_of(seed, groups=8, size=60):
    """Rows of groups with numbers, gaps, text of few and of many levels, booleans, a constant."""
    rng = np.random.default_rng(seed)
    n = groups * size
    x, level = rng.normal(size=n), np.repeat(np.linspace(-0.5, 0.5, groups), size)
    kind = rng.choice(["a", "b", "c"], n)
    clear = 1.5 * x + level + (kind == "a")
    frame = pd.DataFrame(
        {
            "site": np.repeat([f"site {i}" for i in range(groups)], size),
            "x": x,
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "kind": pd.Series(kind).where(rng.random(n) < 0.95, None),
            "many": [f"level {i}" for i in rng.integers(0, 60, n)],
            "flag": rng.random(n) < 0.5,
            "same": 7,
        }
    )
    return frame, clear + 0.2 * rng.normal(size=n), rng


def made(kind, k=30, seed=0):
    """A task of two targets with k labelled rows, its further rows, and their labels as numbers."""
    frame, clear, rng = rows_of(seed)
    names = ()
    if kind == "quantity":
        frame["y"] = truth = 100 + 20 * clear
    elif kind == "count":
        frame["y"] = truth = rng.poisson(np.exp(0.8 * clear + 0.5))
    else:
        names = ("down", "up") if kind == "two" else ("high", "low", "mid", "never")
        cuts = [0.3] if kind == "two" else [-1.0, 1.0]
        order = np.array([0, 1] if kind == "two" else [1, 2, 0])  # "never" is in no row
        truth = order[np.digitize(clear, cuts)]
        frame["y"] = np.array(names)[truth]
    targets = ("site 2", "site 5")
    own = frame["site"].isin(targets).to_numpy()
    asked = own & (frame.groupby("site").cumcount() >= k).to_numpy()
    task = Task(
        rows=frame[~asked].reset_index(drop=True),
        domain="site",
        label="y",
        kind=kind if kind in ("quantity", "count") else "classes",
        classes=names,
        targets=targets,
        unlabelled=None,
        seed=0,
        threads=1,
    )
    test = frame[asked].drop(columns="y").reset_index(drop=True)
    return task, test, np.asarray(truth)[asked].astype(float)


def fit(name, task):
    return importlib.import_module(f"benchmarks.groups.methods.{name}").fit(task)


def loss_of(task, answers, truth):
    return losses.of_rows(task.kind, answers, truth, float(np.abs(task.y).mean())).mean()


def mean_of(task, rows):
    """The answers of the mean of all labelled rows."""
    if not task.classes:
        return np.full(rows, task.y.mean())
    return np.tile(np.bincount(task.y.astype(int), minlength=len(task.classes)), (rows, 1))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # TargetEncoder, as scikit-learn 1.6 has it
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_a_rival_answers_and_learns(name, kind):
    task, test, truth = made(kind)
    answer = fit(name, task)
    told = answer(test)
    assert told.shape == ((len(test), len(task.classes)) if task.classes else (len(test),))
    assert np.isfinite(told).all()
    if task.classes:
        np.testing.assert_allclose(told.sum(1), 1)
        assert (told >= 0).all()
    if kind == "count":
        assert (told >= 0).all()
    assert loss_of(task, told, truth) < 0.7 * loss_of(task, mean_of(task, len(test)), truth)
    other = np.random.default_rng(1).permutation(len(test))
    again = answer(test.iloc[other].reset_index(drop=True))
    np.testing.assert_allclose(again, told[other], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_targets_without_labelled_rows(name):
    task, test, truth = made("two", k=0)
    if name in OWN_ROWS:
        with pytest.raises(ValueError, match="site 2 has none"):
            fit(name, task)
        return
    told = fit(name, task)(test)
    np.testing.assert_allclose(told.sum(1), 1)
    assert loss_of(task, told, truth) < 0.8 * loss_of(task, mean_of(task, len(test)), truth)


def test_levels_and_gaps_that_no_labelled_row_has():
    task, test, _ = made("quantity")
    test.loc[:3, ["kind", "many"]] = "never seen"
    test.loc[:3, "x"] = np.nan
    for name in METHODS:
        assert np.isfinite(fit(name, task)(test)).all(), name


def test_more_domains_than_a_histogram_takes():
    frame, clear, _ = rows_of(0, groups=270, size=3)
    task, _, _ = made("quantity")
    task = replace(task, rows=frame.assign(y=clear))
    assert np.isfinite(fit("hist_category", task)(frame)).all()


def test_a_class_without_rows_is_not_impossible():
    task, _, _ = made("four")
    alone = task.only(np.arange(len(task.rows)) < 9)
    told = _frames.all_classes(alone, np.array([[0.5, 0.5]]), np.array([0, 2]))
    np.testing.assert_allclose(told, [[5.5 / 13, 1 / 13, 5.5 / 13, 1 / 13]])
    full = np.array([[0.1, 0.2, 0.3, 0.4]])
    np.testing.assert_array_equal(_frames.all_classes(alone, full, np.arange(4)), full)


@pytest.mark.parametrize("kind", ["quantity", "two"])
def test_folds_are_drawn_at_random_and_keep_blocks(kind):
    task, _, _ = made(kind)
    for _, test in _frames.folds(task, 5):
        assert task.rows["site"].iloc[test].nunique() == 8  # not whole domains one after another
        if kind == "two":
            assert abs(task.y[test].mean() - task.y.mean()) < 0.02
    block = np.arange(len(task.rows)) // 6
    split = replace(task, rows=task.rows.assign(**{BLOCK: block}))
    for learnt, test in _frames.folds(split, 5):
        assert not set(block[learnt]) & set(block[test])


def test_counts_are_no_classes_to_the_target_encoder(monkeypatch):
    kinds = []

    class Spy(hist_target_encoder.TargetEncoder):
        def fit_transform(self, X, y, **more):
            out = super().fit_transform(X, y, **more)
            kinds.append(self.target_type_)
            return out

    monkeypatch.setattr(hist_target_encoder, "TargetEncoder", Spy)
    for kind in KINDS:
        fit("hist_target_encoder", made(kind)[0])
    assert kinds == ["continuous", "continuous", "binary", "multiclass"]


def test_deviations_from_the_mean_of_a_domain():
    rng = np.random.default_rng(0)
    shift, beside = np.repeat(rng.normal(scale=9, size=30), 40), rng.normal(size=1200)
    frame = pd.DataFrame({"site": np.repeat([f"s{i}" for i in range(30)], 40), "x": shift + beside})
    frame["y"] = beside
    task, _, _ = made("quantity")
    learnt = np.arange(1200) % 40 < 10
    task = replace(task, rows=frame[learnt].reset_index(drop=True), targets=("s0",))
    test, truth = frame[~learnt].drop(columns="y"), beside[~learnt]
    wide, plain = (m.fit(task)(test) for m in (lightgbm_deviations, lightgbm_cv))
    assert loss_of(task, wide, truth) < 0.5 * loss_of(task, plain, truth)


def test_a_method_may_use_the_library_of_python(tmp_path):
    """The folder of the worker has files called like modules of Python, as statistics.py."""
    file = tmp_path / "mean.py"
    file.write_text(
        "INSTALL = ()\nimport statistics\n\n\ndef fit(task):\n"
        "    mean = statistics.mean(task.y)\n    return lambda frame: [mean] * len(frame)\n"
    )
    frame, clear, _ = rows_of(0)
    table = Table("made", frame.assign(y=clear), "site", "y", "quantity", 20)
    told = []
    job = runner.Job("mean", file, table, "main", ((0, 0),))
    runner.run([job], tmp_path / "out", runner.Limits(threads=1), 1, lambda w, *_: told.append(w))
    assert told[0].endswith(" s"), told
