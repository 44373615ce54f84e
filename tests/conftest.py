import os

import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

if os.environ.get("CUVEE_UNALIGNED"):
    import unaligned

    unaligned.install()
