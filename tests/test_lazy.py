"""`import cuvee` and `cuvee --help` load nothing heavy; every public name is there when asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

import cuvee
from cuvee import names
from cuvee.hypothesis.registry import MODELS
from cuvee.learn import registry as maps

HEAVY = {"torch", "pandas", "scipy", "sklearn", "matplotlib", "pyarrow", "ray", "fastapi", "flwr"}


HELP = "from cuvee.cli import app; app(['--help'], standalone_mode=False)"


@pytest.mark.parametrize("program", ["import cuvee", HELP])
def test_nothing_heavy_is_loaded(program):
    words = f"{program}; import sys; print(*sorted({HEAVY} & set(sys.modules)), file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.strip()) == (0, "")


def test_runs_of_linear_models_load_no_trees():
    words = "import cuvee.run, cuvee.run.base, sys; print(*sorted({'sklearn', 'scipy'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.strip()) == (0, ""), ended.stderr


def test_every_public_name_is_there():
    assert set(cuvee.__all__) <= set(dir(cuvee))
    for name in cuvee.__all__:
        assert getattr(cuvee, name) is not None
    assert set(cuvee._MODULE_OF) == {
        n for n in cuvee.__all__ if not n.endswith(("Error", "Warning"))
    }


def test_learn_stays_the_function_whatever_is_loaded():
    program = "import cuvee, cuvee.learn.registry; assert callable(cuvee.learn), cuvee.learn"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'cuvee' has no attribute 'nonsense'"):
        cuvee.nonsense
    assert not hasattr(cuvee, "__wrapped__")
    assert cuvee.theory.theory_steps is cuvee.theory_steps  # modules are there, too


def test_names_of_options_are_those_of_the_registries():
    assert get_args(names.TableModel) == tuple(MODELS)
    assert get_args(names.MapMethod) == maps.names()
