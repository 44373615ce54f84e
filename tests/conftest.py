import os
import random
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from hypothesis import settings

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


# `make test` draws the same examples everywhere, so that it is green or red for all who run it;
# `make test-full` sets CUVEE_RANDOM and looks for new ones.
settings.register_profile("same", derandomize=True)
if not os.environ.get("CUVEE_RANDOM"):
    settings.load_profile("same")


@pytest.hookimpl(tryfirst=True)  # before pytest leaves the slow ones out
def pytest_collection_modifyitems(items):
    tests = Path(__file__).parent
    order = {tests / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))  # stable: the others stay
    families = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample") and not item.get_closest_marker("slow"):
            families[item.path, item.originalname].append(item)
    for (_, name), cases in families.items():
        kept = cases[0].get_closest_marker("sample").args[0]
        drawn = random.Random(name).sample(cases, len(cases))  # the same ones in every process
        for item in drawn[kept:]:
            item.add_marker(pytest.mark.slow)
