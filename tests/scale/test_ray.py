"""Sources on Ray workers: the same α and w as in this process, whoever dies."""

from __future__ import annotations

import socket
import subprocess
import sys

import numpy as np
import pytest

import cuvee
from builders import mlp
from cuvee.components import Batch, Half, bind
from cuvee.data.synthetic import visits
from cuvee.errors import DomainError, InputError, MissingExtra, OptionError
from cuvee.scale import ray_cluster, ray_crew, ray_probe
from cuvee.scale.ray_cluster import connect, n_workers
from cuvee.scale.ray_probe import check_answers
from site_builders import HYPOTHESES, problem_of

ALPHA = np.array([[0.4, 0.3, 0.1, 0.2], [0.1, 0.2, 0.6, 0.1]])


@pytest.fixture(scope="module")
def far(ray):
    """A function that returns a problem on Ray; two workers per kind."""
    made = {}

    def put(kind):
        if kind not in made:
            made.clear()
            made[kind] = cuvee.on_ray(problem_of(kind), workers=2)
        return made[kind]

    return put


DEAR = [
    pytest.param(kind, marks=pytest.mark.slow)
    for kind in ("logistic", "softmax", "poisson", "network")
]


@pytest.mark.parametrize("kind", ["ridge", *DEAR])
def test_weights_and_models_are_those_of_the_local_run(kind, far):
    hypothesis, answers = HYPOTHESES[kind], []
    for problem in (far(kind), problem_of(kind)):
        steps = 4 if kind == "network" else None
        method = "scgda" if kind == "network" else "path"
        mix = cuvee.estimate(problem, hypothesis, method=method, steps=steps, adversaries=4)
        solved = cuvee.solve(problem, hypothesis, ALPHA, steps=4 if kind == "network" else None)
        answers.append((mix.alpha, solved.w))
    for one, other, name in zip(*answers, ("alpha", "w"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8, err_msg=name)


def kill_one(ray, problem, number=0):
    ray.kill(problem.sources[0].crew.actors[number])


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_question_asked_again(ray, far):
    problem = far("network")
    hypothesis, crew = HYPOTHESES["network"], problem.sources[0].crew
    deaths, before = iter((0, 1, 1)), crew.replaced

    def kill_now_and_then(what, done, total):
        number = next(deaths, None)
        if number is not None:
            kill_one(ray, problem, number)

    options = {"method": "scgda", "steps": 4, "adversaries": 2}
    one = cuvee.estimate(problem, hypothesis, progress=kill_now_and_then, **options)
    other = cuvee.estimate(problem_of("network"), hypothesis, **options)
    np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-8, atol=1e-8)
    assert next(deaths, None) is None
    assert crew.replaced == before + 3


@pytest.mark.slow
def test_labels_of_a_dead_worker_are_fetched_again(ray, far):
    problem, hypothesis = far("logistic"), HYPOTHESES["logistic"]
    space = hypothesis.bind(problem.facts)
    components, near = (bind(p, space) for p in (problem, problem_of("logistic")))
    w = space.start(4, 0).view(2, 2, -1)
    kill_one(ray, problem, 1)  # the first one needs its labels, and is heard first
    batch = Batch(part=Half(0, 1))
    np.testing.assert_allclose(components.values(w, batch), near.values(w, batch), atol=1e-10)


@pytest.mark.slow
def test_a_worker_that_cannot_live_is_given_up(ray, far, monkeypatch):
    problem = far("logistic")
    monkeypatch.setattr(ray_crew, "TRIES", 1)
    kill_one(ray, problem)
    with pytest.raises(InputError, match="worker 0 of 2 died 1 times over one question"):
        cuvee.solve(problem, HYPOTHESES["logistic"], ALPHA)


@pytest.mark.slow
def test_errors_of_workers_are_ours(ray):
    huge = [cuvee.Domain(name, np.full((4, 3), 1e300), [0, 1, 1, 0]) for name in "ab"]
    problem = cuvee.on_ray(cuvee.Problem(huge), workers=2)
    hypothesis = cuvee.Network(mlp(3, 3, 2).float())
    with pytest.raises(DomainError, match="row 0 of X holds a number that is too large"):
        cuvee.solve(problem, hypothesis, [[0.5, 0.5]], steps=2)


def test_what_cannot_be_is_said(ray, far):
    problem = problem_of("ridge")
    with pytest.raises(InputError, match="too small: 500 workers need a CPU each, and it has 4"):
        cuvee.on_ray(problem, workers=500)
    with pytest.raises(OptionError, match="on must be 'ray', or 'ray:HOST:PORT'"):
        cuvee.on_ray(problem, on="dask")
    with pytest.raises(DomainError, match="elsewhere already"):
        cuvee.on_ray(far("logistic"))
    with pytest.raises(InputError, match=r"too small: the rows take 1000000.0 GB"):
        n_workers(ray, None, 4, 10**15)


def test_a_run_on_ray_is_the_run_in_this_process(ray, tmp_path):
    visits(0).to_parquet(tmp_path / "visits.parquet", row_group_size=1_300)  # two workers
    asked = {"label": "days", "domain": "hospital", "drop": ["visit"], "targets": "alder"}
    near, run = (
        cuvee.adapt(tmp_path / "visits.parquet", tmp_path / str(on), on=on, **asked)
        for on in (None, "ray")
    )
    np.testing.assert_allclose(run.alpha, near.alpha, atol=1e-8)
    np.testing.assert_allclose(run.w, near.w, rtol=1e-8, atol=1e-8)
    assert run.notes == near.notes
    assert (run.path / "report.html").exists()


def test_an_address_that_does_not_answer_is_said():
    pytest.importorskip("ray", reason="needs cuvee[ray]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(InputError, match=f"nothing answers at 127.0.0.1:{port}"):
        check_answers(f"127.0.0.1:{port}")


class NotConnected:
    """A Ray that notes what it is asked to join."""

    def __init__(self):
        self.joined = []

    def is_initialized(self):
        return False

    def init(self, address, **_):
        self.joined.append(address)

    def cluster_resources(self):
        return {"CPU": 2.0}

    def nodes(self):
        return [{"Alive": True}]


def test_what_is_no_ray_cluster_is_said_in_time(monkeypatch):
    pytest.importorskip("ray", reason="needs cuvee[ray]")
    monkeypatch.setattr(ray_probe, "ANSWERS", 2.0)  # Ray tries for minutes
    monkeypatch.setattr(ray_cluster, "engine", NotConnected)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        said = f"{address} does not answer as a Ray cluster does"
        with pytest.raises(InputError, match=said):
            connect(address)
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(InputError, match=f"{address}, which RAY_ADDRESS names, does not"):
            connect()
    with pytest.raises(
        InputError, match=r"nothing answers at .* Without RAY_ADDRESS a local one is started"
    ):
        connect()


def test_the_address_that_a_killed_cluster_left_behind_is_not_joined(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_cluster, "answers", lambda address: False)
    monkeypatch.setattr(ray_cluster, "engine", NotConnected)
    said = []
    assert connect(say=said.append).joined == ["local"]
    assert said == ["no Ray cluster is running here: a local one was started, 2 CPUs on 1 node"]


def test_where_ray_cannot_be_asked_it_has_to_find_out_itself(monkeypatch):
    monkeypatch.setattr(ray_probe, "ASK", "raise SystemExit(1)")
    assert ray_probe.answers(ray_probe.HERE)


def test_a_cluster_that_answers_is_told_from_what_else_speaks_its_protocol(ray):
    node = ray.nodes()[0]
    check_answers(ray.get_runtime_context().gcs_address)
    with pytest.raises(InputError, match="does not answer as a Ray cluster does"):
        check_answers(f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cuvee\[ray\]'"):
        cuvee.on_ray(problem_of("ridge"))


@pytest.mark.slow
def test_importing_cuvee_does_not_load_ray():
    asked = "import sys, cuvee, cuvee.run; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", asked], check=True)
