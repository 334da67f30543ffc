"""Lookups, dense numbers and the summary, against slow and obvious counts."""

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trace_samples import request_lists, rows

from nicscope.traces.numbering import Numbering, lookups_of
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.summary import summarize
from nicscope.traces.writer import write_trace
from suite import share


def pages_of(address, length, page_size):
    return range(address // page_size, (address + length - 1) // page_size + 1)


@given(
    columns=request_lists(),
    page_size=st.sampled_from([64, 4096, 2**21]),
    piece=st.sampled_from([1, 3, 1 << 16]),
)
@share(2)
def test_lookups_are_the_pages_of_each_request_in_order(
    tmp_path_factory, columns, page_size, piece
):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    write_trace(path, columns)

    found = []
    for some_rows, pages in lookups_of(open_trace(path).read(), page_size, piece):
        assert pages.size <= piece
        found += zip(some_rows.tolist(), pages.tolist(), strict=True)

    assert found == [
        (row, page)
        for row, (a, n) in enumerate(zip(columns["address"], columns["length"], strict=True))
        for page in pages_of(a, n, page_size)
    ]


keys = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
few_keys = st.tuples(st.integers(0, 2), st.integers(0, 5))


@given(parts=st.lists(st.lists(keys | few_keys, max_size=30), max_size=5))
@example(parts=[[(0, 0)], [(0, 2**63 - 1), (2**31 - 1, 2**63 - 1)], [(0, 0)]])
@settings(deadline=None)
def test_keys_are_numbered_as_they_first_appear(parts):
    numbering, expected = Numbering(), {}
    for part in parts:
        numbers = numbering.number(
            np.array([owner for owner, _ in part], np.int64),
            np.array([number for _, number in part], np.int64),
        )
        assert numbers.tolist() == [expected.setdefault(key, len(expected)) for key in part]
    assert numbering.count == len(expected)


def test_numbers_survive_the_growth_of_the_table():
    numbering = Numbering()
    keys = np.arange(9_000) * 4096

    first = numbering.number(keys % 7, keys)
    again = numbering.number((keys % 7)[::-1].copy(), keys[::-1].copy())

    assert first.tolist() == list(range(9_000))
    assert again.tolist() == first[::-1].tolist()


@given(columns=request_lists())
@share(2)
def test_a_summary_counts_what_is_there(tmp_path_factory, columns):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    write_trace(path, columns)

    summary = summarize(open_trace(path))

    requests = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    touched = [
        (r["node"], r["pid"], page)
        for r in requests
        for page in pages_of(r["address"], r["length"], 4096)
    ]
    assert summary.requests == len(requests)
    assert summary.bytes == sum(r["length"] for r in requests)
    assert summary.nodes == len({r["node"] for r in requests})
    assert summary.processes == len({(r["node"], r["pid"]) for r in requests})
    assert summary.lookups == len(touched)
    assert summary.pages == len(set(touched))
    assert summary.reuse == len(touched) / len(set(touched))
    assert summary.duration_ns == max(columns["time_ns"]) - min(columns["time_ns"])
    assert summary.lowest_address == min(columns["address"])
    assert summary.highest_address == max(r["address"] + r["length"] - 1 for r in requests)
    for op, count in summary.requests_per_op.items():
        mine = [r["length"] for r in requests if r["op"] == op]
        assert (count, summary.bytes_per_op[op]) == (len(mine), sum(mine))
    sizes = [int(math.log2(r["length"])) for r in requests]
    assert summary.requests_per_size_class == [sizes.count(k) for k in range(32)]


def test_size_classes_begin_at_powers_of_two(tmp_path):
    lengths = [1, 2, 3, 4, 4095, 4096, 2**31 - 1, 2**31, 2**32 - 1]
    columns = rows(9, length=lengths, address=[2**20] * 9)
    write_trace(tmp_path / "t.parquet", columns, TraceMetadata(page_size=2**30))

    counts = summarize(open_trace(tmp_path / "t.parquet")).requests_per_size_class

    found = {k: n for k, n in enumerate(counts) if n}
    assert found == {0: 1, 1: 2, 2: 1, 11: 1, 12: 1, 30: 1, 31: 2}
