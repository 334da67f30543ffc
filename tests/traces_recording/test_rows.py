"""The bytes of a call spread over its buffers, and rows go out as calls were issued."""

import ctypes
import errno
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicscope.errors import OutputError
from nicscope.traces.recording.ptrace import CALLS, CODES
from nicscope.traces.recording.tracer import IssueOrder, Moved, Origin, Segment, offered, spread

segments = st.lists(st.builds(Segment, st.integers(1, 2**48), st.integers(0, 100)), max_size=8)


def test_bytes_fill_segments_in_order_and_pass_over_empty_ones():
    through = spread([Segment(100, 3), Segment(200, 0), Segment(300, 10), Segment(400, 5)], 9)

    assert through == [Moved(100, 3, 3), Moved(300, 10, 6)]


@given(segments, st.integers(0, 1000))
def test_no_byte_is_lost_that_a_segment_can_hold(posted, moved):
    through = spread(posted, moved)

    assert sum(part.length for part in through) == min(moved, sum(part.posted for part in posted))
    assert all(1 <= part.length <= part.posted for part in through)
    assert all(part.length == part.posted for part in through[:-1])


def test_a_buffer_of_more_than_four_gigabytes_is_posted_as_far_as_a_column_can_say():
    assert spread([Segment(4096, 2**40)], 5) == [Moved(4096, 2**32 - 1, 5)]


def test_vectors_are_read_from_memory():
    vectors = (ctypes.c_uint64 * 4)(0x1000, 10, 0x2000, 20)
    call = CALLS[CODES["writev"]]

    found = offered(os.getpid(), call, [3, ctypes.addressof(vectors), 2, 0, 0, 0])

    assert found == [[Segment(0x1000, 10), Segment(0x2000, 20)]]


def test_vectors_that_cannot_be_read_are_none():
    call = CALLS[CODES["writev"]]

    assert offered(os.getpid(), call, [3, 8, 2, 0, 0, 0]) is None
    assert offered(os.getpid(), call, [3, 8, 2**40, 0, 0, 0]) is None


def origin(issue):
    return Origin(issue=issue, time_ns=issue * 10, pid=1, tid=2, connection=3, op=0, call=7)


# Calls by how many others end before them, and how many segments they have.
calls = st.lists(
    st.tuples(st.one_of(st.just(0), st.integers(0, 60)), st.integers(1, 5)), max_size=60
)


@given(calls, st.integers(1, 9), st.integers(1, 5))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_go_out_in_the_order_of_issue_however_calls_end(tmp_path, calls, run_rows, block_rows):
    ending = sorted(range(len(calls)), key=lambda issue: (issue + calls[issue][0], issue))

    with IssueOrder(tmp_path / "trace", run_rows, block_rows) as rows:
        for issue in ending:
            parts = [Moved(issue * 100 + part, 9, 9) for part in range(calls[issue][1])]
            rows.add(origin(issue), parts)
        batches = list(rows.batches())

    got = [int(address) for batch in batches for address in batch["address"]]
    assert got == sorted(got)
    assert len(got) == sum(parts for _, parts in calls)


def test_memory_stays_bounded_while_a_call_blocks(tmp_path):
    with IssueOrder(tmp_path / "trace", run_rows=100, block_rows=10) as rows:
        for issue in range(1, 5000):
            rows.add(origin(issue), [Moved(issue, 9, 9)])
        rows.add(origin(0), [Moved(0, 9, 9)])
        batches = list(rows.batches())

    assert max(batch.size for batch in batches) <= 2 * 10 + 1
    assert np.concatenate(batches)["issue"].tolist() == list(range(5000))


def test_nothing_is_left_in_the_folder(tmp_path):
    with IssueOrder(tmp_path / "trace", run_rows=1) as rows:
        rows.add(origin(0), [Moved(0, 9, 9)])

        assert list(tmp_path.iterdir()) == []  # nor while it grows


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with IssueOrder(tmp_path / "trace", run_rows=1) as rows:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OutputError, match=r"trace: cannot be written: No space left on device"):
            rows.add(origin(0), [Moved(0, 9, 9)])
        monkeypatch.undo()


def test_a_folder_is_no_file_to_write(tmp_path):
    with pytest.raises(OutputError, match="is a folder"), IssueOrder(tmp_path):
        pass


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(OutputError, match="No such file"), IssueOrder(tmp_path / "no" / "trace"):
        pass
