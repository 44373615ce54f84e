"""Make text from somebody's table safe to show on a terminal or a page."""

from __future__ import annotations

import re

# Control characters, direction marks, zero-width characters, line breaks, surrogates and tags. The
# two joiners that Persian, Indian scripts and emoji need are kept.
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str, keep: str = "") -> str:
    r"""Return the text with characters that a terminal or a page would obey escaped.

    Characters in `keep` stay as they are.

    >>> print(visible("\x1b[2J north"))
    \x1b[2J north
    """

    def written(match: re.Match[str]) -> str:
        character = match[0]
        return character if character in keep else character.encode("unicode_escape").decode()

    return _OBEYED.sub(written, text)


def json_visible(text: str) -> str:
    """Return JSON of the same meaning with all such characters in its strings escaped."""
    return _OBEYED.sub(lambda c: "".join(f"\\u{unit:04x}" for unit in _units(c[0])), text)


def _units(character: str) -> tuple[int, ...]:
    code = ord(character)
    return (code,) if code < 0x10000 else (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))
