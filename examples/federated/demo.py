"""Five hospitals on one machine: real processes, TLS, and the same numbers as without them.

    python examples/federated/demo.py [--quantity] [--folder DIR]

It makes certificates, splits the sample table by hospital, starts a SuperLink and five SuperNodes
on the loopback address, runs cuvee over them, and compares with a run on the pooled table.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROLES = {"alder": "source", "birch": "source", "cedar": "source", "elm": "both", "fir": "target"}
LABEL, DROPPED, FEW = "readmitted", "visit", 60  # fir has few labelled rows


def split_sample(folder: Path, *, quantity: bool = False) -> dict[str, Path]:
    """Write the sample table, a file per hospital; with `quantity`, the label is a number."""
    import numpy as np

    from cuvee.data.synthetic import visits

    frame = visits()
    if quantity:
        noise = np.random.default_rng(0).normal(size=len(frame))
        frame[LABEL] = (0.3 * frame["days"] + frame["lab 0"] + noise).round(3)
    files = {}
    for name in ROLES:
        rows = frame[frame.hospital == name].drop(columns="hospital")
        files[name] = folder / f"{name}.csv"
        (rows.head(FEW) if name == "fir" else rows).to_csv(files[name], index=False)
    return files


def certificates(folder: Path, name: str = "ca") -> tuple[Path, Path, Path]:
    """Write an authority, and a certificate and key for 127.0.0.1; return their paths."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)

    def subject(common: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    def signed(common: str, key: Any, by: str, with_key: Any, *, authority: bool) -> Any:
        builder = x509.CertificateBuilder().subject_name(subject(common)).issuer_name(subject(by))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(minutes=5))
        builder = builder.not_valid_after(now + datetime.timedelta(days=7))
        limits = x509.BasicConstraints(ca=authority, path_length=None)
        builder = builder.add_extension(limits, critical=True)
        if not authority:
            here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            names = x509.SubjectAlternativeName([x509.DNSName("localhost"), here])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(with_key, hashes.SHA256())

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = signed(name, authority_key, name, authority_key, authority=True)
    certificate = signed("localhost", key, name, authority_key, authority=False)
    pem = serialization.Encoding.PEM
    paths = folder / f"{name}.pem", folder / f"{name}-server.pem", folder / f"{name}-server.key"
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for path, content in zip(
        paths, (authority.public_bytes(pem), certificate.public_bytes(pem), private), strict=True
    ):
        path.write_bytes(content)
        path.chmod(0o600)
    return paths


def free_port() -> int:
    """Return a port of the loopback address that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(eq=False)
class Processes:
    """Start a SuperLink and SuperNodes, and end them again."""

    folder: Path
    port: int = field(default_factory=free_port)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    idle: int = 60  # seconds after which a site's own process ends

    def __post_init__(self) -> None:
        self.tls = certificates(self.folder)
        home = self.folder / "flwr"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "demo"\n\n[superlink.demo]\naddress = "127.0.0.1:{self.port}"'
            f'\nroot-certificates = "{self.tls[0]}"\n'
        )
        self.environment = {
            **os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1", "OMP_NUM_THREADS": "1",
            "CUVEE_SITE_IDLE": str(self.idle),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }  # fmt: skip

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process whose words go into a file of its name."""
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            process = subprocess.Popen(  # noqa: S603  (our own commands, no shell)
                command, stdout=log, stderr=log, env=self.environment, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        self.running[name] = process
        return process

    def link(self) -> None:
        """Start the SuperLink, and wait until it listens."""
        authority, certificate, key = map(str, self.tls)
        self.start(
            "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            "--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certfile", authority,
            "--disable-runtime-dependency-installation",
        )  # fmt: skip
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"the SuperLink does not start; see {self.folder / 'superlink.log'}")

    def node(self, name: str, config: Mapping[str, Any], authority: Path | None = None) -> None:
        """Start the SuperNode of a hospital."""
        written = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        self.start(
            name, "flower-supernode", "--superlink", f"127.0.0.1:{self.port}",
            "--root-certificates", str(authority or self.tls[0]), "--host", "127.0.0.1",
            "--port", str(free_port()), "--node-config", written,
        )  # fmt: skip

    def run(self, **config: Any) -> None:
        """Run the app of this folder, and return when it has ended."""
        written = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        command = ("flwr", "run", str(HERE), "demo", "--stream", "--run-config", written)
        self.start("run", *command)
        out = Path(config["out"]) / "result.json"
        while self.running["run"].poll() is None and not out.exists():
            time.sleep(0.5)

    def end(self, *names: str) -> None:
        """End processes that were started here; all of them where none is named."""
        for name in names or tuple(reversed(self.running)):
            process = self.running.pop(name)
            if process.poll() is None:
                os.killpg(process.pid, 15)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)


def pooled_run(files: Mapping[str, Path], *, folds: int, tol: float) -> tuple[Any, Any]:
    """Return α and w of a run in this process, on all rows in one table."""
    import warnings

    import pandas as pd

    import cuvee
    from cuvee.data.encode import Encoder
    from cuvee.data.levels import take_out
    from cuvee.data.task import infer

    tables = {name: pd.read_csv(path) for name, path in sorted(files.items())}
    everything = pd.concat(tables.values())
    features = [c for c in everything.columns if c not in (LABEL, DROPPED)]
    encoder = Encoder.fit(everything, features)
    domains = {
        name: cuvee.Domain(name, encoder(t), t[LABEL].to_numpy(), features=encoder.names)
        for name, t in tables.items()
    }
    quantity = str(infer(everything[LABEL], LABEL).task) == "regression"
    hypothesis = cuvee.Ridge(l2=0.01) if quantity else cuvee.Logistic(l2=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cuvee.CuveeWarning)  # elm is source and target
        problem = cuvee.Problem(
            [d for name, d in domains.items() if ROLES[name] != "target"],
            [d for name, d in domains.items() if ROLES[name] != "source"],
        )
        problem = take_out(problem, 0.01).problem if quantity else problem
        exclude = {"elm": ["elm"]}
        mix = cuvee.estimate(problem, hypothesis, folds=folds, exclude=exclude, passes=60)
        return mix.alpha, cuvee.solve(problem, hypothesis, mix, tol=tol).w


def federated(folder: Path, files: Mapping[str, Path], *, tol: float) -> dict[str, Any]:
    """Return the result of a run over real processes."""
    processes = Processes(folder)
    try:
        processes.link()
        for name, path in files.items():
            config = {"file": str(path), "domain": name, "label": LABEL, "role": ROLES[name]}
            processes.node(name, {**config, "drop": DROPPED})
        out = folder / "result"
        processes.run(out=str(out), sites=len(files), tol=tol)
        if not (out / "result.json").exists():
            raise RuntimeError((folder / "run.log").read_text()[-4000:])
        result: dict[str, Any] = json.loads((out / "result.json").read_text())
        return result
    finally:
        processes.end()


def main() -> None:
    """Run the demonstration and print the largest difference."""
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quantity", action="store_true", help="a number to predict: ridge")
    parser.add_argument("--folder", type=Path, help="where everything is written")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="cuvee-federated-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder, tol = folder.resolve(), 1e-10
    files = split_sample(folder, quantity=given.quantity)
    print(f"a SuperLink and {len(files)} SuperNodes on 127.0.0.1; their logs are in {folder}")
    result = federated(folder, files, tol=tol)
    alpha, w = pooled_run(files, folds=12 if given.quantity else 5, tol=tol)
    for target, row in zip(result["targets"], result["alpha"], strict=True):
        weights = zip(result["columns"], row, strict=True)
        print(f"{target}: " + ", ".join(f"{name} {weight:.3f}" for name, weight in weights))
    print(f"rounds: {result['rounds']}")
    for site in result["sites"]:
        print(f"{site['name']} ({site['role']}) sent {site['sent']:,} bytes: {site['status']}")
    print(f"largest difference in α: {np.abs(alpha - result['alpha']).max():.1e}")
    print(f"largest difference in models: {np.abs(w - result['w']).max():.1e}")
    print(f"what left each site: {folder / 'result' / 'what_left_each_site.html'}")


if __name__ == "__main__":
    main()
