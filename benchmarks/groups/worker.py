"""The process in which a method runs: it reads folders of tasks from its input, a line each, and
answers.

    python worker.py METHOD_FILE THREADS     (started by runner.py in the method's environment)

It never sees the label of a row that it is asked about. The clock runs from the call of `fit` to
the last answer; imports at the top of the method's file come before.
"""

from __future__ import annotations

import importlib.util
import json
import re
import resource
import sys
import time
import traceback
import warnings
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(method_file: str, threads: int) -> None:
    """Answer the tasks whose folders come in, until the input ends."""
    said = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no word of the protocol
    sys.path[0] = str(HERE.parents[1])  # not this folder: its statistics.py is not Python's
    warnings.simplefilter("ignore")
    import numpy as np
    from benchmarks.groups import task as tasks

    method = _load(Path(method_file))
    print("ready", file=said, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        folder, out = Path(order["task"]), Path(order["out"])
        task, test = tasks.read(folder, threads, unlabelled=order["unlabelled"])
        report: dict[str, object] = {}
        start, used = time.perf_counter(), _processor()
        try:
            answer = method.fit(task)
            report["fit_s"] = time.perf_counter() - start
            values = np.asarray(answer(test), dtype=float)
            report["seconds"] = time.perf_counter() - start
            wanted = (len(test), len(task.classes)) if task.classes else (len(test),)
            if values.shape != wanted:
                raise ValueError(f"answers have the shape {values.shape}, wanted is {wanted}")
            np.save(out / "answer.npy", values)
        except Exception as error:  # a failure is a result: it is counted
            report["seconds"] = time.perf_counter() - start
            report["error"] = f"{type(error).__name__}: {error}"[:300]
            traceback.print_exc()
        report["processor"] = _processor() - used
        report["mib"] = round(_most_kib() / 1024)
        report["versions"] = {name: metadata.version(name) for name in _names(method)}
        (out / "report.json").write_text(json.dumps(report))
        print("done", file=said, flush=True)


def _processor() -> float:
    """Return the seconds of processors that this process and those it started have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _most_kib() -> int:
    """Return the most memory that this process or one that it started has held.

    `ru_maxrss` of a process begins with what the process that started it held; VmHWM does not.
    """
    status = Path("/proc/self/status")
    own = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    mine = int(own[1]) if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(mine, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def _load(path: Path):  # type: ignore[no-untyped-def]
    """Return the module of a method's file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _names(method) -> list[str]:  # type: ignore[no-untyped-def]
    """Return the distributions that a method installs, without versions and extras."""
    return [re.split(r"[\[<>=! ]", pin)[0] for pin in method.INSTALL]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
