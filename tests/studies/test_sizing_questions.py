"""Questions of sizing that make no sense, and limits that a question has."""

from __future__ import annotations

import pytest

from nicscope.studies.sizing.shapes import _filled


@pytest.mark.parametrize(
    ("pages", "room", "limit"),
    [([5, 5], 10, 5), ([1, 9], 6, 5), ([4, 4, 4], 7, 2), ([1, 2, 30], 13, 10), ([8], 1, 1)],
)
def test_a_limit_per_process_fills_the_room_and_no_more(pages, room, limit):
    assert _filled(pages, room) == limit
    assert sum(min(limit, count) for count in pages) <= room
