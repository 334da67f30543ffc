"""Debian's Chromium, driven by Playwright, and what a page says that it should not."""

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


@pytest.fixture(scope="module")
def only_page(browser):
    """A page that all tests of a file share: another takes a process of its own."""
    page = browser.new_page()
    page.set_default_timeout(60_000)
    yield page
    page.close()


@pytest.fixture
def opened(only_page):
    """Open addresses at a width, in a scheme; none may have complained or asked for another."""
    complaints, starts, leaving = [], ["about:blank"], []

    def asked(request):
        if not request.url.startswith(tuple(starts)):
            complaints.append(request.url)

    def failed(request):
        # What is under way when a page is left is aborted, and no fault of the page.
        if not (leaving and request.failure == "net::ERR_ABORTED"):
            complaints.append(f"{request.url}: {request.failure}")

    hear = {
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
        "requestfailed": failed,
        "request": asked,
    }

    def leave():
        leaving.append(True)
        only_page.goto("about:blank")
        leaving.clear()

    def open_page(address, width=1280, scheme="light"):
        starts.append(address.split("?")[0].split("#")[0])
        only_page.set_viewport_size({"width": width, "height": 900})
        only_page.emulate_media(color_scheme=scheme, media="screen")
        leave()
        only_page.goto(address)
        return only_page

    for event, hearing in hear.items():
        only_page.on(event, hearing)
    yield open_page
    leave()
    for event, hearing in hear.items():
        only_page.remove_listener(event, hearing)
    assert complaints == []


@pytest.fixture
def contrasts():
    """What finds text that is hard to read: (text, ratio) of each piece below 4.5 : 1."""
    script = (Path(__file__).parent / "contrast.js").read_text()
    return lambda page: page.evaluate(script)
