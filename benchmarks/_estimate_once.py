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
    small = [cuvee.Domain(d.name, d.X[:20], d.y[:20]) for d in (*domains[:2], domains[-1])]
    cuvee.estimate(cuvee.Problem(small[:2], small[2:]), hypothesis)  # loads what is loaded late
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
