"""A few of Schemathesis's requests over the whole schema; `make test-fuzz` sends 50,000 and more."""

from __future__ import annotations

import shutil

import pytest

from serve_builders import TOKENS, Client

schemathesis = pytest.importorskip(
    "schemathesis", reason="Schemathesis is not installed: pip install 'cuvee[fuzz]'"
)


def test_nothing_that_the_schema_allows_is_a_server_error(made, tmp_path):
    from fuzz import CONFIG, Fuzz

    run = tmp_path / "run"  # what is sent may add a target
    client = Client(shutil.copytree(made["cost"], run, ignore=shutil.ignore_patterns("serve")))

    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", client.app, config=schemathesis.Config.from_str(CONFIG)
    )
    fuzz = Fuzz(schema, {"adapt": TOKENS["adapt"], "none": None})
    fuzz.round(2, 1)
    client.state.close()
    assert fuzz.wrong == []
    assert fuzz.answers.total() > 100 and {"200", "401", "404", "422"} <= {*fuzz.answers}
