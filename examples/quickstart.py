"""How much should a hospital learn from four others? The example of the README."""

import cuvee
from cuvee.data.synthetic import visits

frame = visits()  # a made-up table with a row per visit


def site(name: str, rows: int | None = None) -> cuvee.Domain:
    part = frame[frame["hospital"] == name][:rows]
    return cuvee.Domain(name, part.filter(like="lab"), part["readmitted"])


sources = [site(name) for name in ("alder", "birch", "cedar", "elm")]
problem = cuvee.Problem(sources, targets=[site("fir", rows=20)])
mix = cuvee.estimate(problem, cuvee.Logistic())
solution = cuvee.solve(problem, cuvee.Logistic(), mix)
print(mix, solution, sep="\n")
