"""Pages in Chromium: how they are opened, and what is asked of them."""

from __future__ import annotations

import json
from pathlib import Path

WIDTHS = (1280, 390)
CONTRAST = (Path(__file__).parent / "browser" / "contrast.js").read_text()


def opened(browser, page, width=1280, mode="light", unfold=True):
    """The page at a width and in a mode, with all that is folded away unfolded."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": mode}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page)
    if unfold:
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


def asked(browser):
    """The addresses that were asked for since this was last called."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"]["request"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return [request["url"] for request in sent]
