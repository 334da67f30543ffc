"""Tables of every command: names and numbers whole at every width, each heading explained."""

from __future__ import annotations

import ast
from pathlib import Path

import every_table as every
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nicscope
from nicscope.cli.app import main
from nicscope.config.design import design_names
from nicscope.config.glossary import column_of, meaning_of, terms
from nicscope.reports.drawing import GAP, fit
from nicscope.reports.explaining import headings_of
from nicscope.reports.printing import (
    ELSEWHERE,
    PARAGRAPH,
    PIPED,
    Note,
    lines_of,
    output_width,
    pieces,
    width_of,
    wrapped,
)
from nicscope.reports.table import Bar, Piece, Rows

WIDTHS = (80, 90, 100, 140)
COPIED = "  nicscope "  # what a line of a command to be copied begins with
PACKAGE = Path(nicscope.__file__).parent


@pytest.fixture(scope="module")
def tables(printed):
    """Every table, as it is, and with names of forty characters and numbers of 10**12."""
    found = [rows for one in printed for rows in one.tables]
    return found + [inflated(rows) for rows in found]


def inflated(rows):
    """The same table with long names and large numbers, each cell another."""
    cells = [
        [
            _large(cell, column in rows.left, column < rows.key, 1000 * number + column)
            for column, cell in enumerate(row)
        ]
        for number, row in enumerate(rows.cells)
    ]
    return rows._replace(cells=cells)


def _large(cell, is_word, is_key, number):
    if not cell or (is_word and not is_key and " " in cell):
        return cell
    if is_word:
        return every.LONG[:-4] + f"{number:04}"
    return f"{10**12 + number:,}"


def text_of(rows, width):
    return [str(line) for line in lines_of([rows], width)]


def unbroken(rows, column, cell):
    """The pieces of a cell that must stand on one line each."""
    if not rows.wraps(column):
        return [cell] if cell else []
    return [cell[begin:end] for begin, end in pieces(cell)]


def assert_whole(rows, width):
    """What is shown of ``rows`` is whole, what is not is named, and no line is too long."""
    lines = text_of(rows, width)
    shape = fit(rows, width)
    everything = [
        piece
        for row in rows.cells
        for column, cell in enumerate(row)
        for piece in unbroken(rows, column, cell)
    ]
    widest = max([width, *(width_of(piece) for piece in [*everything, *rows.headings])])
    assert max(map(width_of, lines), default=0) <= widest
    if max(map(width_of, everything), default=0) <= width - GAP:
        assert max(map(width_of, lines), default=0) <= width
    shown = {column for block in shape.blocks for column in block.columns}
    shown = shown or set(range(len(rows.headings)))
    assert set(range(rows.key)) <= shown
    words = {word for line in lines for word in line.split()}
    for column in shown:  # a stacked row has no line for an empty cell
        if shape.blocks or any(row[column] for row in rows.cells):
            assert set(rows.headings[column].split()) <= words
    for place, row in enumerate(rows.cells):
        for column in shown:
            if rows.grouped and column == 0:
                continue
            for piece in unbroken(rows, column, row[column]):
                assert any(piece in line for line in lines), (piece, rows.title, width, place)
    left_out = [
        rows.headings[column] for column in range(len(rows.headings)) if column not in shown
    ]
    assert left_out == shape.left_out
    assert set(rows.leaving()[: len(left_out)]) == set(range(len(rows.headings))) - shown
    if left_out:
        note = " ".join(" ".join(lines).split("not shown at ")[-1].split())
        assert note == f"{width} columns: {', '.join(left_out)}; see {ELSEWHERE}"


def test_every_table_of_the_package_is_among_those_that_are_looked_at(everything):
    assert everything[1] == every.builders()
    assert len(everything[1]) > 25


def test_no_table_goes_past_the_one_engine():
    others = [
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
        if name in ("rich.table", "rich.columns", "tabulate", "rich.box", "textwrap")
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
        fitted = [fit(rows, width) for width in range(60, 200, 7)]
        left_out = [len(each.left_out) for each in fitted]
        stacked = [not each.blocks for each in fitted]
        shown = [
            0 if is_stacked else left for left, is_stacked in zip(left_out, stacked, strict=True)
        ]
        wide = shown[stacked.count(True) :]
        assert stacked == sorted(stacked, reverse=True)
        assert wide == sorted(wide, reverse=True)


def test_at_140_columns_no_table_of_the_catalog_leaves_anything_out(printed):
    for one in printed:
        for rows in one.tables:
            assert fit(rows, 140).left_out == [], (one.command, rows.title)


WORDS = st.text("abcxyz-_", min_size=1, max_size=12)
NUMBERS = st.integers(0, 10**13).map("{:,}".format)
WIDE = st.text("表の幅を", min_size=1, max_size=6)


@st.composite
def random_rows(draw):
    columns = draw(st.integers(1, 8))
    left = tuple(sorted({0, *draw(st.sets(st.integers(0, columns - 1), max_size=columns))}))
    key = draw(st.integers(1, columns))
    prose = st.lists(st.one_of(WORDS, NUMBERS), min_size=1, max_size=9).map(" ".join)
    count = draw(st.integers(1, 4))
    cells = [
        [
            draw(
                st.one_of(WORDS, WIDE) if column < key and column in left
                else prose if column in left
                else NUMBERS
            )
            for column in range(columns)
        ]
        for _ in range(count)
    ]  # fmt: skip
    headings = [f"{draw(WORDS)} {column}" for column in range(columns)]
    bars = ()
    if draw(st.booleans()):
        shares = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
        bars = tuple(Bar((Piece("█", "red", share),)) for share in shares)
    least = tuple(draw(st.permutations(headings[key:])))[: draw(st.integers(0, columns))]
    return Rows("title", headings, cells, left=left, key=key, least=least, bars=bars)


@given(rows=random_rows(), width=st.integers(12, 160))
@example(rows=Rows("", ["a heading of words", "n"], [["x", "1"]], bars=[Bar(())]), width=12)
def test_whatever_the_table_it_is_whole_and_fits(rows, width):
    assert_whole(rows, width)


@given(rows=random_rows(), width=st.integers(12, 160))
def test_a_table_can_be_read_back_from_its_lines(rows, width):
    shape = fit(rows, width)
    lines = text_of(rows, width)
    if not shape.blocks or any(len(line) != width_of(line) for line in lines):
        return
    [block] = shape.blocks
    at = next(number for number, line in enumerate(lines) if line.startswith("─")) + 1
    for row in rows.cells:
        begin = 0
        for column, room in zip(block.columns, block.widths, strict=True):
            first = wrapped(row[column], room)[0]
            shown = lines[at][begin : begin + room]
            assert shown.strip() == first
            assert shown == (first.ljust if column in rows.left else first.rjust)(len(shown))
            begin += room + GAP
        at += max(
            len(wrapped(row[column], room))
            for column, room in zip(block.columns, block.widths, strict=True)
        )


@given(
    groups=st.lists(st.tuples(WORDS, st.integers(1, 4)), min_size=1, max_size=12),
    width=st.integers(24, 120),
)
def test_groups_that_do_not_fit_beside_each_other_follow_below_and_none_is_left_out(groups, width):
    count = sum(size for _, size in groups)
    cells = [[f"k{row}", *(f"{row}.{column}" for column in range(count))] for row in range(3)]
    rows = Rows(
        "", ["key", *(f"h{column}" for column in range(count))], cells,
        prose=(), groups=tuple(groups),
    )  # fmt: skip
    lines = text_of(rows, width)

    assert fit(rows, width).left_out == []
    words = {word for line in lines for word in line.split()}
    assert {cell for row in cells for cell in row} <= words
    assert {name for name, _ in groups} <= {word for line in lines for word in line.split()}
    assert max(map(width_of, lines)) <= width


@pytest.mark.parametrize(
    ("share", "drawn"), [(1.0, "█" * 15), (0.5, "█" * 8), (0.001, "▏"), (0.0, "")]
)
def test_a_bar_is_as_long_as_its_share_and_what_is_not_0_can_be_seen(share, drawn):
    assert str(Bar((Piece("█", "blue", share),)).draw(15)) == drawn


def test_the_bar_gives_way_before_any_number():
    rows = Rows(
        "", ["design", "n"], [["a" * 40, "1"], ["b", "1,000,000,000,000"]],
        bars=[Bar((Piece("█", "red", 1.0),))] * 2,
    )  # fmt: skip

    drawn = [
        max(line.count("█") for line in text_of(rows, width)) for width in (90, 76, 67, 66, 60)
    ]

    assert drawn == [15, 15, 6, 0, 0]
    assert all("1,000,000,000,000" in " ".join(text_of(rows, width)) for width in (66, 60, 30))


def test_what_matters_least_is_left_out_first_and_the_rest_from_the_right():
    rows = Rows(
        "", ["design", "all", "send", "kind"], [["a" * 30, *["1,000,000"] * 3]], least=("send",)
    )  # fmt: skip

    left_out = [fit(rows, width).left_out for width in (63, 62, 51, 41)]

    assert left_out == [[], ["send"], ["send", "kind"], ["send", "kind"]]


def test_a_row_that_does_not_fit_is_stacked_whole():
    rows = Rows("", ["design", "misses"], [[every.LONG, "1,000,000,000,000"]])

    assert text_of(rows, 50) == [f"design  {every.LONG}", "  misses  1,000,000,000,000"]


def test_a_number_is_not_parted_from_its_unit_nor_a_word_in_two():
    assert wrapped("tags 32 KiB, frames 32 KiB, rest 64 B", 16) == [
        "tags 32 KiB,",
        "frames 32 KiB,",
        "rest 64 B",
    ]
    assert wrapped("a-name-that-is-longer than it", 10) == ["a-name-that-is-longer", "than it"]


def test_a_point_of_a_table_is_not_parted_from_its_value():
    assert wrapped("by pages 1: 27  2: 30  16: 70", 12) == ["by pages", "1: 27  2: 30", "16: 70"]


def test_what_controls_a_terminal_is_spelt_out():
    rows = Rows("", ["design"], [["evil\x1b[31m\nname"]])

    assert text_of(rows, 80)[-1] == r"evil\x1b[31m\nname"


@pytest.mark.parametrize(
    ("columns", "width"),
    [("80", 80), ("140", 140), ("", PIPED), ("0", PIPED), ("-3", PIPED), ("wide", PIPED)],
)
def test_a_pipe_is_as_wide_as_the_environment_says(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)

    assert output_width() == width


def test_a_pipe_of_which_nobody_says_how_wide_it_is_has_100_columns(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["designs"]) == 0

    assert 80 < max(map(len, capsys.readouterr().out.splitlines())) <= PIPED


def test_paragraphs_stay_readable_on_wide_terminals(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["platforms", "show", "utlb-prototype"]) == 0

    lines = capsys.readouterr().out.splitlines()
    description = lines[: lines.index("")]
    assert max(map(len, description)) <= PARAGRAPH


# Headings that are data: names of programs whose numbers stand below.
NAMES = {"Barnes", "FFT", "LU", "Radix", "Raytrace", "Volrend", "Water", every.LONG}


def test_every_heading_of_every_table_is_explained(reports):
    unknown = {
        (report.topic, heading)
        for report in reports
        for heading in set(headings_of(report.parts())) - NAMES
        if meaning_of(heading, report.topic) is None
    }

    assert len(reports) > 20
    assert unknown == set()


def test_every_column_of_every_table_for_programs_has_a_unit_and_a_meaning(reports):
    unknown = {
        (report.topic, name, column)
        for report in reports
        for name, table in report.tables()
        for column in table.column_names
        if column_of(column) is None
    }

    assert unknown == set()


def test_a_column_holds_one_type_wherever_it_is_and_numbers_are_numbers(reports):
    kinds: dict[str, set[str]] = {}
    for report in reports:
        for _, table in report.tables():
            for field in table.schema:
                kind = "number" if pa.types.is_integer(field.type) else str(field.type)
                kinds.setdefault(field.name, set()).add("number" if kind == "double" else kind)

    assert {name: kind for name, kind in kinds.items() if len(kind) > 1} == {}
    for name, [kind] in kinds.items():
        assert (kind == "number") >= bool(column_of(name).unit), name


def test_each_term_is_explained_once_and_below_the_tables(reports):
    for report in reports:
        lines = [str(part) for part in report.parts()]
        told = list(report.printed(explain=True))
        notes = [part for part in told if isinstance(part, Note)]
        mine = [note for note in notes if any(term.means in note.text for term in terms().values())]
        names = [note.text.partition(":")[0] for note in mine]
        assert len(names) == len(set(names)), type(report).__name__
        headings = headings_of(report.parts())
        assert bool(names) == bool(headings), type(report).__name__
        for heading in {*headings} - NAMES:  # each is found as the table has it
            assert any(heading in name for name in names), (type(report).__name__, heading)
        if mine:
            tables = [place for place, part in enumerate(told) if isinstance(part, Rows)]
            assert told.index(mine[0]) > max(tables)
        assert lines
