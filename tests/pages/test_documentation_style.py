"""The documentation's own style: wide tables stay whole, and pictures on phones are readable."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = (DOCS / "pictures" / "program.svg").as_uri()
CELL = "<td><code>nic/translate/utlb.py</code></td>"
# As the theme makes a page: a table in a box that scrolls, a picture alone in its paragraph.
PAGE = f"""<!doctype html><meta name="viewport" content="width=device-width">
<style>body {{ margin: 0 }} .table-wrapper {{ overflow-x: auto }} code {{ white-space: nowrap }}
img {{ max-width: 100% }}</style>
<link rel="stylesheet" href="{(DOCS / "style" / "pages.css").as_uri()}">
<article><div class="table-wrapper"><table><tr>{CELL * 6}</tr></table></div>
<p><img src="{PICTURE}" alt="a program"></p></article>"""


def hidden(page, selector):
    """Pixels of the box that one would have to scroll to."""
    return page.eval_on_selector(selector, "box => box.scrollWidth - box.clientWidth")


def test_a_table_breaks_its_paths_and_on_a_phone_scrolls_as_a_picture_does(only_page, tmp_path):
    (tmp_path / "page.html").write_text(PAGE)
    only_page.goto((tmp_path / "page.html").as_uri())
    only_page.set_viewport_size({"width": 820, "height": 900})

    assert hidden(only_page, ".table-wrapper") <= 0
    only_page.set_viewport_size({"width": 360, "height": 900})
    assert hidden(only_page, ".table-wrapper") > 0
    assert hidden(only_page, "p") > 0
    assert only_page.locator("img").bounding_box()["width"] == 640
    assert only_page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_site_has_the_style(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # as the file does, until the test ends
    settings = {}
    exec((DOCS / "conf.py").read_text(), settings)

    [folder] = settings["html_static_path"]
    for name in settings["html_css_files"]:
        assert (DOCS / folder / name).is_file()
