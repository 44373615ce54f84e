"""A folder with a small table, and the command line called in this process."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from cuvee.cli import main

EFFECTS = {"north": 2.0, "east": 1.5, "south": -3.0, "007": 1.0, "new": 2.0}


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def visits(rows=24):
    rng = np.random.default_rng(0)
    parts = []
    for name, effect in EFFECTS.items():
        age, dose, sex = rng.normal(size=rows), rng.normal(size=rows), rng.choice(["f", "m"], rows)
        score = age + effect * dose + 0.5 * (sex == "f") + 0.5 * rng.normal(size=rows)
        columns = {
            "age": age,
            "dose": dose,
            "sex": sex,
            "cost": score,
            "hospital": name,
            "readmitted": score > 0,
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts).round(3)


def swarm(runs=12):
    """Ratios and metrics of small training runs, with decimals as people round them."""
    alpha = np.random.default_rng(0).dirichlet(np.ones(3), runs)
    loss = 2 + np.exp(-alpha @ [[1.0, 0.2], [0.1, 1.5], [0.3, 0.4]])
    names = pd.DataFrame({"run": [f"r{i}" for i in range(runs)]})
    ratios = names.join(pd.DataFrame(alpha, columns=["web", "code", "books"]))
    return ratios, names.join(pd.DataFrame(loss, columns=["reading", "maths"]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with visits.csv, ratios.csv and metrics.csv in it."""
    monkeypatch.chdir(tmp_path)
    visits().to_csv("visits.csv", index=False)
    for frame, name in zip(swarm(), ("ratios.csv", "metrics.csv"), strict=True):
        frame.to_csv(name, index=False)
    return tmp_path


@pytest.fixture
def cli(capsys, monkeypatch):
    """cli("weights", …) -> exit code, stdout, stderr."""

    def call(*words, stdin=""):
        monkeypatch.setattr(sys, "argv", ["cuvee", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(ended.value.code, *capsys.readouterr())

    return call
