"""`cuvee adapt --model trees`, killed at random moments: what goes on ends with the same numbers, and
at most one target's work is done again.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.cli import main
from cuvee.data.task import Task
from cuvee.estimators.named import named
from cuvee.run import fitted, model_choice
from cuvee.run.folder import CHOSEN, MANIFEST
from run_builders import check_loads, check_tidy, contents, ended, forked, steps

NEW = ["north", "south"]
FEW = {"max_iter": 2, "max_leaf_nodes": 4, "learning_rate": 0.3, "min_samples_leaf": 5}


def small(model: str, task: Task):
    """Return a few small trees: kills are tried here, not how good the models are."""
    if model == "forest":
        return named(model, task).set_params(n_estimators=3)
    return named(model, task).set_params(
        **{f"histgradientboostingclassifier__{name}": value for name, value in FEW.items()}
    )


def write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    site = np.repeat(["east", "mid", "west", *NEW], [60, 60, 60, 30, 30])
    frame = pd.DataFrame(rng.normal(size=(len(site), 2)), columns=["a", "b"])
    frame["site"], frame["y"] = site, np.where(frame.a * frame.b > 0, "yes", "no")
    frame.to_csv(path, index=False)


class Undisturbed:
    """A run that nothing happened to: its files, answers and steps, and the seconds that it took."""

    def __init__(self, model: str, folder: Path):
        self.model, self.table, self.log = model, folder / "table.csv", folder / "log"
        write_table(self.table)
        out, noted = folder / "whole", folder / "seconds.json"

        def timed():
            began = time.process_time()
            self.go_on(out)
            noted.write_text(json.dumps(time.process_time() - began))

        assert ended(forked(timed)) == 0  # in a child: threads of trees do not survive a fork
        self.seconds, self.steps = json.loads(noted.read_text()), steps(out)
        self.files, self.answers = self.of(out)

    def of(self, out: Path):
        """Return digests of the files but those of skops, which hold addresses, and the answers.

        The file that says which model was chosen is compared without the seconds that it tells.
        """
        files = {name: v for name, v in contents(out).items() if not name.endswith(".skops")}
        if CHOSEN in files:
            files[CHOSEN] = re.sub(r" \(\d+ s\)", "", (out / CHOSEN).read_text())
        rows = pd.read_csv(self.table)
        return files, cuvee.open_run(out).predict(rows[rows.site.isin(NEW)])

    def go_on(self, out: Path) -> None:
        """Run the command, or `cuvee resume`, and note the work on each target when it begins."""
        for module in (fitted, model_choice):
            module.named = small
        for name in ("judged", "deliver"):
            setattr(fitted, name, self.noted(getattr(fitted, name), name))
        words = f"adapt {self.table} --domain site --label y --targets {','.join(NEW)} --out {out}"
        words = (
            f"{words} --model {self.model}" if not (out / MANIFEST).exists() else f"resume {out}"
        )
        sys.argv = ["cuvee", *words.split(), "-q"]
        with pytest.raises(SystemExit, match="0"):
            main()

    def noted(self, work, name: str):
        def begins(fitting, i, *rest):
            with self.log.open("a") as log:
                log.write(f"{name} {i}\n")
            return work(fitting, i, *rest)

        return begins

    def kill(self, out: Path, rng: np.random.Generator) -> bool:
        """Kill a run at a random moment; return whether the kill came before the end."""
        self.log.write_text("")
        before = committed(out)
        status = ended(forked(lambda: self.go_on(out)), after=rng.uniform(0.0, self.seconds))
        begun = self.log.read_text().splitlines()
        if status == 0:
            return False
        assert status == -signal.SIGKILL
        if (out / MANIFEST).exists():
            check_loads(out, self.steps)
        assert 0 <= len(begun) - (committed(out) - before) <= 1, begun
        return True

    def check_end(self, out: Path) -> None:
        assert ended(forked(lambda: self.go_on(out))) == 0
        check_tidy(out)
        files, answers = self.of(out)
        assert files == self.files
        pd.testing.assert_frame_equal(answers, self.answers, rtol=1e-9)
        shutil.rmtree(out)


def committed(out: Path) -> int:
    """Return how many pieces of work on one target are committed."""
    done = steps(out) if (out / MANIFEST).exists() else []
    return sum(step.startswith(("judged ", "models ")) for step in done)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    made: dict[str, Undisturbed] = {}

    def of(model: str) -> Undisturbed:
        if model not in made:
            made[model] = Undisturbed(model, tmp_path_factory.mktemp(model))
        return made[model]

    return of


def kills(whole: Undisturbed, out: Path, times: int, seed: int) -> None:
    rng, cut = np.random.default_rng(seed), 0
    while cut < times:
        # some are killed again while they go on
        while cut < times and whole.kill(out, rng):
            cut += 1
            if rng.random() < 0.5:
                break
        whole.check_end(out)


@pytest.mark.slow
def test_a_killed_run_goes_on(undisturbed, tmp_path):
    kills(undisturbed("trees"), tmp_path / "run", 2, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["trees", "auto"])
def test_many_kills(undisturbed, tmp_path, model):
    kills(undisturbed(model), tmp_path / "run", 30, seed=1)
