"""The docs site in Chromium, page by page and at two widths: nothing sticks out, pictures are there.

`make site` builds it; without it these tests are skipped.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from browser_builders import WIDTHS, asked, opened

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
PAGES = sorted(p for p in SITE.rglob("*.html") if p.name != "404.html")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not PAGES, reason="there is no site: run `make site` first"),
]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(SITE)))
def test_a_page_fits_its_window_and_shows_its_pictures(browser, page, width):
    opened(browser, page.as_uri(), width)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width, f"{page.name} is {wide} pixels wide in a window of {width}"
    broken = (
        "return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    )
    assert browser.execute_script(broken) == []
    assert [address for address in asked(browser) if not address.startswith("file:")] == []
