"""Run the numeric tests as other processors, libraries and threads would, as far as that goes here.

    make test-anywhere                    every setting by itself, and the two for CI
    make test-anywhere SETTINGS=--few     two settings that change all, on a part of the tests

Two computations of one number differ in their last bits, and those bits are not the same
everywhere: a test that compares them bit by bit passes on one machine and fails on another. A line
for each setting says how it ended, and the last line sums them up as pytest does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "components",
    "erm",
    "hypothesis",
    "inputs",
    "learn",
    "mix",
    "mixture",
    "numerics",
    "online",
    "theory",
)
FILES = ("simplex", "sklearn", "solution")
WHOLE = ("cli/test_saved_models", "data/test_plain_rows", "run/test_adapt")
NUMERIC = [
    *(f"tests/{name}" for name in FOLDERS),
    *(f"tests/test_{name}.py" for name in FILES),
    *(f"tests/{name}.py" for name in WHOLE),  # what is predicted in a whole run
]

PART = [  # for CI: the kinds of tests that once compared bits, in about two minutes a setting
    "tests/components",
    "tests/online/test_restatement.py",
    "tests/online/test_centres.py",
    "tests/erm/test_solve.py",
    "tests/erm/test_descent.py",
    "tests/learn/test_learn_bad_input.py",
    "tests/mixture/test_scgda.py",
    "tests/mixture/test_objective.py",
    "tests/test_simplex.py",
]
DISTRIBUTED = ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]  # as in the Makefile
PLAIN_NUMPY = (
    "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX "
    "AVX512_CNL"
)
SETTINGS = {
    "as it comes": {},
    "two threads": {"OMP_NUM_THREADS": "2"},
    "MKL as on any processor": {"MKL_CBWR": "COMPATIBLE"},
    "MKL as with AVX2": {"MKL_CBWR": "AVX2"},
    "torch without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "OpenBLAS as on Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "NumPy without AVX": {"NPY_DISABLE_CPU_FEATURES": PLAIN_NUMPY},
    "unaligned addresses": {"CUVEE_UNALIGNED": "1"},
}
ALL = {name: value for setting in SETTINGS.values() for name, value in setting.items()}
FEW = {
    "MKL with AVX2, OpenBLAS as on Haswell": {"MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
    "no vectors, two threads, unaligned": {**ALL, "MKL_CBWR": "COMPATIBLE"},
}
OURS = {*ALL, "OMP_WAIT_POLICY"}


def environment(setting: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with a setting, and without what another one would set."""
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    # Threads of several processes on the same cores must not spin while they wait.
    return {**kept, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", **setting}


def counts(closing: str) -> Counter[str]:
    """Read the closing line of pytest.

    >>> counts("1 failed, 20 passed, 1 skipped in 3.21s")["passed"]
    20
    """
    return Counter(
        {
            what: int(number)
            for number, what in re.findall(r"(\d+) ([a-z]+)", closing.split(" in ")[0])
        }
    )


def run(
    name: str, setting: dict[str, str], paths: list[str], options: list[str]
) -> tuple[int, Counter[str]]:
    """Run tests in one setting and print how they ended.

    Return the exit status, and how many ended how.
    """
    command = [sys.executable, "-m", "pytest", *DISTRIBUTED, *paths, *options]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment(setting), stdout=subprocess.PIPE, text=True
    )
    lines = ended.stdout.strip().splitlines() or ["pytest said nothing"]
    if ended.returncode:
        print(ended.stdout)
    print(f"{name}: {lines[-1]}", flush=True)
    return ended.returncode, counts(lines[-1])


def main(options: list[str]) -> int:
    """Run every setting, or with --few two of them on a part; what else is given goes to pytest."""
    few = "--few" in options
    options = [option for option in options if option != "--few"]
    began, total, failed = time.monotonic(), Counter[str](), []
    for name, setting in (FEW if few else {**SETTINGS, **FEW}).items():
        status, ended = run(name, setting, PART if few else NUMERIC, options)
        total += ended
        failed += [name] if status else []
    if failed:
        print(f"failed: {'; '.join(failed)}")
    said = ", ".join(f"{total[what]} {what}" for what in sorted(total))
    print(f"{said} in {time.monotonic() - began:.2f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
