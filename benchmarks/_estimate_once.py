"""Time `cuvee.estimate` on a problem from a file, with whatever cuvee this Python has.

    python benchmarks/_estimate_once.py problem.npz THREADS REPEATS [alpha.npy]

It prints the seconds of every repeat as one JSON line, and writes α where a file is named.
`benchmarks/alpha.py` and `benchmarks/quality.py` run it, also with the Python of another version.
"""

import json
import sys
import time
import warnings

import numpy as np
import torch

import cuvee


def main(path: str, threads: int, repeats: int, out: str | None = None) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    with np.load(path) as arrays:
        names = [str(name) for name in arrays["names"]]
        kind, l2, n_sources = str(arrays["kind"]), float(arrays["l2"]), int(arrays["n_sources"])
        domains = [
            cuvee.Domain(name, arrays[f"X{i}"], arrays[f"y{i}"]) for i, name in enumerate(names)
        ]
    problem = cuvee.Problem(domains[:n_sources], domains[n_sources:])
    hypothesis = getattr(cuvee, kind)(l2)
    # loads what is loaded late; labels are alternating, so that each domain has two classes
    small = [cuvee.Domain(name, np.eye(20, 3), np.arange(20) % 2) for name in "abc"]
    cuvee.estimate(cuvee.Problem(small[:2], small[2:]), hypothesis)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        mix = cuvee.estimate(problem, hypothesis)
        seconds.append(time.perf_counter() - began)
    if out:
        np.save(out, mix.alpha)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
