"""Which model a run has: the one that was asked for, or the one that `--model auto` chose.

Trees and what judges them are loaded only where a run has them: scikit-learn takes as long to load
as all of cuvee, and a server of linear models answers that much earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cuvee.data.options import AUTO, Options
from cuvee.data.prepared import Prepared
from cuvee.results import Mixtures
from cuvee.run.folder import CHOSEN, RunFolder


def decided(folder: RunFolder, options: Options) -> Options:
    """Return the options with the model that was chosen, or asked for."""
    if options.model != AUTO:
        return options
    return replace(options, model=str(folder.json(CHOSEN)["model"]))


def reasons(folder: RunFolder) -> list[str]:
    """Return a sentence on the model that "auto" chose, or none."""
    return [str(folder.json(CHOSEN)["why"])] if folder.has(CHOSEN) else []


def decide(
    folder: RunFolder,
    prepared: Prepared,
    options: Options,
    mixtures: Sequence[Mixtures],
    progress: Callable[[str, int, int], None],
) -> Options:
    """Return the options with one model, which is chosen now if it was not before."""
    if options.model == AUTO:
        from cuvee.run import model_choice

        model_choice.choose(folder, prepared, options, mixtures, progress)
    return decided(folder, options)


def check_packages(model: str) -> None:
    """Raise `MissingExtra` where what makes a model, or keeps it in a file, is not installed."""
    from cuvee.estimators.files import skops_io
    from cuvee.estimators.named import package

    skops_io()
    package(model)
