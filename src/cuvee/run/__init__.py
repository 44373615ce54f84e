"""One table in, a model per target out: the pipeline and the folder it leaves behind."""

from cuvee.data.options import Options
from cuvee.run.adapt import adapt, resume
from cuvee.run.run import Run, open_run
from cuvee.run.saved import SavedModels, load_models

__all__ = ["Options", "Run", "SavedModels", "adapt", "load_models", "open_run", "resume"]
