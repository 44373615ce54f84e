"""Settings of a federated run: those of the coordinator's app, and those of a site."""

import tomllib
from dataclasses import asdict
from pathlib import Path

from cuvee.scale.flower_run import FederatedOptions

ROOT = Path(__file__).parents[2]


def test_the_app_has_every_option_that_is_read():
    """Flower refuses options that the app's own config does not have."""
    app = tomllib.loads((ROOT / "examples" / "federated" / "pyproject.toml").read_text())
    config = app["tool"]["flwr"]["app"]["config"]
    assert {key: value for key, value in config.items() if key not in ("out", "sites")} == {
        **asdict(FederatedOptions()), "task": "",
    }  # fmt: skip
    assert {"out", "sites"} <= set(config)
    words = (ROOT / "docs" / "federated.md").read_text()
    assert all(f"`{key}`" in words or f"{key}=" in words for key in config)
