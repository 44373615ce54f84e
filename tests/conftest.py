import os
from pathlib import Path

import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

if os.environ.get("CUVEE_UNALIGNED"):
    import unaligned

    unaligned.install()


# The files that take longest start first, so that none of them is left for one process at the end.
LONGEST = (
    "experiments/test_reproduce.py",
    "test_docs.py",
    "learn/test_map_contract.py",
    "mixture/test_minimax.py",
    "online/test_online_map.py",
    "learn/test_learn_bad_input.py",
    "components/test_sites.py",
    "run/test_adapt.py",
    "run/test_faults.py",
    "erm/test_bad_input.py",
    "erm/test_wide.py",
    "run/test_bad_run_input.py",
    "test_sklearn.py",
)


def pytest_collection_modifyitems(items):
    tests = Path(__file__).parent
    order = {tests / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))  # stable: the others stay
