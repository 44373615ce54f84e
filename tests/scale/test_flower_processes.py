"""A SuperLink and SuperNodes as real processes on the loopback address, with TLS."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs cuvee[flower]")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "federated"))
import demo  # noqa: E402

pytestmark = pytest.mark.slow
LIAR = """
import importlib.util, struct, sys
spec = importlib.util.spec_from_file_location("honest_site", {real!r})
honest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(honest)
globals().update({{k: v for k, v in vars(honest).items() if not k.startswith("__")}})
def lie(*given):
    text, arrays = ask(*given)
    if '"answers":[{{"map"' in text:  # introductions and facts are true
        return text, arrays
    nan = struct.pack("<d", float("nan"))
    return text, [(t, s, nan * (len(d) // 8) if t == "float64" else d) for t, s, d in arrays]
ask, honest.ask_resident = honest.ask_resident, lie
"""


def config(files, name):
    return {
        "file": str(files[name]), "domain": name, "label": demo.LABEL, "role": demo.ROLES[name],
        "drop": demo.DROPPED,
    }  # fmt: skip


def finished(folder):
    path = folder / "result" / "result.json"
    assert path.exists(), (folder / "run.log").read_text()[-3000:]
    return json.loads(path.read_text())


@pytest.fixture
def started(tmp_path):
    processes = demo.Processes(tmp_path, idle=20)
    try:
        processes.link()
        yield processes
    finally:
        processes.end()


@pytest.mark.parametrize("quantity", [True, False])
def test_real_processes_give_the_same_numbers(tmp_path, quantity):
    files = demo.split_sample(tmp_path, quantity=quantity)
    result = demo.federated(tmp_path, files, tol=1e-10)
    alpha, w = demo.pooled_run(files, folds=12 if quantity else 5, tol=1e-10)
    assert result["left_out"] == {}
    np.testing.assert_allclose(result["alpha"], alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(result["w"], w, rtol=0, atol=1e-8)
    assert (tmp_path / "fir.csv.model.json").exists()
    assert not (tmp_path / "alder.csv.model.json").exists()


def test_a_wrong_certificate_is_refused(tmp_path, started):
    files = demo.split_sample(tmp_path, quantity=True)
    (tmp_path / "other").mkdir()
    wrong = demo.certificates(tmp_path / "other", "other")[0]
    started.node("cedar", config(files, "cedar"), authority=wrong)
    for name in ("alder", "birch", "fir"):
        started.node(name, config(files, name))
    started.run(out=str(tmp_path / "result"), sites=3, tol=1e-10)
    result = finished(tmp_path)
    assert [site["name"] for site in result["sites"]] == ["alder", "birch", "fir"]
    words = (tmp_path / "cedar.log").read_text().lower()
    assert "certificate" in words or "connection attempt failed" in words
    assert not (tmp_path / "cedar.csv.sent.jsonl").exists()


def test_a_site_that_sends_nan_is_left_out(tmp_path, started):
    files = demo.split_sample(tmp_path, quantity=True)
    (tmp_path / "liar").mkdir()
    real = ROOT / "src" / "cuvee_site.py"
    (tmp_path / "liar" / "cuvee_site.py").write_text(LIAR.format(real=str(real)))
    before = started.environment
    path = os.pathsep.join([str(tmp_path / "liar"), before.get("PYTHONPATH", "")])
    for name in files:
        started.environment = {**before, "PYTHONPATH": path} if name == "birch" else before
        started.node(name, config(files, name))
    started.environment = before
    started.run(out=str(tmp_path / "result"), sites=5, tol=1e-10)
    result = finished(tmp_path)
    assert result["left_out"]["birch"][0] == "untrue"
    del files["birch"]
    alpha, w = demo.pooled_run(files, folds=12, tol=1e-10)
    np.testing.assert_allclose(result["alpha"], alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(result["w"], w, rtol=0, atol=1e-8)


def test_a_site_that_is_killed_and_restarted_goes_on(tmp_path, started):
    files = demo.split_sample(tmp_path, quantity=True)
    for name in files:
        started.node(name, config(files, name))
    out = tmp_path / "result"
    written = f'out="{out}" sites=5 tol=1e-10'
    command = ("flwr", "run", str(demo.HERE), "demo", "--stream", "--run-config", written)
    started.start("run", *command)
    log = tmp_path / "birch.csv.sent.jsonl"
    until = time.monotonic() + 600
    while time.monotonic() < until and (not log.exists() or len(log.read_text().splitlines()) < 3):
        time.sleep(0.1)
    os.killpg(started.running["birch"].pid, signal.SIGKILL)
    holder = ["pgrep", "-f", f"flower_resident.*{files['birch']}"]
    for pid in subprocess.run(holder, capture_output=True, text=True, check=False).stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    started.running.pop("birch")
    assert not (out / "result.json").exists()
    started.node("birch again", config(files, "birch"))
    while time.monotonic() < until and not (out / "result.json").exists():
        time.sleep(0.5)
    result = finished(tmp_path)
    alpha, w = demo.pooled_run(files, folds=12, tol=1e-10)
    assert result["left_out"] == {}
    np.testing.assert_allclose(result["alpha"], alpha, rtol=0, atol=1e-8)
    np.testing.assert_allclose(result["w"], w, rtol=0, atol=1e-8)
