"""Rows that come in as calls end go out as calls were issued."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicscope.errors import OutputError
from nicscope.traces.recording.rows import IssueOrder, Moved, Origin

if TYPE_CHECKING:
    from pathlib import Path


def origin(issue: int) -> Origin:
    return Origin(issue=issue, time_ns=issue * 10, pid=1, tid=2, connection=3, op=0, call=7)


# Calls by how many others end before them, and how many segments they have.
calls = st.lists(
    st.tuples(st.one_of(st.just(0), st.integers(0, 60)), st.integers(1, 5)), max_size=60
)


@given(calls, st.integers(1, 9), st.integers(1, 5))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_go_out_in_the_order_of_issue_however_calls_end(
    tmp_path: Path, calls: list[tuple[int, int]], run_rows: int, block_rows: int
) -> None:
    ending = sorted(range(len(calls)), key=lambda issue: (issue + calls[issue][0], issue))

    with IssueOrder(tmp_path / "trace", run_rows, block_rows) as rows:
        for issue in ending:
            parts = [Moved(issue * 100 + part, 9, 9) for part in range(calls[issue][1])]
            rows.add(origin(issue), parts)
        batches = list(rows.batches())

    got = [int(address) for batch in batches for address in batch["address"]]
    assert got == sorted(got)
    assert len(got) == sum(parts for _, parts in calls)


def test_memory_stays_bounded_while_a_call_blocks(tmp_path: Path) -> None:
    with IssueOrder(tmp_path / "trace", run_rows=100, block_rows=10) as rows:
        for issue in range(1, 5000):
            rows.add(origin(issue), [Moved(issue, 9, 9)])
        rows.add(origin(0), [Moved(0, 9, 9)])
        batches = list(rows.batches())

    assert max(batch.size for batch in batches) <= 2 * 10 + 1
    assert np.concatenate(batches)["issue"].tolist() == list(range(5000))


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    with IssueOrder(tmp_path / "trace", run_rows=1) as rows:
        rows.add(origin(0), [Moved(0, 9, 9)])

        assert list(tmp_path.iterdir()) == []  # nor while it grows


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with IssueOrder(tmp_path / "trace", run_rows=1) as rows:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OutputError, match=r"trace: cannot be written: No space left on device"):
            rows.add(origin(0), [Moved(0, 9, 9)])
        monkeypatch.undo()


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a folder"), IssueOrder(tmp_path):
        pass


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"), IssueOrder(tmp_path / "no" / "trace"):
        pass
