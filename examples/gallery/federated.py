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

import cuvee
from cuvee.data.encode import Encoder
from cuvee.data.levels import take_out
from cuvee.scale.flower_run import FederatedOptions, federate
from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig
from cuvee.scale.flower_wire import Packet

# %% Five hospitals, five files
# Four hospitals with 2,000 patients each are sources. The fifth has 60, and wants a model of what
# a stay costs. The data are made up: in two of the hospitals a day costs more than in the others.
# Each hospital has its own file and a desk beside it, which answers questions with sums over at
# least five rows, never with a row.
rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
per_day = {"alder": 3.0, "birch": 2.8, "cedar": 1.0, "elm": 1.2, "fir": 2.9}
tables = {}
for name, price in per_day.items():
    rows = 60 if name == "fir" else 2_000
    table = pd.DataFrame(rng.normal(size=(rows, 4)), columns=[f"lab {k}" for k in range(4)])
    table["days"] = rng.gamma(2.0, 2.0, rows).round(1)
    table["ward"] = rng.choice(["surgery", "heart", "other"], rows)
    table["cost"] = price * table["days"] + 2.0 * (table["ward"] == "surgery")
    table["cost"] += table["lab 0"] - 0.5 * table["lab 1"] + rng.normal(size=rows)
    table.to_csv(folder / f"{name}.csv", index=False)
    tables[name] = pd.read_csv(folder / f"{name}.csv")
configs = {
    name: SiteConfig(
        str(folder / f"{name}.csv"), name, "cost", "target" if name == "fir" else "source"
    )
    for name in tables
}
desks = {name: Desk(config) for name, config in configs.items()}


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

# %% The same on one pooled table
# If the rows could be pooled, `cuvee.estimate` and `cuvee.solve` would do the work. The
# differences are those of rounding.
everything = pd.concat(tables.values())
encoder = Encoder.fit(everything, [c for c in everything.columns if c != "cost"])
domains = {
    name: cuvee.Domain(name, encoder(table), table["cost"], features=encoder.names)
    for name, table in tables.items()
}
sources = [domain for name, domain in domains.items() if configs[name].role == "source"]
problem = take_out(cuvee.Problem(sources, [domains["fir"]]), 0.01).problem
ridge = cuvee.Ridge(l2=0.01)
mix = cuvee.estimate(problem, ridge, folds=12)
w = cuvee.solve(problem, ridge, mix, tol=1e-10).w
print(f"largest difference in α: {np.abs(mix.alpha - federation.mixtures.alpha).max():.0e}")
print(f"largest difference in the model: {np.abs(w - federation.solution.w).max():.0e}")

# %% What left each hospital
# The bars compare the size of each hospital's file with the bytes that the hospital sent. What
# was sent is sums: counts, means, and products of columns. They do not grow with the number of
# rows, so a hospital with a million patients would send as much. The target sends more, because
# its own rows are asked about fold by fold. what the coordinator received is what the site sent
sent = pd.Series({name: sum(r.received.get(name, 0) for r in federation.rounds) for name in desks})
size = pd.Series({name: (folder / f"{name}.csv").stat().st_size for name in desks})
rows_of = pd.Series({name: len(table) for name, table in tables.items()})
print(pd.DataFrame({"rows": rows_of, "bytes of the file": size, "bytes sent": sent}))
figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
place = np.arange(len(desks))
axes.bar(place - 0.2, size / 1_000, 0.38, color="#b8c4ce", label="file, which stayed")
axes.bar(place + 0.2, sent / 1_000, 0.38, color="#4527a0", label="answers, which left")
axes.set_xticks(place, [f"{name}\n({config.role})" for name, config in configs.items()])
axes.set_ylabel("kilobytes")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("federated.png", dpi=110)
