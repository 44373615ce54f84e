"""`adapt(model="trees")` and "forest": scores, files without pickle, a kill, bad input."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import cuvee
from cuvee.cli import main
from cuvee.data.task import Task
from cuvee.estimators import files, nodes
from cuvee.estimators.named import named
from cuvee.estimators.routing import Learner
from cuvee.run import fitted, model_choice
from cuvee.run.base import Base

NEW = ("north", "south")
SIGN = {"east": 1, "mid": -1, "west": 1, "north": 1, "south": -1}


def small(model, task):
    """Return boosting of a few small trees: what is tested here does not need large ones."""
    if model == "forest":
        return RandomForestClassifier(n_estimators=4)
    how = {"max_iter": 15, "max_leaf_nodes": 8, "learning_rate": 0.3, "min_samples_leaf": 5}
    return named(model, task).set_params(**{f"{LAST[task]}__{name}": v for name, v in how.items()})


LAST = {
    Task.classification: "histgradientboostingclassifier",
    Task.regression: "histgradientboostingregressor",
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(fitted, "named", small)


def table(kind: str = "classes", own: int = 60) -> pd.DataFrame:
    """A table whose label is the product of two fields, which no linear model sees."""
    rng = np.random.default_rng(0)
    site = np.repeat(list(SIGN), [100, 100, 100, own, own])
    frame = pd.DataFrame(rng.normal(size=(len(site), 2)), columns=["a", "b"])
    frame["colour"], frame["site"] = rng.choice(["red", "blue"], len(site)), site
    signal = frame.a * frame.b * np.array([SIGN[s] for s in site])
    level = np.array([{"east": 20.0, "north": 40.0}.get(s, 0.0) for s in site])
    frame["y"] = np.where(signal > 0, "yes", "no") if kind == "classes" else signal + level
    return frame


asked = {"label": "y", "domain": "site", "targets": NEW}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of boosting, made once, and its table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted, "named", small)
        folder = tmp_path_factory.mktemp("trees") / "run"
        return cuvee.adapt(table(), folder, **asked, model="trees"), table()


def test_trees_learn_what_a_linear_model_cannot(made, tmp_path):
    trees, frame = made
    linear = cuvee.adapt(frame, tmp_path / "linear", **asked)
    mean = {run.options.model: run.metrics["mean"][0][0] for run in (trees, linear)}
    assert mean["trees"] > mean["linear"] + 0.1
    assert trees.metrics["methods"] == linear.metrics["methods"]
    assert np.isfinite(np.array(trees.metrics["scores"], dtype=float)).all()
    assert trees.metrics["also"].keys() == linear.metrics["also"].keys()


def test_the_report_says_that_there_is_no_certificate(made):
    run, _ = made
    assert run.metrics["status"] == ["fitted", "fitted"]
    assert run.metrics["certificate"]["distance"] == [None, None]
    page = (run.path / "report.html").read_text()
    assert "No certificate: histogram gradient boosting is not the one best model" in page
    assert "half own" in page  # what was judged is drawn
    assert "histogram gradient boosting, on mixtures found with logistic regression" in page


def test_alpha_of_the_run_is_what_the_models_learnt_from(made):
    run, _ = made
    tried = run.findings.tried
    for i, one in enumerate(tried):
        np.testing.assert_allclose(one.share @ one.alpha, run.alpha[i], atol=1e-9)
        assert one.names[:3] == ("averaged", "half own", "pooled_own")


@pytest.mark.slow
def test_models_predict_in_a_fresh_process(made, tmp_path):
    run, frame = made
    rows = frame[frame.site.isin(NEW)].drop(columns="y")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    here = run.predict(rows)
    program = (
        "import sys, cuvee;"
        "cuvee.open_run(sys.argv[1]).predict(sys.argv[2]).to_csv(sys.argv[3], index=False)"
    )
    out = tmp_path / "out.csv"
    command = [sys.executable, "-c", program, run.path, tmp_path / "rows.csv", out]
    subprocess.run(list(map(str, command)), check=True)
    there = pd.read_csv(out)
    assert there.prediction.tolist() == here.prediction.tolist()
    np.testing.assert_allclose(there["p(yes)"], here["p(yes)"], atol=1e-12)
    np.testing.assert_allclose(here["p(yes)"] + here["p(no)"], 1.0)


def test_only_linear_models_are_mixed_anew(made):
    """A service of such a run predicts, and says why it makes no models for new mixtures."""
    run, frame = made
    with pytest.raises(cuvee.errors.InputError, match="are trees, and only linear ones"):
        Base.of(run, frame)


def test_levels_come_back_in_predictions(tmp_path):
    frame = table("numbers")
    run = cuvee.adapt(frame, tmp_path / "run", **asked, model="trees")
    north = frame[frame.site == "north"]
    assert abs(run.predict(north).prediction.mean() - 40.0) < 2.0
    assert run.metrics["mean"][0][0] < run.metrics["mean"][2][0]  # pooled knows no levels


@pytest.mark.parametrize("cut", ["judging mixtures", "fitting models"])
def test_a_kill_loses_one_targets_work_at_most(made, tmp_path, cut, monkeypatch):
    whole, frame = made

    def kill(what, done, total):
        if (what, done) == (cut, 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cuvee.adapt(frame, tmp_path / "run", **asked, model="trees", progress=kill)
    calls: list[str] = []
    for name in ("judged", "deliver"):
        plain = getattr(fitted, name)
        monkeypatch.setattr(
            fitted, name, lambda *a, n=name, f=plain: (calls.append(f"{n} {a[1]}"), f(*a))[1]
        )
    run = cuvee.resume(tmp_path / "run", source=frame)
    judged_again = ["judged 1"] if cut == "judging mixtures" else []
    delivered = ["deliver 0", "deliver 1"] if cut == "judging mixtures" else ["deliver 1"]
    assert calls == judged_again + delivered
    np.testing.assert_allclose(run.alpha, whole.alpha, atol=1e-9)
    rows = frame[frame.site.isin(NEW)]
    np.testing.assert_allclose(
        run.predict(rows)["p(yes)"], whole.predict(rows)["p(yes)"], atol=1e-9
    )


@pytest.mark.slow
def test_every_domain_in_turn_and_alpha_of_ones_own(tmp_path):
    frame = table()
    few = frame[frame.site.isin(["east", "mid", "west"])]
    run = cuvee.adapt(few, tmp_path / "each", label="y", domain="site", model="trees", budget=60)
    assert run.targets == ("east", "mid", "west") and np.isnan(np.diag(run.alpha)).all()
    assert run.predict(few).prediction.eq(few.y).mean() > 0.8
    alpha = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    given = cuvee.adapt(frame, tmp_path / "given", **asked, model="trees", alpha=alpha)
    np.testing.assert_allclose(given.alpha, alpha)
    assert given.metrics["mean"][0][0] > 0.8


def test_a_budget_that_is_spent_is_noted(tmp_path):
    run = cuvee.adapt(table(), tmp_path / "run", **asked, model="forest", budget=1e-9)
    says = "target 'north', mixture 'averaged': not judged, because the budget was spent"
    assert says in run.as_dict()["notes"] and says in run.findings.notes
    assert "There are 7 more such notes." in run.as_dict()["notes"]


def test_the_command_takes_a_model(tmp_path, capsys, monkeypatch):
    table().to_csv(tmp_path / "t.csv", index=False)
    words = f"adapt {tmp_path}/t.csv --domain site --label y --targets north --model forest -q"
    monkeypatch.setattr(sys, "argv", ["cuvee", *words.split(), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "Nothing is proven about how close" in " ".join(capsys.readouterr().out.split())


# ---- the model by cross-validated loss


@pytest.mark.parametrize("kind", ["interactions", "none"])
def test_auto_takes_trees_where_fields_interact_and_the_linear_model_where_not(
    tmp_path, kind, monkeypatch
):
    monkeypatch.setattr(model_choice, "named", small)
    # with 60 rows of a target, chance decides between models that are nearly as good
    frame = table(own=300)
    if kind == "none":
        noise = np.random.default_rng(1).logistic(size=len(frame))
        frame["y"] = np.where(2 * frame.a - frame.b + noise > 0, "yes", "no")
    heard = []
    run = cuvee.adapt(frame, tmp_path / "run", **asked, model="auto", say=heard.append)
    chosen = json.loads((run.path / "model.json").read_text())
    assert chosen["model"] == ("trees" if kind == "interactions" else "linear")
    assert re.search(
        rf"model: {chosen['model']}, whose cross-validated log loss is (the least|within [\d.]+, one "
        r"standard error, of the least) of "
        r"linear [\d.]+ \(\d+ s\), trees [\d.]+ \(\d+ s\), forest [\d.]+ \(\d+ s\)",
        chosen["why"],
    )
    assert heard[-1] == chosen["why"]
    words = (
        "histogram gradient boosting, on" if kind == "interactions" else "linear models: logistic"
    )
    assert f"with {words}" in run.summary() and "(the choice of --model auto)" in run.summary()
    assert chosen["why"] in run.as_dict()["notes"] and chosen["why"] in run.findings.notes
    assert (run.path / "fitted").exists() == (kind == "interactions")
    rows = frame[frame.site.isin(NEW)]
    assert cuvee.open_run(run.path).predict(rows).prediction.eq(rows.y).mean() > 0.7


# ---- bad input


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "tree"}, "model must be one of"),
        ({"model": "trees", "hypothesis": "mlp"}, "model 'trees' learns from mixtures that a linear"),
        ({"model": "trees", "budget": 0.0}, "budget must be"),
    ],
)  # fmt: skip
def test_bad_options(tmp_path, options, says):
    with pytest.raises(cuvee.OptionError, match=says):
        cuvee.adapt(table(), tmp_path / "run", **asked, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("labelled", [0, 1])
def test_targets_with_no_label_or_one(tmp_path, labelled):
    frame = table()
    frame.loc[frame.index[frame.site == "north"][labelled:], "y"] = None
    run = cuvee.adapt(frame, tmp_path / "run", **asked, model="forest")
    assert run.targets == NEW and run.metrics["label_free"]["targets"] == ["north"]
    assert run.metrics["label_free"]["judged_on"] == 1 and run.alpha[0, -1] == 0.0
    assert run.metrics["scores"][0][0] == [None] * 3 and run.metrics["scores"][1][0][0] > 0.5
    # inputs are alike everywhere: two of three sources have its rule
    north = table()[frame.site == "north"]
    assert run.predict(north).prediction.eq(north.y).mean() > 0.6
    frame.loc[frame.index[frame.site == "south"], "y"] = None
    none = cuvee.adapt(frame, tmp_path / "none", **asked, model="auto")
    says = "model: linear, because no target has labels that could judge another"
    assert says in none.as_dict()["notes"] and none.metrics["label_free"]["judged_on"] == 0
    assert none.predict(north).prediction.isin(["yes", "no"]).all()


def test_a_class_that_a_fold_lacks_is_noted(tmp_path):
    frame = table()
    rare = frame.index[frame.site == "north"]
    frame.loc[rare, "y"] = "no"
    frame.loc[frame.index[frame.site == "east"][:3], "y"] = "rare"
    frame.loc[rare[:1], "y"] = "rare"
    says = (
        "target 'north', mixture 'target_only': the rows to learn from have no row of class 'rare'"
    )
    run = cuvee.adapt(
        frame, tmp_path / "run", **(asked | {"targets": "north"}), model="trees", test=0.0
    )
    assert any(note.startswith(says) for note in run.as_dict()["notes"])


def test_without_skops_nothing_begins(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(cuvee.errors.MissingExtra, match=re.escape("pip install 'cuvee[trees]'")):
        cuvee.adapt(table(), tmp_path / "run", **asked, model="trees")
    assert not (tmp_path / "run").exists()


def edited(content: bytes, change) -> bytes:
    """Return a file of skops with its schema changed."""
    old, out = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, change(part) if name == "schema.json" else part)
    return out.getvalue()


def test_a_file_of_other_things_is_not_loaded(made, tmp_path):
    run, frame = made
    content = (run.path / "fitted" / "0.skops").read_bytes()

    def other(schema: bytes) -> bytes:
        told = json.loads(schema)
        told["__class__"], told["__module__"] = "Popen", "subprocess"
        return json.dumps(told).encode()

    with pytest.raises(
        cuvee.errors.InputError, match=r"holds a subprocess\.Popen, which cuvee does"
    ):
        files.from_bytes(edited(content, other), 2, tmp_path / "0.skops")
    with pytest.raises(cuvee.errors.InputError, match="cannot be read by scikit-learn"):
        files.from_bytes(b"nothing", 2, tmp_path / "0.skops")
    copy = shutil.copytree(run.path, tmp_path / "run")
    (copy / "fitted" / "0.skops").write_bytes(content[:-1])
    with pytest.raises(cuvee.errors.InputError, match="was changed or cut after it was written"):
        cuvee.open_run(copy).predict(frame[:5], target="north")


@pytest.mark.parametrize("kind", ["trees", "forest"])
def test_a_tree_that_leads_outside_itself_is_not_asked(kind):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    learner = Learner.of(fitted.named(kind, Task.classification), np.array([0, 1]), 0)
    model = learner.fit(X, y, np.ones(60)).estimator
    nodes.check_trees(model)
    if kind == "trees":
        model[-1]._predictors[0][0].nodes["left"][0] = 10**6
    else:
        model.estimators_[0].tree_.feature[0] = 7
    with pytest.raises(ValueError, match="lead outside it"):
        nodes.check_trees(model)


class OfLightgbm:
    """What a fitted model of LightGBM gives to the check of its trees."""

    __module__ = "lightgbm.sklearn"
    n_features_in_ = 2

    def __init__(self, text):
        self.booster_ = self
        self.model_to_string = lambda: text


@pytest.mark.parametrize(
    ("name", "value"),
    [("left_child", 2), ("left_child", -4), ("right_child", 3), ("split_feature", 2), ("num_leaves", 4)],
)  # fmt: skip
def test_nodes_in_the_text_of_lightgbm_are_checked(name, value):
    lines = {
        "num_leaves": [3],
        "split_feature": [0, 1],
        "left_child": [1, -1],
        "right_child": [-2, -3],
    }
    nodes.check_trees(OfLightgbm(tree_text(lines)))
    lines[name][0] = value
    with pytest.raises(ValueError, match=r"lead outside it|more nodes than it says"):
        nodes.check_trees(OfLightgbm(tree_text(lines)))


def tree_text(lines) -> str:
    """The lines of LightGBM's text that say where nodes lead."""
    return "tree\nversion=v4\n\nTree=0\n" + "\n".join(
        f"{name}={' '.join(map(str, numbers))}" for name, numbers in lines.items()
    )


# ---- LightGBM and XGBoost, where they are installed


@pytest.fixture(params=["lightgbm", "xgboost"])
def outside(request):
    """The name of a package that may be here, and a model of it with few small trees."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    few = {"n_estimators": 15, "max_depth": 3, "learning_rate": 0.3}
    return request.param, lambda model, task: named(model, task).set_params(**few)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_packages_through_the_same_door(tmp_path, outside, kind, monkeypatch):
    model, few = outside
    monkeypatch.setattr(fitted, "named", few)
    frame = table(kind)
    run = cuvee.adapt(frame, tmp_path / "run", **asked, model=model)
    rows = frame[frame.site.isin(NEW)]
    answers = cuvee.open_run(run.path).predict(rows).prediction
    if kind == "classes":
        assert answers.eq(rows.y).mean() > 0.8
    else:
        assert np.corrcoef(answers, rows.y)[0, 1] > 0.9
    assert run.metrics["status"] == ["fitted", "fitted"]


def test_a_model_of_a_package_may_lack_a_class(outside):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.repeat([0, 2], 45)
    learner = Learner.of(outside[1](outside[0], Task.classification), np.array([3, 5, 8]), 0)
    model = learner.fit(X + y[:, None], y, np.ones(90))
    again = files.from_bytes(files.to_bytes(model), 3, "file")
    chance = again.predict_proba(X)
    np.testing.assert_allclose(chance, model.predict_proba(X), atol=1e-9)
    assert (chance[:, 1] == 0).all() and set(again.predict(X)) <= {0, 2}
    with pytest.raises(cuvee.errors.InputError, match="classes are not those of the run"):
        files.from_bytes(files.to_bytes(model), 2, "file")


@pytest.mark.parametrize("model", ["lightgbm", "xgboost"])
def test_without_the_package_nothing_begins(tmp_path, model, monkeypatch):
    monkeypatch.setitem(sys.modules, model, None)
    says = f"model '{model}' needs the package {model}, which is not installed: pip install 'cuvee[{model}]'"
    with pytest.raises(cuvee.errors.MissingExtra, match=re.escape(says)):
        cuvee.adapt(table(), tmp_path / "run", **asked, model=model)
    assert not (tmp_path / "run").exists()
