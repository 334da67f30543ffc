"""How the bytes of a call spread over its buffers."""

from __future__ import annotations

import ctypes
import os

from hypothesis import given
from hypothesis import strategies as st

from nicscope.traces.recording.calls import CALLS, CODES
from nicscope.traces.recording.rows import Moved, Segment, offered, spread

segments = st.lists(st.builds(Segment, st.integers(1, 2**48), st.integers(0, 100)), max_size=8)


def test_bytes_fill_segments_in_order_and_pass_over_empty_ones() -> None:
    through = spread([Segment(100, 3), Segment(200, 0), Segment(300, 10), Segment(400, 5)], 9)

    assert through == [Moved(100, 3, 3), Moved(300, 10, 6)]


@given(segments, st.integers(0, 1000))
def test_no_byte_is_lost_that_a_segment_can_hold(posted: list[Segment], moved: int) -> None:
    through = spread(posted, moved)

    assert sum(part.length for part in through) == min(moved, sum(part.posted for part in posted))
    assert all(1 <= part.length <= part.posted for part in through)
    assert all(part.length == part.posted for part in through[:-1])


def test_a_buffer_of_more_than_four_gigabytes_is_posted_as_far_as_a_column_can_say() -> None:
    assert spread([Segment(4096, 2**40)], 5) == [Moved(4096, 2**32 - 1, 5)]


def test_vectors_are_read_from_memory() -> None:
    vectors = (ctypes.c_uint64 * 4)(0x1000, 10, 0x2000, 20)
    call = CALLS[CODES["writev"]]

    found = offered(os.getpid(), call, [3, ctypes.addressof(vectors), 2, 0, 0, 0])

    assert found == [[Segment(0x1000, 10), Segment(0x2000, 20)]]


def test_vectors_that_cannot_be_read_are_none() -> None:
    call = CALLS[CODES["writev"]]

    assert offered(os.getpid(), call, [3, 8, 2, 0, 0, 0]) is None
    assert offered(os.getpid(), call, [3, 8, 2**40, 0, 0, 0]) is None
