"""One reader: the single steps and `cuvee adapt` give the same weights, models and predictions on
the same rows.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cuvee

CLOSE = {"rtol": 0.0, "atol": 1e-12}
ROLES = ("visits.csv", "--domain", "hospital")
CLASSES = (*ROLES, "--label", "readmitted", "--drop", "cost", "--impute")
QUANTITY = (*ROLES, "--label", "cost", "--drop", "readmitted", "--impute")


@pytest.fixture
def table(folder):
    """visits.csv with levels, gaps, categories, two hospitals of one visit and a class that one
    hospital has.
    """
    rng = np.random.default_rng(1)
    frame = pd.read_csv("visits.csv", dtype={"hospital": str})
    level = {"north": 0.0, "east": 30.0, "south": -20.0, "007": 12.0, "new": 45.0}
    frame["cost"] += frame.hospital.map(level)
    frame["readmitted"] = frame.readmitted.map({True: "yes", False: "no"})
    frame["ward"] = rng.choice(["a", "b", "c"], len(frame))
    for column in ("age", "sex"):
        frame.loc[rng.choice(len(frame), 6, replace=False), column] = np.nan
    last = frame.index[frame.hospital == "new"][-2:]
    frame.loc[last, ["readmitted", "age"]] = "unknown", 40.0
    frame.loc[[3, 30], "hospital"] = ["hut", "ferry"]
    frame = frame.sample(frac=1.0, random_state=0)  # no domain stands together
    frame.to_csv("visits.csv", index=False)
    return frame


def both(cli, roles, targets, *more, own=()):
    """What `adapt` gave, and what `weights` and then `solve` did; `adapt` lets own rows join
    whatever the method is.
    """
    every = ("--targets", targets, "--seed", 3)
    ended = cli("adapt", *roles, *every, "--test", 0, "--out", "run", *more)
    assert ended.code == 0, ended
    ended = cli("weights", *roles, *every, "--out", "alpha.csv", *more, *own)
    assert ended.code == 0, ended
    # how weights are found is no matter of `solve`
    kept = [word for word in more if word not in FOUND]
    ended = cli(
        "solve", *roles, "--alpha", "alpha.csv", "--out", "m.safetensors", "--seed", 3, *kept
    )
    assert ended.code == 0, ended
    return cuvee.open_run("run"), cuvee.load_models("m.safetensors")


# in no time, and from the rows as they are encoded and levelled
FOUND = ("--method", "konstantinov_lampert")
AS_THEY_ARE = ("--no-levels", "--no-standardise")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("roles", "targets", "more"),
    [
        pytest.param(CLASSES, "new,007", (), id="classes"),
        pytest.param(QUANTITY, "new,007", (), id="a quantity"),
        pytest.param(CLASSES, "each", FOUND, id="classes, each", marks=pytest.mark.slow),
        pytest.param(QUANTITY, "each", FOUND, id="a quantity, each"),
        pytest.param(QUANTITY, "each", (*FOUND, *AS_THEY_ARE), id="as they are"),
    ],
)
def test_the_steps_are_adapt(cli, table, roles, targets, more):
    run, models = both(cli, roles, targets, *more, own=("--own",) if more else ())
    assert run.targets == models.targets and run.columns == models.columns
    weights = pd.read_csv("alpha.csv", dtype={"target": str}).set_index("target")
    assert tuple(weights.columns) == run.columns and tuple(weights.index) == run.targets
    np.testing.assert_allclose(weights.to_numpy(), run.alpha, **CLOSE)
    np.testing.assert_allclose(models.alpha, np.nan_to_num(run.alpha), **CLOSE)
    np.testing.assert_allclose(models.w, run.w, **CLOSE)
    new = table[table.hospital == "new"]
    new.to_csv("new.csv", index=False)
    ended = [
        cli("predict", source, "new.csv", "--keep", "cost") for source in ("m.safetensors", "run")
    ]
    answers, same = (pd.read_csv(io.StringIO(one.out)) for one in ended)
    assert list(answers.columns) == list(same.columns)
    for name in answers.select_dtypes("number"):
        np.testing.assert_allclose(answers[name], same[name], **CLOSE)
    assert answers.prediction.tolist() == same.prediction.tolist() or run.classes is None
    if run.classes is None and "--no-levels" not in more:
        # at the level of this hospital, which lies at 45
        assert abs(answers.prediction.mean() - new.cost.mean()) < 1.0


def test_models_of_nobody_are_at_the_level_of_their_sources(cli, table):
    """A model of one source alone is the model of its labels as they are, whatever was
    taken out.
    """
    Path("alpha.csv").write_text("north,east,south\n1,0,0\n0,1,0\n")
    shown = []
    for more in ((), ("--no-levels",)):
        words = (
            "solve",
            *QUANTITY,
            "--alpha",
            "alpha.csv",
            "--out",
            f"m{len(shown)}.safetensors",
            *more,
        )
        assert cli(*words).code == 0
        models = cuvee.load_models(f"m{len(shown)}.safetensors")
        shown.append(
            [models.predict(table, target=name).prediction.to_numpy() for name in models.targets]
        )
    np.testing.assert_allclose(shown[0], shown[1], rtol=0, atol=1e-9)


def test_a_map_is_learnt_at_one_level_too(cli, table):
    ended = cli(
        "learn",
        *QUANTITY,
        "--targets",
        "new,007",
        "--labels",
        64,
        "--out",
        "map.safetensors",
        "--quiet",
    )
    assert ended.code == 0, ended
    Path("alpha.csv").write_text(
        "target,south,north,east,(small sources)\nnew,0.1,0.2,0.3,0.4\nx,0.4,0.3,0.2,0.1\n"
    )
    files = {"asked.safetensors": ("--map", "map.safetensors"), "solved.safetensors": ()}
    for name, more in files.items():
        ended = cli("solve", *QUANTITY, "--alpha", "alpha.csv", "--out", name, *more)
        assert ended.code == 0, ended
    asked, solved = map(cuvee.load_models, files)
    np.testing.assert_allclose(asked.w, solved.w, rtol=0, atol=1e-3)
    for target in solved.targets:
        predictions = [
            models.predict(table, target=target).prediction for models in (asked, solved)
        ]
        np.testing.assert_allclose(*predictions, rtol=0, atol=1e-2)
    ended = cli(
        "solve",
        *QUANTITY,
        "--alpha",
        "alpha.csv",
        "--map",
        "map.safetensors",
        "--no-levels",
        "--out",
        "x.safetensors",
    )
    assert ended.code == 2 and "learnt from other data" in ended.err


@pytest.mark.parametrize("roles", [CLASSES, QUANTITY], ids=["classes", "a quantity"])
@pytest.mark.parametrize(
    "alpha",
    [
        # learn from themselves as sources
        "target,north,east,(own sample)\nnorth,0.5,0.3,0.2\neast,0,0.5,0.5\n",
        "target,north,(own sample)\nnorth,0,1\nnew,0.5,0.5\n",  # no other source is left
        # few rows, and none
        "target,north,east,south\nnorth,0,0.5,0.5\nhut,0.5,0.5,0\nnobody,0.5,0.5,0\nnew,1,0,0\n",
    ],
    ids=["themselves", "alone", "strangers"],
)
def test_weights_of_any_kind_are_solved(cli, table, roles, alpha):
    Path("alpha.csv").write_text(alpha)
    ended = cli("solve", *roles, "--alpha", "alpha.csv", "--out", "m.safetensors")
    assert ended.code == 0 and "very same data" not in ended.err, ended
    models = cuvee.load_models("m.safetensors")
    assert [str(status) for status in models.status] == ["solved"] * len(models.targets)
    for target in models.targets:
        answers = models.predict(table, target=target)
        assert len(answers) == len(table)
        rows = (table.hospital == target).to_numpy()
        # one source shows no levels
        if models.classes is None and len(models.columns) > 2 and rows.sum() > 5:
            # at its own level
            assert abs(answers.prediction[rows].mean() - table.cost[rows].mean()) < 2.0, target
