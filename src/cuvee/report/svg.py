"""Write SVG by hand: a few marks, scales and ticks.

Colours are classes, for which the page's style has a light and a dark mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

WIDTH = 344  # of a card's drawing: three side by side on a desktop, one on a phone


class Drawing(str):
    """Hold markup that is safe as it stands: a template inserts it unescaped."""

    def __html__(self) -> str:
        return self


@dataclass(frozen=True)
class Scale:
    """Map values to pixels; an empty range is drawn in its middle."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, x: float) -> float:
        share = (x - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, about: float = 4) -> list[float]:
    """Return round numbers between two ends."""
    if not (isfinite(low) and isfinite(high)) or high <= low:
        return [low] if isfinite(low) else []
    step = rounded((high - low) / about)
    first = ceil(low / step - 1e-9)
    return [
        round(i * step, 2 - floor(log10(step))) for i in range(first, floor(high / step + 1e-9) + 1)
    ]


def rounded(x: float) -> float:
    """Return the nearest of 1, 2, 5, 10, 20, …, by ratio."""
    power = 10.0 ** floor(log10(x))
    return min((power * m for m in (1, 2, 5, 10)), key=lambda step: abs(log10(step / x)))


def tag(name: str, content: str = "", /, **attributes: str | float) -> str:
    """Return an element; attribute values are escaped, the content is not.

    `class_` is written as class, and `stroke_width` as stroke-width.
    """
    written = "".join(
        f' {k.rstrip("_").replace("_", "-")}="{_value(v)}"' for k, v in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(
    x: float,
    y: float,
    words: str,
    class_: str = "",
    anchor: str = "",
    turn: float = 0.0,
    hint: str = "",
) -> str:
    attributes: dict[str, str | float] = {"x": x, "y": y}
    if class_:
        attributes["class_"] = class_
    if anchor:
        attributes["text_anchor"] = anchor
    if turn:
        attributes["transform"] = f"rotate({_value(turn)} {_value(x)} {_value(y)})"
    return tag("text", escape(words) + (title(hint) if hint else ""), **attributes)


def rect(x: float, y: float, width: float, height: float, class_: str, hint: str = "") -> str:
    return tag(
        "rect",
        title(hint) if hint else "",
        x=x,
        y=y,
        width=max(width, 0.0),
        height=max(height, 0.0),
        class_=class_,
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "rule") -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def dot(x: float, y: float, r: float, class_: str, hint: str = "") -> str:
    return tag("circle", title(hint) if hint else "", cx=x, cy=y, r=r, class_=class_)


def polyline(points: Iterable[tuple[float, float]], class_: str, hint: str = "") -> str:
    joined = " ".join(f"{_value(x)},{_value(y)}" for x, y in points)
    return tag("polyline", title(hint) if hint else "", points=joined, class_=class_)


def polygon(points: Iterable[tuple[float, float]], class_: str, hint: str = "") -> str:
    joined = " ".join(f"{_value(x)},{_value(y)}" for x, y in points)
    return tag("polygon", title(hint) if hint else "", points=joined, class_=class_)


def title(words: str) -> str:
    return f"<title>{escape(words)}</title>"


def drawing(
    width: float, height: float, label: str, parts: Sequence[str], class_: str = ""
) -> Drawing:
    """Return a whole figure; `label` describes it to those who do not see it."""
    attributes: dict[str, str | float] = {"viewBox": f"0 0 {_value(width)} {_value(height)}"}
    if class_:
        attributes["class_"] = class_
    inner = title(label) + "".join(parts)
    return Drawing(
        tag("svg", inner, **attributes, width=width, height=height, role="img", aria_label=label)
    )


def _value(x: str | float) -> str:
    return escape(x) if isinstance(x, str) else f"{x:.1f}".removesuffix(".0")
