"""The hypotheses that tables are learnt with, by name."""

from __future__ import annotations

from cuvee.cli.options import HypothesisName
from cuvee.hypothesis.registry import MODELS


def test_the_command_line_names_every_hypothesis():
    (option,) = HypothesisName.__metadata__
    assert option.help.startswith(f"{', '.join(MODELS)}, mlp, or package.module:factory")
    assert "poisson" in option.help
