"""Federated sites: the same models, while every row stays where it is.

After this page you know what leaves a hospital when several of them learn together, and that the
models are those of a pooled table.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cuvee.data.synthetic import visits
from cuvee.scale.flower_run import FederatedOptions, federate
from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig
from cuvee.scale.flower_wire import Packet

# %% Five hospitals, five files
# Four hospitals are sources, and the fifth wants a model for the length of a stay. Each has its own
# file, and a desk that answers questions about it: sums over at least five rows, never a row.
folder = Path(tempfile.mkdtemp())
frame = visits().drop(columns=["visit", "readmitted"])
ROLES = dict.fromkeys(("alder", "birch", "cedar", "elm"), "source") | {"fir": "target"}
desks = {}
for name, role in ROLES.items():
    rows = frame[frame["hospital"] == name].drop(columns="hospital")
    rows = rows if role == "source" else rows.head(30)
    rows.to_csv(folder / f"{name}.csv", index=False)
    desks[name] = Desk(SiteConfig(str(folder / f"{name}.csv"), name, "days", role))


# %% A run without moving a row
# A transport carries questions to the desks and answers back. This one stays in this process, so
# that it runs everywhere; Flower's crosses the network, with TLS (`make demo-federated`).
class InThisProcess:
    """Carry packets to desks, and hand back their replies."""

    def nodes(self) -> list[str]:
        return list(desks)

    def exchange(self, packets: Mapping[str, Packet], timeout: float) -> dict[str, Packet | str]:
        return {name: desks[name].answer(packet) for name, packet in packets.items()}


federation = federate(InThisProcess(), FederatedOptions(tol=1e-10, wait=5.0, pause=0.01))
print(federation.mixtures)
print(federation.solution)
print("rounds:", federation.rounds_by_stage)

# %% What left each hospital
# The bars compare the bytes that each hospital sent with the size of its file. What was sent is
# sums: counts, means, and products of columns. They do not grow with the number of rows, so a
# hospital with a million visits would send the same amount.
sent = pd.Series({name: sum(r.received.get(name, 0) for r in federation.rounds) for name in ROLES})
size = pd.Series({name: (folder / f"{name}.csv").stat().st_size for name in ROLES})
rows_of = pd.Series({name: site.rows for name, site in federation.sites.items()})
print(pd.DataFrame({"rows": rows_of, "bytes of the file": size, "bytes sent": sent}))
figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
place = np.arange(len(ROLES))
axes.bar(place - 0.2, size / 1_000, 0.38, color="#b8c4ce", label="file that stayed")
axes.bar(place + 0.2, sent / 1_000, 0.38, color="#4527a0", label="answers that left")
axes.set_xticks(place, [f"{name}\n({role})" for name, role in ROLES.items()])
axes.set_ylabel("kilobytes")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("federated.png", dpi=110)
