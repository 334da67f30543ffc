"""A run's timeline as a page, in a browser: it draws itself, says what is pointed at, and zooms."""

import shutil

import pytest
import small_programs as small

CHROMIUM = shutil.which("chromium")
QUIET = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
QUIET += "--disable-sync --no-first-run"
# The least contrast of a slice's words with the slice.
CONTRASTS = """Math.min(...COLOURS.map((colour) => {
  const light = (text) => [1, 3, 5].reduce((sum, place, which) => {
    const share = parseInt(text.slice(place, place + 2), 16) / 255;
    const linear = share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    return sum + [0.2126, 0.7152, 0.0722][which] * linear;
  }, 0.05);
  const [low, high] = [light(colour), light(inkOn(colour))].sort((a, b) => a - b);
  return high / low;
}))"""


def looked_at(page, path, width):
    """Draw the page, press keys, point at a slice, look for a packet; what went wrong meanwhile."""
    wrong, asked = [], []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = "new Set(new Uint32Array(context.getImageData(0, 0, canvas.width, "
    colours += "canvas.height).data.buffer)).size"
    assert page.evaluate(colours) > 10
    assert page.evaluate(CONTRASTS) > 4.5
    before = page.evaluate("[from, to]")
    page.focus("#chart")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    after = page.evaluate("[from, to]")
    assert after[1] - after[0] == pytest.approx(0.6 * (before[1] - before[0]))
    page.keyboard.press("Home")
    assert page.evaluate("[from, to]") == before
    page.evaluate("{ const one = data.slices[0]; show(one[1], one[2]); }")
    box = page.locator("#chart").bounding_box()
    row = page.evaluate("data.slices[0][0]")
    page.mouse.move(box["x"] + (box["width"] + 190) / 2, box["y"] + 26 + 22 * row + 11)
    first = page.evaluate("data.tracks[data.slices[0][0]].join(', ')")
    assert page.inner_text("#tip").startswith(first)
    page.fill("#find", "packet 0")
    assert page.inner_text("#found").endswith(" slices")
    assert not page.inner_text("#found").startswith("0 ")
    assert all(url.startswith(("file:", "data:")) for url in asked)
    return wrong


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_draws_itself_at_any_width_and_answers_keys_and_pointer(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api")
    path = small.on_via("pci", keep_log=20_000).timeline(tmp_path / "t.html")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        for width, scheme in ((390, "dark"), (1280, "light")):
            size = {"width": width, "height": 600}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            assert looked_at(page, path, width) == []
        browser.close()
