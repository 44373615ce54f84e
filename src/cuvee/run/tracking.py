"""A run for MLflow: its parameters, weights, scores and report, and models that MLflow can load.

Nothing is pickled: MLflow keeps the files of the run, and loads them by `_load_pyfunc`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuvee.errors import InputError, MissingExtra
from cuvee.run.folder import ALPHA, REPORT
from cuvee.run.run import Run, open_run

EXPERIMENT, MODELS = "cuvee", "models"
LONGEST = 500  # characters of a parameter; MLflow takes 6,000
EACH = 100  # targets whose scores are logged one by one
SERVER = "serve"  # the folder of a server's tokens and jobs, which stays where it is


class Models:
    """The models of a run as MLflow asks them: rows with a domain in, a prediction for each out."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the predictions of a frame; each row gets the model of its domain."""
        return self.run.predict(model_input)


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> Models:
    """Return the models of a folder; MLflow calls it by this name.

    A network of one's own is code, which whoever loads the models names again:
    `mlflow.pyfunc.load_model(uri, model_config={"hypothesis": "package.module:factory"})`.
    """
    return Models(open_run(path, hypothesis=(model_config or {}).get("hypothesis")))


def log_run(run: Run, uri: str) -> str:
    """Log a finished run to the tracking server or folder at `uri`; return its id there.

    The experiment is called "cuvee". What was logged before an error stays, as a failed run.
    """
    try:
        import mlflow
        from mlflow.exceptions import MlflowException
    except ModuleNotFoundError:
        raise MissingExtra("--mlflow needs MLflow: pip install 'cuvee[mlflow]'") from None
    before = mlflow.get_tracking_uri()
    try:
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment(EXPERIMENT)
        with mlflow.start_run(run_name=run.path.name) as logged:
            mlflow.log_params(parameters(run))
            mlflow.log_metrics(metrics(run))
            mlflow.log_dict(run.as_dict()["alpha"], "alpha.json")
            for name in (ALPHA, REPORT):
                mlflow.log_artifact(str(run.path / name))
            _log_models(mlflow, run)
            return str(logged.info.run_id)
    except (MlflowException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(
            f"MLflow at {uri} cannot take the run ({first}): correct --mlflow; the run itself is "
            f"in {run.path}"
        ) from None
    finally:
        mlflow.set_tracking_uri(before)


def parameters(run: Run) -> dict[str, str]:
    """Return what the run was asked for, and what it rests on, as short texts."""
    asked = {k: v for k, v in run.about["options"].items() if v not in (None, [], ())}
    data = {f"data.{k}": v for k, v in run.about["data"].items() if k in ("name", "fingerprint")}
    return {k: str(v)[:LONGEST] for k, v in {**asked, **data}.items()}


def metrics(run: Run) -> dict[str, float]:
    """Return mean scores by method, and scores and bounds of the first targets, as far as known.

    Names of targets may hold what MLflow does not take, so that each has its number before it.
    """
    found, of = run.findings, run.metrics["metric"]
    values = {f"mean {of}/{m}": found.mean[k, 0] for k, m in enumerate(found.methods)}
    for i, target in enumerate(found.targets[:EACH]):
        who = f"{i} {target}"
        values[f"{of}/{who}"] = found.scores[i, 0, 0]
        values[f"distance/{who}"] = found.distance[i]
    plain = {re.sub(r"[^\w\-. /]", "_", name)[:250]: float(v) for name, v in values.items()}
    return {name: value for name, value in plain.items() if abs(value) < float("inf")}


def _log_models(mlflow: Any, run: Run) -> None:
    """Log a copy of the run folder as a model."""
    with tempfile.TemporaryDirectory() as folder:
        copy, is_code = Path(folder) / "run", ":" in run.options.hypothesis
        shutil.copytree(run.path, copy, ignore=shutil.ignore_patterns(SERVER, "*.part"))
        mlflow.pyfunc.log_model(
            name=MODELS,
            loader_module=__name__,
            data_path=str(copy),
            # MLflow lets who loads a model set only what is there already
            model_config={"hypothesis": None} if is_code else None,
            pip_requirements=["cuvee"],
        )
