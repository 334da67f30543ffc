"""Lines that wait to be unpinned, least recently filled first, against a sorted list."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.memory.lines import (
    await_unpinning,
    fill_line,
    grown_lines,
    new_lines,
    remove_line,
)

COUNT = 24


@pytest.mark.requirement("MI-43")
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(("fill", "fill", "leave", "leave", "first", "any")),
            st.integers(0, COUNT - 1),
        ),
        max_size=120,
    )
)
@example([("fill", 0), ("fill", 1), ("fill", 2), ("leave", 2), ("leave", 1), ("leave", 0)])
@example([("fill", 0), ("fill", 1), ("fill", 0), ("leave", 0), ("leave", 1)])
def test_the_line_whose_last_fill_is_longest_ago_waits_first(steps):
    lines = grown_lines(new_lines(), COUNT)
    filled = {}  # line -> when
    waiting = set()
    for moment, (step, line) in enumerate(steps):
        if step == "fill":
            fill_line(lines, line)
            filled[line] = moment
            waiting.discard(line)
        elif step == "leave" and line in filled and line not in waiting:
            await_unpinning(lines, line)
            waiting.add(line)
        elif step == "any" and line in waiting:
            remove_line(lines, line)
            waiting.discard(line)
        elif step == "first" and waiting:
            first = int(lines.heap[0])
            remove_line(lines, first)
            waiting.discard(first)
        assert lines.counts[1] == len(waiting)
        if waiting:
            assert lines.heap[0] == min(waiting, key=filled.get)
        assert set(lines.place.nonzero()[0].tolist()) == waiting


def test_growth_keeps_the_waiting_lines():
    lines = grown_lines(new_lines(), 4)
    for line in (2, 0, 3):
        fill_line(lines, line)
        await_unpinning(lines, line)
    lines = grown_lines(lines, 9)
    fill_line(lines, 8)
    await_unpinning(lines, 8)
    order = []
    while lines.counts[1]:
        order.append(int(lines.heap[0]))
        remove_line(lines, order[-1])
    assert order == [2, 0, 3, 8]
