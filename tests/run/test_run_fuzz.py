"""Whatever a table or a run folder holds, a run is prepared or opened, or refused with one of
cuvee's own errors.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuvee.data.prepare import prepare
from cuvee.errors import CuveeError, CuveeWarning, InputError
from cuvee.report.page import render
from cuvee.run import Options, adapt, open_run, resume
from cuvee.run.folder import LOCK, MANIFEST
from cuvee.run.manifest import as_json
from cuvee.run.run import REPORT
from damage import flips
from frame_builders import written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_builders import options, table

CALM = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
EXAMPLES = 80 if os.environ.get("CUVEE_RANDOM") else 40
FUZZ = settings(max_examples=EXAMPLES, deadline=8000, suppress_health_check=CALM)
BASE = table(4, 8)
SUFFIXES = ["csv", "tsv", "parquet", "feather", "csv.gz", "txt", "png"]

# Cells that a column may suddenly hold, and whole columns of one kind.
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(),
    st.sampled_from(
        [
            1e308,
            -1e308,
            5e-324,
            2.0**53,
            10**400,
            "",
            " ",
            "nan",
            "NA",
            "1e5",
            "007",
            "✓",
            "a\nb",
            "\0",
            b"x",
        ]
    ),
    st.text(max_size=4),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.decimals(allow_nan=True),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(
        [
            pd.NA,
            pd.NaT,
            np.float32(1.5),
            np.int8(3),
            np.datetime64("2020-01-01"),
            {},
            (1, 2),
            object,
        ]
    ),
)
DTYPES = [
    "object",
    "category",
    "string",
    "Float64",
    "Int64",
    "boolean",
    "float32",
    "int8",
    "bool",
    "complex128",
    "float16",
]
KINDS = [
    "cells",
    "some cells",
    "dtype",
    "constant",
    "missing",
    "unique",
    "huge",
    "infinite",
    "drop",
    "rename",
    "twice",
]
NAMES = [
    "",
    " ",
    "age",
    "site",
    "cost",
    "label",
    "domain",
    "target",
    "(own sample)",
    "each",
    "a,b",
    "ü✓",
    "0",
    "__index_level_0__",
]


@contextmanager
def quiet():
    """No warnings but cuvee's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CuveeWarning)
        yield


def check_prepared(source, asked: Options) -> bool:
    """Prepared, with every group as it should be, or refused in one sentence."""
    with tempfile.TemporaryDirectory() as scratch, quiet():
        try:
            prepared = prepare(source, asked, Path(scratch) / "scratch")
        except CuveeError:
            return False
        for members in prepared.members:
            group = prepared.group(members)
            for domain in (*group.problem.sources, *group.problem.targets, *group.whole.targets):
                assert np.isfinite(domain.X).all() and domain.n_rows >= 2
            assert len(group.test) == group.problem.n_targets
        assert set(prepared.targets) <= set(prepared.sizes) and prepared.hypothesis
        return True


@st.composite
def frames(draw):
    """The table, with some of its columns made worse."""
    frame = BASE.copy()
    for name in draw(st.lists(st.sampled_from(list(BASE.columns)), max_size=2, unique=True)):
        kind, n = draw(st.sampled_from(KINDS)), len(frame)
        at = [i for i, c in enumerate(frame.columns) if c == name]
        if kind == "cells":
            pool = draw(st.lists(ODD, min_size=1, max_size=6))
            frame[name] = pd.Series([pool[i % len(pool)] for i in range(n)], dtype=object)
        elif kind == "some cells":
            cells = frame.iloc[:, at[0]].tolist()  # another one may have been renamed to it
            for i, value in draw(st.dictionaries(st.integers(0, n - 1), ODD, max_size=4)).items():
                cells[i] = value
            frame[name] = pd.Series(cells, dtype=object)
        elif kind == "dtype":
            try:
                frame[name] = frame[name].astype(draw(st.sampled_from(DTYPES)))
            except (TypeError, ValueError):
                continue
        elif kind in ("constant", "missing", "unique", "huge", "infinite"):
            rng = np.random.default_rng(draw(st.integers(0, 9)))
            frame[name] = {
                "constant": 1,
                "missing": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
                "unique": [f"id {i}" for i in range(n)],
                "huge": rng.normal(size=n) * 10.0 ** draw(st.integers(100, 307)),
                "infinite": np.where(rng.random(n) < 0.1, np.inf, 1.0),
            }[kind]
        elif kind == "drop":
            frame = frame.drop(columns=name)
        elif kind == "rename":
            frame = frame.rename(
                columns={name: draw(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)))}
            )
        elif at:
            frame = pd.concat([frame, frame.iloc[:, at[:1]]], axis=1)
    return frame[: draw(st.sampled_from([0, 9, 20, *[len(BASE)] * 9]))]


FITTING = {
    "targets": st.sampled_from(["each", "site 0", "site 0,site 1", "site [12]", ("site 3",)]),
    "impute": st.booleans(),
    "levels": st.booleans(),
    "test": st.sampled_from([0.25, 0.0, 0.9]),
    "labelled": st.sampled_from([None, None, 5, 100]),
    "hypothesis": st.sampled_from(["auto", "auto", "auto", "mlp"]),
    "exclude": st.sampled_from([(), (), (), ("site 2",), ("site [23]",), ("nobody",)]),
    "strict": st.sampled_from([False, False, True]),
}
ASKED = {
    "label": st.sampled_from(["sick", "age", "site", "sex", "label"]),
    "domain": st.sampled_from(["sex", "age", "sick", None]),
    "targets": st.sampled_from(["s*", "*", "f", "", ",", "1", "[", "each,site 0", ()]),
    "features": st.sampled_from(
        [("age",), ("sex", "age"), (), ("age", "age"), ("cost",), ("nothing",)]
    ),
    "drop": st.sampled_from([(), ("cost",), ("sex", "sick"), ("nothing",), ("site",)]),
    "text": st.sampled_from([("age",), ("cost",), ("site",), ("nothing",)]),
    "task": st.sampled_from(["regression", "classification"]),
    "hypothesis": st.sampled_from(["ridge", "logistic"]),
}


@st.composite
def questions(draw):
    """Options that are allowed by themselves; most of them fit the table."""
    asked = {name: draw(values) for name, values in FITTING.items()}
    for name in draw(st.lists(st.sampled_from(list(ASKED)), max_size=1)):
        asked[name] = draw(ASKED[name])
    return options(**asked)


@settings(FUZZ, max_examples=150)
@given(frames(), questions())
def test_frames(frame, asked):
    check_prepared(frame, asked)


def test_the_table_itself_is_fine():
    assert check_prepared(BASE, options(targets="each")) and check_prepared(
        BASE, options("sick", targets="s*0")
    )


@FUZZ
@given(frames(), st.sampled_from(["csv", "parquet", "feather", "tsv"]), st.booleans())
def test_frames_in_files(tmp_path, frame, suffix, stream):
    try:
        path = written(frame, tmp_path, f"table.{suffix}")
    except Exception:
        return  # no such file can be written
    check_prepared(path, options(targets="site 0", stream=stream, impute=True))


@FUZZ
@given(st.data())
def test_bytes_as_files(tmp_path, data):
    """Random bytes, and files that were cut or changed somewhere."""
    suffix, stream = data.draw(st.sampled_from(SUFFIXES)), data.draw(st.booleans())
    path = tmp_path / f"bits.{suffix}"
    if data.draw(st.booleans()):
        path.write_bytes(data.draw(st.binary(max_size=400)))
    else:
        kind = data.draw(st.sampled_from(["csv", "parquet", "feather", "csv.gz"]))
        content = bytearray(written(BASE, tmp_path, f"whole.{kind}").read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at, how = (
                data.draw(st.integers(0, max(len(content) - 1, 0))),
                data.draw(st.sampled_from(["cut", "flip", "put", "zero"])),
            )
            if how == "cut":
                del content[at:]
            elif how == "flip" and content:
                content[at] ^= data.draw(st.integers(1, 255))
            elif how == "put":
                content[at:at] = data.draw(st.binary(max_size=20))
            else:
                content[at : at + 30] = bytes(min(30, len(content) - at))
        path.write_bytes(content)
    check_prepared(path, options(targets="site 0", stream=stream, impute=True))


@FUZZ
@given(st.text(st.sampled_from('ab1.,;"\n\r\t|- \0é'), max_size=60), st.booleans())
def test_text_as_files(tmp_path, text, stream):
    path = tmp_path / "text.csv"
    path.write_bytes(f"age,site,cost,sick\n{text}".encode())
    check_prepared(path, options(targets="a", stream=stream))


# Whole runs: what is refused, at whatever moment, is refused before anything is written.

DOMAINS = st.sampled_from(
    [*NAMES[1:], "(small sources)", "site 1", "x" * 300, "a\nb", "\0", "../up", "mean", "nan", "-"]
)
EXTREME = st.sampled_from(
    [0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**20, 1e300, 1e-300, 0.5, np.inf, np.nan]
)
ALPHAS = [
    np.full((1, 3), 1 / 3),
    np.full((1, 4), 0.25),
    np.full((1, 2), 0.5),
    [[1, 0, 0, 0]],
    [[2, -1, 0]],
    [[1e300, 0, 0]],
    [],
    "gone.csv",
]


@st.composite
def asked_for(draw):
    """A table with one odd name and options of which one may be odd, weights of one's own now and
    then.
    """
    old, new = draw(st.sampled_from(["site 0", "site 2"])), draw(DOMAINS)
    frame = BASE.replace({"site": {old: new}})
    asked = {
        "targets": (new if old == "site 0" else "site 0",),
        "label": draw(st.sampled_from(["cost", "sick"])),
    }
    if draw(st.booleans()):
        name = draw(st.sampled_from(["seed", "labelled", "l2", "C", "tol", "test"]))
        asked[name] = draw(EXTREME)
    if draw(st.booleans()):
        asked |= {"exclude": (draw(DOMAINS),), "strict": draw(st.booleans())}
    return frame, asked, draw(st.sampled_from([None, None, None, *ALPHAS]))


@settings(FUZZ, max_examples=25)
@given(asked_for())
def test_what_is_refused_leaves_no_folder(case):
    frame, asked, alpha = case
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out, refused = Path(folder) / "deep" / "run", ""
        try:
            assert adapt(frame, out, options=options(**asked), alpha=alpha).finished
        except InputError as error:
            refused = str(error)
        assert "\n" not in refused and bool(refused) != out.exists(), refused
        assert not refused or not any(Path(folder).iterdir())


# A finished run in which something was changed.


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("fuzz") / "run"
    run = adapt(BASE, out, options=options("sick", targets="site 0,site 1", method="agp"))
    return out, run.predict(BASE, target="site 1"), render(run.findings), run.as_dict()


@settings(FUZZ, max_examples=120)
@given(st.data())
def test_any_byte_of_any_file(made, data):
    out, said, page, found = made
    path = data.draw(
        st.sampled_from(sorted(p for p in out.rglob("*") if p.is_file() and p.name != LOCK))
    )
    whole = path.read_bytes()
    at, how = (
        data.draw(st.integers(0, len(whole) - 1)),
        data.draw(st.sampled_from(["flip", "flip", "cut", "put", "gone"])),
    )
    changed = {
        "flip": whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :],
        "cut": whole[:at],
        "put": whole[:at] + b"7" + whole[at:],
        "gone": None,
    }[how]
    path.unlink() if changed is None else path.write_bytes(changed)
    refused = []
    try:
        for what in ("predict", "report", "as_dict"):
            try:
                run = open_run(out)
                if what == "predict":
                    pd.testing.assert_frame_equal(
                        run.predict(BASE, target="site 1"), said, check_exact=True
                    )
                elif what == "report":
                    assert render(run.findings) == page
                else:
                    assert run.as_dict() == found
            except InputError as error:
                refused.append(str(error))
    finally:
        path.write_bytes(whole)
    assert not any("\n" in sentence for sentence in refused)
    assert refused or path.name == REPORT  # which is made from the others, and can be made again


def test_every_byte_of_the_manifest(made):
    out, path = made[0], made[0] / MANIFEST
    with flips(path, r"damaged.*restore it from a copy, or make the run again$") as flip:
        for at in range(path.stat().st_size):
            flip(at, 1 << at % 8, lambda _: open_run(out))
    assert open_run(out).finished


def test_a_run_of_the_first_format_is_opened_and_gets_a_checksum(tmp_path):
    """Manifests were once written without one; a manifest of today that lost its own is damaged."""
    BASE.to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "run"
    run = adapt(tmp_path / "table.csv", out, options=options("sick", targets="site 0"))
    said, manifest = run.predict(BASE, target="site 0"), json.loads((out / MANIFEST).read_bytes())
    del manifest["checksum"]
    (out / MANIFEST).write_bytes(as_json(manifest))
    with pytest.raises(InputError, match=r"manifest\.json is damaged"):
        open_run(out)
    (out / MANIFEST).write_bytes(as_json({**manifest, "format": 1}))
    pd.testing.assert_frame_equal(
        open_run(out).predict(BASE, target="site 0"), said, check_exact=True
    )
    cut = {**manifest, "format": 1, "steps": manifest["steps"][:-1]}  # without the report
    (out / MANIFEST).write_bytes(as_json(cut))
    assert resume(out).finished
    whole = json.loads((out / MANIFEST).read_bytes())
    assert whole["format"] == 2 and len(whole["checksum"]) == 64
