"""The report in Chromium: it opens from a file, asks nobody for anything, fits, and can be read by
day and by night.

CUVEE_REPORT=page.html `make test-browser` looks at that page too.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from browser_builders import CONTRAST, WIDTHS, asked, opened
from cuvee.report.page import render
from cuvee.run import Options, adapt
from report_builders import SHAPES
from run_builders import table

pytestmark = pytest.mark.browser

SHOWN = ("one", "ten", "hostile", "many")
REAL = "a run of cuvee adapt"
GIVEN = os.environ.get("CUVEE_REPORT")
FIGURES = """
return [...document.querySelectorAll("svg")].map(s => {
  const box = s.getBoundingClientRect(), seen = s.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  return [s.getAttribute("aria-label"), box.width, box.height, seen];
});
"""
TOUCHING = """
return [...document.querySelectorAll("svg")].flatMap(s => {
  const texts = [...s.querySelectorAll("text.small")].map(t => [t.getBoundingClientRect(), t.textContent]);
  const met = ([a], [b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return texts.filter((t, k) => t[0].width && texts.slice(0, k).some(u => met(t, u))).map(t => t[1]);
});
"""


@pytest.fixture(scope="module", params=[*SHOWN, REAL, *([GIVEN] if GIVEN else [])])
def page(request, tmp_path_factory):
    """The address of a page."""
    folder = tmp_path_factory.mktemp("report")
    if request.param == REAL:
        adapt(
            table(),
            folder / "run",
            options=Options(label="cost", domain="site", targets="site 0,site 1"),
        )
        return (folder / "run" / "report.html").as_uri()
    if request.param not in SHAPES:
        return Path(request.param).resolve().as_uri()
    path = folder / "report.html"
    path.write_text(render(SHAPES[request.param]()), encoding="utf-8")
    return path.as_uri()


def test_it_says_nothing_to_the_console_and_asks_nobody(browser, page):
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what came before
    opened(browser, page)
    assert browser.get_log("browser") == []
    addresses = asked(browser)
    assert addresses and all(url.startswith(("file://", "data:")) for url in addresses)
    assert browser.execute_script("return document.scripts.length") == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_is_seen_and_the_page_fits(browser, page, width):
    opened(browser, page, width, unfold=False)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    opened(browser, page, width)
    figures = browser.execute_script(FIGURES)
    assert len(figures) >= 5
    for label, wide, high, seen in figures:
        assert label and wide > 20 and high > 10 and seen, label
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_script("window.scrollTo(9999, 0)")
    assert browser.execute_script("return window.scrollX") == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_of_scales_do_not_touch(browser, page, width):
    opened(browser, page, width)
    assert browser.execute_script(TOUCHING) == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_word_can_be_read(browser, page, mode):
    opened(browser, page, mode=mode)
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    bright = sum(int(c) for c in ground[4:-1].split(",")) > 3 * 128
    assert bright == (mode == "light")
    found = browser.execute_script(CONTRAST, 4.5)
    assert found["seen"] > 100 and found["bad"] == []


def test_names_stay_in_sight_while_a_heat_map_scrolls(browser, page):
    opened(browser, page, 390)
    before, after = browser.execute_script("""
        const map = document.querySelector(".heat"), place = () => map.children[0].getBoundingClientRect().x;
        const before = place(); map.scrollLeft = 9999; return [before, place()];
    """)
    assert abs(before - after) < 2


def test_own_rows_are_in_sight_on_a_phone(browser, page):
    opened(browser, page, 390)
    right = browser.execute_script("""
        const cell = [...document.querySelectorAll(".heat rect")].find(r => r.textContent.includes("← own rows"));
        return cell.getBoundingClientRect().right;
    """)
    assert right <= 390


def test_an_arrow_says_that_there_is_more_until_the_end_is_reached(browser, page):
    """In a container with nothing else to be seen, the arrow's pixels are there or covered."""
    opened(browser, page, 390)
    bare = """
        document.body.innerHTML = "<div class='scroll' style='scrollbar-width: none'><p></p></div>";
        document.querySelector("p").style = `max-width: none; height: 60px; width: ${arguments[0]}px`;
        document.querySelector(".scroll").scrollLeft = arguments[1];
    """
    shots = []
    for width, left in ((1000, 0), (1000, 9999), (200, 0)):
        browser.execute_script(bare, width, left)
        shots.append(browser.get_screenshot_as_base64())
    assert shots[0] != shots[1] == shots[2]


def test_printing_unfolds_what_is_folded(browser, page):
    opened(browser, page, unfold=False)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    figures = browser.execute_script(FIGURES)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert all(wide > 0 and high > 0 and seen for _, wide, high, seen in figures)
