"""Everything wrong with a table, a run folder or rows to predict: one sentence, in Python and on
the command line.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuvee.data.fingerprint import fingerprint_of, is_same
from cuvee.errors import CuveeError, DomainError, InputError
from cuvee.run import Options, adapt, open_run, resume
from cuvee.run.folder import ABOUT, MANIFEST
from run_builders import check_refused, command, everything, options, rewrite, table, write_manifest

BASE = table(4, 12)
FLAGS = ("label", "targets", "hypothesis", "labelled", "test", "task", "seed", "method", "alpha")
LISTS = ("features", "drop", "text", "exclude")


def words(source, out, *, impute=False, strict=False, standardise=True, alpha=None, **asked):
    """`cuvee adapt` for what `adapt` is asked in Python."""
    asked = {
        "label": "cost",
        "domain": "site",
        "targets": "site 0",
        "drop": ("sick",),
        "method": "uniform",
        **asked,
    }
    more = [
        w
        for name, value in asked.items()
        for w in (f"--{name}", ",".join(value) if name in LISTS else value)
    ]
    more += ["--impute"] if impute else []
    more += ["--strict"] if strict else []
    more += [] if standardise else ["--no-standardise"]
    more += ["--alpha", alpha] if alpha is not None else []
    return ["adapt", source, "--out", out, "-q", *more]


def check_table(tmp_path, source, sentence, frame=None, alpha=None, **asked):
    """Refused as a file, on the command line and in Python, and as a frame."""
    out = tmp_path / "run"
    check_refused(words(source, out, alpha=alpha, **asked), sentence, tmp_path)
    for given in (source, frame) if frame is not None else (source,):
        with pytest.raises(InputError, match=sentence) as caught:
            adapt(given, out, options=options(**{"targets": "site 0", **asked}), alpha=alpha)
        assert "\n" not in str(caught.value)
        assert not out.exists()


def labelled(n, site="site 0"):
    """The table, with labels on the first n rows of a site alone."""
    rows = np.flatnonzero(BASE.site == site)[n:]
    return BASE.assign(cost=BASE.cost.where(~BASE.index.isin(rows)))


BAD_TABLES = {
    "misspelt label": (BASE, {"label": "coast"}, "no column 'coast'; did you mean 'cost'"),
    "misspelt domain": (BASE, {"domain": "Sites"}, "no column 'Sites'; did you mean 'site'"),
    "misspelt feature": (
        BASE,
        {"features": ("age", "sexx"), "drop": ()},
        "no column 'sexx'; did you mean 'sex'",
    ),
    "misspelt drop": (BASE, {"drop": ("sik",)}, "no column 'sik'; did you mean 'sick'"),
    "nothing alike": (BASE, {"label": "zzzz"}, "no column 'zzzz'; there are 'age', 'sex', 'site'"),
    "no label column": (BASE.drop(columns="cost"), {}, "no column 'cost'"),
    "target without labels": (
        labelled(0),
        {},
        "target 'site 0' has 0 labelled rows, and needs 5: label more, or leave",
    ),
    "target with one label": (labelled(1), {}, "target 'site 0' has 1 labelled row, and needs 5"),
    "target with four labels": (
        labelled(4),
        {},
        "target 'site 0' has 4 labelled rows, and needs 5",
    ),
    "one of each in turn": (
        labelled(4),
        {"targets": "each", "strict": True},
        r"target 'site 0' has 4 labelled rows, and needs 5: label more, or leave it out with "
        r"exclude \(--exclude\)",
    ),
    "a small source": (
        BASE.assign(site=np.where(BASE.index == 20, "hut", BASE.site)),
        {"strict": True},
        "source 'hut' has 1 labelled row, and needs 2: label more, or leave it out with exclude",
    ),
    "a class of a target alone": (
        BASE.assign(sick=np.where(BASE.index == 3, "maybe", BASE.sick)),
        {"label": "sick", "drop": ("cost",), "strict": True},
        r"target 'site 0' has 1 row of class 'maybe' \(first at row 3\), which no source has: add "
        r"a source",
    ),
    "misspelt exclude": (
        BASE,
        {"exclude": ("side 1",)},
        "exclude: no domain matches 'side 1'; did you mean 'site 1'",
    ),
    "all excluded": (
        BASE,
        {"exclude": ("site*",)},
        "exclude names all 4 domains, so that none is left",
    ),
    "excluded target": (
        BASE,
        {"exclude": ("site 0",)},
        "'site 0' is named as target and in exclude",
    ),
    "excluded sources": (BASE, {"exclude": ("site [123]",)}, "no source is left"),
    "no source": (
        BASE.assign(cost=BASE.cost.where(BASE.site == "site 0")),
        {},
        "no source is left: no other domain has 2 labelled rows; label some, or name fewer",
    ),
    "all are targets": (
        BASE,
        {"targets": "site*"},
        "no source is left: all 4 domains are named as target; name fewer",
    ),
    "one domain": (BASE[BASE.site == "site 0"], {}, "no source is left: the only domain"),
    "one domain in turn": (
        BASE[BASE.site == "site 0"],
        {"targets": "each"},
        "'each' needs at least 2",
    ),
    "no such target": (
        BASE,
        {"targets": "site 0,side 1"},
        "no domain matches 'side 1'; did you mean 'site 1'",
    ),
    "no such pattern": (
        BASE,
        {"targets": "north*"},
        "no domain matches 'north[*]'; there are 'site 0'",
    ),
    "no target": (BASE, {"targets": " , "}, "no target is named"),
    "constant label": (
        BASE.assign(cost=3.5),
        {},
        "label 'cost' is 3.5 in every row; there is nothing to learn",
    ),
    "constant class": (
        BASE.assign(sick="no"),
        {"label": "sick", "drop": ("cost",)},
        "'sick' is 'no' in every row",
    ),
    "no labels": (
        BASE.assign(cost=np.nan),
        {},
        "label 'cost' is missing in every row; there is nothing to learn from",
    ),
    "missing values": (
        BASE.assign(age=BASE.age.where(BASE.index % 7 > 0), sex=BASE.sex.where(BASE.index != 20)),
        {},
        r"rows have missing values, in 2 columns: 'age' \(\d\), 'sex' \(1\).*--impute",
    ),
    "missing everywhere": (BASE.assign(age=np.nan), {}, "'age'.*drop"),
    "infinite": (
        BASE.assign(age=BASE.age.where(BASE.index != 5, np.inf)),
        {},
        "'age' is infinite at row 5",
    ),
    "too far": (
        BASE.assign(age=np.where(BASE.index % 2, 1e308, -1e308)),
        {},
        "'age' runs from .*rescale it",
    ),
    "an id": (
        BASE.assign(sex=[f"patient {i}" for i in BASE.index]),
        {},
        "'sex' has 4. different values in .* training rows.*drop it with --drop sex",
    ),
    "dates": (
        BASE.assign(cost=pd.Timestamp("2020-01-01")),
        {},
        "'cost' holds dates.*; make numbers of them",
    ),
    "nameless domain": (
        BASE.assign(site=BASE.site.where(BASE.index != 3)),
        {"strict": True},
        "'site' names no domain at row 3",
    ),
    "label is the domain": (BASE, {"label": "site"}, "'site' is named as domain and as label"),
    "ridge on classes": (
        BASE,
        {"label": "sick", "drop": (), "hypothesis": "ridge"},
        "ridge predicts a quantity",
    ),
    "logistic on numbers": (BASE, {"hypothesis": "logistic"}, "logistic predicts classes"),
    "no such module": (
        BASE,
        {"hypothesis": "no.such:thing"},
        "hypothesis 'no.such:thing' cannot be made: No module",
    ),
    "no such factory": (
        BASE,
        {"hypothesis": "json:thing"},
        "hypothesis 'json:thing' cannot be made",
    ),
    "no module made": (
        BASE,
        {"hypothesis": "operator:add"},
        "Network wraps a torch.nn.Module; got int",
    ),
    "regression on text": (
        BASE,
        {"label": "sick", "drop": (), "task": "regression"},
        "'sick' holds text",
    ),
    "classes of fractions": (BASE, {"task": "classification"}, "classes are text or whole numbers"),
    "no rows": (BASE[:0], {}, "no rows"),
}


@pytest.mark.sample(40)
@pytest.mark.parametrize("case", BAD_TABLES)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_bad_tables(tmp_path, case, suffix):
    frame, asked, sentence = BAD_TABLES[case]
    source = tmp_path / f"table.{suffix}"
    frame.to_csv(source, index=False) if suffix == "csv" else frame.to_parquet(source)
    check_table(tmp_path, source, sentence, frame, **asked)


def test_mixed_types(tmp_path):
    with pytest.raises(
        InputError,
        match="'age' mixes types: it holds numbers, but 'old' at row 7; correct it",
    ):
        adapt(
            BASE.assign(age=[*BASE.age[:7], "old", *BASE.age[8:]]),
            tmp_path / "run",
            options=options(),
        )
    source = tmp_path / "table.csv"
    BASE.assign(age=[*BASE.age[:7], "old", *BASE.age[8:]]).to_csv(source, index=False)
    check_table(tmp_path, source, "'age'")
    folder = tmp_path / "sites"
    folder.mkdir()
    for i, (name, rows) in enumerate(BASE.drop(columns="site").groupby(BASE.site)):
        rows.assign(age=rows.age if i else "old").to_csv(folder / f"{name}.csv", index=False)
    check_table(
        tmp_path,
        folder,
        "'age' holds numbers in .*site 1.csv but text in .*site 0.csv; use one type",
    )


def test_impute_is_the_way_out(tmp_path):
    frame = BASE.assign(
        age=BASE.age.where(BASE.index % 7 > 0), sex=BASE.sex.where(BASE.index != 20)
    )
    source, out = tmp_path / "table.csv", tmp_path / "run"
    frame.to_csv(source, index=False)
    ended = command(*words(source, out, impute=True))
    assert ended.code == 0, ended
    # gaps in rows to predict are filled too
    assert len(open_run(out).predict(frame, target="site 0")) == len(frame)
    assert np.isfinite(open_run(out).predict(frame, target="site 0")["prediction"]).all()


def png():
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head, body = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0), zlib.compress(b"\0\0\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.sample(20)
@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "csv.gz", "xlsx", ""])
@pytest.mark.parametrize(
    "what", ["empty", "blank", "png", "zip", "binary", "cut Parquet", "broken Parquet", "gzip cut"]
)
def test_broken_and_foreign_files(tmp_path, what, suffix):
    source = tmp_path / (f"table.{suffix}" if suffix else "table")
    BASE.to_parquet(tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    if what == "zip":
        with zipfile.ZipFile(source, "w") as packed:
            packed.writestr("table.csv", BASE.to_csv(index=False))
    elif what == "gzip cut":
        BASE.to_csv(tmp_path / "whole.csv.gz", index=False)
        source.write_bytes((tmp_path / "whole.csv.gz").read_bytes()[:-40])
    else:
        broken = whole[:4] + bytes(200) + whole[204:]
        content = {"empty": b"", "blank": b"\n \n", "png": png(), "binary": bytes(range(256)) * 9}
        source.write_bytes({**content, "cut Parquet": whole[:-100], "broken Parquet": broken}[what])
    check_table(
        tmp_path, source, rf"{source.name}.*(is empty|is not |cannot be read|is it complete)"
    )


def test_no_file(tmp_path):
    check_table(tmp_path, tmp_path / "gone.csv", "gone.csv does not exist; is the name right")
    (tmp_path / "nothing").mkdir()
    check_table(tmp_path, tmp_path / "nothing", "nothing holds no table; put a CSV")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "table.csv"
    BASE.to_csv(path, index=False)
    return path


BAD_ALPHAS = {
    "no sum": ("target,site 1,site 2,site 3\nsite 0,.5,.5,.5\n", "does not sum to 1"),
    "negative": ("target,site 1,site 2,site 3\nsite 0,1.5,-.5,0\n", "negative"),
    "source misspelt": (
        "target,site 1,site 2,side 3\nsite 0,.5,.5,0\n",
        "no column for source 'site 3' and a column 'side 3' that is not a source: its columns are "
        "'site 1', 'site 2', "
        "'side 3'; the sources are 'site 1', 'site 2', 'site 3'",
    ),
    "a source too many": (
        "target,site 1,site 2,site 3,x\nsite 0,1,0,0,0\n",
        "a column 'x' that is not a source",
    ),
    "a source too few": (
        "target,site 1,site 2\nsite 0,1,0\n",
        "no column for source 'site 3'.*weight 0",
    ),
    "target misspelt": (
        "target,site 1,site 2,site 3\nsite O,1,0,0\n",
        "no row for target 'site 0' and a row 'site O'",
    ),
    "a target too many": (
        "target,site 1,site 2,site 3\nsite 0,1,0,0\nx,1,0,0\n",
        "a row 'x' that is not a target",
    ),
    "a target twice": (
        "target,site 1,site 2,site 3\nsite 0,1,0,0\nsite 0,0,1,0\n",
        "two rows for target 'site 0'",
    ),
    "a source twice": (
        "target,site 1,site 1,site 2,site 3\nsite 0,1,0,0,0\n",
        "two columns for source 'site 1'",
    ),
    "words": ("target,site 1,site 2,site 3\nsite 0,a,b,c\n", "line 2 holds no weights"),
    "ragged": ("target,site 1,site 2,site 3\nsite 0,1\n", "line 2 has 2 cells, the first line 4"),
    "head alone": ("target,site 1,site 2,site 3\n", "alpha"),
    "nothing": ("", "alpha.csv holds no table of weights"),
    "NaN": ("target,site 1,site 2,site 3\nsite 0,nan,nan,nan\n", "alpha"),
    "infinite": ("target,site 1,site 2,site 3\nsite 0,inf,0,0\n", "alpha"),
    "unnamed rows": (
        "site 1,site 2,site 3\n1,0,0\n0,1,0\n",
        "alpha must have 1 rows, one per target",
    ),
}


@pytest.mark.parametrize("case", BAD_ALPHAS)
def test_weights_that_do_not_fit(tmp_path, source, case):
    text, sentence = BAD_ALPHAS[case]
    (tmp_path / "alpha.csv").write_text(text)
    check_table(tmp_path, source, sentence, BASE, alpha=tmp_path / "alpha.csv")


def test_files_that_hold_no_weights(tmp_path, source):
    check_table(
        tmp_path, source, "gone.csv cannot be read: No such file", alpha=tmp_path / "gone.csv"
    )
    check_table(tmp_path, source, "cannot be read: Is a directory", alpha=tmp_path)
    (tmp_path / "bits.csv").write_bytes(bytes(range(256)))
    check_table(tmp_path, source, "bits.csv is not UTF-8", alpha=tmp_path / "bits.csv")


@pytest.mark.parametrize(
    "alpha",
    [
        np.ones(3),
        np.ones((1, 3)),
        np.ones((2, 3)) / 3,
        np.ones((1, 2)) / 2,
        [["a", "b", "c"]],
        np.nan,
        {},
        7,
    ],
)
def test_arrays_that_do_not_fit(tmp_path, alpha):
    with pytest.raises(InputError, match="alpha"):
        adapt(BASE, tmp_path / "run", options=options(targets="site 0"), alpha=alpha)
    assert not (tmp_path / "run").exists()


def test_no_target_learns_from_itself(tmp_path):
    with pytest.raises(InputError, match="target 'site 0' would learn from itself"):
        adapt(BASE, tmp_path / "run", options=options(targets="each"), alpha=np.full((4, 4), 0.25))


# Where to.


def test_out(tmp_path, source):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    adapt(source, tmp_path / "other", options=options(targets="site 1"))
    for out, sentence in (
        ("file", "file is a file: give --out the name of a new folder"),
        ("file/run", "cannot be (used|written)|is a file"),
        ("full", "full is not empty, 'mine.txt' lies in it: give --out"),
        ("other", "other holds a run already: cuvee resume .*other, or give another --out"),
        ("link", "File exists|is a link|is a file"),
        ("/proc/run", "/proc.* cannot be (written to|used)"),
        ("x" * 300, "File name too long"),
    ):
        check_refused(words(source, tmp_path / out), sentence, tmp_path)
        with pytest.raises(InputError, match=sentence):
            adapt(source, tmp_path / out, options=options(targets="site 0"))


def test_no_permission(tmp_path, source, monkeypatch):
    (tmp_path / "there").mkdir()
    access = os.access
    with monkeypatch.context() as patch:  # root may write everywhere
        patch.setattr(
            os,
            "access",
            lambda path, mode: (
                access(path, mode) and not (mode & os.W_OK and Path(path) == tmp_path / "there")
            ),
        )
        for out in (tmp_path / "there", tmp_path / "there" / "run"):
            check_refused(
                words(source, out), "there cannot be written to: give --out another place", tmp_path
            )

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for name in ("mkdir", "iterdir"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, refuse)
            ended = command(
                *words(source, tmp_path / "there" if name == "iterdir" else tmp_path / "run")
            )
            assert (
                ended.code == 2
                and "cannot be written to (Permission denied): give --out another place"
                in ended.err
            ), ended
        assert not (tmp_path / "run").exists()


# A run that was made, and then something happened to it.


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    BASE.to_csv(folder / "table.csv", index=False)
    adapt(folder / "table.csv", folder / "run", options=options("sick", targets="site 0,site 1"))
    return folder / "run"


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    BASE.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "run"


def check_spoilt(run, sentence, *, verbs=("predict", "report", "resume")):
    rows = run.parent / "rows.csv"
    BASE[BASE.site < "site 2"].to_csv(rows, index=False)
    calls = {
        "predict": (("predict", run, rows), lambda: open_run(run).predict(rows)),
        "report": (("report", run), lambda: open_run(run).report()),
        "resume": (("resume", run), lambda: resume(run).as_dict()),
    }
    for verb in verbs:
        call, python = calls[verb]
        check_refused(call, sentence, run.parent)
        with pytest.raises(InputError, match=sentence):
            python()


def change(run, name, **values):
    """Keys of a JSON file of the run; None removes one."""
    said = {**json.loads((run / name).read_bytes()), **values}
    said = {k: v for k, v in said.items() if v is not None}
    write_manifest(run, said) if name == MANIFEST else rewrite(run, name, json.dumps(said).encode())


def test_the_copy_itself_is_fine(run):
    BASE[BASE.site < "site 2"].to_csv(run.parent / "rows.csv", index=False)
    assert command("report", run).code == 0
    ended = command("predict", run, run.parent / "rows.csv")
    assert ended.code == 0 and ended.out.count("\n") == 25 and ended.err == ""


def test_manifests(run):
    whole = (run / MANIFEST).read_bytes()
    change(run, MANIFEST, format=3)
    check_spoilt(run, "was written in format 3, and this version of cuvee reads 2")
    for content in (b"", b"{", whole[:-20], b"[]", b"null", b"{}", b"\xff\xfe",
                    b'{"format": 1, "steps": 3, "files": {}}',
                    b'{"format": 1, "steps": [], "files": {"alpha.csv": {}}}',
                    b'{"format": 1, "steps": [{"name": 1}], "files": {}}'):  # fmt: skip
        (run / MANIFEST).write_bytes(content)
        check_spoilt(run, "manifest.json cannot be read")
    (run / MANIFEST).unlink()
    check_spoilt(run, "run holds no run: there is no manifest.json in it; cuvee adapt makes one")
    (run / MANIFEST).mkdir()
    check_spoilt(run, "manifest.json cannot be read")


@pytest.mark.parametrize(
    "name", ["../rows.csv", "/etc/passwd", "parts/../../rows.csv", "..", "a\0b"]
)
def test_paths_that_leave_the_folder(run, name):
    files = json.loads((run / MANIFEST).read_bytes())["files"]
    change(run, MANIFEST, files={**files, name: files["alpha.csv"]})
    check_spoilt(run, "leads out of .*tampered with|manifest.json cannot be read")


@pytest.mark.parametrize("name", ["models.safetensors", "prepared.json", "alpha.csv"])
def test_links_that_leave_the_folder(run, name):
    shutil.move(run / name, run.parent / "elsewhere")
    (run / name).symlink_to(run.parent / "elsewhere")
    check_spoilt(run, "leads out of .*tampered with")


@pytest.mark.sample(16)
@pytest.mark.parametrize("how", ["cut", "changed", "longer", "gone", "folder", "empty"])
@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        ("models.safetensors", ("predict",)),
        ("prepared.json", ("predict", "report", "resume")),
        ("run.json", ("predict", "report", "resume")),
        ("metrics.json", ("report", "resume")),
        ("alpha.csv", ("report", "resume")),
        ("weights.parquet", ("report",)),
        ("sensitivity.parquet", ("report",)),
    ],
)
def test_files_that_were_changed(run, name, verbs, how):
    content = bytearray((run / name).read_bytes())
    (run / name).unlink()
    if how == "folder":
        (run / name).mkdir()
    elif how != "gone":
        content[len(content) // 2] ^= 1
        spoilt = {
            "cut": content[: len(content) // 2],
            "changed": content,
            "longer": content + b"\n",
            "empty": b"",
        }
        (run / name).write_bytes(spoilt[how])
    check_spoilt(
        run, f"{name} (was changed or cut after it was written|cannot be read)", verbs=verbs
    )


def test_what_another_version_may_have_written(run):
    asked = json.loads((run / ABOUT).read_bytes())["options"]
    change(run, ABOUT, options={**asked, "colour": "red"})
    check_spoilt(
        run,
        "run.json has an option 'colour' that this version of cuvee does not know",
        verbs=("predict",),
    )
    change(run, ABOUT, options={**asked, "method": "magic"})
    check_spoilt(run, "method must be one of", verbs=("predict",))
    change(run, ABOUT, options=None)
    check_spoilt(run, "run.json", verbs=("predict",))
    rewrite(run, ABOUT, b"[]")
    check_spoilt(run, "run.json")
    rewrite(run, ABOUT, b"\xff")
    check_spoilt(run, "run.json")


@pytest.mark.parametrize("key", ["groups", "targets", "classes", "domain", "task", "notes"])
def test_prepared_without(run, key):
    said = json.loads((run / "prepared.json").read_bytes())
    rewrite(run, "prepared.json", json.dumps({k: v for k, v in said.items() if k != key}).encode())
    ended = command("predict", run, run.parent / "rows.csv")
    assert ended.code in (0, 2) and "Traceback" not in ended.err, ended
    ended = command("report", run)
    assert ended.code in (0, 2), ended


def test_models_that_are_none(run):
    for content in (b"", b"\0" * 64, (run / "models.safetensors").read_bytes()[:-8], b"PK\3\4"):
        rewrite(run, "models.safetensors", content)
        check_spoilt(run, "models.safetensors cannot be read", verbs=("predict",))


def test_tables_that_are_none(run):
    for name in ("weights.parquet", "sensitivity.parquet", "metrics.json", "alpha.csv"):
        whole = (run / name).read_bytes()
        for content in (b"", b"PAR1", b"{}", b"target,a\nb,1\n", whole[: len(whole) // 2]):
            rewrite(run, name, content)
            ended = command("report", run)
            assert (
                ended.code == 2 and ended.err.count("\n") == 1 and re.search("run|csv", ended.err)
            ), (
                name,
                content,
                ended,
            )
        rewrite(run, name, whole)


# Rows to predict.


def test_rows_that_cannot_be_predicted(run):
    rows = BASE[BASE.site == "site 0"].drop(columns=["cost", "sick"])
    for frame, asked, sentence in (
        (
            rows.assign(sex="x"),
            {"strict": True},
            "'sex' is 'x' at row 0, a value that no training row has .12 rows with such values",
        ),
        (rows.drop(columns="sex"), {}, "there is no column 'sex'"),
        (rows.rename(columns={"sex": "Sex"}), {}, "there is no column 'sex'; did you mean 'Sex'"),
        (rows.drop(columns="site"), {}, "there is no column 'site'"),
        (
            rows.assign(site="site 3"),
            {},
            "domain 'site 3', which is not a target of these models .12 such rows",
        ),
        (rows.assign(site="site O"), {}, "did you mean 'site 1' or 'site 0'"),
        (
            rows,
            {"target": "site 3"},
            "'site 3' is not a target of these models; did you mean 'site (0|1)'",
        ),
        (rows.assign(age="old"), {}, "'age' holds text, 'old'"),
        (
            rows.assign(age=[np.nan, *rows.age[1:]]),
            {},
            "1 of 12 rows have missing values, in 1 column: 'age'",
        ),
        (rows.assign(age=[np.inf, *rows.age[1:]]), {}, "'age' is infinite at row 0"),
        (rows.assign(age=1e308), {}, "'age'"),
        (rows[:0], {}, "there are no rows"),
        (rows, {"keep": ("agee",)}, "there is no column 'agee'; did you mean 'age'"),
        (rows, {"text": ("agee",)}, "no column 'agee'"),
    ):
        if frame.age.dtype == float and (frame.age > 1e300).any() and sentence == "'age'":
            continue  # far, but no float is too far for it
        path = run.parent / "rows.csv"
        frame.to_csv(path, index=False)
        call = [
            "predict",
            run,
            path,
            *(
                word
                for n, v in asked.items()
                for word in ([f"--{n}"] if v is True else [f"--{n}", v if n == "target" else v[0]])
            ),
        ]
        check_refused(call, sentence, run.parent)
        check_refused([*call, "--out", run.parent / "said.csv"], sentence, run.parent)
        for given in (path, frame):
            with pytest.raises(InputError, match=sentence):
                open_run(run).predict(given, **asked)
    for content in (b"", png(), bytes(range(256))):
        (run.parent / "rows.csv").write_bytes(content)
        check_refused(("predict", run, run.parent / "rows.csv"), "rows.csv", run.parent)
    check_refused(("predict", run, run.parent / "gone.csv"), "gone.csv does not exist", run.parent)


# A run that was cut.


class Cut(Exception):
    """As if the process had ended there."""


@pytest.fixture
def cut(tmp_path):
    BASE.to_csv(tmp_path / "table.csv", index=False)

    def stop(what, done, total):
        if what == "solving models":
            raise Cut

    with pytest.raises(Cut):
        adapt(
            tmp_path / "table.csv",
            tmp_path / "run",
            options=options(targets="site 0,site 1"),
            progress=stop,
        )
    return tmp_path / "run"


def test_not_finished(cut):
    BASE[BASE.site == "site 0"].to_csv(cut.parent / "rows.csv", index=False)
    assert (
        "not finished: cuvee resume" in repr(open_run(cut))
        and "not finished" in open_run(cut)._repr_html_()
    )
    check_spoilt(
        cut,
        r"run has no (models.safetensors|metrics.json) yet: cuvee resume .*run",
        verbs=("predict", "report"),
    )
    assert resume(cut).finished and command("predict", cut, cut.parent / "rows.csv").code == 0


def test_resume_with_another_table(cut):
    source = cut.parent / "table.csv"
    whole = source.read_bytes()
    for content in (
        whole.replace(b"yes", b"no"),
        BASE.assign(cost=BASE.cost + 1).to_csv(index=False).encode(),
    ):
        source.write_bytes(content)
        check_spoilt(
            cut,
            "the table is not the one that .*run was begun with: bring that back, or",
            verbs=("resume",),
        )
    for content in (
        b"",
        b"nothing\n",
        whole[: len(whole) // 3],
        BASE.drop(columns="age").to_csv(index=False).encode(),
    ):
        source.write_bytes(content)
        check_spoilt(
            cut,
            "table.csv|the table is not the one|no source is left|no domain|labelled",
            verbs=("resume",),
        )
    source.rename(cut.parent / "moved.csv")
    check_spoilt(cut, "table.csv does not exist", verbs=("resume",))
    (cut.parent / "moved.csv").write_bytes(whole)
    with pytest.raises(InputError, match="the table is not the one"):
        resume(cut, source=BASE)
    (cut.parent / "moved.csv").rename(source)
    assert resume(cut).finished


def test_fingerprints_of_older_runs_contain_the_name_of_a_single_file(tmp_path):
    content = BASE.to_csv(index=False).encode()
    (tmp_path / "renamed.csv").write_bytes(content)
    found = fingerprint_of(tmp_path / "renamed.csv", None, "utf-8")
    assert found == hashlib.sha256(content).hexdigest()
    older = hashlib.sha256(b"table.csv\0" + hashlib.sha256(content).digest()).hexdigest()
    assert is_same(found, found, "renamed.csv") and is_same(found, older, "table.csv")
    assert not is_same(found, older, "other.csv") and not is_same(found, "0" * 64, None)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "north.csv").write_bytes(content)  # its name is that of a domain
    assert fingerprint_of(tmp_path / "folder", None, "utf-8") not in (found, older)


def test_resume_of_a_table_in_memory(tmp_path):
    def stop(what, done, total):
        if what == "estimating α":
            raise Cut

    with pytest.raises(Cut):
        adapt(BASE, tmp_path / "run", options=options(targets="site 0"), progress=stop)
    check_refused(
        ("resume", tmp_path / "run"),
        "was made from a table in memory: resume it in Python",
        tmp_path,
    )
    with pytest.raises(InputError, match="the table is not the one"):
        resume(tmp_path / "run", source=BASE.assign(age=BASE.age + 1))
    assert resume(tmp_path / "run", source=BASE).finished


def test_there_is_no_run(tmp_path):
    for out in ("gone", "file"):
        (tmp_path / "file").write_text("mine")
        for call in (("resume", tmp_path / out), ("report", tmp_path / out)):
            check_refused(call, f"there is no folder .*{out}; is the name right", tmp_path)
    check_refused(
        ("predict", tmp_path / "gone", "x.csv"),
        "there is no folder and no file .*gone; is the name right",
        tmp_path,
    )
    check_refused(
        ("predict", tmp_path / "file", "x.csv"), "file cannot be read as cuvee models", tmp_path
    )


@pytest.mark.parametrize(
    "wrong",
    [{"test": 1.0}, {"test": -0.1}, {"labelled": 4}, {"labelled": 7.5}, {"seed": -1}, {"tol": 0}, {"l2": -1}, {"C": 0},
     {"method": "magic"}, {"hypothesis": "forest"}, {"task": "clustering"}, {"seed": "x"}, {"l2": float("nan")},
     {"hypothesis": None}, {"task": None}, {"targets": 7}, {"targets": ()}, {"label": None}, {"drop": 7},
     {"features": 7}, {"features": ()}, {"impute": "yes please"}, {"hypothesis": ":"}, {"hypothesis": "..x:y"},
     {"domain": 7}, {"stream": "yes"}, {"seed": None}, {"strict": 1}, {"exclude": 7}],
)  # fmt: skip
def test_options(tmp_path, wrong):
    with pytest.raises(CuveeError):
        adapt(
            BASE,
            tmp_path / "run",
            options=Options(**{**options(targets="site 0").as_dict(), **wrong}),
        )
    assert not (tmp_path / "run").exists()


HUGE = BASE.assign(age=BASE.age * 1e140)
OWNED = BASE.replace({"site": {"site 2": "(own sample)"}})
LATE = {
    "a source like the own sample": (
        OWNED,
        {},
        r"a domain is named '\(own sample\)', as each target's own rows",
    ),
    "a target like the own sample": (
        OWNED,
        {"targets": "each"},
        r"a domain is named '\(own sample\)'",
    ),
    "a seed that no tensor holds": (
        BASE,
        {"seed": 10**20},
        "seed must be a finite number at least 0 and at most 9.2",
    ),
    "the first seed too large": (
        BASE,
        {"seed": 2**63},
        "seed must be a finite number at least 0 and at most",
    ),
    "too many labelled": (BASE, {"labelled": 10**20}, "labelled must be a finite number"),
    "too large for a network": (
        HUGE,
        {"hypothesis": "mlp", "standardise": False},
        "row 0 of X holds a number that is too large for torch",
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_what_was_once_found_out_too_late(tmp_path, case):
    """Names and options are checked before there is a folder, so that the same --out can be taken
    again.
    """
    frame, asked, sentence = LATE[case]
    frame.to_csv(tmp_path / "table.csv", index=False)
    check_table(tmp_path, tmp_path / "table.csv", sentence, frame, **asked)


def test_a_refusal_in_the_middle_leaves_nothing(tmp_path, monkeypatch):
    """Should a check be missing nonetheless: what is refused before there are weights is refused as
    a whole.
    """

    def refuse(*_, **__):
        raise DomainError("nobody thought of this")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["cuvee.run.adapt"], "estimate", refuse)
        with pytest.raises(DomainError, match="nobody thought of this"):
            adapt(BASE, tmp_path / "run", options=options(targets="site 0"))
    assert not (tmp_path / "run").exists()
    assert adapt(BASE, tmp_path / "run", options=options(targets="site 0")).finished


def test_a_thousand_targets_with_one_mixture_are_solved(tmp_path):
    """No map can be learnt from one mixture, which is no reason to stop."""
    rng = np.random.default_rng(0)
    site = [*np.repeat([f"t{i}" for i in range(1000)], 5), *"aaaaabbbbb"]
    frame = pd.DataFrame({"age": rng.normal(size=len(site)), "site": site})
    frame["cost"] = frame.age + rng.normal(size=len(site))
    asked = options(targets="t*", drop=(), test=0.0)
    assert adapt(frame, tmp_path / "run", options=asked, alpha=np.full((1000, 2), 0.5)).finished


def test_numbers_of_numpy_are_numbers(tmp_path):
    asked = options(targets="site 0", seed=np.int64(3), l2=np.float32(0.5), labelled=7.0)
    assert (type(asked.seed), type(asked.l2), type(asked.labelled)) == (int, float, int)
    assert adapt(BASE, tmp_path / "run", options=asked).options == asked


def test_a_refusal_writes_nothing_even_beside(tmp_path, source):
    """Folders above the one that was asked for go too."""
    before = everything(tmp_path)
    with pytest.raises(InputError):
        adapt(source, tmp_path / "a" / "b" / "run", options=options(targets="nobody"))
    assert everything(tmp_path) == before
