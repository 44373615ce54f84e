"""New targets over HTTP: made, kept, deleted, and never lost."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
import time

import numpy as np
import pytest

from cuvee.errors import InputError
from cuvee.run import open_run
from cuvee.run.base import Base
from cuvee.run.new_targets import Rows, encode
from cuvee.serve import adapting, adding
from cuvee.serve.arrow import ARROW, to_arrow
from cuvee.serve.jobs import DONE, QUEUED, RUNNING, Jobs
from cuvee.serve.limits import Limits
from serve_builders import Client, visits

WARD = visits({"ward": 2.5}, rows=20, seed=3)


def body(name, frame=WARD, label="cost"):
    return {
        "name": name,
        "rows": json.loads(frame[["age", "dose", "sex", label]].to_json(orient="records")),
    }


@pytest.fixture
def path(made, tmp_path):
    """A copy of a run that may be written to."""
    return shutil.copytree(made["cost"], tmp_path / "run", ignore=shutil.ignore_patterns("serve"))


@pytest.fixture
def client(path):
    client = Client(path)
    yield client
    client.state.close()


@pytest.fixture(scope="module")
def kept(made, tmp_path_factory):
    """A service for tests that leave nothing behind."""
    run = tmp_path_factory.mktemp("kept") / "run"
    client = Client(shutil.copytree(made["cost"], run, ignore=shutil.ignore_patterns("serve")))
    yield client
    client.state.close()


def settled(jobs, seconds=20.0):
    until = time.monotonic() + seconds
    while (counts := jobs.counts())[QUEUED] + counts[RUNNING] and time.monotonic() < until:
        time.sleep(0.02)
    return counts


def test_a_small_target_is_answered_at_once(client, path):
    answered = client.post("/v1/targets", body("ward"))
    assert answered.status_code == 201 and answered.headers["location"] == "/v1/targets/ward"
    content = answered.json()
    assert sum(content["alpha"].values()) == pytest.approx(1.0) and content["added"] is True
    assert sum(content["rows"].values()) == 20
    assert content["certificate"]["distance"] < 1e-3 and content["scores"]["cuvee"]["value"] > 0
    assert client.get("/v1/targets").json()["total"] == 2
    rows = {"rows": [{"age": 1.0, "dose": 2.0, "sex": "f"}]}
    predicted = client.post("/v1/targets/ward/predict", rows).json()["predictions"]
    run = open_run(path)
    assert run.added == {"ward"}
    frame = visits()[:1].assign(age=1.0, dose=2.0, sex="f")
    np.testing.assert_allclose(run.predict(frame, target="ward")["prediction"], predicted)


def test_classes_and_arrow(made, tmp_path):
    path = shutil.copytree(made["sick"], tmp_path / "run", ignore=shutil.ignore_patterns("serve"))
    client = Client(path)
    frame = WARD[["age", "dose", "sex", "sick"]]
    headers = {"Content-Type": ARROW}
    answered = client.post("/v1/targets?name=a%20ward", content=to_arrow(frame), headers=headers)
    assert answered.status_code == 201 and answered.json()["model"]["classes"] == ["no", "yes"]
    assert client.post("/v1/targets", content=to_arrow(frame), headers=headers).status_code == 422
    client.state.close()


def test_a_large_one_is_a_job_whose_progress_is_told(path):
    client = Client(path, Limits(small=5))
    answered = client.post("/v1/targets", body("ward"))
    assert answered.status_code == 202
    job = answered.json()
    assert answered.headers["location"] == f"/v1/jobs/{job['id']}"
    events = client.get(job["events"]).text
    assert events.rstrip().rpartition("event: ")[2].startswith("done\n")
    assert json.loads(events.rstrip().rpartition("data: ")[2])["target"] == "/v1/targets/ward"
    assert client.get(f"/v1/jobs/{job['id']}").json()["state"] == "done"
    assert client.get("/v1/targets/ward").status_code == 200
    assert 'cuvee_jobs{state="done"} 1' in client.get("/metrics").text
    client.state.close()


def test_open_streams_keep_nobody_else_out(path, monkeypatch):
    monkeypatch.setattr(adding, "LONGEST", 1.0)
    monkeypatch.setattr(adapting.Worker, "start", lambda worker: None)  # so that the job waits
    client = Client(path, Limits(small=5, at_once=2, streams=6, streams_each=4))
    events = client.post("/v1/targets", body("ward")).json()["events"]
    roles = [*["read"] * 6, *["predict"] * 4]
    answers = client.together(
        [
            *(("GET", events, {"role": role}) for role in roles),
            *(("GET", "/v1/targets", {"role": role}) for role in ("read", "adapt")),
        ]
    )
    codes = [answer.status_code for answer in answers]
    assert codes == [*[200] * 4, *[429] * 2, *[200] * 2, *[503] * 2, *[200] * 2]
    assert "this token has 4 streams" in answers[4].json()["detail"]
    assert "too many streams" in answers[8].json()["detail"]
    assert client.get(events).status_code == 200  # the others have ended
    client.state.close()


def test_many_at_once_are_all_answered_and_none_is_lost(client, path):
    names = [f"ward {i}" for i in range(24)]
    frames = [visits({"w": 0.1 * i}, rows=12, seed=i) for i in range(24)]
    requests = [
        ("POST", "/v1/targets", {"json": body(n, f)}) for n, f in zip(names, frames, strict=True)
    ]
    answers = client.together(requests)
    assert {a.status_code for a in answers} <= {201, 202}
    assert settled(client.state.jobs)[DONE] == 24
    run = open_run(path)
    assert run.added == {*names}
    # each has its own model, that of its own rows
    base = client.state.base
    for i in (0, 23):
        new = adapting.adapted(
            base, {"x": encode(base, "x", frames[i])}, {"x": "x"}, lambda *_: None
        )
        np.testing.assert_allclose(
            run.w[run.targets.index(names[i])], new[0].delivered.w[0], atol=1e-6
        )


def test_names_that_are_taken(client):
    assert client.post("/v1/targets", body("ward")).status_code == 201
    for name in ("ward", "new/ward", "north", "(own sample)"):
        assert client.post("/v1/targets", body(name)).status_code == 409


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a\nb",
        "\x00",
        "\x1b[2J",
        "x" * 201,
        7,
        None,
        ["a"],
        "\ud800",
        "\u202etxt",
        ".",
        "..",
        " x",
        "x ",
    ],
)
def test_names_that_cannot_be_shown(kept, name):
    content = json.dumps({"name": name, "rows": body("x")["rows"]})
    answered = kept.ask(
        "POST", "/v1/targets", content=content, headers={"Content-Type": "application/json"}
    )
    assert answered.status_code == 422 and "name" in answered.json()["detail"]


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "/etc/passwd",
        "<script>alert(1)</script>",
        "a/b",
        "=1+1",
        "run.json",
        "...",
        "%2e",
        "x/predict",
    ],
)
def test_names_are_data(kept, name):
    path = kept.path
    before = {p.name for p in path.parent.iterdir()}
    answered = kept.post("/v1/targets", body(name))
    assert answered.status_code == 201
    assert kept.get(answered.headers["location"]).json()["name"] == name
    assert {p.name for p in path.parent.iterdir()} == before
    assert all(set(p.stem) <= set("0123456789abcdef") for p in (path / "added").iterdir())
    assert kept.ask("DELETE", answered.headers["location"]).status_code == 204
    assert kept.get(answered.headers["location"]).status_code == 404


def test_rows_that_cannot_be_learnt_leave_nothing_behind(client, path):
    few, wrong = WARD[:3], WARD.assign(age="old")
    for frame, words in ((few, "3 labelled rows"), (wrong, "'age' holds text, 'old'")):
        answered = client.post("/v1/targets", body("ward", frame))
        assert answered.status_code == 422 and words in answered.json()["detail"]
    assert client.post("/v1/targets", {"name": "ward", "rows": [{"age": 1}] * 9}).status_code == 422
    assert not (path / "added").exists() and sum(client.state.jobs.counts().values()) == 0


def test_two_names_that_differ_are_refused(kept):
    refused = kept.post("/v1/targets?name=one", body("another"))
    assert refused.status_code == 422 and "different names" in refused.json()["detail"]
    assert kept.post("/v1/targets?name=new%2Fward", body("new/ward")).status_code == 409


def test_rows_are_on_no_disk_but_for_their_job(kept, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("rows of a request are written to a disk")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    monkeypatch.setattr("tempfile.mkstemp", refused)
    rows = WARD[["age", "dose", "sex"]].to_csv(index=False)
    how = {"content": rows, "headers": {"Content-Type": "text/csv"}}
    assert kept.post("/v1/targets/new%2Fward/predict", **how).status_code == 200
    jobs, X = Jobs(tmp_path), np.random.default_rng(0).normal(size=(500, 3))
    job = jobs.add("ward", Rows(X, X[:, 0], np.arange(500, dtype=np.uint64)))

    def kept_rows():
        part = X[250:260].tobytes()
        return [file for file in tmp_path.iterdir() if part in file.read_bytes()]

    assert kept_rows()
    jobs.end(job.id)
    assert not kept_rows()


def test_deleting_is_for_added_targets_and_for_the_role(client):
    assert client.ask("DELETE", "/v1/targets/new%2Fward").status_code == 409
    assert client.ask("DELETE", "/v1/targets/nobody").status_code == 404
    client.post("/v1/targets", body("ward"))
    assert client.ask("DELETE", "/v1/targets/ward", role="predict").status_code == 403
    assert client.post("/v1/targets", body("other"), role="predict").status_code == 403
    assert client.ask("DELETE", "/v1/targets/ward").status_code == 204


def test_read_only(path):
    client = Client(path, read_only=True)
    assert client.post("/v1/targets", body("ward")).status_code == 403
    assert client.ask("DELETE", "/v1/targets/new%2Fward").status_code == 403
    assert client.get("/v1/jobs/abc").status_code == 404
    assert not (path / "serve").exists()


def test_too_many_jobs(path):
    client = Client(path, Limits(jobs=0))
    answered = client.post("/v1/targets", body("ward"))
    assert answered.status_code == 503 and "retry-after" in answered.headers
    client.state.close()


def test_another_process_sees_what_one_added(client, path):
    other = Client(path)
    client.post("/v1/targets", body("ward"))
    assert other.get("/v1/targets/ward").status_code == 200
    assert other.ask("DELETE", "/v1/targets/ward").status_code == 204
    assert client.get("/v1/targets/ward").status_code == 404
    other.state.close()


def test_jobs_of_a_dead_process_are_done_by_the_next(path):
    base = Base.of(open_run(path))
    (path / "serve").mkdir()
    jobs = Jobs(path / "serve")
    added = jobs.add("ward", encode(base, "ward", WARD))
    assert jobs.add("ward", encode(base, "ward", WARD)) is None
    assert [job.id for job, _ in jobs.claim(9)] == [added.id] and jobs.claim(9) == []
    client = Client(path)  # claims what nobody alive holds
    assert settled(client.state.jobs)[DONE] == 1
    assert open_run(path).added == {"ward"}
    assert stat.S_IMODE(os.stat(path / "serve" / "jobs.sqlite").st_mode) == 0o600
    client.state.close()


def test_a_job_that_was_written_before_a_kill_is_not_made_twice(path, monkeypatch):
    client = Client(path)
    monkeypatch.setattr(client.state.jobs, "end", lambda *_: time.sleep(60))
    threading.Thread(target=client.post, args=("/v1/targets", body("ward")), daemon=True).start()
    until = time.monotonic() + 20
    while not open_run(path).added and time.monotonic() < until:
        time.sleep(0.02)
    again = Client(path)  # the first one hangs where a kill would have ended it
    assert settled(again.state.jobs)[DONE] == 1
    assert open_run(path).targets == ("new/ward", "ward")
    again.state.close()


def test_a_full_disk_loses_no_job(path, monkeypatch):
    client, write, failures = Client(path, Limits(small=5)), adapting.write, []

    def full(*args):
        if len(failures) < 1:
            failures.append(args)
            raise InputError("the disk is full")
        return write(*args)

    monkeypatch.setattr(adapting, "IDLE", 0.02)
    monkeypatch.setattr(adapting, "write", full)
    assert client.post("/v1/targets", body("ward")).status_code == 202
    assert settled(client.state.jobs)[DONE] == 1 and failures
    assert open_run(path).added == {"ward"}
    client.state.close()


def test_a_shutdown_gives_jobs_back(path, monkeypatch):
    client, began = Client(path, Limits(small=5)), threading.Event()

    def long(base, targets, keys, progress):
        began.set()
        while True:
            time.sleep(0.02)
            progress("estimating α", 1, 2)

    monkeypatch.setattr(adapting, "adapted", long)
    assert client.post("/v1/targets", body("ward")).status_code == 202
    assert began.wait(10)
    client.state.close()
    assert client.state.jobs.counts()[QUEUED] == 1
    monkeypatch.undo()
    again = Client(path)
    assert settled(again.state.jobs)[DONE] == 1
    again.state.close()


def test_rows_as_csv(kept):
    text = WARD[["age", "dose", "sex", "cost", "hospital"]].to_csv(index=False, sep=";")
    headers = {"Content-Type": "text/csv; charset=utf-8"}
    answered = kept.post("/v1/targets?name=as%20csv", content=text.encode(), headers=headers)
    assert answered.status_code == 201, answered.text
    same = kept.post("/v1/targets", body("as json")).json()
    np.testing.assert_allclose(
        answered.json()["model"]["parameters"], same["model"]["parameters"], atol=1e-6
    )
    predict = "/v1/targets/as%20csv/predict"
    predicted = kept.post(predict, content=text.encode(), headers=headers).json()["predictions"]
    rows = {"rows": body("x")["rows"]}
    np.testing.assert_allclose(predicted, kept.post(predict, rows).json()["predictions"])
    for location in ("as%20csv", "as%20json"):
        assert kept.ask("DELETE", f"/v1/targets/{location}").status_code == 204


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"", 422, "the CSV"),
        (b"\x1f\x8b" + b"0" * 99, 415, "compressed"),
        (b"PAR1" + b"0" * 99, 415, "no CSV"),
        (b"name,size\nx,1\n", 422, "none of the columns"),
        (b"age,dose,sex\n1,2,f\n1,2\n", 422, "the CSV"),
        (b"age,dose,sex\nold,2,f\n", 422, "'age'"),
        (",".join(["age", *map(str, range(3000))]).encode() + b"\n" + b"," * 3000, 413, "columns"),
        (b"age,dose,sex\n\xff,2,f\n", 422, "the CSV"),
    ],
)
def test_bodies_that_are_no_csv(kept, content, status, words):
    answered = kept.post(
        "/v1/targets/new%2Fward/predict", content=content, headers={"Content-Type": "text/csv"}
    )
    detail = answered.json()["detail"]
    assert answered.status_code == status and words in detail and "rows.csv" not in detail


def test_what_is_not_learnt_from_as_it_stands_is_said(client):
    ward = WARD.assign(sex=["x", *WARD.sex[1:]])
    ward.loc[[2, 3], "cost"] = np.nan
    answered = client.post("/v1/targets", body("ward", ward))
    assert answered.status_code == 201
    assert answered.json()["notes"] == [
        "categories that no training row has count as 'other': 'sex' (1 row, like 'x')",
        "2 rows without a label left out",
    ]
    assert "notes" not in client.post("/v1/targets", body("other", WARD)).json()
