"""One table in, a model per target out: the pipeline and the folder it leaves behind."""

from cuvee.run.adapt import adapt, resume
from cuvee.run.opened import Run, open_run
from cuvee.run.options import Options

__all__ = ["Options", "Run", "adapt", "open_run", "resume"]
