"""Tables as they are printed, and whether all of one is there."""

from nicscope.reports.printing import ELSEWHERE, GAP, fit, lines_of, pieces, width_of


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
