"""A small run of a quantity and one of classes, served in this process."""

from __future__ import annotations

import pytest

from cuvee.run import adapt
from serve_builders import Client, visits


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The folders of two finished runs, by their label; nobody writes to them."""
    folder = tmp_path_factory.mktemp("served")
    visits().to_csv(folder / "visits.csv", index=False)
    how = {"domain": "hospital", "targets": "new/ward", "method": "uniform"}
    for label, other in (("cost", "sick"), ("sick", "cost")):
        adapt(folder / "visits.csv", folder / label, label=label, drop=(other,), **how)
    return {label: folder / label for label in ("cost", "sick")}


@pytest.fixture(scope="session")
def quantity(made):
    client = Client(made["cost"], learn=True)
    yield client
    client.state.close()


@pytest.fixture(scope="session")
def classes(made):
    client = Client(made["sick"])
    yield client
    client.state.close()
