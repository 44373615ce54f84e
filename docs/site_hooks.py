"""Hooks of the docs site: pages that live outside docs/ join it, and links to them lead there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "build" / "gallery"
FOLDERS = "benchmarks|examples|experiments|paper|src|tests"
JOIN = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the root of the repository, and those of the gallery."""
    if not (GALLERY / "index.md").is_file():
        raise PluginError("there are no pages in build/gallery: run `make gallery` first")
    for path in sorted(GALLERY.glob("*.md")) + sorted(GALLERY.glob("*.png")):
        files.append(File.generated(config, f"gallery/{path.name}", abs_src_path=str(path)))
    for name, place in JOIN.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return the page with links that lead to the pages of the site."""
    if page.file.src_uri.startswith("gallery/"):
        return markdown  # made for the site
    # scripts of the gallery have a page each, and the folder has one too
    script = r"\]\((?:\.\./)?examples/gallery/(\w+)\.py\)"
    markdown = re.sub(script, r"](gallery/\1.md)", markdown)
    markdown = re.sub(r"\]\((?:\.\./)?examples/gallery\)", "](gallery/index.md)", markdown)
    # the second heading of a name is -1 on GitHub and _1 here
    numbered = re.sub(r"(\]\(#[^)]*)-(\d+)\)", r"\1_\2)", markdown)
    return _starred(_linked(re.sub(r"\]\(\.\./", "](", numbered)))


def _linked(text: str) -> str:
    """Return the text with links to joined pages renamed, and those to other files plain."""
    for name, place in JOIN.items():
        text = text.replace(f"]({name}", f"]({place}")
    # files of the repository that are no pages: their names stay, without a link; pictures stay
    return re.sub(rf"(?<!!)\[([^\]]+)\]\((?:LICENSE|(?:{FOLDERS})(?:/[^)]*)?)\)", r"\1", text)


def _starred(text: str) -> str:
    """Return the text with the star of w* escaped outside code; GitHub does not need it."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.DOTALL | re.MULTILINE)
    parts[::2] = [re.sub(r"(?<![\w*])(d?w|κ)\*(?!\*)", r"\1\*", part) for part in parts[::2]]
    return "".join(parts)
