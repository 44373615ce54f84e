"""One small Ray cluster for all tests of this folder."""

import pytest


@pytest.fixture(scope="session")
def ray():
    ray = pytest.importorskip("ray", reason="needs cuvee[ray]")
    ray.init(
        address="local", num_cpus=4, object_store_memory=150 * 2**20, include_dashboard=False,
        log_to_driver=False, logging_level="ERROR",
    )  # fmt: skip
    yield ray
    ray.shutdown()
