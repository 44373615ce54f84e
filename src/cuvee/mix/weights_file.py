"""Write a mixture as a file of weights in the shapes that trainers read: JSON or YAML.

- mapping: `{"web": 0.7, "code": 0.3}`
- sources: a list of `source_name` and `target_ratio`, as in OLMo-core; paths are yours to add
- streams: `proportion` per stream, as MosaicML's Streaming reads it
- blend: weights and names in turn, as Megatron's and NeMo's data path has them
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cuvee.errors import InputError, OptionError, check_choice, option
from cuvee.mix.yaml_lines import read_yaml
from cuvee.outputs.visible import json_visible

SHAPES: dict[str, Callable[[Mapping[str, float]], Any]] = {
    "mapping": dict,
    "sources": lambda weights: {
        "sources": [{"source_name": n, "target_ratio": w} for n, w in weights.items()]
    },
    "streams": lambda weights: {"streams": {n: {"proportion": w} for n, w in weights.items()}},
    "blend": lambda weights: {"data_path": [x for n, w in weights.items() for x in (w, n)]},
}
JSON, YAML = (".json",), (".yaml", ".yml")


def written(weights: Mapping[str, float], shape: str = "mapping", suffix: str = ".json") -> str:
    """Return the text of a file of weights; its numbers are the same when they are read again.

    >>> print(written({"web": 0.7, "code": 0.3}, suffix=".yaml"), end="")
    "web": 0.7
    "code": 0.3
    """
    check_choice(option("shape"), shape, tuple(SHAPES))
    content = SHAPES[shape]({name: float(weight) for name, weight in weights.items()})
    if suffix.lower() in JSON:
        lines = json.dumps(content, indent=2, ensure_ascii=False).split("\n")
        return "".join(f"{json_visible(line)}\n" for line in lines)
    if suffix.lower() in YAML:
        return "".join(f"{line}\n" for line in _yaml(content))
    raise OptionError(f"a file of weights ends in {', '.join(JSON + YAML)}; got {suffix!r}")


def read_weights(path: Path) -> dict[str, float]:
    """Return the shares by name from a JSON or YAML file in any of the shapes."""
    yaml = path.suffix.lower() in YAML
    try:
        text = path.read_text(encoding="utf-8")
        content = read_yaml(text) if yaml else json.loads(text)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{path} is not YAML of a share per domain: give a line such as 'web: 0.7' for each"
            if yaml
            else f"{path} is not JSON: give a file such as {{'web': 0.7, 'code': 0.3}} in double "
            "quotes, or YAML in a file that ends in .yaml"
        ) from None
    try:
        return _unshaped(content)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise InputError(
            f"{path} holds no weights: give a number per domain, by its name"
        ) from None


def _unshaped(content: Any) -> dict[str, float]:
    if "sources" in content and isinstance(content["sources"], list):
        return {str(s["source_name"]): float(s["target_ratio"]) for s in content["sources"]}
    if "streams" in content and isinstance(content["streams"], dict):
        return {str(n): float(s["proportion"]) for n, s in content["streams"].items()}
    if "data_path" in content and isinstance(content["data_path"], list):
        pairs = zip(content["data_path"][::2], content["data_path"][1::2], strict=True)
        return {str(name): float(weight) for weight, name in pairs}
    return {str(name): float(weight) for name, weight in content.items()}


def _yaml(content: Any, indent: str = "") -> list[str]:
    """Return the lines of a YAML document; its strings are quoted as in JSON, which YAML reads."""
    lines = []
    items = content.items() if isinstance(content, dict) else ((None, x) for x in content)
    for key, value in items:
        begin = f"{indent}- " if key is None else f"{indent}{_scalar(key)}: "
        if not isinstance(value, dict | list):
            lines.append(begin + _scalar(value))
        elif key is None:  # an entry of a list begins on the line of its dash
            inner = _yaml(value, indent + "  ")
            lines += [begin + inner[0].lstrip(), *inner[1:]]
        else:
            lines += [begin.rstrip(), *_yaml(value, indent + "  ")]
    return lines


def _scalar(value: str | float) -> str:
    if isinstance(value, str):
        return json_visible(json.dumps(value, ensure_ascii=False))
    # YAML 1.1 takes 1e-05 for text: an exponent needs a point before it
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
