"""Draw every figure of the docs again: `make figures`, or with names, those alone.

The figures of docs/paper are drawn from the numbers beside them, which takes seconds. `online.png`
and `transition.png` are measured anew, which takes minutes; the second is about time, so let
nothing else run. `idea.svg` is drawn by hand, and docs/make_gallery.py draws the gallery's.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))


def of_claim(name: str) -> None:
    """Draw the figure of a claim from its raw numbers, all of which are there."""
    from experiments._lab import Lab

    folder = DOCS / "paper" / name
    setting = json.loads((folder / "setting.json").read_text(encoding="utf-8"))["setting"]
    experiment = importlib.import_module(f"experiments.{name}")
    lab = Lab(setting, folder, lambda what, done, total: None)
    before = lab.raw.read_bytes()
    experiment.run(lab)
    if lab.raw.read_bytes() != before:
        raise SystemExit(f"docs/paper/{name}/raw.csv was not complete: look at what changed")


def of_stream(path: Path = DOCS / "online.png", rounds: int = 10_000) -> None:
    """Draw loss, labels and centres of a drifting stream of ten sources."""
    from benchmarks.online import mixtures

    import cuvee
    from cuvee.data.synthetic import shifted_sources

    online = cuvee.OnlineMap(shifted_sources(10, 1_000, 32), cuvee.Logistic(1e-2), evaluate=True)
    cuvee.run_online(mixtures("drifting", rounds, 10, seed=10), online, picture=path)


def of_planner() -> None:
    """Draw total time against the number of targets, planned and measured."""
    from benchmarks._planner import transition

    transition(DOCS / "transition.png")


def figures() -> dict[str, Callable[[], None]]:
    """Return what draws each figure, by name."""
    claims = sorted(path.parent.name for path in DOCS.glob("paper/*/raw.csv"))
    return {
        **{f"paper/{name}/figure.png": partial(of_claim, name) for name in claims},
        "online.png": of_stream,
        "transition.png": of_planner,
    }


def main() -> None:
    """Draw all figures, or those that are named."""
    known = figures()
    for name in sys.argv[1:] or known:
        if name not in known:
            raise SystemExit(f"no figure named {name!r}; there is {', '.join(known)}")
        known[name]()
        print(name, flush=True)


if __name__ == "__main__":
    main()
