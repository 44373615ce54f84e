"""Federated sites in this process: the same numbers, never a row, and sites that fail or lie."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from cuvee.components.protocol import Batch, Folds, Half
from cuvee.data.encode import Encoder
from cuvee.data.task import Task, infer_of
from cuvee.errors import DomainError, InputError, OptionError
from cuvee.problem import Domain
from cuvee.scale import flower_guard as guard
from cuvee.scale.flower_answers import Call
from cuvee.scale.flower_model import FederatedModel
from cuvee.scale.flower_report import as_dict, page
from cuvee.scale.flower_rounds import Rounds
from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig
from cuvee.scale.flower_wire import Packet, RawArray, fingerprint, packed, unpacked
from flower_builders import FAST, ROLES, Recorder, pooled, run, tables, written

FOLDS = {"ridge": 4, "logistic": 4}  # 24 rows of fig, at least 5 in each


@pytest.fixture(scope="module", params=["ridge", "logistic"])
def finished(request, tmp_path_factory):
    kind, frames = request.param, tables(request.param)
    desks = written(tmp_path_factory.mktemp(kind), frames)
    federation, transport = run(desks)
    return kind, frames, federation, transport


def test_weights_and_models_are_those_of_one_table(finished):
    kind, frames, federation, _ = finished
    alpha, w = pooled(frames, kind, FOLDS[kind])
    assert federation.left_out == {}
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(federation.solution.w, w, rtol=0, atol=1e-8)
    assert federation.mixtures.alpha[0, 2] == 0.0  # elm does not learn from itself


def test_rounds_are_few(finished):
    kind, _, federation, _ = finished
    rounds = federation.rounds_by_stage
    once = ("meeting", "introducing", "agreeing", "handing over")
    assert [rounds[stage] for stage in once] == [1, 1, 1, 1]
    assert rounds["α"] <= (4 if kind == "ridge" else 60)
    assert rounds.get("models", 0) <= (0 if kind == "ridge" else 12)


def rows_in(packet, rows):
    """Return whether a packet holds a multiple of any of these rows (n, d), or its cells."""
    d = rows.shape[1]
    for raw in packet.arrays:
        if raw.dtype not in ("float64", "float32") or not raw.data:
            continue
        numbers = np.frombuffer(raw.data, raw.dtype).astype(float)
        for start in range(min(d, len(numbers))):  # wherever a row might begin
            cut = numbers[start : start + (len(numbers) - start) // d * d].reshape(-1, d)
            size = np.linalg.norm(cut, axis=1)
            cut, size = cut[size > 0], size[size > 0]
            cosine = np.abs(cut @ rows.T) / size[:, None] / np.linalg.norm(rows, axis=1)
            if (cosine > 1.0 - 1e-12).any():
                return True
    return False


def test_no_message_holds_a_row(finished):
    kind, frames, federation, transport = finished
    encoder = Encoder.from_dict(federation.agreement.encoder.as_dict())
    names = {f"node {i}": name for i, name in enumerate(frames)}
    cells = {
        name: {repr(v) for v in f[["x", "y", "z"]].to_numpy().ravel()} for name, f in frames.items()
    }
    assert len(transport.messages) > 20
    for node, _, reply in transport.messages:
        name = names[node]
        raw, encoded = frames[name][["x", "y", "z"]].to_numpy(), encoder(frames[name])
        assert not rows_in(reply, raw)
        assert not rows_in(reply, encoded)
        words = set(reply.text.replace(",", " ").replace("]", " ").replace(":", " ").split())
        assert not words & cells[name]
        if kind == "ridge":
            assert not words & {repr(v) for v in frames[name]["cost"]}
    # the search would find one
    leak = packed({"answer": torch.tensor(0.3 * encoder(frames["ash"])[7])})
    assert rows_in(leak, encoder(frames["ash"]))


def test_nothing_is_pickled(finished):
    *_, transport = finished
    for _, sent, reply in transport.messages:
        for packet in (sent, reply):
            json.loads(packet.text)
            assert all(
                raw.dtype in ("float64", "float32", "int64", "bool") for raw in packet.arrays
            )


def sent_by(desk):
    return desk.config.beside(desk.config.log, "sent.jsonl")


def test_a_site_logs_what_it_sent(finished):
    _, _, federation, transport = finished
    desk = transport.desks["node 0"]
    lines = [json.loads(line) for line in sent_by(desk).read_text().splitlines()]
    sent = sum(reply.n_bytes for node, _, reply in transport.messages if node == "node 0")
    assert sum(line["sent_bytes"] for line in lines) == sent
    assert [line["answered"] for line in lines[:2]] == [["meet"], ["introduce"]]
    assert sum(r.received.get("ash", 0) for r in federation.rounds) == sent


def test_each_target_is_given_its_own_model(finished):
    kind, frames, federation, transport = finished
    files = {d.config.domain: f"{d.config.file}.model.json" for d in transport.desks.values()}
    for i, target in enumerate(federation.mixtures.targets):
        model = FederatedModel.load(files[target])
        assert model.target == target
        predicted = model.predict(frames[target])
        encoded = federation.agreement.encoder(frames[target])
        expected = federation.solution.space.predict(federation.solution.w[i], encoded)
        if kind == "ridge":
            np.testing.assert_allclose(predicted, expected + federation.offset[i])
        else:
            assert predicted.tolist() == expected.tolist()
    with pytest.raises(InputError, match="not a model"):
        FederatedModel.load(files["ash"])


def test_the_result_says_how_much_is_proven_of_the_weights(finished):
    _, _, federation, _ = finished
    told = as_dict(federation)
    for gap, status in zip(told["alpha_gap"], told["alpha_status"], strict=True):
        assert 0.0 <= gap < 1.0
        assert status == "converged" or gap > 0.0


def test_the_page_says_what_left_each_site(finished):
    _, _, federation, _ = finished
    html = page(federation)
    assert "What left each site" in html
    for name in ROLES:
        sent = sum(r.received.get(name, 0) for r in federation.rounds)
        assert f"<h2>{name}</h2>" in html and str(sent) in html


# What a site refuses


def domain(n=24):
    return Domain("fig", np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % 2)


W = torch.zeros(1, 1, 3)


@pytest.mark.parametrize(
    ("role", "question", "inputs", "n"),
    [
        ("source", "values", (W, Batch()), 4),
        ("source", "values", (W, Batch(part=Half(0, 0))), 8),
        ("source", "source_grams", (None, Half(0, 1)), 8),
        ("target", "own_grams_of", (Half(0, 1),), 8),
        ("source", "values", (W, Batch(step=3, size=4)), 24),
        ("target", "pull", (W, W[..., :1], Batch(step=0, size=3)), 24),
        ("target", "values", (W, Batch(folds=Folds(20, torch.tensor([0])))), 24),  # all but two
        ("target", "own_values", (W, Batch(folds=Folds(6, torch.tensor([1]), only=True))), 24),
        ("target", "own_grams_in_folds", (None, Folds(5, torch.arange(5))), 24),
        ("source", "source_moments", (W, 3), 24),
        ("source", "reference", (), 24),
        ("source", "_rows", (), 24),
        ("target", "statistics", (), 24),
    ],
)  # fmt: skip
def test_a_request_about_few_rows_is_refused(role, question, inputs, n):
    with pytest.raises(guard.Refused):
        guard.check(domain(n), role, 0, 5, question, inputs)


@pytest.mark.parametrize(
    ("role", "question", "inputs"),
    [
        ("source", "values", (W, Batch(part=Half(0, 0)))),
        ("source", "values", (W, Batch(step=3, size=64))),
        ("target", "values", (W, Batch(folds=Folds(4, torch.arange(4))))),
        ("target", "own_values", (W, Batch(folds=Folds(4, torch.arange(4), only=True)))),
        ("target", "own_grams_in_folds", (None, Folds(4, torch.arange(4)))),
    ],
)  # fmt: skip
def test_a_request_about_enough_rows_is_answered(role, question, inputs):
    guard.check(domain(), role, 0, 5, question, inputs)


def test_a_source_is_not_asked_as_a_target(tmp_path):
    frames = tables()
    desks = written(tmp_path, frames)
    _, transport = run(desks)
    request = next(p for n, p, _ in transport.messages if n == "node 3" and "own_grams" in p.text)
    reply = unpacked(desks["node 0"].answer(request))
    assert "takes part as source" in reply["refused"]


def test_rare_values_stay_at_their_site(tmp_path):
    frames = tables()
    frames["ash"].loc[[3, 9], "ward"] = "experimental"
    frames["bay"]["flag"] = frames["ash"]["flag"] = frames["elm"]["flag"] = 0
    frames["fig"]["flag"] = 0
    frames["bay"].loc[[5], "flag"] = 77  # a number, and as rare
    federation, transport = run(written(tmp_path, frames))
    assert (federation.sites["ash"].left_out, federation.sites["bay"].left_out) == (2, 1)
    for _, sent, reply in transport.messages:
        assert "experimental" not in sent.text + reply.text
    assert federation.agreement.encoder.columns[4].scale == 0.0  # without that row it never varies
    kept = {**frames, "ash": frames["ash"].drop([3, 9]), "bay": frames["bay"].drop([5])}
    alpha, _ = pooled(kept, "ridge", 4)
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)


def test_rare_classes_stay_at_their_site(tmp_path):
    frame = tables("logistic")["ash"]
    frame.loc[[5], "cost"] = "perhaps"
    frame.to_csv(tmp_path / "ash.csv", index=False)
    desk = Desk(SiteConfig(str(tmp_path / "ash.csv"), "ash", "cost"))
    reply = desk.answer(packed({"calls": [("introduce", (), None)]}))
    assert unpacked(reply)["answers"][0]["left_out"] == 1 and "perhaps" not in reply.text


def test_a_column_that_is_text_at_one_site_is_text_at_all(tmp_path):
    frames = tables()
    for name, frame in frames.items():
        frame["code"] = np.where(np.arange(len(frame)) % 2, "7", "8" if name != "bay" else "x8")
    federation, _ = run(written(tmp_path, frames))
    assert federation.left_out == {}
    assert "code" in federation.agreement.encoder.text


def test_gaps_are_told_or_filled_with_the_mean(tmp_path):
    frames = tables()
    frames["ash"].loc[[1, 2], "x"] = np.nan
    desks = written(tmp_path, frames)
    with pytest.raises(DomainError, match="missing"):
        run(desks)
    federation, _ = run(desks, options=replace(FAST, impute=True))
    rule = federation.agreement.encoder.columns[0]
    assert rule.fill == pytest.approx(pd.concat(frames.values())["x"].mean())


# Sites that fail or lie


class Changed(Recorder):
    """Change the replies of one node after some rounds."""

    def __init__(self, desks, node, change, after=3):
        super().__init__(desks)
        self.node, self.change, self.after, self.calls = node, change, after, 0

    def exchange(self, packets, timeout):
        replies = super().exchange(packets, timeout)
        self.calls += 1
        if self.calls > self.after and self.node in replies:
            replies[self.node] = self.change(replies[self.node])
        return replies


def with_nan(packet):
    def broken(raw):
        numbers = np.frombuffer(raw.data, raw.dtype).copy()
        numbers[:1] = np.nan
        return RawArray(raw.dtype, raw.shape, numbers.tobytes())

    floats = [broken(r) if r.dtype == "float64" and r.data else r for r in packet.arrays]
    return Packet(packet.text, tuple(floats))


def with_other_shape(packet):
    return Packet(
        packet.text,
        tuple(RawArray(r.dtype, (*r.shape, 1), r.data) for r in packet.arrays),
    )


def with_nothing(packet):
    return Packet("{}", ())


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (with_nan, "ridge"), (with_other_shape, "ridge"), (with_nothing, "ridge"),
        pytest.param(with_nan, "logistic", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_site_that_lies_is_left_out(tmp_path, change, kind):
    frames = tables(kind)
    desks = written(tmp_path, frames)
    federation, _ = run(desks, Changed(desks, "node 1", change))
    assert federation.left_out["bay"][0] == "untrue"
    del frames["bay"]
    alpha, w = pooled(frames, kind, 4)
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(federation.solution.w, w, rtol=0, atol=1e-8)
    assert "left out (untrue)" in page(federation)


def test_another_order_of_features_is_not_believed(tmp_path):
    desks = written(tmp_path, tables())

    def swapped(packet):
        return Packet(packet.text.replace('"x","y"', '"y","x"'), packet.arrays)

    federation, _ = run(desks, Changed(desks, "node 1", swapped, after=1))
    status, why = federation.left_out["bay"]
    assert status == "untrue" and "another order" in why


def test_a_file_with_other_order_of_columns_changes_nothing(tmp_path):
    frames = tables()
    desks = written(tmp_path, {**frames, "bay": frames["bay"][["cost", "ward", "z", "x", "y"]]})
    federation, _ = run(desks)
    alpha, _ = pooled(frames, "ridge", 4)
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)


class Leaving(Recorder):
    """Take a node away after some rounds; it comes back at another address, or never."""

    def __init__(self, desks, node, after, back_after=None, desk=None):
        super().__init__(desks)
        self.node, self.after, self.back_after, self.calls = node, after, back_after, 0
        self.desk = desk or desks[node]

    def exchange(self, packets, timeout):
        self.calls += 1
        if self.calls == self.after:
            del self.desks[self.node]
        if self.back_after is not None and self.calls == self.after + self.back_after:
            self.desks["a new node"] = self.desk
        return super().exchange(packets, timeout)


@pytest.mark.parametrize(
    ("node", "kind", "after"),
    [
        ("node 0", "ridge", 4), ("node 3", "ridge", 5),
        pytest.param("node 3", "logistic", 30, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_site_that_comes_back_is_asked_again(tmp_path, node, kind, after):
    frames = tables(kind)
    desks = written(tmp_path, frames)
    fresh = Desk(desks[node].config)  # it was restarted: it knows nothing
    patient = replace(FAST, wait=30.0)
    federation, transport = run(desks, Leaving(desks, node, after, 2, fresh), patient)
    assert federation.left_out == {}
    assert any(one.repeated for one in federation.rounds)
    assert any(node == "a new node" for node, _, _ in transport.messages)
    alpha, w = pooled(frames, kind, 4)
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(federation.solution.w, w, rtol=0, atol=1e-8)


def test_a_site_that_leaves_is_waited_for_and_then_left_out(tmp_path):
    frames = tables()
    desks = written(tmp_path, frames)
    federation, _ = run(desks, Leaving(desks, "node 1", 4))
    assert federation.left_out["bay"][0] == "silent"
    del frames["bay"]
    alpha, _ = pooled(frames, "ridge", 4)
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)


def test_a_site_that_comes_back_with_another_table_is_not_taken(tmp_path):
    frames = tables()
    desks = written(tmp_path, frames)
    frames["bay"].head(30).to_csv(tmp_path / "other.csv", index=False)
    other = Desk(replace(desks["node 1"].config, file=str(tmp_path / "other.csv")))
    federation, _ = run(desks, Leaving(desks, "node 1", 4, 1, other))
    assert federation.left_out["bay"][0] == "silent"


def test_without_targets_it_says_so(tmp_path):
    desks = written(tmp_path, tables())
    few = {node: desks[node] for node in ("node 0", "node 1")}
    with pytest.raises(DomainError, match="2 sources and 0 targets"):
        run(few)


def test_a_table_that_cannot_be_read_is_left_out_with_a_sentence(tmp_path):
    desks = written(tmp_path, tables())
    desks["node 9"] = Desk(SiteConfig(str(tmp_path / "none.csv"), "oak", "cost"))
    desks["node 8"] = Desk(SiteConfig(str(tmp_path / "ash.csv"), "yew", "price"))
    federation, _ = run(desks)
    reasons = " ".join(why for _, why in federation.left_out.values())
    assert "no column 'price'" in reasons and len(federation.left_out) == 2


# Messages and settings


def test_values_come_out_as_they_went_in():
    batch = Batch(step=3, size=8, folds=Folds(4, torch.arange(4)), part=Half(1, 0))
    value = {"a": (1, 2.5, None, "ü"), "w": torch.arange(6.0).view(2, 3), "b": batch}
    back = unpacked(packed(value))
    assert back["a"] == value["a"] and torch.equal(back["w"], value["w"])
    assert back["b"].part == Half(1, 0) and back["b"].folds.number.tolist() == [0, 1, 2, 3]
    assert fingerprint(value) == fingerprint(back)


@pytest.mark.parametrize(
    "packet",
    [
        Packet("not JSON"),
        Packet('{"is":"Popen","of":{}}'),
        Packet('{"array":0}'),
        Packet('{"array":0}', (RawArray("object", (1,), b"12345678"),)),
        Packet('{"array":0}', (RawArray("float64", (3,), b"12345678"),)),
        Packet('{"array":0}', (RawArray("float64", (-1,), b""),)),
    ],
)
def test_a_message_that_is_not_sound_is_refused(packet):
    with pytest.raises(InputError, match="message"):
        unpacked(packet)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"domain": "a", "label": "y"}, "lacks 'file'"),
        ({"file": "t.csv", "domain": "a", "label": "y", "role": "boss"}, "source, target or both"),
        ({"file": "t.csv", "domain": "a", "label": "y", "min-rows": 1}, "at least 2"),
        ({"file": "t.csv", "domain": "a", "label": "y", "colour": 1}, "colour"),
    ],
)
def test_a_node_config_is_checked(given, words):
    with pytest.raises(OptionError, match=words):
        SiteConfig.of(given)


@pytest.mark.slow
def test_import_loads_no_flower():
    code = "import sys, cuvee, cuvee_site, cuvee.scale.flower; sys.exit('flwr' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_flower_carries_packets():
    pytest.importorskip("flwr", reason="needs cuvee[flower]")
    import cuvee_site

    arrays = [("float64", (2, 0), b""), ("int64", (1,), b"12345678")]
    assert cuvee_site.from_records(cuvee_site.to_records("text", arrays)) == ("text", arrays)


class Arriving(Recorder):
    """Have one node answer nothing at first, and another arrive while all are asked."""

    def __init__(self, desks):
        super().__init__(desks)
        self.late = self.desks.pop("node 3")
        self.calls = 0

    def exchange(self, packets, timeout):
        replies = super().exchange(packets, timeout)
        self.calls += 1
        if self.calls == 1:
            del replies["node 1"]
            self.desks["node 3"] = self.late
        return replies


def test_sites_that_are_slow_to_introduce_themselves_take_part(tmp_path):
    desks = written(tmp_path, tables())
    federation, _ = run(desks, Arriving(desks), replace(FAST, wait=30.0))
    assert set(federation.sites) == set(ROLES) and federation.left_out == {}


# Rounds, and labels that are whole numbers


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["softmax", "poisson"])
def test_other_models_are_those_of_one_table_and_rounds_are_few(tmp_path, kind):
    frames = tables(kind)
    options = replace(FAST, task="counts" if kind == "poisson" else None)
    federation, _ = run(written(tmp_path, frames), options=options)
    alpha, w = pooled(frames, kind, 4)
    assert federation.left_out == {}
    assert all(site.left_out == 0 for site in federation.sites.values())
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(federation.solution.w, w, rtol=0, atol=1e-8)
    assert federation.rounds_by_stage["α"] <= 60
    assert federation.rounds_by_stage["models"] <= 12


def test_jobs_that_share_rounds_stay_in_step(monkeypatch):
    join = threading.Thread.join
    monkeypatch.setattr(
        threading.Thread, "join", lambda self, *how: (join(self, *how), time.sleep(0.02))
    )
    sent = []
    rounds = Rounds(transport=None)
    rounds._round = lambda by_site: (
        sent.append(by_site) or {s: [0] * len(c) for s, c in by_site.items()}
    )

    def ask():
        rounds.ask([Call("ash", "values")])

    def inner():
        for _ in range(5):
            rounds.together([ask, ask])

    def plain():
        for _ in range(5):
            ask()

    rounds.together([inner, plain])
    assert len(sent) == 5


def introduced(tmp_path, labels, task=None):
    frame = tables()["ash"].assign(cost=labels)
    frame.to_csv(tmp_path / "ash.csv", index=False)
    desk = Desk(SiteConfig(str(tmp_path / "ash.csv"), "ash", "cost"))
    reply = desk.answer(packed({"calls": [("introduce", (), task)]}))
    return unpacked(reply)["answers"][0]


def test_whole_numbers_are_counts_grades_or_classes(tmp_path):
    rng = np.random.default_rng(0)
    counts = introduced(tmp_path, rng.poisson(2.0, 60), "counts")
    assert counts["labels"].kind == "whole" and counts["left_out"] == 0
    assert not counts["labels"].values
    many = introduced(tmp_path, rng.geometric(0.05, 60) - 1)
    assert infer_of(many["labels"], "").task is Task.counts
    grades = introduced(tmp_path, 40 + np.arange(60) % 30)
    assert infer_of(grades["labels"], "").task is Task.regression and grades["left_out"] == 0
    classes = introduced(tmp_path, [7, *(np.arange(59) % 3)])  # the class of one row is not told
    assert classes["labels"].values == {0, 1, 2} and classes["left_out"] == 1


def test_sites_agree_whether_whole_numbers_are_classes(tmp_path):
    frames = tables()
    for j, frame in enumerate(frames.values()):  # many different ones at one site alone
        frame["cost"] = (
            (10 * frame["cost"]).round().astype(int) if j < 2 else np.arange(len(frame)) % 6
        )
    federation, _ = run(written(tmp_path, frames))
    assert federation.agreement.inferred.task is Task.regression
    assert all(site.left_out == 0 for site in federation.sites.values())
    assert federation.rounds_by_stage["introducing"] == 1
