"""What the service answers: targets, predictions and mixtures are those of the library."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import cuvee
from cuvee.data.prepare import prepare
from cuvee.run import adapt, open_run
from cuvee.serve.arrow import ARROW, to_arrow
from cuvee.serve.csv_rows import CSV
from rounding import assert_alike
from serve_builders import Client, visits

NAME = "new/ward"
URL = "/v1/targets/new%2Fward"
COLUMNS = ["age", "dose", "sex"]


def rows_of(frame):
    return json.loads(frame[COLUMNS].to_json(orient="records"))


def test_targets_are_listed_with_their_weights(quantity, made):
    answered = quantity.get("/v1/targets").json()
    run = open_run(made["cost"])
    assert answered["total"] == 1 and answered["targets"][0]["name"] == NAME
    assert sum(answered["targets"][0]["alpha"].values()) == pytest.approx(1.0)
    assert set(answered["targets"][0]["alpha"]) <= set(run.columns)


def test_a_target_has_its_certificate_scores_and_model(quantity, made):
    answered, run = quantity.get(URL).json(), open_run(made["cost"])
    assert answered["model"]["parameters"] == run.w[0].tolist()
    assert answered["certificate"]["distance"] == run.metrics["certificate"]["distance"][0]
    assert answered["scores"]["cuvee"]["value"] == run.metrics["scores"][0][0][0]
    assert answered["rows"]["learn"] + answered["rows"]["test"] == 24


@pytest.mark.parametrize("label", ["cost", "sick"])
def test_predictions_are_those_of_the_run(request, made, label):
    client = request.getfixturevalue("quantity" if label == "cost" else "classes")
    frame = visits(seed=1)[:9]
    expected = open_run(made[label]).predict(frame, target=NAME)
    answered = client.post(f"{URL}/predict", {"rows": rows_of(frame)}, role="predict").json()
    if label == "cost":
        np.testing.assert_allclose(answered["predictions"], expected["prediction"], rtol=1e-12)
    else:
        assert answered["predictions"] == expected["prediction"].tolist()
        chance = answered["probabilities"]
        np.testing.assert_allclose(chance["yes"], expected["p(yes)"], rtol=1e-9)


def test_arrow_in_and_out(quantity, made):
    frame = visits(seed=1)[:9]
    headers = {"Content-Type": ARROW, "Accept": ARROW}
    answered = quantity.post(f"{URL}/predict", content=to_arrow(frame[COLUMNS]), headers=headers)
    assert answered.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(answered.content).read_all()
    expected = open_run(made["cost"]).predict(frame, target=NAME)["prediction"]
    np.testing.assert_allclose(table["prediction"].to_numpy(), expected, rtol=1e-12)


def test_requests_are_answered_together_and_a_bad_one_spoils_no_other(quantity):
    good, bad = rows_of(visits(seed=2)[:2]), [{"age": "old", "dose": 2.0, "sex": "f"}]
    alone = quantity.post(f"{URL}/predict", {"rows": good}).json()
    before = quantity.metrics._values["cuvee_batches_total", ()]
    bodies = [{"rows": bad if i == 7 else good} for i in range(30)]
    answers = quantity.together([("POST", f"{URL}/predict", {"json": body}) for body in bodies])
    assert [a.status_code for a in answers] == [422 if i == 7 else 200 for i in range(30)]
    assert "'old' at row 0" in answers[7].json()["detail"]
    for i, answer in enumerate(answers):
        if i != 7:
            assert_alike(answer.json(), alone)
    assert quantity.metrics._values["cuvee_batches_total", ()] - before < 30


@pytest.mark.parametrize("label", ["cost", "sick"])
def test_a_mixture_is_solved_as_the_library_solves_it(request, label):
    client = request.getfixturevalue("quantity" if label == "cost" else "classes")
    weights, base = {"north": 0.25, "south": 0.75}, client.state.base
    answered = client.post("/v1/mixtures", {"alpha": weights, "trust": "solved"}).json()
    alpha = base.alpha(weights)[None]
    sources = base.alone.whole.sources
    solution = cuvee.solve(sources, base.hypothesis, alpha, tol=base.prepared.options.tol)
    np.testing.assert_allclose(answered["model"]["parameters"], solution.w[0], atol=1e-5)
    moves = cuvee.sensitivity(sources, base.hypothesis, alpha, solution.w)[0]
    for name, expected in zip(base.sources, moves, strict=True):
        np.testing.assert_allclose(answered["sensitivity"][name], expected, atol=1e-3, rtol=1e-3)
    assert answered["trust"] == "solved" and answered["certificate"]["proven"]
    assert answered["alpha"]["north"] == 0.25


def test_the_learnt_map_answers_with_its_level_of_trust(quantity):
    weights = {"north": 0.25, "south": 0.75}
    until = time.monotonic() + 30
    while quantity.get("/readyz").json()["map"] != "learnt" and time.monotonic() < until:
        time.sleep(0.05)
    solved = quantity.post("/v1/mixtures", {"alpha": weights, "trust": "solved"}).json()
    for trust in ("certified", "corrected", None):
        answered = quantity.post("/v1/mixtures", {"alpha": weights, "trust": trust}).json()
        assert answered["trust"] == "certified" and answered["certificate"]["proven"]
        difference = np.subtract(answered["model"]["parameters"], solved["model"]["parameters"])
        assert np.linalg.norm(difference) <= answered["certificate"]["distance"] + 1e-6
    run, atlas = quantity.state.base.prepared.options, quantity.state.atlas
    for trust, tol in (("solved", run.tol), ("corrected", atlas.tol), (None, atlas.tol)):
        answered = quantity.post("/v1/mixtures", {"alpha": weights, "trust": trust}).json()
        assert answered["certificate"]["tolerance"] == tol
        assert answered["sentence"].endswith(f"The tolerance is {tol:g}.")
    assert run.tol < atlas.tol  # so that "solved" alone would not say how exactly


def test_no_bound_is_served_that_was_not_proven(quantity):
    """A calibrated bound holds for mixtures like those calibrated on: who asks here may be far from
    them.
    """
    until = time.monotonic() + 30
    while quantity.get("/readyz").json()["map"] != "learnt" and time.monotonic() < until:
        time.sleep(0.05)
    for weights in ({"north": 1.0}, {"north": 0.5, "south": 0.5}, {"north": 0.05, "south": 0.95}):
        answered = quantity.post("/v1/mixtures", {"alpha": weights}).json()
        assert answered["certificate"]["proven"]
    refused = quantity.post("/v1/mixtures", {"alpha": weights, "trust": "predicted"})
    assert refused.status_code == 422 and "certified" in refused.json()["detail"]


def test_without_its_table_a_run_predicts_and_says_why_it_cannot_mix(made, tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    adapt(tmp_path / "visits.csv", tmp_path / "run", label="cost", domain="hospital",
          targets=NAME, drop=("sick",), method="uniform")  # fmt: skip
    shutil.move(tmp_path / "visits.csv", tmp_path / "moved.csv")
    client = Client(tmp_path / "run")
    assert client.post(f"{URL}/predict", {"rows": rows_of(visits()[:1])}).status_code == 200
    refused = client.post("/v1/mixtures", {"alpha": {"north": 1.0}})
    assert refused.status_code == 409 and "visits.csv" in refused.json()["detail"]
    assert refused.json()["detail"].endswith("(cuvee serve --table)")
    again = Client(tmp_path / "run", table=tmp_path / "moved.csv")  # whatever it is called
    assert again.post("/v1/mixtures", {"alpha": {"north": 1.0}}).status_code == 200
    visits(seed=1).to_csv(tmp_path / "other.csv", index=False)
    other = Client(tmp_path / "run", table=tmp_path / "other.csv")
    assert "the table is not the one" in other.state.why_not


def test_a_run_of_trees_predicts_and_says_that_only_linear_models_are_mixed(tmp_path):
    frame = visits()
    frame.to_csv(tmp_path / "visits.csv", index=False)
    adapt(tmp_path / "visits.csv", tmp_path / "run", label="cost", domain="hospital",
          targets=NAME, drop=("sick",), method="uniform", model="trees")  # fmt: skip
    client = Client(tmp_path / "run")
    assert client.post(f"{URL}/predict", {"rows": rows_of(frame[:1])}).status_code == 200
    refused = client.post("/v1/mixtures", {"alpha": {"north": 1.0}})
    detail = refused.json()["detail"]
    assert refused.status_code == 409 and "are trees, and only linear ones" in detail
    assert detail.endswith("make a run with --model linear") and "--table" not in detail


def test_head_is_answered_where_get_is(quantity):
    for path in ("/healthz", "/readyz", "/", "/v1/targets", URL, "/openapi.json"):
        asked, got = quantity.ask("HEAD", path), quantity.get(path)
        assert asked.status_code == 200 and not asked.content
        assert asked.headers["content-length"] == got.headers["content-length"]
    assert quantity.ask("HEAD", "/v1/targets", role=None).status_code == 401
    assert quantity.ask("HEAD", f"{URL}/predict").status_code in (404, 405)
    assert 'method="HEAD",route="/healthz",status="200"' in quantity.get("/metrics").text


def test_health_metrics_and_the_schema(quantity):
    assert quantity.get("/healthz", role=None).json() == {"status": "alive"}
    assert quantity.get("/readyz", role=None).json()["sources"] is True
    text = quantity.get("/metrics").text
    assert "cuvee_targets 1" in text
    assert 'cuvee_requests_total{method="GET",route="/healthz",status="200"}' in text
    paths = quantity.get("/openapi.json", role=None).json()["paths"]
    assert {
        "/v1/targets",
        "/v1/targets/{name}",
        "/v1/targets/{name}/predict",
        "/v1/mixtures",
    } <= set(paths)


@pytest.mark.slow
def test_import_cuvee_loads_no_web_framework():
    code = "import sys, cuvee, cuvee.cli; print([m for m in ('fastapi', 'starlette', 'uvicorn') if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.mark.parametrize("label", ["cost", "sick"])
def test_a_mixture_may_weigh_the_own_sample_of_a_target(request, made, label):
    """Its model is that of the library on the target's rows to learn from, scored on the others."""
    client = request.getfixturevalue("quantity" if label == "cost" else "classes")
    base, weights = client.state.base, {"north": 0.5, "south": 0.2, cuvee.OWN: 0.3}
    body = {"alpha": weights, "target": NAME, "trust": "solved"}
    answered = client.post("/v1/mixtures", body).json()
    assert answered["alpha"][cuvee.OWN] == 0.3 and answered["trust"] == "solved"
    members = prepare(open_run(made[label]).about["data"]["path"], base.prepared.options)
    group = members.group(members.members[0])
    alpha = np.array([[weights.get(c, 0.0) for c in (*base.sources, cuvee.OWN)]])
    solution = cuvee.solve(group.problem, base.hypothesis, alpha, tol=base.prepared.options.tol)
    np.testing.assert_allclose(answered["model"]["parameters"], solution.w[0], atol=1e-5)
    predicted = solution.space.predict(solution.w[0], group.test[0].X)
    truth = group.test[0].y
    if label == "cost":
        expected = np.sqrt(np.mean((predicted + group.offset[0] - truth) ** 2))
    else:
        expected = np.mean(predicted == truth)
    score = answered["score"]
    assert score["value"] == pytest.approx(expected, rel=1e-6) and score["rows"] == len(truth)
    assert score["low"] <= score["value"] <= score["high"]
    assert set(answered["sensitivity"]) == {*base.sources, cuvee.OWN}


def test_own_samples_that_cannot_be_weighed(quantity):
    alpha = {"north": 0.5, cuvee.OWN: 0.5}
    for body, status, words in (
        ({"alpha": alpha}, 422, "say whose"),
        ({"alpha": alpha, "target": "nobody"}, 404, "nobody"),
        ({"alpha": alpha, "target": 7}, 422, "target"),
        ({"alpha": alpha, "target": NAME, "trust": "certified"}, 422, "solved on the data"),
    ):
        answered = quantity.post("/v1/mixtures", body)
        assert answered.status_code == status and words in answered.json()["detail"]
    plain = quantity.post("/v1/mixtures", {"alpha": {"north": 1.0}, "target": NAME}).json()
    assert plain["score"]["value"] > 0 and cuvee.OWN not in plain["alpha"]


def test_the_page_holds_nothing_of_the_run_and_may_load_nothing_else(quantity):
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript"),
                       ("/mixture.js", "text/javascript")):  # fmt: skip
        answered = quantity.get(path, role=None)
        assert answered.status_code == 200 and answered.headers["content-type"].startswith(kind)
        policy = answered.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "north" not in answered.text and "http://" not in answered.text
        assert "https://" not in answered.text and " style=" not in answered.text
    assert quantity.get("/v1/overview", role=None).status_code == 401
    answered = quantity.get("/v1/overview")
    assert "north" in answered.text and "&lt;b&gt;west&lt;/b&gt;" in answered.text
    assert "<b>west" not in answered.text and "<script" not in answered.text
    listed = quantity.get("/v1/sources").json()["sources"]
    assert {"name": "north", "rows": 24} in listed and len(listed) == 4


def test_a_category_never_seen_counts_as_another_and_is_said(quantity, made):
    frame = visits(seed=1)[:4][COLUMNS]
    frame["sex"] = ["f", "x", "m", "x"]
    url, note = f"{URL}/predict", "count as 'other': 'sex' (2 rows, like 'x')"
    expected = open_run(made["cost"]).predict(frame[frame.sex != "x"], target=NAME)["prediction"]
    csv = frame.to_csv(index=False)
    arrow = {"Content-Type": ARROW, "Accept": ARROW}
    ways = [{"json": {"rows": rows_of(frame)}}, {"content": csv, "headers": {"Content-Type": CSV}}]
    plain, *answers = quantity.together(
        [("POST", url, {"json": {"rows": rows_of(frame[frame.sex != "x"])}})]
        + [("POST", url, way) for way in ways]
    )
    assert plain.status_code == 200 and "notes" not in plain.json()
    for answer in answers:  # each has its own notes, though they were answered together
        assert answer.status_code == 200 and note in answer.json()["notes"][0]
        np.testing.assert_allclose(np.array(answer.json()["predictions"])[[0, 2]], expected)
    table = quantity.post(url, content=to_arrow(frame), headers=arrow)
    stream = pa.ipc.open_stream(table.content).read_all()
    assert note in json.loads(stream.schema.metadata[b"notes"])[0]
    refused = [
        quantity.post(url, {"rows": rows_of(frame), "strict": True}),
        quantity.post(f"{url}?strict=true", content=csv, headers={"Content-Type": CSV}),
        quantity.post(f"{url}?strict=true", content=to_arrow(frame), headers=arrow),
    ]
    for answer in refused:
        assert answer.status_code == 422
        assert "'sex' is 'x' at row 1, a value that no training row" in answer.json()["detail"]
    for body in ({"rows": rows_of(frame), "strict": "yes"}, {"rows": rows_of(frame), "strct": 1}):
        assert quantity.post(url, body).status_code == 422
    assert quantity.post(f"{url}?strict=1", {"rows": rows_of(frame)}).status_code == 422
