"""Debian's Chromium, driven by Playwright, and what a page says that it should not."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """A browser without a window."""
    if not CHROMIUM.exists():
        pytest.skip(f"needs Chromium: {CHROMIUM} is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as engine:
        found = engine.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """Open pages at a width, in a scheme; in the end none may have complained or gone elsewhere."""
    complaints = []
    with contextlib.ExitStack() as stack:

        def open_page(address, width=1280, scheme="light", **more):
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, **more
            )
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("requestfailed", lambda request: complaints.append(request.url))
            asked = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto(address)
            start = address.split("?")[0].split("#")[0]
            stack.callback(lambda: complaints.extend(u for u in asked if not u.startswith(start)))
            return page

        yield open_page
    assert complaints == []


@pytest.fixture
def contrasts():
    """What finds text that is hard to read: (text, ratio) of each piece below 4.5 : 1."""
    script = (Path(__file__).parent / "contrast.js").read_text()
    return lambda page: page.evaluate(script)
