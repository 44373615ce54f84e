"""The page of `cuvee serve` in Chromium: a target added by file, sliders, by day and by night.

CUVEE_SHOTS=FOLDER keeps pictures of it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import httpx
import pytest

from browser_builders import CONTRAST, WIDTHS, asked, opened
from cuvee.data.synthetic import visits
from cuvee.run import adapt
from serve_builders import serving

pytestmark = pytest.mark.browser
SHOTS = os.environ.get("CUVEE_SHOTS")
STATE = """
const text = (id) => document.getElementById(id).textContent;
return {
  alpha: [...document.querySelectorAll("#sliders input")].map(i => [i.dataset.name, Number(i.nextSibling.textContent)]),
  level: text("level"), distance: text("distance"), score: text("score"), coefficients: text("coefficients"),
  wrong: [...document.querySelectorAll(".wrong")].map(p => p.textContent).join(""),
};
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A server of a run of `cuvee sample`: what it said, and a CSV file of a new target."""
    folder = tmp_path_factory.mktemp("page")
    frame = visits()
    frame[frame.hospital != "elm"].to_csv(folder / "visits.csv", index=False)
    frame[frame.hospital == "elm"][:60].to_csv(folder / "elm.csv", index=False)
    adapt(folder / "visits.csv", folder / "run", label="readmitted", domain="hospital", drop=("visit",),
          targets=("fir", "oak"), labelled=20)  # fmt: skip
    with serving(folder / "run") as (ready, _):
        until = time.monotonic() + 60
        while httpx.get(f"{ready['url']}/readyz").json()["map"] != "learnt":
            assert time.monotonic() < until
            time.sleep(0.1)
        yield {**ready, "file": folder / "elm.csv"}


def entered(browser, service, width=1280, mode="light"):
    """The page with the token in it, when it shows a model."""
    opened(browser, service["url"], width, mode)
    if not browser.execute_script("return sessionStorage.getItem('cuvee-token')"):
        browser.find_element("id", "token").send_keys(service["token"] + "\n")
    return settled(browser)


def settled(browser, differs=None):
    """What the page shows, once there is a model, and another than `differs`."""
    from selenium.webdriver.support.ui import WebDriverWait

    def there(_):
        state = browser.execute_script(STATE)
        ready = state["level"] != "–" and state["coefficients"]
        return ready and (not differs or state["coefficients"] != differs["coefficients"]) and state

    return WebDriverWait(browser, 30, 0.05).until(there)


def move(browser, name, value):
    browser.execute_script(
        """const input = [...document.querySelectorAll("#sliders input")].find(i => i.dataset.name === arguments[0]);
        input.value = arguments[1]; input.dispatchEvent(new Event("input"));""",
        name, value,
    )  # fmt: skip


def shot(browser, name):
    if SHOTS:
        high = browser.execute_script("return document.documentElement.scrollHeight")
        wide = browser.execute_script("return window.innerWidth")
        size = {"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.save_screenshot(str(Path(SHOTS) / f"{name}.png"))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_slider_makes_another_model(browser, service, width):
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what came before
    before = entered(browser, service, width)
    assert sum(weight for _, weight in before["alpha"]) == pytest.approx(1.0, abs=0.005)
    move(browser, "alder", 0.9)
    after = settled(browser, before)
    assert dict(after["alpha"])["alder"] == 0.9 and after["wrong"] == ""
    assert sum(weight for _, weight in after["alpha"]) == pytest.approx(1.0, abs=0.005)
    assert after["distance"] != before["distance"] and after["score"] != "–"
    move(browser, "(own sample)", 0.6)  # no map knows it: the model is solved
    own = settled(browser, after)
    assert own["level"] == "solved" and dict(own["alpha"])["(own sample)"] == 0.6
    browser.find_element("css selector", "#trust option[value=certified]").click()
    browser.find_element("id", "equal").click()
    proven = settled(browser, own)
    assert proven["level"] == "certified" and dict(proven["alpha"])["(own sample)"] == 0.0
    browser.find_element("css selector", "#trust option[value='']").click()
    browser.find_element("id", "reset").click()
    again = settled(browser, proven)
    assert again["alpha"] == before["alpha"]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.get_log("browser") == []
    addresses = asked(browser)
    assert addresses and all(url.startswith((service["url"], "data:")) for url in addresses)
    shot(browser, f"page-{width}")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_target_is_added_by_file(browser, service, width):
    entered(browser, service, width)
    browser.get_log("browser")
    browser.find_element("id", "file").send_keys(str(service["file"]))
    assert browser.find_element("id", "name").get_attribute("value") == "elm"
    name = f"elm, at {width} <b>"
    browser.execute_script("document.getElementById('name').value = arguments[0]", name)
    browser.find_element("id", "add").click()
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 30, 0.05).until(lambda b: b.find_element("id", "added").is_displayed())
    weights = browser.find_element("id", "addedalpha").text
    assert "alder" in weights and name in browser.find_element("id", "whose").text
    assert name in browser.find_element("id", "overview").get_attribute("textContent")
    shot(browser, f"added-{width}")
    before = browser.execute_script(STATE)
    browser.find_element("id", "open").click()
    there = settled(browser, before)
    assert browser.find_element("id", "target").get_attribute("value") == name
    move(browser, "birch", 0.8)
    assert settled(browser, there)["wrong"] == ""
    assert browser.get_log("browser") == []


def test_sliders_move_by_keys(browser, service):
    before = entered(browser, service)
    from selenium.webdriver.common.keys import Keys

    browser.find_element("css selector", "#sliders input").send_keys(Keys.HOME)
    after = settled(browser, before)
    assert after["alpha"][0][1] == 0.0
    browser.find_element("css selector", "#sliders input").send_keys(Keys.END)
    assert settled(browser, after)["alpha"][0][1] == 1.0


def test_a_wrong_file_is_told_in_a_sentence(browser, service, tmp_path):
    entered(browser, service)
    (tmp_path / "wrong.csv").write_text("age,days\n1,2\n")
    browser.find_element("id", "file").send_keys(str(tmp_path / "wrong.csv"))
    browser.find_element("id", "add").click()
    from selenium.webdriver.support.ui import WebDriverWait

    told = WebDriverWait(browser, 30, 0.05).until(
        lambda b: b.find_element("id", "unadded").get_attribute("textContent")
    )
    assert "'readmitted'" in told and browser.find_element("id", "add").is_enabled()


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_word_can_be_read(browser, service, mode, width):
    entered(browser, service, width, mode)
    looked = browser.execute_script(CONTRAST, 4.5)
    assert looked["seen"] > 50 and looked["bad"] == []
    shot(browser, f"{mode}-{width}")


def test_without_the_token_nothing_of_the_run_is_there(browser, service):
    entered(browser, service)
    browser.find_element("id", "leave").click()
    opened(browser, service["url"])
    assert browser.execute_script("return sessionStorage.length") == 0
    assert "alder" not in browser.page_source
    browser.find_element("id", "token").send_keys("a-wrong-token-of-some-length\n")
    from selenium.webdriver.support.ui import WebDriverWait

    told = WebDriverWait(browser, 30, 0.05).until(
        lambda b: b.find_element("id", "refused").get_attribute("textContent")
    )
    assert "not known" in told
    shot(browser, "refused-1280")
