"""Long trials of Ray: workers, nodes and drivers that die, and a table of ten million rows."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import cuvee
from cuvee.data.synthetic import visits
from cuvee.scale.ray_crew import RayCrew

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ASKED = {"domain": "hospital", "drop": ["visit"], "targets": ["alder", "birch"]}
KILLS, DRIVER_KILLS = 50, 10


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "visits.parquet"
    visits(0).to_parquet(path, row_group_size=300)
    return path


def check_same(run, near):
    np.testing.assert_allclose(run.alpha, near.alpha, atol=1e-8)
    np.testing.assert_allclose(run.w, near.w, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("label", ["days", "readmitted"])
def test_runs_end_with_the_same_numbers_whoever_dies(ray, table, tmp_path, monkeypatch, label):
    near = cuvee.adapt(table, tmp_path / "near", label=label, **ASKED)
    gathered, chance, killed = RayCrew._gathered, random.Random(label), []

    def deadly(crew, workers, send):
        """Ask as ever, and kill one of those that were just asked now and then."""

        def send_and_kill(k):
            reference = send(k)
            if chance.random() < 0.04 and len(killed) < KILLS // 2:
                ray.kill(crew.actors[k])
                killed.append(k)
            return reference

        return gathered(crew, workers, send_and_kill)

    monkeypatch.setattr(RayCrew, "_gathered", deadly)
    runs = 0
    while len(killed) < KILLS // 2:
        runs += 1
        check_same(
            cuvee.adapt(table, tmp_path / f"far{runs}", label=label, on="ray", **ASKED), near
        )


TWO_NODES = """
import sys
import numpy as np
from ray.cluster_utils import Cluster
sys.path.insert(0, sys.argv[1])
import cuvee
from site_builders import HYPOTHESES, problem_of

STORE = 100 * 2**20
cluster = Cluster(True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
second = cluster.add_node(num_cpus=1, object_store_memory=STORE)
cluster.wait_for_nodes()
import ray
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
alpha = np.array([[0.4, 0.3, 0.1, 0.2], [0.1, 0.2, 0.6, 0.1]])
for kind, hypothesis in HYPOTHESES.items():
    near = problem_of(kind)
    far = cuvee.on_ray(near, workers=2)
    crew = far.sources[0].crew
    options = {"adversaries": 2, "steps": 3} if kind == "network" else {"adversaries": 4}
    options |= {"method": "scgda"} if kind == "network" else {}
    def lose(what, done, total):
        global second
        if kind == "poisson" and second is not None:
            cluster.remove_node(second, allow_graceful=False)
            second = None
    one = cuvee.estimate(far, hypothesis, progress=lose, **options).alpha
    other = cuvee.estimate(near, hypothesis, **options).alpha
    assert np.abs(one - other).max() < 1e-8, kind
    steps = 20 if kind == "network" else None
    w = [cuvee.solve(p, hypothesis, alpha, steps=steps).w for p in (far, near)]
    assert np.abs(w[0] - w[1]).max() < 1e-8, kind
    print("replaced", kind, crew.replaced)
    del far, crew
    if second is None:
        second = cluster.add_node(num_cpus=1, object_store_memory=STORE)
        cluster.wait_for_nodes()
"""


def test_two_nodes_give_the_same_numbers_and_one_may_be_lost():
    pytest.importorskip("ray", reason="needs cuvee[ray]")
    done = subprocess.run(
        [sys.executable, "-c", TWO_NODES, str(ROOT / "tests")],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("replaced")]
    replaced = {kind: int(count) for _, kind, count in lines}
    assert set(replaced) == {"ridge", "logistic", "softmax", "poisson", "network"}
    assert replaced["poisson"] >= 1  # a node was lost with a worker


@pytest.fixture
def cluster(monkeypatch):
    """The address of a cluster in processes of its own, which asks for a token made up here."""
    pytest.importorskip("ray", reason="needs cuvee[ray]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    command = shutil.which("ray", path=str(Path(sys.executable).parent))
    head = subprocess.Popen(
        [command, "start", "--head", "--block", f"--port={port}", "--num-cpus=2",
         "--object-store-memory=100000000", "--include-dashboard=false", "--node-ip-address=127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    for _ in range(120):
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.5)
    yield f"127.0.0.1:{port}"
    head.terminate()
    head.wait(60)


def test_a_driver_that_dies_is_resumed(cluster, table, tmp_path):
    near = cuvee.adapt(table, tmp_path / "near", label="readmitted", **ASKED)
    far, killed, chance = tmp_path / "far", 0, random.Random(0)
    names = ["--domain", "hospital", "--drop", "visit", "--label", "readmitted"]
    begin = ["adapt", str(table), *names, "--targets", "alder,birch", "--out", str(far)]
    while not (far / "report.html").exists() or killed < DRIVER_KILLS:
        if (far / "report.html").exists():
            shutil.rmtree(far)  # it ended before it could be killed often enough: once more
        begun = (far / "manifest.json").exists()
        words = [*(["resume", str(far)] if begun else begin), "--on", f"ray:{cluster}"]
        driver = subprocess.Popen(
            [sys.executable, "-m", "cuvee", *words], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            patience = chance.uniform(8.0, 40.0) if killed < DRIVER_KILLS else 500.0
            _, said = driver.communicate(timeout=patience)
            assert driver.returncode == 0, said
        except subprocess.TimeoutExpired:
            os.kill(driver.pid, signal.SIGKILL)
            driver.communicate()
            killed += 1
    check_same(cuvee.open_run(far), near)


TEN_MILLION = """
import json, os, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from benchmarks.ray import write_table
import multiprocessing
folder = Path(sys.argv[2])
writer = multiprocessing.get_context("spawn").Process(
    target=write_table, args=(folder / "table.parquet", 10_000_000))
writer.start(); writer.join()
import cuvee, ray
ray.init(address="local", num_cpus=2, object_store_memory=200 * 2**20, include_dashboard=False,
         log_to_driver=False, logging_level="ERROR")
peaks = {}
def peak(status):  # GiB; getrusage also counts what the process was that began this one
    return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**20
def ours(status):  # other clusters may run on this machine
    parent = int(status.read_text().split("PPid:")[1].split()[0])
    return parent == os.getpid() or (parent > 1 and ours(Path(f"/proc/{parent}/status")))
def watch():
    while True:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                status = path.with_name("status")
                if path.read_bytes().startswith(b"ray::Worker") and ours(status):
                    peaks[path] = peak(status)
            except OSError:
                pass
        time.sleep(0.5)
threading.Thread(target=watch, daemon=True).start()
cuvee.adapt(folder / "table.parquet", folder / "run", targets=["s0", "s1"], on="ray")
driver = peak(Path("/proc/self/status"))
print(json.dumps({"driver": driver, "workers": list(peaks.values())}))
"""


def test_ten_million_rows_leave_the_driver_small(tmp_path):
    pytest.importorskip("ray", reason="needs cuvee[ray]")
    try:
        done = subprocess.run(
            [sys.executable, "-c", TEN_MILLION, str(ROOT), str(tmp_path)],
            capture_output=True, text=True, timeout=1800, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        peak = json.loads(done.stdout.splitlines()[-1])  # GiB
        print(peak)  # for docs/ray.md, with pytest -s
        assert (tmp_path / "run" / "report.html").exists()
        assert peak["driver"] < 1.5
        assert len(peak["workers"]) == 2
        assert max(peak["workers"]) < 5.0
    finally:
        (tmp_path / "table.parquet").unlink(missing_ok=True)
