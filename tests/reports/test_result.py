"""Every result of every command: the same cells as text, HTML and Markdown, files as written."""

from __future__ import annotations

import importlib
import json
import pkgutil
from html.parser import HTMLParser

import pytest
from rich.text import Text

import nicscope.reports
from nicscope.library.command import command_line
from nicscope.outputs import whole_folder
from nicscope.reports.page import html_of, markdown_of
from nicscope.reports.printing import Note, lines_of
from nicscope.reports.result import Report
from nicscope.reports.table import Rows


class Cells(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.cells, self._inside = [], False
        self.feed(page)

    def handle_starttag(self, tag, _):
        if tag == "td":
            self.cells.append("")
        self._inside = tag == "td"

    def handle_endtag(self, tag):
        self._inside = self._inside and tag != "td"

    def handle_data(self, data):
        if self._inside:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def shown(reports):
    """A report of each kind, by its class's name."""
    return {type(report).__name__: report for report in reversed(reports)}  # the first of each


def kinds(base=Report):
    for each in pkgutil.iter_modules(nicscope.reports.__path__):
        importlib.import_module(f"nicscope.reports.{each.name}")
    return {each.__name__ for each in base.__subclasses__()}


def cells_of(report):
    tables = [part for part in report.parts() if isinstance(part, Rows)]
    return [cell for rows in tables for cells in rows.cells for cell in cells]


def test_there_is_a_report_of_every_kind(shown):
    assert set(shown) == kinds()


def test_a_page_has_every_cell_and_no_other(shown):
    for name, report in shown.items():
        pages = Cells(html_of(report.parts())).cells
        with_bars = [part for part in report.parts() if isinstance(part, Rows) and part.bars]
        bars = sum(len(rows.bars) for rows in with_bars)
        cells = cells_of(report)
        assert sorted(filter(None, pages)) == sorted(filter(None, cells)), name
        assert len(pages) == len(cells) + bars


def test_markdown_has_every_cell_in_its_row(shown):
    for name, report in shown.items():
        lines = markdown_of(report.parts()).splitlines()
        rows = [line[1:-1].replace("\\|", "/") for line in lines if line.startswith("|")]
        cells = {" ".join(cell.split()) for row in rows for cell in row.split("|")}
        for cell in cells_of(report):
            assert " ".join(cell.split()).replace("|", "/") in cells, name


def test_what_is_in_no_table_is_in_text_and_page_alike(shown):
    for name, report in shown.items():
        page, markdown = html_of(report.parts()), markdown_of(report.parts())
        texts = [part.text for part in report.parts() if isinstance(part, Note)]
        texts += [part.plain for part in report.parts() if isinstance(part, Text)]
        printed = " ".join(" ".join(str(line) for line in lines_of(report.parts(), 100)).split())
        for text in texts:
            for word in text.split()[:1]:
                assert word in printed, name
                assert word in markdown, name
                assert word.isalnum() <= (word in page), name


@pytest.mark.usefixtures("no_pixels")
def test_a_folder_holds_the_json_and_each_file_that_the_report_names(shown, tmp_path):
    for name, report in shown.items():
        with whole_folder(tmp_path / name) as folder:
            written = report.write(folder)
        files = {path.name for path in written}
        named = {
            file
            for what, content in report.files()
            for file in ([f"{what}.png", f"{what}.svg"] if hasattr(content, "savefig") else [what])
        }

        assert files == named | {"results.json"}
        assert files == {path.name for path in (tmp_path / name).iterdir()}
        plain = json.loads((tmp_path / name / "results.json").read_text())
        assert plain == json.loads(json.dumps(report.as_json()))


def test_a_command_line_leaves_out_what_was_left_out():
    options = {"--set": ["a=1", "b=2"], "--to": None, "--count": 8, "--rate": 0.5, "--all": True}

    assert command_line(["flow"], {**options, "--none": False, "--design": "x"}) == [
        *("nicscope", "flow", "--set", "a=1", "--set", "b=2"),
        *("--count", "8", "--rate", "0.5", "--all", "--design", "x"),
    ]
