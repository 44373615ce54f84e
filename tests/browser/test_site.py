"""The docs site in Chromium, page by page and at two widths: nothing sticks out, pictures are there.

`make site` builds it; without it these tests are skipped.
"""

from __future__ import annotations

import time
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
    elsewhere = [a for a in asked(browser) if not a.startswith(("file:", "data:"))]
    assert elsewhere == []


def test_search_works_from_a_folder(browser):
    opened(browser, (SITE / "index.html").as_uri())
    browser.find_element("css selector", "[data-md-component=search-query]").send_keys(
        "certificate"
    )
    found = "return document.querySelectorAll('.md-search-result__item').length"
    until = time.monotonic() + 20
    while not browser.execute_script(found) and time.monotonic() < until:
        time.sleep(0.2)
    assert browser.execute_script(found) > 3
