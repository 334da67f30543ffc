"""The one engine of tables: whatever the table and the width, every cell is whole."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tables_read import assert_whole, text_of

from every_command import LONG
from nicscope.cli.app import main
from nicscope.reports.printing import (
    GAP,
    PARAGRAPH,
    PIPED,
    Bar,
    Piece,
    Rows,
    fit,
    output_width,
    width_of,
    wrapped,
)

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
    rows = Rows("", ["design", "misses"], [[LONG, "1,000,000,000,000"]])

    assert text_of(rows, 50) == [f"design  {LONG}", "  misses  1,000,000,000,000"]


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
