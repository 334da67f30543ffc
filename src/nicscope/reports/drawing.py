"""A table as lines of text, for a terminal of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.fitting import GAP, fit
from nicscope.reports.words import padded, visible, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from nicscope.reports.fitting import Block
    from nicscope.reports.table import Rows

PLAIN = {"0": "dim", "none": "dim", "unknown": "dim", "-": "dim"}
RULE = "─"
INDENT = 2


def table_lines(rows: Rows, width: int, elsewhere: str) -> Iterator[Text]:
    """``rows`` within ``width`` columns; what had to be left out is named, with ``elsewhere``."""
    from rich.text import Text

    rows = rows._replace(
        headings=[visible(heading) for heading in rows.headings],
        cells=[[visible(cell) for cell in row] for row in rows.cells],
    )
    if rows.title:
        yield from (Text(line, style="bold") for line in wrapped(visible(rows.title), width))
    shape = fit(rows, width)
    if not shape.blocks:
        yield from _stacked(rows, width)
    for number, block in enumerate(shape.blocks):
        if number:
            yield Text()
        yield from _block_lines(rows, block)
    if shape.left_out:
        told = f"not shown at {width} columns: {', '.join(shape.left_out)}; see {elsewhere}"
        yield from (Text(line, style="dim") for line in wrapped(told, width))


def _block_lines(rows: Rows, block: Block) -> Iterator[Text]:
    from rich.text import Text

    if any(rows.headings):
        yield from _head_lines(rows, block)
    above = ""
    for number, row in enumerate(rows.cells):
        if number in rows.gaps:
            yield Text()
        cells = [row[column] for column in block.columns]
        if rows.grouped and row[0] == above and number not in rows.gaps:
            cells[0] = ""
        above = row[0]
        bar = rows.bars[number].draw(block.bar) if block.bar and number < len(rows.bars) else None
        style = rows.row_styles.get(number, "")
        yield from _lines_of(rows, block, cells, style, bar)


def _head_lines(rows: Rows, block: Block) -> Iterator[Text]:
    from rich.text import Text

    if any(name for name, _ in rows.groups):
        yield _group_line(rows, block)
    yield from _lines_of(
        rows, block, [rows.headings[column] for column in block.columns], "bold", None, bottom=True
    )
    if not rows.groups:
        taken = sum(block.widths) + GAP * (len(block.widths) - 1)
        yield Text(RULE * (taken + (block.bar + GAP if block.bar else 0)))


def _group_line(rows: Rows, block: Block) -> Text:
    """The headings above groups of columns, each at the right end of its own."""
    from rich.text import Text

    line, end, first = "", -GAP, rows.key
    ends = {}
    for column, width in zip(block.columns, block.widths, strict=True):
        end += width + GAP
        ends[column] = end
    for name, count in rows.groups:
        if first in ends:
            line += padded(name, ends[first + count - 1] - width_of(line), left=False)
        first += count
    return Text(line, style="bold")


def _lines_of(
    rows: Rows,
    block: Block,
    cells: Sequence[str],
    style: str,
    bar: Text | None,
    *,
    bottom: bool = False,
) -> Iterator[Text]:
    """One row: as many lines as the cell that wraps most; at the ``bottom`` if it is the head."""
    from rich.text import Text

    columns = [wrapped(cell, width) for cell, width in zip(cells, block.widths, strict=True)]
    height = max(map(len, columns))
    for number in range(height):
        line = Text(style=style)
        for place, (column, lines) in enumerate(zip(block.columns, columns, strict=True)):
            at = number - (height - len(lines)) if bottom else number
            text = lines[at] if 0 <= at < len(lines) else ""
            left = column in rows.left
            line.append(" " * GAP if place else "")
            line.append(
                padded(text, block.widths[place], left=left),
                style="" if bottom else _look(rows, cells[place]),
            )
        if bar is not None and not number:
            line.append(" " * GAP).append_text(bar)
        line.rstrip()
        yield line


def _look(rows: Rows, cell: str) -> str:
    return rows.styles.get(cell, PLAIN.get(cell, ""))


def _stacked(rows: Rows, width: int) -> Iterator[Text]:
    """Row after row, each cell on a line of its own, or on several."""
    from rich.text import Text

    names = list(rows.headings)
    first = rows.key
    for group, count in rows.groups:
        for column in range(first, first + count):
            names[column] = f"{group} {names[column]}".rstrip()
        first += count
    for number, row in enumerate(rows.cells):
        if number:
            yield Text()
        for column, cell in enumerate(row):
            if not cell:
                continue
            indent = 0 if column < rows.key else INDENT
            for line in _pair(names[column], cell, width - indent):
                text = " " * indent + line
                fits = width_of(text) <= width
                yield Text(text if fits else line.lstrip(), style="" if indent else "bold")


def _pair(name: str, cell: str, width: int) -> Iterator[str]:
    """A heading and its cell: beside each other, or the cell below, as it fits."""
    beside = f"{name}  {cell}" if name else cell
    if width_of(beside) <= width:
        yield beside
        return
    if name:
        yield from wrapped(name, width)
    for line in wrapped(cell, width - INDENT):
        yield " " * INDENT + line if width_of(line) + INDENT <= width else line
