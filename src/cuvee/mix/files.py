"""Write and read surfaces: safetensors for numbers, JSON for the rest, no pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cuvee.mix import registry
from cuvee.mix.average import Average
from cuvee.mix.candidate import DTYPE, ShapedRuns
from cuvee.mix.conformal import Calibration
from cuvee.mix.runs import Runs
from cuvee.mix.scales import Levels, Transfer
from cuvee.outputs import files

if TYPE_CHECKING:
    from cuvee.mix.surface import Surface

WHAT, FORMAT = "a surface of mixtures", 1


def save(surface: Surface, path: Path) -> None:
    """Write a surface: its runs, its candidates, and what calibrates them."""
    runs, levels, calibration = surface.runs, surface.levels, surface.calibration
    tensors = {
        "alpha": torch.as_tensor(runs.alpha),
        "metrics": torch.as_tensor(runs.metrics),
        "share": surface.average.share,
        **{f"levels.{n}": getattr(levels, n) for n in ("level", "slope", "covariance", "noise")},
        **{
            f"calibration.{n}": getattr(calibration, n)
            for n in ("noise", "quantile", "correlation")
        },
        **_candidates("whole", surface.average),
    }
    for i, (average, rows) in enumerate(surface.halves):
        tensors |= {f"half {i}.rows": rows, **_candidates(f"half {i}", average)}
    for i, transfer in enumerate(surface.transfers):
        tensors |= {f"transfer {i}.rank": transfer.rank, f"transfer {i}.level": transfer.level}
    header = {
        "format": FORMAT,
        "what": WHAT,
        "domains": runs.domains,
        "names": runs.names,
        "labels": runs.labels,
        "scale": runs.scale,
        "run_notes": runs.notes,
        "settings": asdict(surface.settings),
        "scales": levels.scales,
        "counts": levels.counts,
        "fits": [asdict(fit) for fit in surface.fits],
        "transfers": [[t.small, t.large, t.mixtures] for t in surface.transfers],
        "halves": len(surface.halves),
        "notes": surface.notes,
        "dropped": surface.dropped,
    }
    files.write(path, tensors, header)


def load_surface(path: str | Path) -> Surface:
    """Return the surface that `Surface.save` wrote, which predicts the same.

    Raises `InputError` where the file is damaged or is something else.
    """
    from cuvee.mix.fit import shaped_runs
    from cuvee.mix.fitted import Fit, Half, Settings, signs
    from cuvee.mix.surface import Surface

    where = Path(path)
    tensors, header = files.read(where, "cpu", WHAT, FORMAT)
    with files.understood(where, WHAT), torch.no_grad():
        settings = {name: _tupled(value) for name, value in header["settings"].items()}
        runs = Runs(
            alpha=tensors["alpha"].numpy(),
            metrics=tensors["metrics"].numpy(),
            domains=tuple(header["domains"]),
            names=tuple(header["names"]),
            labels=tuple(header["labels"]),
            scale=_tupled(header["scale"]),
            notes=tuple(header["run_notes"]),
        )
        chosen = Settings(**settings)
        levels = Levels(
            scales=tuple(header["scales"]),
            counts=tuple(header["counts"]),
            **files.part(tensors, "levels."),
        )
        y = torch.as_tensor(runs.metrics, dtype=DTYPE) * signs(runs.names, chosen.maximise)
        shaped = shaped_runs(runs, y, levels, levels.places(runs))
        share = tensors["share"]
        halves = []
        for i in range(header["halves"]):
            rows = tensors[f"half {i}.rows"]
            halves.append(
                Half(_restored(f"half {i}", chosen.candidates, shaped[rows], share, tensors), rows)
            )
        return Surface(
            runs=runs,
            settings=chosen,
            average=_restored("whole", chosen.candidates, shaped, share, tensors),
            halves=tuple(halves),
            levels=levels,
            calibration=Calibration(**files.part(tensors, "calibration.")),
            fits=tuple(Fit(**fit) for fit in header["fits"]),
            transfers=tuple(
                Transfer(small, large, mixtures, **files.part(tensors, f"transfer {i}."))
                for i, (small, large, mixtures) in enumerate(header["transfers"])
            ),
            notes=tuple(header["notes"]),
            dropped=tuple(header["dropped"]),
        )


def _candidates(prefix: str, average: Average) -> dict[str, Tensor]:
    return {
        f"{prefix}.{c}.{name}": tensor
        for c, fitted in enumerate(average.fitted)
        for name, tensor in fitted.tensors().items()
    }


def _restored(
    prefix: str,
    names: tuple[str, ...],
    shaped: ShapedRuns,
    share: Tensor,
    tensors: Mapping[str, Tensor],
) -> Average:
    fitted = [
        method.restore(shaped, files.part(tensors, f"{prefix}.{c}."))
        for c, method in enumerate(registry.chosen(names))
    ]
    return Average(tuple(fitted), share)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
