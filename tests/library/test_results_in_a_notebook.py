"""In Jupyter itself: a result is one page, a mistake one line, and nothing else is displayed."""

import nbclient
import nbformat
import pytest

CELLS = [
    """
import nicscope as ns, polars as pl
n = 60
frame = pl.DataFrame({
    "time_ns": [0] * n, "node": [0] * n, "pid": [7] * n, "op": ["send"] * n,
    "address": [4096 * (i * i % 23) for i in range(n)], "length": [100] * n,
})
found = ns.replay(frame, "utlb", entries=16)
""",
    "found",
    "found.to_polars()",
    "print(found)",
    "ns.replay(frame, 'utbl')",
]


@pytest.fixture(scope="module")
def outputs():
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=240, allow_errors=True).execute()
    return [cell.outputs for cell in book.cells]


def test_a_result_is_one_page_with_tables_and_figures(outputs):
    [page] = outputs[1]

    assert "<table>" in page["data"]["text/html"]
    assert page["data"]["text/html"].count("data:image/svg+xml") == 3
    assert page["data"]["text/plain"].startswith("<ReplayReport: Of 100 lookups")
    assert "| design |" in page["data"]["text/markdown"]


def test_frames_and_text_are_what_is_asked_for_and_nothing_more(outputs):
    assert outputs[0] == []
    [frame], [text] = outputs[2:4]
    assert "cost_us_per_lookup_low" in frame["data"]["text/html"]
    assert (text["output_type"], text["name"]) == ("stream", "stdout")
    assert "NI misses per 100 lookups" in text["text"]


def test_a_mistake_is_the_librarys_error(outputs):
    [error] = outputs[4]

    assert error["ename"] == "DesignError"
    assert error["evalue"].startswith("no design 'utbl'; did you mean 'utlb'?")
    assert "library" not in "".join(error["traceback"])  # no line of ours, only the cell's
