"""What `cuvee solve` writes, `cuvee predict` and `cuvee.load_models` read: the same predictions, or
one sentence.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import cuvee
from cuvee.data.encode import Encoder
from cuvee.data.levels import take_out
from cuvee.outputs import files
from cuvee.run.saved import FORMAT, WHAT
from rounding import assert_rounded

ROOT = Path(__file__).resolve().parents[2]
FEATURES = ["age", "dose", "sex"]
LABELS = {  # the label, columns to drop, the hypothesis
    "two classes": ("readmitted", "cost,ward", cuvee.Logistic(1e-2)),
    "three classes": ("ward", "cost,readmitted", cuvee.Logistic(1e-2)),
    "a quantity": ("cost", "readmitted,ward", cuvee.Ridge(1e-2)),
}
ALPHA = "target,north,east,south,(own sample)\n007,0.2,0.3,0.1,0.4\nnew,0.5,0.1,0.1,0.3\n"


@pytest.fixture
def table(folder):
    """visits.csv with a third kind of label, and weights for two targets."""
    frame = pd.read_csv("visits.csv", dtype={"hospital": str})
    frame["ward"] = pd.cut(frame.cost, [-np.inf, -1, 1, np.inf], labels=["a", "b", "c"]).astype(str)
    frame.to_csv("visits.csv", index=False)
    Path("alpha.csv").write_text(ALPHA)
    return frame


@pytest.fixture
def solve(cli, table):
    """solve(label, more words) -> the file of the models of 007 and new."""

    def call(kind="two classes", *more, out="models.safetensors"):
        label, drop, _ = LABELS[kind]
        roles = ("visits.csv", "--domain", "hospital", "--label", label, "--drop", drop)
        ended = cli("solve", *roles, "--alpha", "alpha.csv", "--out", out, *more)
        assert ended.code == 0, ended
        return Path(out)

    return call


def fitted(table, *sources):
    """The encoder of the table, whose numbers are scaled by the sources' rows."""
    return Encoder.fit(table, FEATURES, of_sources=table.hospital.isin(sources).to_numpy())


def by_hand(table, kind):
    """The models as the library solves them, the level of each, and the encoded rows."""
    label, _, hypothesis = LABELS[kind]
    encoder = fitted(table, "north", "east", "south")
    rows = {name: table[table.hospital == name] for name in table.hospital.unique()}
    domains = {
        name: cuvee.Domain(name, encoder(some), some[label].to_numpy())
        for name, some in rows.items()
    }
    problem = cuvee.Problem(
        [domains[n] for n in ("north", "east", "south")], [domains[n] for n in ("007", "new")]
    )
    alpha = np.array([[0.2, 0.3, 0.1, 0.4], [0.5, 0.1, 0.1, 0.3]])
    if label != "cost":
        return cuvee.solve(problem, hypothesis, alpha), np.zeros(2), encoder(table)
    levelled = take_out(problem, hypothesis.l2)
    return cuvee.solve(levelled.problem, hypothesis, alpha), levelled.offset, encoder(table)


def printed(ended):
    assert ended.code == 0, ended
    return pd.read_csv(io.StringIO(ended.out), dtype={"hospital": str})


@pytest.mark.parametrize("kind", LABELS)
def test_predictions_are_those_of_the_library(cli, table, solve, kind):
    path = solve(kind)
    sol, level, X = by_hand(table, kind)
    models, classes = cuvee.load_models(path), sol.models[0].classes
    assert models.targets == ("007", "new") and list(models.features) == FEATURES
    assert (
        (models.classes is None)
        if classes is None
        else (models.classes.tolist() == classes.tolist())
    )
    for i, target in enumerate(models.targets):
        loaded = models.predict(table, target=target)
        shown = printed(cli("predict", path, "visits.csv", "--target", target))
        assert list(shown.columns) == list(loaded.columns)
        wanted = sol.models[i].predict(X)
        if classes is None:
            np.testing.assert_allclose(loaded.prediction, wanted + level[i], rtol=0, atol=1e-12)
            np.testing.assert_allclose(shown.prediction, wanted + level[i], rtol=1e-8)
            continue
        chances = sol.models[i].predict_proba(X)
        assert loaded.prediction.tolist() == shown.prediction.tolist() == wanted.tolist()
        np.testing.assert_allclose(
            models.predict_proba(table, target=target), chances, rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(shown[[f"p({c})" for c in classes]], chances, rtol=1e-8)


def test_each_row_gets_the_model_of_its_own_domain_as_in_a_run(cli, table, solve):
    path, own = solve(), table[table.hospital.isin(["007", "new"])]
    own.to_csv("own.csv", index=False)
    models = cuvee.load_models(path)
    said = models.predict(own)
    for target in models.targets:
        rows = (own.hospital == target).to_numpy()
        assert_rounded(
            models.predict_proba(own)[rows], models.predict_proba(own[rows], target=target)
        )
    shown = printed(cli("predict", path, "own.csv", "--keep", "age"))
    assert list(said.columns) == ["hospital", "prediction", "p(False)", "p(True)"]
    assert list(shown.columns) == ["hospital", "age", "prediction", "p(False)", "p(True)"]
    assert shown.prediction.tolist() == said.prediction.tolist()
    ended = cli("adapt", "visits.csv", "--domain", "hospital", "--label", "readmitted", "--drop", "cost,ward",
                "--targets", "new,007", "--method", "uniform", "--out", "run", "-q")  # fmt: skip
    assert ended.code == 0
    run = cuvee.open_run("run")
    assert list(run.predict(own).columns) == list(said.columns)
    assert run.classes.tolist() == models.classes.tolist() and run.features == models.features
    np.testing.assert_array_equal(run.predict_proba(own), run.predict(own)[["p(False)", "p(True)"]])


def test_what_a_file_says_of_its_models(table, solve):
    sol, _, _ = by_hand(table, "two classes")
    models = cuvee.load_models(solve())
    assert models.columns == ("north", "east", "south", cuvee.OWN) and models.status == sol.status
    np.testing.assert_array_equal(models.alpha, sol.alpha)
    np.testing.assert_allclose(models.w, sol.w, rtol=0, atol=1e-12)
    for name in ("distance", "excess_risk", "gradient_norm"):
        assert getattr(models.certificate, name).shape == (2,)
    assert (
        models.certificate.rests_on == sol.certificate.rests_on
        and models.certificate.certified.all()
    )
    assert repr(models).startswith("2 models of 'readmitted', for '007', 'new'\n  2 of 2 certified")
    with pytest.raises(cuvee.OptionError, match="quantity"):
        cuvee.load_models(solve("a quantity", out="q.safetensors")).predict_proba(
            table, target="new"
        )


def test_arrays_are_rows_of_the_columns_in_order(table, solve):
    path = solve("a quantity", "--features", "dose,age")
    models = cuvee.load_models(path)
    X, wanted = (
        table[["dose", "age"]].to_numpy(copy=True),
        models.predict(table, target="new").prediction,
    )
    for rows in (X, torch.as_tensor(X), torch.as_tensor(X)[:, None], X.astype(object), X.tolist()):
        np.testing.assert_array_equal(models.predict(rows, target="new").prediction, wanted)
    mixed = cuvee.load_models(solve(out="mixed.safetensors"))
    rows = table[FEATURES].to_numpy(dtype=object)
    np.testing.assert_array_equal(
        mixed.predict_proba(rows, target="new"), mixed.predict_proba(table, target="new")
    )
    for rows in (X[:, :1], X[0], np.zeros((0, 3)), [], "ab", None):
        with pytest.raises(cuvee.InputError):
            models.predict(rows, target="new")
    with pytest.raises(
        cuvee.InputError, match=r"shape \(120, 1\), and the models learnt from 'dose', 'age'"
    ):
        models.predict(X[:, :1], target="new")
    with pytest.raises(
        cuvee.InputError, match=r"there is no column 'hospital'.*there are '007', 'new'"
    ):
        models.predict(X)


def test_models_without_names_are_numbered_and_one_model_needs_no_name(cli, table, solve):
    Path("alpha.csv").write_text("north,east\n1,0\n0.5,0.5\n")
    models = cuvee.load_models(solve())
    assert models.targets == ("row 0", "row 1") and len(
        models.predict(table, target="row 1")
    ) == len(table)
    Path("alpha.csv").write_text("north,east\n1,0\n")
    path = solve(out="one.safetensors")
    assert len(printed(cli("predict", path, "visits.csv", "--target", "row 0"))) == len(table)
    table[FEATURES].to_csv("rows.csv", index=False)
    assert len(printed(cli("predict", path, "rows.csv"))) == len(table)


def test_code_that_a_file_names_is_not_run_unless_it_is_named(cli, table, solve, monkeypatch):
    Path("alpha.csv").write_text("target,north,east\nnew,0.5,0.5\n")
    Path("my_nets.py").write_text(
        "import torch\ndef small(n_inputs, n_outputs):\n    return torch.nn.Linear(n_inputs, "
        "n_outputs)\n"
    )
    monkeypatch.syspath_prepend(".")
    path = solve("two classes", "--hypothesis", "my_nets:small")
    del sys.modules["my_nets"]
    with pytest.raises(cuvee.OptionError, match="'my_nets:small', code that makes"):
        cuvee.load_models(path)
    refused = cli("predict", path, "visits.csv", "--target", "new")
    assert refused.code == 2 and refused.out == "" and "--hypothesis my_nets:small" in refused.err
    assert "my_nets" not in sys.modules
    with pytest.raises(cuvee.OptionError, match="not 'my_nets:other'"):
        cuvee.load_models(path, hypothesis="my_nets:other")
    models = cuvee.load_models(path, hypothesis="my_nets:small")
    weight, bias = np.split(models.w[0], [-2])  # of the layer: (2, inputs) and (2,)
    scores = fitted(table, "north", "east")(table) @ weight.reshape(2, -1).T + bias
    chances = models.predict_proba(table, target="new")
    np.testing.assert_allclose(
        np.log(chances[:, 1] / chances[:, 0]), scores[:, 1] - scores[:, 0], atol=1e-4
    )
    allowed = printed(
        cli("predict", path, "visits.csv", "--target", "new", "--hypothesis", "my_nets:small")
    )
    np.testing.assert_allclose(allowed[["p(False)", "p(True)"]], chances, atol=1e-6)
    sys.modules.pop("my_nets", None)


# ---- what cannot be read or predicted ------------------------------------------------------------


def check_refused(cli, folder, words, sentence):
    """Exit code 2, one line on stderr, nothing on stdout, nothing written."""
    before = sorted(p.name for p in folder.iterdir())
    ended = cli("predict", *words, "--out", "said.csv")
    assert ended.code == 2 and ended.out == "", ended
    assert ended.err.startswith("cuvee: ") and ended.err.count("\n") == 1, ended.err
    assert re.search(sentence, ended.err), (sentence, ended.err)
    assert sorted(p.name for p in folder.iterdir()) == before


def test_files_that_are_no_models(cli, folder, solve):
    path = solve()
    whole = path.read_bytes()
    damaged = "damaged.*restore it from a copy, or make it again"
    for content in (
        b"",
        b"hello",
        whole[:7],
        whole[:100],
        whole[: len(whole) // 2],
        whole[:-1],
        whole + b"\0",
    ):
        Path("bad.safetensors").write_bytes(content)
        check_refused(cli, folder, ("bad.safetensors", "visits.csv", "--target", "new"), damaged)
    save_file({"a": torch.zeros(2)}, "bad.safetensors")
    check_refused(
        cli, folder, ("bad.safetensors", "visits.csv"), "another kind of file, or damaged"
    )
    check_refused(
        cli, folder, ("visits.csv", "visits.csv"), "visits.csv cannot be read as cuvee models"
    )
    check_refused(
        cli, folder, ("gone.safetensors", "visits.csv"), "no folder and no file gone.safetensors"
    )
    files.write(Path("bad.safetensors"), {}, {"what": "a cuvee map", "format": 2})
    check_refused(
        cli, folder, ("bad.safetensors", "visits.csv"), "holds a cuvee map, not cuvee models"
    )
    files.write(Path("bad.safetensors"), {}, {"what": WHAT, "format": FORMAT + 1})
    check_refused(
        cli,
        folder,
        ("bad.safetensors", "visits.csv"),
        f"has format {FORMAT + 1}; this version of cuvee",
    )


def test_a_file_of_an_older_version_says_to_solve_again(cli, folder, solve):
    path = solve()
    header = {**files.header_of(path), "format": 1}
    save_file(load_file(path), path, metadata={"cuvee": json.dumps(header)})
    check_refused(
        cli, folder, (path, "visits.csv", "--target", "new"), "older version.*run cuvee solve again"
    )
    with pytest.raises(cuvee.InputError, match="run cuvee solve again"):
        cuvee.load_models(path)


CHANGES = {
    "a model less": lambda h, t: t.update(w=t["w"][1:]),
    "a name less": lambda h, t: h["models"].pop(),
    "a name twice": lambda h, t: h.update(models=["new", "new"]),
    "a parameter less": lambda h, t: t.update(w=t["w"][:, 1:].contiguous()),
    "no encoder": lambda h, t: h["groups"][0].pop("encoder"),
    "another encoder": lambda h, t: h["groups"][0]["encoder"]["columns"].pop(),
    "no classes": lambda h, t: h.update(classes=None),
    "a class more": lambda h, t: h.update(classes=[0, 1, 2]),
    "an unknown status": lambda h, t: h.update(status=["fine", "fine"]),
    "an unknown option": lambda h, t: h["options"].update(colour="red"),
    "no options": lambda h, t: h.update(options=None),
    "an unknown task": lambda h, t: h.update(task="clustering"),
    "no bounds": lambda h, t: t.pop("distance"),
    "no levels": lambda h, t: t.pop("offset"),
    "a level less": lambda h, t: t.update(offset=t["offset"][1:]),
    "a level that is no number": lambda h, t: t["offset"].fill_(np.nan),
    "no group": lambda h, t: h.update(group=[]),
    "another group": lambda h, t: h.update(group=[0, 1]),
    "other classes in a group": lambda h, t: h["groups"][0].update(classes=["a", "b"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_whose_parts_do_not_fit(cli, folder, solve, change):
    path = solve()
    header, tensors = files.header_of(path), load_file(path)
    CHANGES[change](header, tensors)
    files.write(path, tensors, header)
    sentence = "models.safetensors (cannot be read as|has an option)"
    check_refused(cli, folder, (path, "visits.csv", "--target", "new"), sentence)


def test_a_file_of_a_run_is_not_one_of_solve(cli, folder, table):
    words = (
        "--domain",
        "hospital",
        "--label",
        "cost",
        "--targets",
        "new",
        "--method",
        "uniform",
        "--out",
        "run",
        "-q",
    )
    assert cli("adapt", "visits.csv", *words).code == 0
    check_refused(
        cli,
        folder,
        ("run/models.safetensors", "visits.csv"),
        "is part of a run: give its folder, run, to",
    )
    check_refused(
        cli,
        folder,
        ("run", "visits.csv", "--hypothesis", "a:b"),
        "holds the hypothesis .auto., not .a:b.: name that, or none",
    )


def test_rows_that_cannot_be_predicted(cli, folder, table, solve):
    path = solve()
    for frame, words, sentence in (
        (table, ("--target", "nwe"), "'nwe' is not a target of these models; did you mean 'new'"),
        (
            table,
            (),
            "row 0 is of domain 'north', which is not a target of these models .72 such rows",
        ),
        (
            table.drop(columns="hospital"),
            (),
            "no column 'hospital' to say whose.*there are '007', 'new'",
        ),
        (table.drop(columns="dose"), ("--target", "new"), "there is no column 'dose'"),
        (
            table.rename(columns={"dose": "Dose"}),
            ("--target", "new"),
            "no column 'dose'; did you mean 'Dose'",
        ),
        (table.assign(dose="much"), ("--target", "new"), "'dose' holds text, 'much'"),
        (table.assign(sex="x"), ("--target", "new", "--strict"), "'sex' is 'x' at row 0"),
        (table.assign(dose=np.nan), ("--target", "new"), "120 of 120 rows have missing values"),
        (table, ("--target", "new", "--keep", "agee"), "no column 'agee'; did you mean 'age'"),
        (table[:0], ("--target", "new"), "there are no rows"),
    ):
        frame.to_csv("rows.csv", index=False)
        check_refused(cli, folder, (path, "rows.csv", *words), sentence)
        target = words[1] if words else None
        if "agee" not in words:
            with pytest.raises(cuvee.InputError, match=sentence):
                cuvee.load_models(path).predict(frame, target=target, strict="--strict" in words)


def test_two_models_of_one_name_are_refused_before_anything_is_solved(cli, folder, table):
    Path("alpha.csv").write_text("target,north,east\nnew,1,0\nnew,0,1\n")
    words = ("visits.csv", "--domain", "hospital", "--label", "cost", "--drop", "ward,readmitted")
    ended = cli("solve", *words, "--alpha", "alpha.csv", "--out", "m.safetensors")
    assert (
        ended.code == 2
        and "alpha has 2 rows for target 'new': give each model a name of its own" in ended.err
    )
    assert not Path("m.safetensors").exists()


def test_the_lines_of_the_docs_run(solve, capsys):
    """The Python of docs/models.md reads what the line of `cuvee solve` above it writes."""
    solve()
    blocks = re.findall(
        r"^```python\n(.*?)^```$",
        (ROOT / "docs" / "models.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    (block,) = (block for block in blocks if "load_models" in block)
    exec(compile(block, "docs/models.md", "exec"), {})
    assert "007" in capsys.readouterr().out
