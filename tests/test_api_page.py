"""docs/api.md says what signatures and docstrings say now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_api_page_is_what_the_script_makes():
    """In a process of its own: the page has skada's adapter, and skada turns metadata routing on
    wherever it goes.
    """
    made = subprocess.run(
        [sys.executable, "docs/make_api.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
