"""Surfaces and weights go to files and come back the same, without pickle."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cuvee
from cuvee.errors import InputError, OptionError
from cuvee.mix.weights_file import SHAPES, read_weights, written
from mix_builders import mixtures, noisy

WEIGHTS = {"web": 0.7, 'a "b": c': 0.29999, "tiny": 1e-05}


@pytest.fixture(scope="module")
def surface():
    alpha = mixtures(24, 3)
    scale = ["60"] * 18 + ["190"] * 6
    return cuvee.fit_surface(alpha, noisy(alpha), scale=scale)


def test_a_surface_comes_back_the_same(surface, tmp_path):
    path = tmp_path / "surface.safetensors"
    surface.without("domain 1").save(path)
    again = cuvee.load_surface(path)
    fresh = mixtures(10, 3, seed=4)[:, 1:]
    fresh /= fresh.sum(1, keepdims=True)
    for scale in ("60", "190"):
        one, two = (s.predict(fresh, scale=scale) for s in (surface.without("domain 1"), again))
        np.testing.assert_allclose(two.high, one.high, rtol=1e-9)
    np.testing.assert_allclose(
        again.best().alpha, surface.without("domain 1").best().alpha, atol=1e-6
    )
    assert again.notes == surface.notes and again.fits == surface.fits
    assert again.settings == surface.settings and again.scales == ("60", "190")


def test_a_damaged_file_is_refused(surface, tmp_path):
    path = tmp_path / "surface.safetensors"
    surface.save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="damaged"):
        cuvee.load_surface(path)


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_are_the_same_when_read_again(shape, suffix, tmp_path):
    path = tmp_path / f"w{suffix}"
    path.write_text(written(WEIGHTS, shape, suffix), encoding="utf-8")
    assert read_weights(path) == WEIGHTS


def parsed(lines, indent=0):
    """Read the YAML that `written` writes: maps and lists of quoted strings and numbers."""
    value = None
    while lines:
        line = lines[0]
        depth = len(line) - len(line.lstrip())
        if depth < indent:
            break
        rest = line.strip()
        if rest.startswith("- "):
            value = [] if value is None else value
            inner = rest[2:]
            _, end = json.JSONDecoder().raw_decode(inner)
            if inner[end:].startswith(":"):
                lines[0] = " " * (depth + 2) + inner
                value.append(parsed(lines, depth + 2))
            else:
                lines.pop(0)
                value.append(json.loads(inner))
            continue
        value = {} if value is None else value
        lines.pop(0)
        key, end = json.JSONDecoder().raw_decode(rest)
        after = rest[end + 1 :].strip()
        value[key] = json.loads(after) if after else parsed(lines, depth + 1)
    return value


@pytest.mark.parametrize("shape", SHAPES)
def test_yaml_says_what_json_says(shape):
    text = written(WEIGHTS, shape, ".yaml")
    assert parsed(text.splitlines()) == json.loads(written(WEIGHTS, shape, ".json"))


def test_a_small_number_is_a_number_in_yaml():
    assert "1.0e-05" in written(WEIGHTS, suffix=".yml")  # YAML 1.1 takes 1e-05 for text


def test_wrong_shapes_and_files_are_refused(tmp_path):
    with pytest.raises(OptionError, match=r"--shape \(shape=\) must be one of 'mapping'"):
        written(WEIGHTS, "table")
    with pytest.raises(OptionError, match=r"ends in .json, .yaml, .yml; got '.txt'"):
        written(WEIGHTS, suffix=".txt")
    (tmp_path / "x.json").write_text("[1, 2", encoding="utf-8")
    with pytest.raises(InputError, match="is not JSON"):
        read_weights(tmp_path / "x.json")


def test_yaml_of_other_hands_is_read_or_refused(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text("# ours\nweb: 0.7   # most\n'code: c': 3e-1\n", encoding="utf-8")
    assert read_weights(path) == {"web": 0.7, "code: c": 0.3}
    path.write_text("sources:\n- source_name: web\n  target_ratio: 1.0\n", encoding="utf-8")
    assert read_weights(path) == {"web": 1.0}
    for text in ("", "{web: 0.7", "web 0.7", "web:\n", "web: 1\nweb: 2\n", "web: 1\n   a: 2\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"w\.yaml (is not YAML|holds no weights)"):
            read_weights(path)
