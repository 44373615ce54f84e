"""A run in MLflow: what is logged is what the run has, and its models predict the same."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.errors import InputError
from cuvee.run import adapt
from run_builders import options, table

mlflow = pytest.importorskip(
    "mlflow", reason="MLflow is not installed: pip install 'cuvee[mlflow]'"
)


def test_a_run_is_logged_and_its_models_are_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # which MLflow asks of who wants files
    from cuvee.run.tracking import log_run

    frame = table(4, 30)
    run = adapt(
        frame, tmp_path / "run", options=options("cost", targets="site 3", method="uniform")
    )
    (run.path / "serve").mkdir()
    (run.path / "serve" / "tokens.json").write_text("secret")
    uri = (tmp_path / "store").as_uri()
    before = mlflow.get_tracking_uri()
    key = log_run(run, uri)
    assert mlflow.get_tracking_uri() == before
    client = mlflow.MlflowClient(uri)
    logged = client.get_run(key)
    assert logged.data.params["label"] == "cost" and logged.info.status == "FINISHED"
    mean = logged.data.metrics["mean root mean squared error/cuvee"]
    assert mean == pytest.approx(run.metrics["mean"][0][0])
    assert {"alpha.csv", "alpha.json", "report.html"} <= {
        f.path for f in client.list_artifacts(key)
    }
    mlflow.set_tracking_uri(uri)
    models = mlflow.pyfunc.load_model(f"runs:/{key}/models")
    mlflow.set_tracking_uri(before)
    rows = frame[frame.site == "site 3"].drop(columns=["cost", "sick"])
    np.testing.assert_allclose(models.predict(rows)["prediction"], run.predict(rows)["prediction"])
    assert not [p for p in (tmp_path / "store").rglob("*") if p.name in ("tokens.json", "serve")]


def test_a_store_that_cannot_be_written_is_told(tmp_path):
    from cuvee.run.tracking import log_run

    run = adapt(
        table(4, 30), tmp_path / "run", options=options("cost", targets="site 3", method="uniform")
    )
    with pytest.raises(InputError, match="--mlflow"):
        log_run(run, "nonsense://nowhere")
