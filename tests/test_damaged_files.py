"""One changed byte of a saved map, checkpoint, models file or manifest is always told, and never
loaded.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import cuvee
from cuvee.data.encode import Encoder
from cuvee.data.synthetic import grouped_classes
from cuvee.outputs import files
from damage import flips
from learn_builders import make_sources

RIDGE, LOGISTIC = cuvee.Ridge(0.1), cuvee.Logistic(1e-2)
SOURCES, OTHERS = make_sources(0, 2, rows=12), grouped_classes(0, n_targets=1).sources[:2]
ALPHAS = cuvee.simplex.sample(6, 2, seed=0)
DAMAGED = r"damaged.*restore it from a copy, or make it again$"


def map_file(path):
    cuvee.learn(SOURCES, RIDGE, n_labels=4, n_calibration=0, method="surface", degree=1).save(path)


def online_file(path):
    online = cuvee.OnlineMap(SOURCES, RIDGE, label_budget=0.5)
    for alpha in ALPHAS:
        online.predict_one(alpha)
        if online.wants_label(alpha):
            online.learn_one(alpha)
    online.save(path)


def stream_file(path, online=None):
    online = online or cuvee.OnlineMap(SOURCES, RIDGE, label_budget=0.5)
    return cuvee.run_online(ALPHAS, online, checkpoint=path, progress=False)


def mixer_file(path):
    cuvee.OnlineMixtures(OTHERS, LOGISTIC, steps=5, folds=2, adversaries=1).save(path)


def models_file(path):
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0], "cost": [2.0, 3.0, 4.0]})
    encoder = Encoder.fit(frame, ["age"])
    sol = cuvee.solve([cuvee.Domain("north", encoder(frame), frame.cost)], RIDGE, [[1.0]])
    named = {"targets": ["new"], "columns": ["north"], "encoder": encoder}
    cuvee.SavedModels.of(sol, **named, options=cuvee.Options(label="cost", l2=0.1)).save(path)


WAITING = cuvee.OnlineMap(SOURCES, RIDGE, label_budget=0.5)
# how it is written, how it is read, and every how many bytes: binding the data again takes its time
KINDS = {
    "map": (map_file, lambda path: cuvee.load_map(path, SOURCES, RIDGE), 1),
    "online map": (online_file, lambda path: cuvee.OnlineMap.load(path), 1),
    "online map with its data": (
        online_file,
        lambda path: cuvee.OnlineMap.load(path, SOURCES, RIDGE),
        9,
    ),
    "checkpoint": (stream_file, lambda path: stream_file(path, WAITING), 1),
    "models": (models_file, cuvee.load_models, 1),
    "online mixer": (mixer_file, lambda path: cuvee.OnlineMixtures.load(path, OTHERS, LOGISTIC), 9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_of_a_saved_file(kind, tmp_path):
    make, load, every = KINDS[kind]
    path = tmp_path / "file"
    make(path)
    with flips(path, DAMAGED) as flip:
        for at in range(0, path.stat().st_size, every):
            flip(at, 1 << at % 8, load)
    assert load(path)


def small(path):
    """A file with zeros, names and blanks that could be taken for a checksum."""
    tensors = {"a": torch.zeros(3), "b": torch.full((64,), ord("0"), dtype=torch.uint8)}
    files.write(
        path, tensors, {"what": "x", "format": 2, "names": [files.BLANK, 'checksum": "', "ü"]}
    )
    return path


def read(path):
    return files.read(path, "cpu", "x", 2, (1,))


def test_every_bit_of_a_file(tmp_path):
    path = small(tmp_path / "file")
    with flips(path, DAMAGED) as flip:
        for at in range(path.stat().st_size):
            for bit in range(8):
                flip(at, 1 << bit, read)
    tensors, header = read(path)
    assert (
        header["names"] == [files.BLANK, 'checksum": "', "ü"]
        and tensors["b"].tolist() == [ord("0")] * 64
    )


def test_files_that_were_cut_or_grew(tmp_path):
    path = small(tmp_path / "file")
    whole = path.read_bytes()
    for content in (
        *(whole[:n] for n in range(len(whole))),
        whole + b"\0",
        whole + b"\n",
        b"\0" + whole,
    ):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(cuvee.InputError, match=DAMAGED):
            read(tmp_path / "other")


def unchecked(path: Path, version: int = 1) -> Path:
    """The same file as it was written before there were checksums."""
    length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]["cuvee"])
    del header["checksum"]
    other = path.with_name("older")
    save_file(load_file(path), other, metadata={"cuvee": json.dumps({**header, "format": version})})
    return other


def test_online_files_of_the_first_format_still_load(tmp_path):
    path = tmp_path / "file"
    online_file(path)
    with_sum, without = (cuvee.OnlineMap.load(p).predict(ALPHAS) for p in (path, unchecked(path)))
    assert np.array_equal(with_sum, without)
    mixer_file(path)
    assert cuvee.OnlineMixtures.load(unchecked(path), OTHERS, LOGISTIC).ledger.rounds == 0
    stream_file(tmp_path / "stream")
    assert stream_file(unchecked(tmp_path / "stream")).rounds == len(ALPHAS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_today_without_its_checksum_is_damaged(kind, tmp_path):
    make, load, _ = KINDS[kind]
    make(tmp_path / "file")
    today = files.header_of(tmp_path / "file")["format"]
    with pytest.raises(cuvee.InputError, match=DAMAGED):
        load(unchecked(tmp_path / "file", version=today))
