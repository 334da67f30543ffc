"""What every command prints: tables whole at every width, headings explained, the same elsewhere.

The commands run once, for all tests of this file.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import every_table as every
import pyarrow as pa
import pytest
from rich.text import Text
from tables_read import assert_whole, text_of

import nicscope.reports
from nicscope.config.design import design_names
from nicscope.config.glossary import column_of, meaning_of, terms
from nicscope.library.command import command_line
from nicscope.outputs import whole_folder
from nicscope.reports import curve
from nicscope.reports.page import html_of, markdown_of
from nicscope.reports.printing import Note, Rows, fit, lines_of, width_of
from nicscope.reports.result import Report, distinct_headings

WIDTHS = (80, 90, 100, 140)
COPIED = "  nicscope "  # what a line of a command to be copied begins with
# Headings that are data: names of programs whose numbers stand below.
NAMES = {"Barnes", "FFT", "LU", "Radix", "Raytrace", "Volrend", "Water", every.LONG}
# What answers a question, which it does in words first.
ANSWERING = {
    *("ReplayReport", "ShownCurves", "ShownSizes", "ShownSweep"),
    *("ShownTrace", "ShownProgram", "ShownFlow", "ShownLatencies", "ShownReproduction"),
}
NUMBER = re.compile(r"(?<![\w.-])<?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?![\w])")
WORDS = {"100", "1"}  # of a summary: rates are per 100, and intervals and cycles have their names


@pytest.fixture(scope="module")
def everything():
    """What every command prints at 80 columns, and who has made its tables."""
    # Of a short name, as it is printed, which the tests' own folders have not everywhere.
    with tempfile.TemporaryDirectory() as short:
        with every.built() as callers:
            printed = [*every.printed(Path(short))]
        yield printed, callers


@pytest.fixture(scope="module")
def printed(everything):
    return everything[0]


@pytest.fixture(scope="module")
def reports(printed):
    """Every report of every command, as the commands make them."""
    return [report for one in printed for report in one.reports]


@pytest.fixture(scope="module")
def shown(reports):
    """A report of each kind, by its class's name."""
    return {type(report).__name__: report for report in reversed(reports)}  # the first of each


@pytest.fixture(scope="module")
def tables(printed):
    """Every table, as it is, and with names of forty characters and numbers of 10**12."""
    found = {f"{rows.headings}{rows.cells}": rows for one in printed for rows in one.tables}
    large = {f"{rows.headings}": inflated(rows) for rows in found.values()}
    return [*found.values(), *large.values()]


def inflated(rows):
    """The first rows of a table with long names and large numbers, each cell another."""
    cells = [
        [
            _large(cell, column in rows.left, column < rows.key, 1000 * number + column)
            for column, cell in enumerate(row)
        ]
        for number, row in enumerate(rows.cells[:4])
    ]
    return rows._replace(cells=cells, bars=rows.bars[:4])


def _large(cell, is_word, is_key, number):
    if not cell or (is_word and not is_key and " " in cell):
        return cell
    if is_word:
        return every.LONG[:-4] + f"{number:04}"
    return f"{10**12 + number:,}"


def test_every_table_of_the_package_is_among_those_that_are_looked_at(everything):
    assert everything[1] == every.builders() - every.OF_COMPILED_PROGRAMS
    assert len(everything[1]) > 25


def test_no_table_goes_past_the_one_engine():
    engines = ("rich.table", "rich.columns", "tabulate", "rich.box", "textwrap")
    others = [
        (str(path.relative_to(every.PACKAGE)), name)
        for path in every.PACKAGE.rglob("*.py")
        if any(engine in path.read_text() for engine in engines)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
        if name in engines
    ]

    assert others == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_cell_of_every_table_is_whole_at_every_width(tables, width):
    assert len(tables) > 100
    for rows in tables:
        assert_whole(rows, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_longest_names_stay_in_their_rows(tables, width):
    longest = max([*design_names(), every.LONG], key=len)
    named = [rows for rows in tables if rows.headings[:1] == ["design"]]
    assert len(named) >= 10
    for rows in named:
        renamed = rows._replace(cells=[[longest, *row[1:]] for row in rows.cells])
        begun = [line for line in text_of(renamed, width) if longest in line]
        assert len(begun) == len(rows.cells)


def test_what_a_command_prints_fits_but_for_commands_to_be_copied(printed):
    for one in printed:
        for line in one.text.splitlines() if one.reports else ():  # and not a file, to be piped
            if not line.startswith((COPIED, "  /")):
                assert width_of(line) <= 80 or " " not in line.strip(), (one.command, line)


def test_a_wider_line_never_shows_less(tables):
    for rows in tables:
        fitted = [fit(rows, width) for width in range(60, 200, 10)]
        stacked = [not each.blocks for each in fitted]
        wide = [len(each.left_out) for each in fitted if each.blocks]
        assert stacked == sorted(stacked, reverse=True)
        assert wide == sorted(wide, reverse=True)


def test_at_140_columns_no_table_of_the_catalog_leaves_anything_out(printed):
    for one in printed:
        for rows in one.tables:
            assert fit(rows, 140).left_out == [], (one.command, rows.title)


def test_every_heading_of_every_table_is_explained(reports):
    unknown = {
        (report.topic, heading)
        for report in reports
        for heading in set(distinct_headings(report.parts())) - NAMES
        if meaning_of(heading, report.topic) is None
    }

    assert len(reports) > 20
    assert unknown == set()


def test_a_column_for_programs_has_one_type_a_unit_and_a_meaning_wherever_it_is(reports):
    kinds: dict[str, set[str]] = {}
    for report in reports:
        for _, table in report.tables():
            for field in table.schema:
                kind = "number" if pa.types.is_integer(field.type) else str(field.type)
                kinds.setdefault(field.name, set()).add("number" if kind == "double" else kind)

    assert {name for name in kinds if column_of(name) is None} == set()
    assert {name: kind for name, kind in kinds.items() if len(kind) > 1} == {}
    for name, [kind] in kinds.items():
        assert (kind == "number") >= bool(column_of(name).unit), name


def test_each_term_is_explained_once_and_below_the_tables(reports):
    for report in reports:
        told = list(report.printed(explain=True))
        notes = [part for part in told if isinstance(part, Note)]
        mine = [note for note in notes if any(term.means in note.text for term in terms().values())]
        names = [note.text.partition(":")[0] for note in mine]
        assert len(names) == len(set(names)), type(report).__name__
        headings = distinct_headings(report.parts())
        assert bool(names) == bool(headings), type(report).__name__
        for heading in {*headings} - NAMES:  # each is found as the table has it
            assert any(heading in name for name in names), (type(report).__name__, heading)
        if mine:
            tables = [place for place, part in enumerate(told) if isinstance(part, Rows)]
            assert told.index(mine[0]) > max(tables)


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


def test_there_is_a_report_of_every_kind(shown):
    for each in pkgutil.iter_modules(nicscope.reports.__path__):
        importlib.import_module(f"nicscope.reports.{each.name}")

    assert set(shown) == {each.__name__ for each in Report.__subclasses__()}


def test_page_and_markdown_have_every_cell_and_what_is_in_no_table(shown):
    for name, report in shown.items():
        parts = list(report.parts())
        tables = [part for part in parts if isinstance(part, Rows)]
        cells = [cell for rows in tables for row in rows.cells for cell in row]
        page, markdown = html_of(parts), markdown_of(parts)
        pages = Cells(page).cells
        assert sorted(filter(None, pages)) == sorted(filter(None, cells)), name
        assert len(pages) == len(cells) + sum(len(rows.bars) for rows in tables)

        lines = [line for line in markdown.splitlines() if line.startswith("|")]
        rows = [line[1:-1].replace("\\|", "/").split("|") for line in lines]
        found = {" ".join(cell.split()) for row in rows for cell in row}
        assert {" ".join(cell.split()).replace("|", "/") for cell in cells} <= found, name

        text = " ".join(" ".join(str(line) for line in lines_of(parts, 100)).split())
        told = [part.text for part in parts if isinstance(part, Note)]
        told += [part.plain for part in parts if isinstance(part, Text)]
        for word in (word for each in told for word in each.split()[:1]):
            assert word in text, name
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


def below(report):
    """Numbers of everything below the summary: cells, headings, titles and paragraphs."""
    found = set()
    for part in report.parts():
        if isinstance(part, Rows):
            texts = [part.title, *part.headings, *(cell for cells in part.cells for cell in cells)]
        else:
            texts = [getattr(part, "plain", None) or getattr(part, "text", None) or str(part)]
        for text in texts:
            found |= set(NUMBER.findall(text))
    return found


def test_every_command_that_answers_a_question_does_so_in_words_first(reports):
    told = {type(report).__name__ for report in reports if report.summary()}
    silent = {type(report).__name__ for report in reports if not report.summary()}

    assert told >= ANSWERING
    assert not silent & ANSWERING


def test_a_summary_stands_above_the_first_table_and_is_a_few_sentences(printed):
    for one in printed:
        for report in one.reports:
            sentences = report.summary()
            if sentences:
                words, said = " ".join(one.text.split()), " ".join(" ".join(sentences).split())
                assert said in words, one.command
                if not report.is_headed:
                    assert words.startswith(said)
                parts = list(report.printed())
                place = next(n for n, one in enumerate(parts) if said == " ".join(str(one).split()))
                assert not any(isinstance(part, Rows) for part in parts[:place]), one.command
                assert all(sentence.endswith(".") for sentence in sentences)
                assert len(sentences) <= 2 * curve.MOST_TOLD


def test_each_number_of_a_summary_is_one_of_what_stands_below(printed):
    checked = 0
    for one in printed:
        names = {Path(word).stem for word in one.command.split() if not word[:1].isdigit()}
        for report in one.reports:
            for sentence in report.summary():
                for name in sorted(names, key=len, reverse=True):
                    sentence = sentence.replace(name, "")
                # What twice the memory saves is in no table; cli/test_size_only.py works it out.
                sentence = re.sub(r"saves [\d.]+ %", "saves", sentence)
                numbers = set(NUMBER.findall(sentence)) - WORDS
                assert numbers <= below(report), (one.command, sentence)
                checked += len(numbers)
    assert checked > 40


def test_of_several_runs_each_sentence_says_which_it_is_of(reports):
    found = [report for report in reports if type(report).__name__ == "ShownProgram"]
    first, second = found[0].summary()
    assert first.startswith("In the first run, on pca200-linux, ")
    assert second.startswith("In the second run, on utlb-prototype, ")


def test_a_command_line_leaves_out_what_was_left_out():
    options = {"--set": ["a=1", "b=2"], "--to": None, "--count": 8, "--rate": 0.5, "--all": True}

    assert command_line(["flow"], {**options, "--none": False, "--design": "x"}) == [
        *("nicscope", "flow", "--set", "a=1", "--set", "b=2"),
        *("--count", "8", "--rate", "0.5", "--all", "--design", "x"),
    ]
