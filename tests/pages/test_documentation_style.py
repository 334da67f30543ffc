"""The documentation's own style: wide tables stay whole, and pictures on phones are readable."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = (DOCS / "pictures" / "program.svg").as_uri()
CELL = "<td><code>nic/translate/user_library.py</code></td>"
# As the theme makes a page: a table in a box that scrolls, a picture alone in its paragraph.
PAGE = f"""<!doctype html><meta name="viewport" content="width=device-width">
<style>body {{ margin: 0 }} .table-wrapper {{ overflow-x: auto }} code {{ white-space: nowrap }}
img {{ max-width: 100% }}</style>
<link rel="stylesheet" href="{(DOCS / "style" / "pages.css").as_uri()}">
<article><div class="table-wrapper"><table><tr>{CELL * 6}</tr></table></div>
<p><img src="{PICTURE}" alt="a program"></p></article>"""


def opened(browser, folder, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    (folder / "page.html").write_text(PAGE)
    page.goto((folder / "page.html").as_uri())
    return page


def hidden(page, selector):
    """Pixels of the box that one would have to scroll to."""
    return page.eval_on_selector(selector, "box => box.scrollWidth - box.clientWidth")


def test_paths_in_a_table_break_where_it_would_be_cut(browser, tmp_path):
    page = opened(browser, tmp_path, 820)

    assert hidden(page, ".table-wrapper") <= 0
    page.close()


def test_on_a_phone_a_table_and_a_picture_scroll_and_the_page_does_not(browser, tmp_path):
    page = opened(browser, tmp_path, 360)

    assert hidden(page, ".table-wrapper") > 0
    assert hidden(page, "p") > 0
    assert page.locator("img").bounding_box()["width"] == 640
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_the_site_has_the_style(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # as the file does, until the test ends
    settings = {}
    exec((DOCS / "conf.py").read_text(), settings)

    [folder] = settings["html_static_path"]
    for name in settings["html_css_files"]:
        assert (DOCS / folder / name).is_file()
