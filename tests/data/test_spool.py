"""Files larger than memory: the same numbers as in memory, a batch at a time, and nothing left
behind by an error.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

import cuvee
from cuvee.data import files
from cuvee.data import spool as module
from cuvee.data.encode import Encoder
from cuvee.data.frame import read, spec
from cuvee.data.spool import spool
from cuvee.errors import DomainError, InputError, OptionError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.sample(8)

NUMBERS = ("a", "b", "c")


def shops(rows=1_000, seed=0, gaps=False, label="quantity"):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(1e3, 5, (rows, 3)), columns=list(NUMBERS))
    frame["b"] = rng.integers(0, 50, rows)
    frame["kind"] = rng.choice(["x", "y", "zé"], rows)
    frame["open"] = rng.random(rows) < 0.5
    frame["shop"] = rng.choice([f"shop {i}" for i in range(7)], rows)
    y = frame["a"] - frame["b"] + rng.normal(size=rows)
    frame["sold"] = {
        "quantity": y,
        "whole": y.round(),
        "text": y.gt(975).map({True: "much", False: "little, so"}),
    }[label]
    if gaps:
        for name in (*NUMBERS, "kind", "sold"):
            frame.loc[rng.random(rows) < 0.1, name] = None
    return frame


def written(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=300)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(pa.Table.from_pandas(frame), path, chunksize=170)
    else:
        frame.to_csv(path, index=False)
    return path


ROLES = {"domain": "shop", "label": "sold"}


def in_memory(path, encoder=None, impute=False, fit_on=None):
    """The same through a table in memory: an encoder fitted on the labelled rows, and X, y by
    domain.
    """
    table = read(path, **ROLES)
    train = pd.concat([table.labelled(name) for name in fit_on or table.names]).sort_index()
    encoder = encoder or Encoder.fit(train, table.features, impute=impute)
    rows = {name: table.labelled(name) for name in table.names}
    return encoder, {name: (encoder(r), r["sold"].to_numpy()) for name, r in rows.items() if len(r)}


def check_same(spooled, wanted):
    encoder, domains = wanted
    assert spooled.encoder.names == encoder.names and [d.name for d in spooled.domains] == list(
        domains
    )
    for domain in spooled.domains:
        X, y = domains[domain.name]
        np.testing.assert_allclose(domain.X, X, rtol=0, atol=1e-12)
        assert domain.y.tolist() == y.tolist() and domain.y.dtype.kind == (
            "U" if y.dtype.kind not in "iufb" else y.dtype.kind
        )
        assert isinstance(domain.X.base, np.memmap) and domain.features == encoder.names
    for ours, theirs in zip(spooled.encoder.columns, encoder.columns, strict=True):
        assert ours.fill == theirs.fill


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".tsv"])
@pytest.mark.parametrize("label", ["quantity", "whole", "text"])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_same_numbers_as_in_memory(tmp_path, suffix, label, gaps):
    path = written(shops(gaps=gaps, label=label), tmp_path / f"shops{suffix}")
    spooled = spool(spec(path, **ROLES), tmp_path, impute=gaps, batch_rows=130)
    check_same(spooled, in_memory(path, impute=gaps))


def test_batches_of_text_are_small_enough_to_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HEAD", 4_000)  # the least block
    frame = shops(gaps=True)
    frame["late"] = ["7"] * 999 + ["seven"]  # a column that shows what it is in its last row
    frame.loc[:600, "late"] = "x"
    path = written(frame, tmp_path / "shops.csv")
    assert len(list(spec(path, **ROLES).files[0][0].batches(["a"], 10))) > 10
    check_same(
        spool(spec(path, **ROLES), tmp_path, impute=True, batch_rows=10),
        in_memory(path, impute=True),
    )


def test_fitted_on_some_domains_or_elsewhere(tmp_path):
    path = written(shops(gaps=True), tmp_path / "shops.parquet")
    fit_on = ["shop 1", "shop 4"]
    spooled = spool(spec(path, **ROLES), tmp_path, impute=True, fit_on=fit_on, batch_rows=99)
    check_same(spooled, in_memory(path, impute=True, fit_on=fit_on))
    given_encoder = spool(spec(path, **ROLES), tmp_path, encoder=spooled.encoder)
    check_same(given_encoder, in_memory(path, encoder=spooled.encoder))
    with pytest.raises(
        DomainError, match="no labelled row belongs to domain 'shop 9'; did you mean"
    ):
        spool(spec(path, **ROLES), tmp_path, fit_on=["shop 9"])


def test_a_folder_with_a_file_per_domain(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    frame = shops()
    for i, (name, rows) in enumerate(frame.groupby("shop")):
        written(rows.drop(columns="shop"), tmp_path / f"{name}{'.csv' if i % 2 else '.parquet'}")
    spooled = spool(spec(tmp_path, label="sold"), out, batch_rows=50)
    assert [d.name for d in spooled.domains] == sorted(frame["shop"].unique())
    table = read(tmp_path, label="sold")
    encoder = Encoder.fit(table.frame, table.features)
    for domain in spooled.domains:
        np.testing.assert_allclose(domain.X, encoder(table.rows(domain.name)), rtol=0, atol=1e-12)


def test_ridge_takes_it_from_there(tmp_path):
    path = written(shops(), tmp_path / "shops.csv")
    _, domains = in_memory(path)
    spooled = spool(spec(path, **ROLES), tmp_path, batch_rows=64)
    held = [cuvee.Domain(name, X, y) for name, (X, y) in domains.items()]
    alpha = np.random.default_rng(0).dirichlet(np.ones(7), size=5)
    ridge = cuvee.Ridge(l2=1e-2)
    np.testing.assert_allclose(
        cuvee.solve(list(spooled.domains), ridge, alpha).w,
        cuvee.solve(held, ridge, alpha).w,
        rtol=1e-10,
        atol=1e-10,
    )


@settings(
    max_examples=30, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=9))
def test_medians_are_exact(tmp_path, values):
    frame = pd.DataFrame({"x": values, "shop": "a", "sold": 1.0})
    path = written(frame, tmp_path / "m.parquet")
    (column,) = spool(spec(path, **ROLES), tmp_path, impute=True, batch_rows=2).encoder.columns
    assert column.fill == np.median(values)


BAD = {
    "missing": (
        shops(50).assign(a=[None] * 9 + [1.0] * 41),
        {},
        "9 of 50 rows have missing values, in 1 column: 'a'",
    ),
    "all missing": (shops(50).assign(a=None), {"impute": True}, "'a' is missing in every row"),
    "ids": (
        shops(300).assign(kind=[f"p{i}" for i in range(300)]),
        {},
        "'kind' has 300 different values",
    ),
    "few ids": (
        shops(30).assign(kind=[f"p{i}" for i in range(30)]),
        {},
        "'kind' has 30 different values in 30 training rows",
    ),
    "no labels": (shops(50).assign(sold=np.nan), {}, "no row has a label in column 'sold'"),
    "infinite": (
        shops(50).assign(a=[1.0] * 40 + [np.inf] * 10),
        {"batch_rows": 15},
        "'a' is infinite at row 40",
    ),
    "dates": (shops(50).assign(a=pd.Timestamp("2020-01-01")), {}, "'a' holds dates"),
    "no domain": (
        shops(50).assign(shop=["a"] * 40 + [None] * 10),
        {"batch_rows": 15},
        "names no domain at row 40",
    ),
    "too large": (shops(50).assign(a=[1.7e308, -1e308] * 25), {}, "'a' runs from"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_bad_files_leave_nothing(tmp_path, case, suffix):
    frame, options, message = BAD[case]
    path = written(frame, tmp_path / f"shops{suffix}")
    with pytest.raises(DomainError, match=message) as caught:
        spool(spec(path, **ROLES), tmp_path, **options)
    assert str(path) in str(caught.value) and os.listdir(tmp_path) == [path.name]


def test_further_errors(tmp_path, monkeypatch):
    path = written(shops(200), tmp_path / "shops.csv")
    encoder = Encoder.fit(shops(200)[shops(200)["kind"] != "y"], ("a", "b", "c", "kind", "open"))
    with pytest.raises(
        DomainError, match=r"'kind' is 'y' at row .*, a value that no training row has"
    ):
        spool(spec(path, **ROLES), tmp_path, encoder=encoder, strict=True)
    lenient = spool(spec(path, **ROLES), tmp_path, encoder=encoder)
    others = int((shops(200)["kind"] == "y").sum())
    assert f"count as 'other': 'kind' ({others} rows, like 'y')" in lenient.notes[-1]
    with pytest.raises(InputError, match=r"nowhere cannot be written .No such file"):
        spool(spec(path, **ROLES), tmp_path / "nowhere")
    with pytest.raises(OptionError, match="batch_rows"):
        spool(spec(path, **ROLES), tmp_path, batch_rows=0)
    with pytest.raises(DomainError, match="no column 'solt'; did you mean 'sold'"):
        spec(path, domain="shop", label="solt")
    mixed = written(shops(200).assign(a=[*map(str, range(199)), "much"]), tmp_path / "mixed.csv")
    with pytest.raises(
        DomainError, match="'a' mixes types: it holds numbers, but 'much' at row 199"
    ):
        spool(spec(mixed, **ROLES), tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "_head", full)
    with pytest.raises(InputError, match=r"No space left on device.; make room"):
        spool(spec(path, **ROLES), tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["mixed.csv", "shops.csv"]


def test_a_file_that_changes_meanwhile(tmp_path, monkeypatch):
    path = written(shops(200), tmp_path / "shops.csv")
    before = module._encoder
    monkeypatch.setattr(module, "_encoder", lambda *a: (written(shops(150), path), before(*a))[1])
    with pytest.raises(InputError, match="changed while it was read"):
        spool(spec(path, **ROLES), tmp_path)


@pytest.mark.parametrize("suffix", [pytest.param(".csv", marks=pytest.mark.slow), ".parquet"])
def test_memory_is_that_of_a_batch(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(files, "HEAD", 50_000)  # the reader of text is some 32 blocks ahead
    rows, columns = 40_000, 25
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(rows, columns)), columns=[f"x{i}" for i in range(columns)]
    )
    frame["shop"], frame["sold"] = rng.choice(["a", "b"], rows), rng.normal(size=rows)
    path = written(frame, tmp_path / f"big{suffix}")
    del frame
    # what is imported now is not counted
    spool(spec(written(shops(10), tmp_path / "s.csv"), **ROLES), tmp_path)
    arrow, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(arrow)
    tracemalloc.start()
    try:
        spooled = spool(spec(path, **ROLES), tmp_path, batch_rows=2_000)
        cuvee.solve(list(spooled.domains), cuvee.Ridge(), [[0.5, 0.5]])
        peak = tracemalloc.get_traced_memory()[1] + arrow.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert os.path.getsize(tmp_path / "X.npy") > 7e6 and peak < path.stat().st_size / 2, (
        peak,
        path.stat().st_size,
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_large_file_in_little_memory(tmp_path, suffix):
    """A file of a few hundred MB; the process holds at most 150 MB of its own more than before."""
    script = Path(tmp_path / "run.py")
    script.write_text(LARGE)
    done = subprocess.run(
        [sys.executable, script, tmp_path, suffix], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    on_disk, encoded, more = (float(v) for v in done.stdout.split())
    assert on_disk > 250 and encoded > 300 and more < 150, done.stdout


LARGE = """
import sys, threading, time
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.csv, pyarrow.parquet, torch
import cuvee
from cuvee.data.frame import spec
from cuvee.data.spool import spool

folder, suffix = Path(sys.argv[1]), sys.argv[2]
path, rng = folder / f"big{suffix}", np.random.default_rng(0)
torch.set_num_threads(1)

def part(n):
    table = {f"x{i}": rng.normal(size=n).round(7 if suffix == ".csv" else 20) for i in range(20)}
    return pa.table({**table, "domain": rng.choice(["a", "b", "c"], n), "label": rng.normal(size=n)})

def make(path, parts, rows):
    first = part(rows)
    write = pyarrow.csv.CSVWriter if suffix == ".csv" else pyarrow.parquet.ParquetWriter
    with write(path, first.schema) as file:
        for i in range(parts):
            file.write_table(part(rows))

def own():  # memory of the process itself: pages of mapped files can be dropped at any time
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) / 1024

small = folder / f"small{suffix}"
make(small, 1, 1000)
def work(path):
    spooled = spool(spec(path), folder, batch_rows=8_192)
    cuvee.solve(list(spooled.domains), cuvee.Ridge(), [[0.2, 0.3, 0.5]])

work(small)  # imports
make(path, 20, 100_000)
before, peak, stop = own(), [0.0], threading.Event()
def watch():
    while not stop.wait(0.01):
        peak[0] = max(peak[0], own())
watcher = threading.Thread(target=watch)
watcher.start()
work(path)
stop.set(), watcher.join()
print(path.stat().st_size / 1e6, (folder / "X.npy").stat().st_size / 1e6, peak[0] - before)
"""
