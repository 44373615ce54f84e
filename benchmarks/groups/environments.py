"""An environment for each set of methods that install together, made when it is first needed."""

from __future__ import annotations

import ast
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from benchmarks.groups import archives
from packaging.requirements import Requirement

from cuvee.errors import OptionError

HERE = Path(__file__).resolve().parent
BASE = (
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "scipy",
)  # what the worker and _frames.py need


def declared(method: Path) -> tuple[tuple[str, ...], str]:
    """Return INSTALL and ENVIRONMENT of a method's file without running it."""
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(method.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("INSTALL", "ENVIRONMENT")
    }
    if "INSTALL" not in found:
        raise OptionError(
            f"{method}: INSTALL is missing, the packages of the method as pip names them"
        )
    return tuple(found["INSTALL"]), found.get("ENVIRONMENT", "shared")


def pythons(methods: Iterable[Path]) -> dict[Path, str]:
    """Return the Python in which each method runs; environments that are missing are made."""
    out, elsewhere = {}, defaultdict[str, list[Path]](list)
    for method in sorted(set(methods)):
        pins, environment = declared(method)
        if all(_here(pin) for pin in pins):
            out[method] = sys.executable
        else:
            elsewhere[environment].append(method)
    for environment, group in elsewhere.items():
        wanted = sorted({pin for method in group for pin in declared(method)[0]})
        out |= dict.fromkeys(group, _made(archives.cache("environments") / environment, wanted))
    return out


def _made(folder: Path, wanted: list[str]) -> str:
    """Return the Python of an environment that has these packages."""
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    there = stamp.read_text().splitlines() if stamp.exists() else []
    missing = [pin for pin in wanted if pin not in there]
    if missing or not python.exists():
        print(f"installing {', '.join(missing)}", file=sys.stderr, flush=True)
        if not python.exists():
            venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        call = [*pip, "-c", str(HERE.parents[1] / "constraints.txt"), *BASE, *wanted]
        done = subprocess.run(call, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            why = " ".join(x for x in done.stderr.splitlines() if x.startswith("ERROR"))
            raise OptionError(f"pip could not install {', '.join(wanted)}: {why[:400]}")
        stamp.write_text("".join(f"{pin}\n" for pin in sorted({*there, *wanted})))
    return str(python)


def _here(pin: str) -> bool:
    """Is this requirement met in the Python that runs now?"""
    need = Requirement(pin)
    try:
        return need.specifier.contains(metadata.version(need.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False
