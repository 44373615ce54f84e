"""One table with sites: a model for each of four hospitals with 20 labelled rows, from a pandas
frame to a report.
"""

import tempfile
from pathlib import Path

import cuvee
from cuvee.data.synthetic import visits

frame = visits()  # numbers, categories and a column `hospital`
out = Path(tempfile.mkdtemp()) / "run"  # a new folder: everything that is found stays there
# 20 labelled rows of each are learnt from, the other 300 are kept for scores
new = ("fir", "oak", "pine", "yew")
options = cuvee.Options(
    label="readmitted", domain="hospital", targets=new, drop=("visit",), labelled=20
)
run = cuvee.adapt(frame, out, options=options)
print(run.summary())
for target, alpha in zip(run.targets, run.alpha, strict=True):
    print(target, dict(zip(run.columns, alpha.round(2).tolist(), strict=True)))

again = cuvee.open_run(out)  # in another process, say
rows = frame[frame.hospital.isin(new)].groupby("hospital").head(1)
print(again.predict(rows, keep=["days", "ward"]).round(2).to_string(index=False))
print(*sorted(p.name for p in out.iterdir() if p.suffix in (".csv", ".html", ".safetensors")))
